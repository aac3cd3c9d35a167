"""What is measured of a column before anything is declared about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.schema.column import Kind
    from sfumato.schema.domain import Scalar

MOST_TOP = 50
"""How many of a column's most frequent values a profile holds at most."""


@dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """One column in figures: one aggregate query, and one for its most frequent values.

    `kind` is what the source says it holds; for text, `fits` names the other kinds that every
    present cell could be read as, and `padded` whether a whole number among the cells begins with
    a zero that reading it as a number would lose. `distinct`, the lengths, the ends and `top` leave
    missing cells aside. The lengths are in characters, of text only. `minimum`, `maximum` and `top`
    hold values of the kind that `inference.kind_of` answers, which needs none of the three; `top`
    has the most frequent values with their counts, all of them where they are few enough.
    """

    name: str
    kind: Kind
    rows: int
    nulls: int
    distinct: int
    fits: frozenset[Kind] = frozenset()
    padded: bool = False
    shortest: int | None = None
    longest: int | None = None
    minimum: Scalar | float | None = None
    maximum: Scalar | float | None = None
    top: tuple[tuple[Scalar | float, int], ...] = ()

    @property
    def present(self) -> int:
        """How many cells are not missing."""
        return self.rows - self.nulls

    @property
    def fixed_length(self) -> int | None:
        """The length of every text, where they all have the same."""
        return self.shortest if self.shortest == self.longest else None

    @property
    def all_distinct(self) -> bool:
        """Whether every one of several present values is different."""
        return self.distinct == self.present > 1
