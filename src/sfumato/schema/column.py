"""A column: its name, kind, role, declared domain and hierarchy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.schema.domain import Domain
    from sfumato.schema.hierarchy.base import Hierarchy


class Role(StrEnum):
    """What a column says about the person in the row."""

    IDENTIFIER = "identifier"
    QUASI = "quasi"
    SENSITIVE = "sensitive"
    OTHER = "other"


class Kind(StrEnum):
    """What the values of a column are."""

    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"
    DATE = "date"
    BOOLEAN = "boolean"


@dataclass(frozen=True)
class Column:
    """One column as its steward declared it. What is declared is public."""

    name: str
    kind: Kind
    role: Role = Role.OTHER
    domain: Domain | None = None
    hierarchy: Hierarchy | None = None
    nullable: bool = True
