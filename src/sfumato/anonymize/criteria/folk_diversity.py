"""Folk l-diversity: no sensitive value has more than the share 1/l of a class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.classes import exact
from sfumato.anonymize.criteria.distinct_diversity import DistinctDiversity
from sfumato.anonymize.criteria.diversity import Diversity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Classes


@dataclass(frozen=True)
class FolkDiversity(Diversity):
    """The most frequent value of a class has at most 1/l of its rows, or people: l r_1 <= n.

    *Guarantee*: whoever knows a person's class guesses the value right with odds of at most 1/l.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; compared in integers, and equality passes.
    *Edges*: NULL counts as a value; a strict recursive (1/l, 1) condition is not the same.
    *Reference*: Machanavajjhala et al. 2006; Xiao and Tao 2006, definition 2.
    """

    @property
    def crowd(self) -> int:
        """Whoever has a value is at most one of l."""
        return self.l

    @property
    def consequence(self) -> DistinctDiversity:
        """A share of at most 1/l each needs l values."""
        return DistinctDiversity(self.l, self.of)

    def holds(self, classes: Classes) -> NDArray[np.bool_]:
        """Say of each class whether its commonest value is rare enough."""
        cells = classes.of(self.of)
        commonest = np.maximum.reduceat(cells.counts, cells.starts)
        scaled = exact(commonest, self.l * cells.original.rows) * self.l
        return np.asarray(scaled <= classes.counted, dtype=bool)

    def __str__(self) -> str:
        return f"folk {self.l}-diversity of {self.of}"
