"""Loss: how much of each hierarchy the released labels cover (normalised certainty penalty)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.anonymize.cost.base import Separable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.cost.base import Release, Total
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.quasi import Labels, Quasi


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

    def full(self, column: Quasi) -> int:
        """A suppressed row covers every leaf."""
        return len(column.taxonomy.leaves)

    def column(self, problem: Problem, column: Quasi, total: Total) -> Total:
        """The loss of one column."""
        rows, leaves = problem.rows, len(column.taxonomy.leaves)
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


def ncp(release: Release) -> dict[str, float]:
    """The loss of each column by itself."""
    loss, problem = Loss(), release.problem
    totals = zip(problem.quasi, release.totals(loss), strict=True)
    return {column.name: float(loss.column(problem, column, total)) for column, total in totals}
