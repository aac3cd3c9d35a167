"""What the planner may know of the world: the data sets that are declared, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.privacy.units import Unit
    from sfumato.schema.schema import Schema


@dataclass(frozen=True)
class Private:
    """Rows about people. Data sets with the same `population` name their people alike."""

    schema: Schema
    unit: Unit
    population: str


@dataclass(frozen=True)
class Public:
    """Rows about nobody, known to all.

    `keys` declares how many rows may share a value of these columns: {("zip",): 1} says that zip
    codes are unique. Joins keep no more than that.
    """

    schema: Schema
    keys: Mapping[tuple[str, ...], int] = field(default_factory=dict)


Catalogue = Mapping[str, Private | Public]
"""The declared data sets by name."""
