"""Aggarwal et al.: low labels, each group's own, within 3 (k - 1) of the lowest."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

from sfumato.anonymize.search.aggarwal import grouped
from sfumato.anonymize.search.forest import Digit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.partition import Partition
    from sfumato.anonymize.points import Points
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search.base import Watch

NAME = "aggarwal-generalize"


def search(problem: Problem, cost: Cost, watch: Watch) -> Partition:
    """Group rows whose common ancestors are low, and release those.

    *Guarantee*: precision at most 3 (k - 1) times the least of any grouping, up to 50,000 rows.
    *Reference*: Aggarwal et al. 2005 (generalization), with a simpler cut.
    """
    return grouped(NAME, problem, cost, watch, digits=_steps, style="ancestors")


def _steps(problem: Problem, points: Points) -> Sequence[Digit]:
    """Every level at which two rows differ counts one step of its column's height.

    Rows that wear one label wear one at every level above, so that the sum is the level of their
    lowest common ancestor.
    """
    whole = lcm(*(column.taxonomy.height for column in problem.quasi))
    return [
        Digit(column.taxonomy.codes[leaves, level], whole // column.taxonomy.height)
        for column, leaves in zip(problem.quasi, points.leaves, strict=True)
        for level in range(column.taxonomy.height)
    ]
