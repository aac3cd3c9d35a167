"""Distinct l-diversity: l different sensitive values in every class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.anonymize.criteria.diversity import Diversity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Classes


@dataclass(frozen=True)
class DistinctDiversity(Diversity):
    """Every class has at least l different values of the sensitive column.

    *Guarantee*: a class leaves at least l values possible; it says nothing of their odds.
    *Sensitivity*: none; a syntactic condition, not differentially private.
    *Error*: none; values are counted exactly.
    *Edges*: NULL counts as a value of its own.
    *Reference*: Machanavajjhala et al. 2006, section 4.
    """

    absorbing = True

    def holds(self, classes: Classes) -> NDArray[np.bool_]:
        """Say of each class whether it has l different values."""
        passes: NDArray[np.bool_] = classes.of(self.of).lengths >= self.l
        return passes

    def __str__(self) -> str:
        return f"distinct {self.l}-diversity of {self.of}"
