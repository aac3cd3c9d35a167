"""The special functions of the auditor's bounds, which are SciPy's."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def special(name: str) -> Any:
    """A special function; who lacks SciPy is told what to install."""
    try:
        return getattr(import_module("scipy.special"), name)
    except ModuleNotFoundError:
        raise ImportError(
            "The auditor needs SciPy. Install it with: pip install 'sfumato[audit]'."
        ) from None
