"""k-map: every released class has k counterparts in a public population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.anonymize.criteria.base import Criterion, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Classes


@dataclass(frozen=True)
class KMap(Criterion):
    """Every released combination fits at least k people of the population table.

    *Guarantee*: linking a released row to the population leaves at least k candidates.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; matches are counted exactly.
    *Edges*: a class that the population lacks fails; the population is fixed and public, and
    each of its rows is a person.
    *Reference*: Sweeney 2002, section 5; El Emam and Dankar 2008.
    """

    k: int

    absorbing = True

    def __post_init__(self) -> None:
        whole(self.k, "k")

    @property
    def compares_population(self) -> bool:
        """The population is counted beside the table."""
        return True

    def holds(self, classes: Classes) -> NDArray[np.bool_]:
        """Say of each class whether k people of the population fall into it."""
        passes: NDArray[np.bool_] = classes.matches() >= self.k
        return passes

    def __str__(self) -> str:
        return f"{self.k}-map"
