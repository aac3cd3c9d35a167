"""Entropy: the bits that generalization takes away."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.cost.base import Separable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.cost.base import Total
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.quasi import Labels, Quasi


class Entropy(Separable):
    """The sum over rows and columns of log2(n(released) / n(original)), in bits.

    *Guarantee*: n counts rows of the original column under the released label and with the original
    value; a suppressed row has n(released) = N.
    *Error*: sums of float64 logarithms, relative 1e-13.
    *Edges*: labels that join no values that occur cost nothing.
    *Reference*: Gionis and Tassa 2009; Kifer and Gehrke 2006.
    """

    name = "entropy"
    unit = "bits"
    slack = 1e-9

    def price(self, column: Quasi, labels: Labels) -> NDArray[np.float64]:  # noqa: ARG002
        """The logarithm of the rows under a label."""
        return np.log2(np.maximum(labels.rows, 1))

    def full(self, column: Quasi) -> float:
        """A suppressed row could be any row."""
        return log2(column.rows.sum())

    def score(self, problem: Problem, totals: Sequence[Total]) -> Total:
        """The weighted sum of bits lost, never below 0."""
        bits = [
            self.weight(column) * (total - self.profile(column).sums[0].item())
            for column, total in zip(problem.quasi, totals, strict=True)
        ]
        lost: Total = np.maximum(sum(bits), 0.0)
        return lost
