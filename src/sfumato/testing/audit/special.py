"""Special functions for the auditor's bounds, from SciPy."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def special(name: str) -> Any:
    """A function of `scipy.special`; without SciPy the error says what to install."""
    try:
        return getattr(import_module("scipy.special"), name)
    except ModuleNotFoundError:
        raise ImportError(
            "The auditor needs SciPy. Install it with: pip install 'sfumato[audit]'."
        ) from None
