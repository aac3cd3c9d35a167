"""beta-likeness: no class makes a sensitive value likelier by more than the factor 1 + beta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.classes import exact
from sfumato.anonymize.criteria.base import Criterion
from sfumato.privacy.numbers import positive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Classes
    from sfumato.privacy.numbers import Number


@dataclass(frozen=True)
class BetaLikeness(Criterion):
    """(p - q) / q <= beta for every sensitive value, p its share in the class, q in the original.

    *Guarantee*: seeing the class raises no value's odds above (1 + beta) q; q is the original
    table's before suppression.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; compared in integers against beta as an exact rational, and equality passes.
    *Edges*: values that become rarer or vanish are allowed; NULL counts as a value.
    *Reference*: Cao and Karras 2012, definition 2 (basic beta-likeness).
    """

    beta: Number
    of: str

    def __post_init__(self) -> None:
        positive(self.beta, "beta")

    @property
    def column(self) -> str:
        """The column whose shares are compared."""
        return self.of

    def holds(self, classes: Classes) -> NDArray[np.bool_]:
        """Say of each class whether no value gained too much."""
        cells = classes.of(self.of)
        rows, ratio = cells.original.rows, 1 + positive(self.beta, "beta")
        largest = rows * rows * ratio.numerator
        have = exact(cells.counts * rows, largest) * ratio.denominator
        expected = cells.sizes[cells.owners] * cells.original.totals[cells.values]
        near = np.asarray(have <= exact(expected, largest) * ratio.numerator, dtype=bool)
        return np.logical_and.reduceat(near, cells.starts)

    def __str__(self) -> str:
        return f"{self.beta}-likeness of {self.of}"
