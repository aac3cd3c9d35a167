"""delta-disclosure privacy: no class makes a sensitive value much likelier or less likely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.criteria.base import Criterion
from sfumato.anonymize.criteria.logarithms import sign
from sfumato.privacy.numbers import positive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Classes
    from sfumato.privacy.numbers import Number

_UNDECIDED = 1e-9


@dataclass(frozen=True)
class DeltaDisclosure(Criterion):
    """|ln(p / q)| < delta for every value, p its share in the class and q in the original.

    *Guarantee*: natural logarithm, strict; q is the original table's before suppression.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; what float64 cannot decide is decided with more digits.
    *Edges*: a value that the class lacks has ln 0 and fails it, so every class needs every value;
    NULL counts as a value.
    *Reference*: Brickell and Shmatikov 2008, definition 5.
    """

    delta: Number
    of: str

    def __post_init__(self) -> None:
        positive(self.delta, "delta_disclosure")

    @property
    def column(self) -> str:
        """The column whose shares are compared."""
        return self.of

    def holds(self, classes: Classes) -> NDArray[np.bool_]:
        """Say of each class whether all its shares are near the original's."""
        cells = classes.of(self.of)
        rows, totals = cells.original.rows, cells.original.totals
        delta = positive(self.delta, "delta_disclosure")
        have = cells.counts * rows
        expected = cells.sizes[cells.owners] * totals[cells.values]
        gain = np.abs(np.log(have / expected))
        near = gain < float(delta)
        for place in np.flatnonzero(np.abs(gain - float(delta)) <= _UNDECIDED):
            more, less = sorted((int(have[place]), int(expected[place])), reverse=True)
            near[place] = sign([(1, more), (-1, less)], delta) < 0
        complete = cells.lengths == len(totals)
        return np.asarray(complete & np.logical_and.reduceat(near, cells.starts), dtype=bool)

    def __str__(self) -> str:
        return f"{self.delta}-disclosure privacy of {self.of}"
