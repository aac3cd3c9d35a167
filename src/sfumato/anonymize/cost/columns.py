"""Costs that add up over columns: loss, precision, entropy."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.cost.base import Separable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.cost.base import PricedRelease, Total
    from sfumato.anonymize.original import Labels, Quasi
    from sfumato.anonymize.problem import Problem
    from sfumato.arrays import FloatArray


class Loss(Separable):
    """The mean over columns of the share of leaves that a row's label covers, from 0 to 1.

    *Guarantee*: L = (T - N) / (N n - N) for a column of n leaves over N rows, T the leaves covered
    by the labels of all rows, n for a suppressed one; 0 for the original, 1 for all suppressed.
    *Error*: T is an integer; one rounding per column.
    *Edges*: leaves are those of the hierarchy, whether they occur or not; a single leaf loses 0.
    *Reference*: Xu et al. 2006; Iyengar 2002.
    """

    name = "loss"
    unit = "leaves"

    def price(self, column: Quasi, labels: Labels) -> Counts:  # noqa: ARG002
        """The number of leaves a label covers."""
        return labels.leaves

    def untouched(self, column: Quasi, finest: float) -> float:  # noqa: ARG002
        """A value covers one leaf."""
        return int(column.rows.sum())

    def full(self, column: Quasi) -> int:
        """A suppressed row covers every leaf."""
        return column.breadth

    def column(self, problem: Problem, column: Quasi, total: Total) -> Total:
        """The loss of one column."""
        rows, leaves = problem.rows, column.breadth
        return (total - rows) / (rows * leaves - rows) if leaves > 1 else 0.0

    def score(self, problem: Problem, totals: Sequence[Total]) -> Total:
        """The weighted mean of the columns' losses."""
        weights = [self.weight(column) for column in problem.quasi]
        terms = zip(weights, problem.quasi, totals, strict=True)
        losses = [weight * self.column(problem, column, total) for weight, column, total in terms]
        return sum(losses) / sum(weights)


class LossGeometric(Loss):
    """The geometric mean of 1 + loss over the columns, less 1.

    *Guarantee*: prod (1 + L)^(1 / columns) - 1, weights as exponents.
    *Error*: as of the loss; the power is rounded once more.
    *Edges*: as of the loss.
    *Reference*: Prasser, Kohlmayer and Kuhn 2016, section 4.
    """

    name = "loss-geometric"
    slack = 1e-12

    def score(self, problem: Problem, totals: Sequence[Total]) -> Total:
        """The weighted geometric mean of the columns."""
        weights = [self.weight(column) for column in problem.quasi]
        product: Total = 1.0
        for weight, column, total in zip(weights, problem.quasi, totals, strict=True):
            factor = 1 + self.column(problem, column, total)
            product = product * (factor if weight == 1 else factor**weight)
        return product ** (1 / sum(weights)) - 1


def ncp(release: PricedRelease) -> dict[str, float]:
    """The loss of each column by itself."""
    loss, problem = Loss(), release.problem
    totals = zip(problem.quasi, release.totals(loss), strict=True)
    return {column.name: float(loss.column(problem, column, total)) for column, total in totals}


class Precision(Separable):
    """The mean over rows and columns of level over height; a suppressed row counts 1.

    *Guarantee*: 0 for the original, 1 for all suppressed: the distortion that MinGen minimises.
    *Error*: sums of levels are integers; one rounding per column.
    *Edges*: levels that change nothing still count.
    *Reference*: Sweeney 2002, definition of Prec (here 1 - Prec).
    """

    name = "precision"
    unit = "steps"

    def price(self, column: Quasi, labels: Labels) -> Counts:  # noqa: ARG002
        """The steps up to a label."""
        return labels.level

    def full(self, column: Quasi) -> int:
        """A suppressed row went all the way up."""
        return column.taxonomy.height

    def score(self, problem: Problem, totals: Sequence[Total]) -> Total:
        """The weighted mean of the columns."""
        weights = [self.weight(column) for column in problem.quasi]
        terms = zip(weights, problem.quasi, totals, strict=True)
        steps = [w * (total / (problem.rows * c.taxonomy.height)) for w, c, total in terms]
        return sum(steps) / sum(weights)


class EntropyLoss(Separable):
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

    def price(self, column: Quasi, labels: Labels) -> FloatArray:  # noqa: ARG002
        """The logarithm of the rows under a label."""
        return np.log2(np.maximum(labels.rows, 1))

    def untouched(self, column: Quasi, finest: float) -> float:
        """The bits that values have by themselves, which keys of them do not tell."""
        return finest if column.united is None else column.united.bits

    def full(self, column: Quasi) -> float:
        """A suppressed row could be any row."""
        return log2(column.rows.sum())

    def score(self, problem: Problem, totals: Sequence[Total]) -> Total:
        """The weighted sum of bits lost, never below 0."""
        bits = [
            self.weight(column) * (total - self.profile(column).untouched)
            for column, total in zip(problem.quasi, totals, strict=True)
        ]
        lost: Total = np.maximum(sum(bits), 0.0)
        return lost
