"""k-anonymity: nobody stands in a smaller crowd than k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.anonymize.criteria.base import Criterion, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Classes


@dataclass(frozen=True)
class KAnonymity(Criterion):
    """Every released combination of quasi-identifiers belongs to at least k rows, or people.

    *Guarantee*: linking by quasi-identifiers leaves at least k candidates for each person.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; classes are counted exactly.
    *Edges*: NULL is a value like any other; suppressed rows are no class; k = 1 always holds. Where
    the unit is a person, the different people of a class are counted.
    *Reference*: Samarati 2001; Sweeney 2002.
    """

    k: int

    absorbing = True

    def __post_init__(self) -> None:
        whole(self.k, "k")

    @property
    def crowd(self) -> int:
        """Classes below k fail."""
        return self.k

    def holds(self, classes: Classes) -> NDArray[np.bool_]:
        """Say of each class whether it has k rows, or people."""
        passes: NDArray[np.bool_] = classes.counted >= self.k
        return passes

    def __str__(self) -> str:
        return f"{self.k}-anonymity"
