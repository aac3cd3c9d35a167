"""Discernability: every row pays for the rows it cannot be told from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.cost.base import Cost
from sfumato.anonymize.criteria.k_anonymity import KAnonymity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.cost.base import Bounds, Release
    from sfumato.anonymize.node import Node
    from sfumato.anonymize.problem import Problem


class Discernability(Cost):
    """The sum of |E|^2 over released classes E, plus N for each suppressed row.

    *Guarantee*: at least the sum of |E|^2 over all classes, which never falls as classes unite.
    *Error*: none; integers below 2^63.
    *Edges*: none.
    *Reference*: Bayardo and Agrawal 2005, section 3.
    """

    name = "discernability"

    def value(self, release: Release) -> float:
        """The cost of a release."""
        return int(release.sizes @ release.sizes) + release.suppressed * release.problem.rows

    def floor(
        self,
        problem: Problem,
        box: Sequence[slice],  # noqa: ARG002
        failing: Counts,
        upward: Bounds,
    ) -> Bounds:
        """The sum of squares, where rows that must be suppressed pay N instead of their share.

        A class that fails for its size alone has fewer than k rows, so its share is known.
        """
        floor: Bounds = np.maximum(upward, failing * float(problem.rows))
        sized = all(isinstance(criterion, KAnonymity) for criterion in problem.necessary)
        if sized and problem.people is None:
            floor = upward + failing * float(problem.rows - problem.k + 1)
        # Above 2^53 a float may lie above the integer it stands for.
        return floor if problem.rows**2 < 1 << 53 else floor * (1 - 1e-15)

    def upward(self, node: Node) -> float:
        """Uniting classes never lowers the sum of squares, and suppressing a class never does."""
        return float(node.classes.sizes @ node.classes.sizes)
