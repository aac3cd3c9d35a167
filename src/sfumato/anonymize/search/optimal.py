"""The cheapest admissible node of the whole lattice. Decision `optimal-search`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.cost import Separable
from sfumato.anonymize.lattice import (
    above,
    below,
    check_size,
    count_above,
    count_below,
    failing_rows,
    heights,
)
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.search.base import Examiner, unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.lattice import Node
    from sfumato.anonymize.lattice_grouping import Levels
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search.base import SearchProgress
    from sfumato.arrays import BoolArray

NAME = "optimal"
# With fewer open nodes only the number of finer nodes decides which is checked next.
_NEARLY_CLOSED = 40
_MOST_FLOOR_CHECKS = 200
"""At most this many nodes are checked to exclude nodes below the floor."""
_LEAST, _SHARE = 8, 64  # candidates are ranked anew after 8 checks, or a 64th of them if more


def search(problem: Problem, cost: Cost, watch: SearchProgress) -> Generalization:
    """Find the cheapest admissible node; ties go to fewer suppressed rows, then to lower height.

    Branch and bound over arrays of the whole lattice: every check of a node excludes what it can.
    """
    lattice = check_size(problem.shape, NAME)
    state = _SearchState(problem, cost)
    while state.remaining and not watch.expired:
        state.check(state.choose())
        watch.report(lattice - state.remaining, lattice)
    for levels in state.floor_nodes():
        if watch.expired:
            break
        state.check(levels)
    if state.best is None and state.remaining:
        state.check(problem.top)  # better a coarse release than none when time is up
    if state.best is None:
        raise watch.no_release(NAME) if state.remaining else unreachable(problem)
    return Generalization.of(
        NAME,
        state.best,
        checked=state.examiner.checked,
        lattice=lattice,
        weights=cost.weights,
        optimal=not state.remaining and state.is_proven,
        bound=state.bound,
    )


class _SearchState:
    """The state of a search: lower bounds of cost and suppression of every node, and the best one.

    A node is open while it might be admissible and might beat the best one. Nodes below the floor
    of the problem are `unseen`: they cannot be examined, but they have bounds too.
    """

    def __init__(self, problem: Problem, cost: Cost) -> None:
        self.problem, self.cost = problem, cost
        self.examiner = Examiner(problem)
        self.best: Node | None = None
        self.key: tuple[float, int, int, int] | None = None
        self.heights = heights(problem.shape)
        self.failing = failing_rows(problem)
        floor = problem.floor
        least = 0.0 if floor is None else cost.from_sizes(problem, floor.sizes)
        self.upward = np.full(problem.shape, least)
        self.lower = cost.floor(problem, below(problem.top), self.failing, self.upward.copy())
        self.unseen: BoolArray = self.failing <= problem.allowed_rows
        self.open = np.zeros_like(self.unseen)
        examined = above(problem.bottom)
        self.open[examined] = self.unseen[examined]
        self.unseen[examined] = False
        self.remaining = int(np.count_nonzero(self.open))
        self._ranking: list[Levels] = []

    @property
    def bound(self) -> float:
        """A lower bound on the cost of the cheapest admissible node."""
        bounds = [] if self.key is None else [self.key[0]]
        if self.remaining:
            bounds.append(float(self.lower[self.open].min()))
        bounds.append(float(self.lower[self.unseen].min(initial=np.inf)))
        return min(bounds)

    @property
    def is_proven(self) -> bool:
        """Whether no node that cannot be examined may cost less than the best one."""
        return self.key is not None and not (self.lower[self.unseen] < self.key[0]).any()

    def floor_nodes(self) -> Iterator[Levels]:
        """Yield nodes whose check may exclude nodes below the floor, which cannot be examined.

        They are the nearest examinable nodes above those that may cost less than the best one.
        """
        bottom, shape = np.array(self.problem.bottom), self.problem.shape
        tried: list[int] = []
        while self.key is not None and len(tried) < _MOST_FLOOR_CHECKS:
            waiting = np.argwhere(self.unseen & (self.lower < self.key[0]))
            nearest = np.ravel_multi_index(tuple(np.maximum(waiting, bottom).T), shape)
            indices, counts = np.unique(nearest[~np.isin(nearest, tried)], return_counts=True)
            if not len(indices):
                return
            tried.append(int(indices[counts.argmax()]))
            yield tuple(int(level) for level in np.unravel_index(tried[-1], shape))

    def choose(self) -> Levels:
        """Return the open node whose check promises to close most others."""
        while self._ranking:
            levels = self._ranking.pop()
            if self.open[levels]:
                return levels
        finer = count_below(self.open)
        if self.remaining < _NEARLY_CLOSED:
            worth = finer
        elif isinstance(self.cost, Separable):
            # A check excludes all finer nodes if it fails, or all dearer ones if it passes. Its
            # worth is the smaller number, weighted by how often each happens.
            bounds = np.sort(self.lower[self.open])
            dearer = len(bounds) - np.searchsorted(bounds, self.lower, side="right")
            worth = np.minimum(4 * finer, dearer)
        else:
            worth = np.minimum(2 * finer, count_above(self.open))
        count = max(_LEAST, self.remaining // _SHARE)
        indices = np.flatnonzero(self.open)
        best = indices[np.argsort(worth.ravel()[indices], kind="stable")[-count:]]
        coordinates = np.stack(np.unravel_index(best, self.open.shape), axis=1)
        self._ranking = [tuple(chosen) for chosen in coordinates.tolist()]
        return self._ranking.pop()

    def check(self, levels: Levels) -> None:
        """Examine a node, and close the nodes that it excludes."""
        node = self.examiner.examine(levels)
        self.open[levels] = False
        upward, coarser = self.cost.upward(node), above(levels)
        if upward:
            np.maximum(self.upward[coarser], upward, out=self.upward[coarser])
            self._raise(coarser)
        # All finer nodes suppress too many rows as well.
        if node.fails_when_finer:
            self.open[below(levels)] = self.unseen[below(levels)] = False
        else:
            self._tighten(node)
            if node.admissible:
                self._offer(node)
        if self.key is not None:
            self._close(self.key)
        self.remaining = int(np.count_nonzero(self.open))

    def _tighten(self, node: Node) -> None:
        """Raise the bounds of finer nodes by the rows that fail and the classes that can remain."""
        finer = below(node.levels)
        # Classes only shrink below a node, so a finer node fails at least as many rows.
        np.maximum(self.failing[finer], node.failing, out=self.failing[finer])
        np.maximum(self.lower[finer], self.cost.downward(node), out=self.lower[finer])
        self._raise(finer)

    def _raise(self, box: tuple[slice, ...]) -> None:
        """Raise the bounds of a box to what is known about its nodes."""
        floor = self.cost.floor(self.problem, box, self.failing[box], self.upward[box])
        np.maximum(self.lower[box], floor, out=self.lower[box])

    def _offer(self, node: Node) -> None:
        """Take an admissible node as the best one if it beats the present one."""
        index = int(np.ravel_multi_index(node.levels, self.open.shape))
        key = (self.cost.value(node), node.suppressed, sum(node.levels), index)
        if self.key is None or key < self.key:
            self.best, self.key = node, key

    def _close(self, key: tuple[float, int, int, int]) -> None:
        """Close nodes that cannot come before the best one even if they reach their bounds."""
        cost, suppressed, height, index = key
        # Ties stay open: among equal costs the node with fewer suppressed rows wins.
        self.open &= self.lower <= cost
        tied = np.flatnonzero(self.open & (self.lower == cost))
        if len(tied):
            # Compare (failing, height, place) in lexicographic order.
            failing, heights = self.failing.ravel()[tied], self.heights.ravel()[tied]
            comes_first = (heights < height) | ((heights == height) & (tied < index))
            comes_first = (failing < suppressed) | ((failing == suppressed) & comes_first)
            self.open.ravel()[tied] = comes_first
