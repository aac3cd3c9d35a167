"""Entropy l-diversity: the values of a class are as uncertain as l equally likely ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.criteria.distinct_diversity import DistinctDiversity
from sfumato.anonymize.criteria.diversity import Diversity
from sfumato.anonymize.criteria.logarithms import sign

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Cells, Classes

_UNDECIDED = 1e-9  # per row; float64 errs by less than 1e-13 per row


@dataclass(frozen=True)
class EntropyDiversity(Diversity):
    """The entropy of the sensitive values of every class is at least ln l.

    *Guarantee*: n ln n - sum f ln f >= n ln l over the counts f of a class of n rows.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; what float64 cannot decide is decided by prime exponents and more digits, so that
    counts (2, 2, 2) are 3-diverse.
    *Edges*: NULL counts as a value; l = 1 always holds.
    *Reference*: Machanavajjhala et al. 2006, definition 4.1.
    """

    @property
    def consequence(self) -> DistinctDiversity:
        """Fewer than l values have less entropy than ln l."""
        return DistinctDiversity(self.l, self.of)

    def holds(self, classes: Classes) -> NDArray[np.bool_]:
        """Say of each class whether its entropy suffices."""
        cells = classes.of(self.of)
        sizes, counts = cells.sizes.astype(np.float64), cells.counts.astype(np.float64)
        spent = np.add.reduceat(counts * np.log(counts), cells.starts)
        surplus = sizes * (np.log(sizes) - np.log(self.l)) - spent
        passes: NDArray[np.bool_] = surplus >= 0
        for place in np.flatnonzero(np.abs(surplus) <= _UNDECIDED * sizes):
            passes[place] = self._decide(cells, int(place))
        return passes

    def _decide(self, cells: Cells, place: int) -> bool:
        """Decide one class exactly; equal counts, by far the commonest case, at sight."""
        start, length = int(cells.starts[place]), int(cells.lengths[place])
        counts = cells.counts[start : start + length].tolist()
        if min(counts) == max(counts):
            return length >= self.l
        size = sum(counts)
        terms = [(size, size), (-size, self.l), *((-count, count) for count in counts)]
        return sign(terms) >= 0

    def __str__(self) -> str:
        return f"entropy {self.l}-diversity of {self.of}"
