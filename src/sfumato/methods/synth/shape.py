"""The columns of a table to be synthesized, as places and sizes: public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.data.counting.axes import Axis

    Set = tuple[int, ...]


@dataclass(frozen=True)
class TableShape:
    """Columns by their places, each of so many codes."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, axes: Iterable[Axis]) -> TableShape:
        """The shape of declared axes."""
        known = tuple(axes)
        return cls(tuple(axis.column for axis in known), tuple(axis.size for axis in known))

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The places of all columns."""
        return tuple(range(len(self.sizes)))

    def pairs(self) -> list[Set]:
        """Every pair of columns."""
        return list(combinations(self.columns, 2))

    def cells(self, places: Iterable[int]) -> int:
        """How many cells the table of some columns has."""
        return prod(self.sizes[place] for place in places)

    def of_set(self, places: Iterable[int]) -> tuple[int, ...]:
        """The shape of the table of some columns."""
        return tuple(self.sizes[place] for place in places)
