"""Mondrian: cut the table into ever smaller boxes, all boxes of a depth together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.criteria.k_anonymity import KAnonymity
from sfumato.anonymize.labels import positions
from sfumato.anonymize.partition import Partition, Shares
from sfumato.anonymize.points import Points, failing, refuse_population
from sfumato.anonymize.search.base import unreachable
from sfumato.anonymize.search.cuts import Cuts, Runs, best_cuts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search.base import Watch

    Ints = NDArray[np.int64]

NAME = "mondrian"
_MOST_CANDIDATES = 8


def search(problem: Problem, cost: Cost, watch: Watch) -> Partition:
    """Cut each part where both sides pass, along the widest column; final is what has no such cut.

    *Guarantee*: with k-anonymity alone a class has at most 2 d (k - 1) + m rows, d the number of
    columns and m the most copies of one combination.
    *Reference*: LeFevre, DeWitt and Ramakrishnan 2006.
    """
    refuse_population(problem, NAME)
    points = Points.of(problem)
    group = partition(problem, points, watch)
    shares = Shares(points, np.arange(len(points)), points.counts, group)
    return Partition.of(NAME, problem, shares, "natural", weights=cost.weights)


def partition(problem: Problem, points: Points, watch: Watch) -> NDArray[np.int32]:
    """The group of each point."""
    require_root(problem, points)
    state = _Parts(problem, points)
    while state.parts:
        watch.tell(problem.rows - int(state.counts.sum()), problem.rows)
        if watch.expired:
            state.stop()
        else:
            state.cut()
    return state.final


def require_root(problem: Problem, points: Points) -> None:
    """Refuse a table that fails as a whole: no part of it can be made to pass by cutting."""
    whole = points.classes(np.zeros(len(points), dtype=np.int64), 1)
    if failing(problem.criteria, whole)[0]:
        raise unreachable(problem, suppresses=False)


class _Parts:
    """The parts that may still be cut; `final` has the group of each point that is done."""

    def __init__(self, problem: Problem, points: Points) -> None:
        self.problem, self.points = problem, points
        self.final = np.full(len(points), -1, dtype=np.int32)
        self.live = np.arange(len(points), dtype=np.int32)
        self.leaves = list(points.leaves)
        self.counts = points.counts
        self.part = np.zeros(len(points), dtype=np.int32)
        self.parts, self._groups = 1, 0
        self._lines = [positions(column.taxonomy) for column in problem.quasi]
        self._plain = problem.people is None and all(
            isinstance(one, KAnonymity) for one in problem.criteria
        )
        self._spans = [
            float(np.ptp(line[np.asarray([leaves.min(), leaves.max()])])) or 1.0
            for line, leaves in zip(self._lines, points.leaves, strict=True)
        ]

    def cut(self) -> None:
        """Cut every part once, or make it final."""
        widths = np.full((len(self.leaves), self.parts), -1.0)
        balances = np.zeros((len(self.leaves), self.parts), dtype=np.int64)
        cuts = np.zeros((len(self.leaves), self.parts), dtype=np.int64)
        for place, values in enumerate(self.leaves):
            found = self._allowable(values)
            line = self._lines[place]
            allowed = found.balance >= self.problem.smallest
            width = (line[found.high] - line[found.low]) / self._spans[place]
            widths[place] = np.where(allowed, width, -1.0)
            balances[place], cuts[place] = found.balance, found.cut
        widest = widths.max(axis=0)
        chosen = np.where(widths == widest, balances, -1).argmax(axis=0)
        self._divide(widest >= 0, chosen.astype(np.int16), cuts[chosen, np.arange(self.parts)])

    def stop(self) -> None:
        """Make every part final as it is: it passes."""
        nothing = np.zeros(self.parts, dtype=np.int64)
        self._divide(nothing.astype(bool), nothing.astype(np.int16), nothing)

    def _allowable(self, values: NDArray[np.integer]) -> Cuts:
        """The most balanced cut along a column whose sides pass; balance 0 where none does."""
        if self._plain:
            return best_cuts(self.part, self.parts, values, self.counts)
        best: Cuts | None = None
        for candidate in Runs.of(self.part, values, self.counts).by_balance(_MOST_CANDIDATES):
            if best is None:
                nothing = np.zeros(self.parts, dtype=np.int64)
                best = Cuts(candidate.low, candidate.high, nothing, nothing.copy())
            open_parts = (best.balance == 0) & (candidate.balance >= self.problem.smallest)
            if not open_parts.any():
                break
            passes = self._pass(values, candidate.cut, open_parts)
            best.cut[passes], best.balance[passes] = (
                candidate.cut[passes],
                candidate.balance[passes],
            )
        if best is None:
            nothing = np.zeros(self.parts, dtype=np.int64)
            return Cuts(nothing, nothing, nothing, nothing)
        return best

    def _pass(self, values: NDArray[np.integer], cut: Ints, open_parts: NDArray[np.bool_]) -> Ints:
        """Which of the open parts have sides that both pass every criterion."""
        number = np.cumsum(open_parts) - 1
        tested = np.flatnonzero(open_parts[self.part])
        part = self.part[tested]
        owners = np.full(len(self.points), -1, dtype=np.int64)
        owners[self.live[tested]] = 2 * number[part] + (values[tested] > cut[part])
        count = 2 * (int(number[-1]) + 1)
        fails = failing(self.problem.criteria, self.points.classes(owners, count))
        return np.flatnonzero(open_parts)[~(fails[0::2] | fails[1::2])]

    def _divide(self, divided: NDArray[np.bool_], chosen: NDArray[np.int16], cuts: Ints) -> None:
        """Give the points of final parts their groups, and those of divided parts their sides."""
        if not divided.all():
            stays = divided[self.part]
            done = np.flatnonzero(~stays)
            numbers = np.cumsum(~divided, dtype=np.int32) - 1 + self._groups
            self.final[self.live[done]] = numbers[self.part[done]]
            self._groups += int(np.count_nonzero(~divided))
            self.live, self.counts = self.live[stays], self.counts[stays]
            self.leaves = [values[stays] for values in self.leaves]
            self.part = (np.cumsum(divided, dtype=np.int32) - 1)[self.part[stays]]
            chosen, cuts = chosen[divided], cuts[divided]
        self.parts = 2 * len(chosen)
        column = chosen[self.part]
        side = np.zeros(len(self.part), dtype=np.int32)
        for place, values in enumerate(self.leaves):
            mine = np.flatnonzero(column == place)
            side[mine] = values[mine] > cuts[self.part[mine]]
        self.part = self.part * 2 + side
