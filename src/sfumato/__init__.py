"""Sfumato: see the risk in data about people, release it safely, answer questions about it.

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato import noise
    from sfumato.errors import SfumatoError
    from sfumato.privacy.units import Entity, Relation, Rows
    from sfumato.release import Release
    from sfumato.schema.column import Column, Kind, Role
    from sfumato.schema.domain import Bounds, Values
    from sfumato.schema.schema import Schema
    from sfumato.vault.table import Table, read

__version__ = "0.1.0"

__all__ = [
    "Bounds",
    "Column",
    "Entity",
    "Kind",
    "Relation",
    "Release",
    "Role",
    "Rows",
    "Schema",
    "SfumatoError",
    "Table",
    "Values",
    "__version__",
    "noise",
    "read",
]

_HOMES = {
    "Bounds": "schema.domain",
    "Column": "schema.column",
    "Entity": "privacy.units",
    "Kind": "schema.column",
    "Relation": "privacy.units",
    "Release": "release",
    "Role": "schema.column",
    "Rows": "privacy.units",
    "Schema": "schema.schema",
    "SfumatoError": "errors",
    "Table": "vault.table",
    "Values": "schema.domain",
    "read": "vault.table",
}


def __getattr__(name: str) -> object:
    """Load a public name from its home."""
    if name == "noise":
        return import_module("sfumato.noise")
    if name in _HOMES:
        return getattr(import_module(f"sfumato.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
