"""k-optimize: the best way to cut every column into intervals, by set enumeration with bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.partition import DataPoints, Intervals, failing, refuse_population
from sfumato.anonymize.search.base import require_cost, unreachable
from sfumato.data.counting.grouping import keys
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.anonymize.classes import Classes
    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search.base import SearchProgress
    from sfumato.arrays import IntArray
    from sfumato.data.counting.memory_limit import SizeCounts

    Splits = frozenset[int]

NAME = "k-optimize"
_MOST_GROUPINGS = 50_000
"""Without a time limit the search ends after this many groupings, with the best found so far."""


def search(problem: Problem, cost: Cost, watch: SearchProgress) -> Intervals:
    """Cut columns at the set of values of least discernability; anytime, often not exact.

    *Guarantee*: the optimum where `optimal` says so; else `bound` is what it costs at least.
    *Reference*: Bayardo and Agrawal 2005.
    """
    require_cost(NAME, cost, "discernability")
    refuse_population(problem, NAME)
    for column in problem.quasi:
        if column.united is not None:
            raise ParameterError(
                "problem_too_large",
                f"Algorithm {NAME!r} looks at every value of column {column.name!r}, and there are "
                f"{column.breadth:,}, more than memory is kept for. Take algorithm 'optimal', "
                "which looks at labels.",
            )
    table = _Table(problem, DataPoints.of(problem))
    best, least, bound = _enumerate(table, watch)
    if best is None:
        if bound < float("inf"):
            raise watch.no_release(NAME)
        raise unreachable(problem)
    if problem.floor is not None:
        bound = min(bound, table.least(problem.floor.sizes))
    owners, classes = table.group(best)
    return Intervals.cut(
        NAME,
        problem,
        table.points,
        table.intervals(best),
        owners=owners,
        fails=failing(problem.criteria, classes),
        checked=table.groupings,
        optimal=bound >= least,
        bound=min(bound, least),
    )


@dataclass(frozen=True)
class _Node:
    """A set of splits, the splits that may still be added, and a lower bound for all of them."""

    chosen: Splits
    tail: tuple[int, ...]
    bound: float


def _enumerate(table: _Table, watch: SearchProgress) -> tuple[Splits | None, float, float]:
    """Return the best set of splits, its cost, and the least bound of what was not explored."""
    best: Splits | None = None
    least = float("inf")
    waiting = [_Node(frozenset(), tuple(range(len(table.splits))), 0.0)]
    while waiting:
        node = waiting.pop()
        # No descendant can beat the best one: prune the whole subtree (Bayardo and Agrawal 2005).
        if node.bound >= least:
            continue
        owners, classes = table.group(node.chosen)
        cost = table.cost(owners, classes)
        if cost is not None and cost < least:
            best, least = node.chosen, cost
        # The root comes first, whatever the time: better a coarse release than none.
        if watch.expired or table.groupings >= _MOST_GROUPINGS:
            return best, least, min(unexplored.bound for unexplored in (node, *waiting))
        watch.report(table.groupings, _MOST_GROUPINGS)
        tail, bounds = _promising(table, node, owners, least)
        # The most promising child comes first, and has all others in its tail.
        order = sorted(tail, key=bounds.__getitem__)
        children = [
            _Node(node.chosen | {split}, tuple(order[rank + 1 :]), bounds[split])
            for rank, split in enumerate(order)
        ]
        waiting.extend(reversed(children))
    return best, least, float("inf") if best is None else least


def _promising(
    table: _Table, node: _Node, owners: IntArray, least: float
) -> tuple[list[int], dict[int, float]]:
    """Return the splits that may lead below the least cost, with a lower bound for each."""
    tail = list(node.tail)
    # Dropping a split raises the bounds of the others, so pruning is repeated until none falls.
    while True:
        price = table.prices({*node.chosen, *tail})
        bounds = {split: table.bound(owners, split, price) for split in tail}
        promising = [split for split in tail if bounds[split] < least]
        if len(promising) == len(tail):
            return promising, bounds
        tail = promising


class _Table:
    """Points whose columns can be cut before every value that occurs but the first."""

    def __init__(self, problem: Problem, points: DataPoints) -> None:
        self.problem, self.points, self.groupings = problem, points, 0
        self.splits = [
            (column, leaf)
            for column, leaves in enumerate(points.leaves)
            for leaf in np.unique(leaves)[1:].tolist()
        ]

    def intervals(self, chosen: Iterable[int]) -> list[IntArray]:
        """Return the interval of every leaf, column by column."""
        cuts = [np.zeros(len(c.taxonomy.leaves), dtype=np.int64) for c in self.problem.quasi]
        for split in chosen:
            column, leaf = self.splits[split]
            cuts[column][leaf] = 1
        return [np.cumsum(cut) for cut in cuts]

    def group(self, chosen: Iterable[int]) -> tuple[IntArray, Classes]:
        """Return the class of each point, and all classes."""
        intervals = self.intervals(chosen)
        codes = [cut[leaves] for cut, leaves in zip(intervals, self.points.leaves, strict=True)]
        key, _ = keys(codes, [int(cut[-1]) + 1 for cut in intervals])
        return self._classes(key)

    def _classes(self, key: IntArray) -> tuple[IntArray, Classes]:
        self.groupings += 1
        present, owners = np.unique(key, return_inverse=True)
        return owners, self.points.classes(owners, len(present))

    def cost(self, owners: IntArray, classes: Classes) -> float | None:
        """Return the discernability; None if more rows or people are suppressed than allowed."""
        fails = failing(self.problem.criteria, classes)
        if self.points.lost(fails[owners]) > self.problem.allowed:
            return None
        suppressed = int(classes.sizes[fails].sum())
        released = classes.sizes[~fails]
        # Discernability: a released row pays the size of its class, a suppressed one the whole
        # table.
        return int(released @ released) + suppressed * self.problem.rows

    def prices(self, finest: Iterable[int]) -> IntArray:
        """Return the least cost of the rows of each point if at most these cuts are made."""
        owners, classes = self.group(finest)
        paid: IntArray = (
            self.points.counts * np.maximum(classes.sizes, self.problem.smallest)[owners]
        )
        return paid

    def least(self, original: SizeCounts) -> float:
        """Return a lower bound for any set of splits, including splits between counted values."""
        return int((original.rows * np.maximum(original.sizes, self.problem.smallest)).sum())

    def bound(self, owners: IntArray, split: int, price: IntArray) -> float:
        """Return the least cost with a further split; infinite if it suppresses too many rows.

        A class that fails the absorbing part of the criteria fails however it is cut further.
        """
        column, leaf = self.splits[split]
        # A split divides each class: code 2c below the leaf, 2c + 1 from it on.
        finer, classes = self._classes(2 * owners + (self.points.leaves[column] >= leaf))
        lacking = failing(self.problem.necessary, classes)
        if self.points.lost(lacking[finer]) > self.problem.allowed:
            return float("inf")
        suppressed = int(classes.sizes[lacking].sum())
        return suppressed * self.problem.rows + int(price[~lacking[finer]].sum())
