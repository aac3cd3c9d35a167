"""The first full-domain algorithms: Datafly, Samarati's binary search, Sweeney's MinGen."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.lattice import (
    Node,
    UnseenNodes,
    above,
    below,
    check_size,
    failing_rows,
    heights,
    nodes_where,
)
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.search.base import Examiner, Incumbent, require_cost, unreachable
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search.base import SearchProgress

DATAFLY = "datafly"


def datafly(problem: Problem, cost: Cost, watch: SearchProgress) -> Generalization:
    """Raise the quasi-identifier with most released values until few enough rows fail."""
    examiner = Examiner(problem)
    levels = list(problem.bottom)
    values = [[np.count_nonzero(label.rows) for label in c.levels] for c in problem.quasi]
    node = examiner.examine(tuple(levels))
    while not node.admissible:
        watch.report(sum(levels), sum(problem.top))
        rising = [
            position for position, level in enumerate(levels) if level < problem.top[position]
        ]
        if not rising:
            raise watch.no_release(DATAFLY) if watch.ended else unreachable(problem)
        if watch.expired:
            levels = list(problem.top)
        else:
            levels[max(rising, key=lambda position: values[position][levels[position]])] += 1
        node = examiner.examine(tuple(levels))
    return Generalization.of(
        DATAFLY,
        node,
        checked=examiner.checked,
        lattice=prod(problem.shape),
        weights=cost.weights,
    )


SAMARATI = "samarati"
_SCANNED = "Heights were tried one by one: with suppression, these criteria allow no binary search."


def samarati(problem: Problem, cost: Cost, watch: SearchProgress) -> Generalization:
    """Find the lowest admissible height; there, the node with fewest suppressed rows, then cost.

    Binary search needs every node above an admissible one to be admissible. Where suppression
    breaks that, heights are tried one by one from the bottom.
    """
    lattice = check_size(problem.shape, SAMARATI)
    search = _Heights(problem, cost, watch)
    low, high = sum(problem.bottom), sum(problem.top)
    # Samarati 2001: heights are searched by halving, because all nodes above a passing one pass.
    if problem.monotone:
        while low < high:
            middle = (low + high) // 2
            if search.reaches(middle):
                high = middle
            else:
                low = middle + 1
            watch.report(sum(problem.top) - (high - low), sum(problem.top))
    else:
        while low < high and not search.reaches(low):
            low += 1
            watch.report(low, high)
    search.examine(low)
    best = search.incumbent.or_root(search.examiner) if watch.ended else search.incumbent.best
    if best is None:
        raise watch.no_release(SAMARATI) if watch.ended else unreachable(problem)
    return Generalization.of(
        SAMARATI,
        best,
        checked=search.examiner.checked,
        lattice=lattice,
        weights=cost.weights,
        notes=() if problem.monotone else (_SCANNED,),
    )


class _Heights:
    """The heights of the lattice; `open` excludes the nodes that are known to fail."""

    def __init__(self, problem: Problem, cost: Cost, watch: SearchProgress) -> None:
        self.problem, self.watch = problem, watch
        self.incumbent = Incumbent(lambda n: (sum(n.levels), n.suppressed, cost.value(n), n.levels))
        self.examiner = Examiner(problem)
        self.heights = heights(problem.shape)
        self.open = np.zeros(problem.shape, dtype=bool)
        examined = above(problem.bottom)
        self.open[examined] = failing_rows(problem)[examined] <= problem.allowed_rows

    def reaches(self, height: int) -> bool:
        """Return whether any node of a height is admissible."""
        return self.examine(height, first=True)

    def examine(self, height: int, *, first: bool = False) -> bool:
        """Examine nodes of a height, all or up to an admissible one; return whether one exists."""
        reached = False
        for levels in nodes_where(self.open & (self.heights == height)):
            if self.watch.expired or (first and reached):
                break
            node = self.examiner.examine(levels)
            # All finer nodes suppress too many rows as well.
            if node.fails_when_finer:
                self.open[below(levels)] = False
            self.incumbent.offer(node)
            reached |= node.admissible
        return reached


SWEENEY = "sweeney"
# Every node is grouped once, so the time grows with their number.
_MOST_NODES = 200_000


def sweeney(problem: Problem, cost: Cost, watch: SearchProgress) -> Generalization:
    """Examine every node and return the admissible one of least distortion (precision)."""
    require_cost(SWEENEY, cost, "precision")
    lattice = check_size(problem.shape, SWEENEY)
    if lattice > _MOST_NODES:
        raise ParameterError(
            "problem_too_large",
            f"Algorithm {SWEENEY!r} examines every node, and the lattice has {lattice:,}; at most "
            f"{_MOST_NODES:,} are sensible. Take algorithm 'optimal' with cost 'precision', which "
            "returns the same node.",
        )
    incumbent = Incumbent(lambda n: (cost.value(n), n.suppressed, sum(n.levels), n.levels))
    unseen = UnseenNodes(problem, cost)
    checked = 0
    for node in walk(problem):
        if watch.expired:
            break
        incumbent.offer(node)
        unseen.learn(node)
        checked += 1
        watch.report(checked, lattice)
    best = incumbent.or_root(Examiner(problem)) if watch.ended else incumbent.best
    if best is None:
        raise watch.no_release(SWEENEY) if watch.ended else unreachable(problem)
    return Generalization.of(
        SWEENEY,
        best,
        checked=checked,
        lattice=lattice,
        weights=cost.weights,
        optimal=watch.ended is None and unseen.least >= cost.value(best),
        bound=None if watch.ended else min(cost.value(best), unseen.least),
    )


def walk(problem: Problem) -> Iterator[Node]:
    """Yield every node once, each grouped from a neighbour one step finer."""
    base = problem.bottom
    tables = tuple(view.base for view in problem.views)
    first = tuple(
        view.group(table, base) for view, table in zip(problem.views, tables, strict=True)
    )
    # Columns are raised in order, so exactly one path leads to every node.
    waiting = [(Node(problem, base, first), 0)]
    while waiting:
        node, column = waiting.pop()
        yield node
        for position in range(column, len(base)):
            if node.levels[position] < problem.top[position]:
                levels = (
                    *node.levels[:position],
                    node.levels[position] + 1,
                    *node.levels[position + 1 :],
                )
                grouped = tuple(
                    view.group(table, levels)
                    for view, table in zip(problem.views, node.tables, strict=True)
                )
                waiting.append((Node(problem, levels, grouped), position))
