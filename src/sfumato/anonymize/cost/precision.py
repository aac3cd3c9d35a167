"""Precision: how far up their hierarchies the released cells were moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.anonymize.cost.base import Separable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.cost.base import Total
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.quasi import Labels, Quasi


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
