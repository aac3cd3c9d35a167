"""Aggarwal et al.: few starred cells, within 3 (k - 1) of the fewest."""

from __future__ import annotations

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

NAME = "aggarwal-suppress"


def search(problem: Problem, cost: Cost, watch: Watch) -> Partition:
    """Group rows that differ in few columns, and star those columns.

    *Guarantee*: starred cells at most 3 (k - 1) times the fewest possible, up to 50,000 rows.
    *Reference*: Aggarwal et al. 2005 (cell suppression), with a simpler cut.
    """
    return grouped(NAME, problem, cost, watch, digits=_cells, style="stars")


def _cells(problem: Problem, points: Points) -> Sequence[Digit]:
    """Every column counts 1 where two rows differ in it."""
    del problem
    return [Digit(leaves, 1) for leaves in points.leaves]
