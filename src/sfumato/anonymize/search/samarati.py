"""Samarati: the lowest height at which a node is admissible, by binary search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.anonymize.lattice import below, check_size, heights, nodes_where
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.search.base import Examiner, Incumbent, unreachable
from sfumato.anonymize.search.projections import failing_rows

if TYPE_CHECKING:
    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search.base import Watch

NAME = "samarati"
_SCANNED = "Heights were tried one by one: with suppression, these criteria allow no binary search."


def search(problem: Problem, cost: Cost, watch: Watch) -> Generalization:
    """Find the lowest admissible height; there, the node with fewest suppressed rows, then cost.

    Binary search needs every node above an admissible one to be admissible. Where suppression
    breaks that, heights are tried one by one from the bottom.
    """
    lattice = check_size(problem.shape, NAME)
    ladder = _Ladder(problem, cost, watch)
    low, high = 0, sum(problem.top)
    if problem.monotone:
        while low < high:
            middle = (low + high) // 2
            if ladder.reaches(middle):
                high = middle
            else:
                low = middle + 1
            watch.tell(sum(problem.top) - (high - low), sum(problem.top))
    else:
        while low < high and not ladder.reaches(low):
            low += 1
            watch.tell(low, high)
    ladder.examine(low)
    best = ladder.found.or_root(ladder.examiner) if watch.ended else ladder.found.best
    if best is None:
        raise watch.nothing(NAME) if watch.ended else unreachable(problem)
    return Generalization.of(
        NAME,
        best,
        checked=ladder.examiner.checked,
        lattice=lattice,
        weights=cost.weights,
        notes=() if problem.monotone else (_SCANNED,),
    )


class _Ladder:
    """The heights of the lattice, with what is known to fail."""

    def __init__(self, problem: Problem, cost: Cost, watch: Watch) -> None:
        self.problem, self.watch = problem, watch
        self.found = Incumbent(lambda n: (sum(n.levels), n.suppressed, cost.value(n), n.levels))
        self.examiner = Examiner(problem)
        self.heights = heights(problem.shape)
        self.open = failing_rows(problem) <= problem.allowed_rows

    def reaches(self, height: int) -> bool:
        """Whether any node of a height is admissible."""
        return self.examine(height, first=True)

    def examine(self, height: int, *, first: bool = False) -> bool:
        """Examine nodes of a height, all or up to the first admissible one; say if there is one."""
        reached = False
        for levels in nodes_where(self.open & (self.heights == height)):
            if self.watch.expired or (first and reached):
                break
            node = self.examiner.examine(levels)
            if node.hopeless:
                self.open[below(levels)] = False
            self.found.offer(node)
            reached |= node.admissible
        return reached
