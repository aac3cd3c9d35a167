"""Recursive (c, l)-diversity: the commonest value is not too common beside the rare ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.classes import exact
from sfumato.anonymize.criteria.distinct_diversity import DistinctDiversity
from sfumato.anonymize.criteria.diversity import Diversity
from sfumato.privacy.numbers import positive

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Cells, Classes
    from sfumato.privacy.numbers import Number


@dataclass(frozen=True)
class RecursiveDiversity(Diversity):
    """r_1 < c (r_l + ... + r_m), where r_i is the count of the i-th commonest value of the class.

    *Guarantee*: ruling out l - 2 values still leaves none of the others nearly certain.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; c is an exact rational and the inequality strict.
    *Edges*: fewer than l values fail, as the sum is empty; NULL counts as a value.
    *Reference*: Machanavajjhala et al. 2006, definition 4.2.
    """

    c: Number = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.c, "c")

    @property
    def consequence(self) -> DistinctDiversity:
        """The sum is empty with fewer than l values."""
        return DistinctDiversity(self.l, self.of)

    @property
    def _ratio(self) -> Fraction:
        return positive(self.c, "c")

    def holds(self, classes: Classes) -> NDArray[np.bool_]:
        """Say of each class whether its commonest value is outweighed."""
        cells = classes.of(self.of)
        ranked = descending(cells)
        rank = np.arange(len(ranked)) - cells.starts[cells.owners]
        tail = np.add.reduceat(np.where(rank >= self.l - 1, ranked, 0), cells.starts)
        top, ratio = ranked[cells.starts], self._ratio
        largest = max(ratio.numerator, ratio.denominator) * cells.original.rows
        return np.asarray(
            exact(top, largest) * ratio.denominator < exact(tail, largest) * ratio.numerator,
            dtype=bool,
        )

    def __str__(self) -> str:
        return f"recursive ({self.c}, {self.l})-diversity of {self.of}"


def descending(cells: Cells) -> NDArray[np.int64]:
    """The counts of each class, commonest first, sorted as one integer per cell."""
    ceiling = int(cells.counts.max()) + 1
    packed = np.sort((cells.owners + 1) * ceiling - cells.counts)
    ranked: NDArray[np.int64] = (cells.owners + 1) * ceiling - packed
    return ranked
