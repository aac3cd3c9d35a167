"""Meyerson and Williams: few starred cells, by greedy cover with all small sets of rows."""

from __future__ import annotations

from itertools import chain, combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.partition import DataPoints, Partition, Shares, only_crowds
from sfumato.anonymize.search.base import unreachable
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search.base import SearchProgress
    from sfumato.arrays import IntArray


NAME = "meyerson-williams"
# All sets are listed in memory.
_MOST_SUBSETS = 2_000_000


def search(problem: Problem, cost: Cost, watch: SearchProgress) -> Partition:
    """Cover the rows by sets of k .. 2k - 1 of least diameter per new row, then separate the sets.

    *Guarantee*: starred cells at most (2k - 1)(2k - 2) / k x H(2k - 1) times the fewest possible:
    a set of diameter d has k d to (2k - 1)(2k - 2) d starred cells, and greedy cover loses at most
    the harmonic number.
    *Reference*: Meyerson and Williams 2004; the factor is that of the steps above.
    """
    k = only_crowds(problem, NAME)
    if problem.rows < k:
        raise unreachable(problem, suppresses=False)
    sizes = range(k, min(2 * k, problem.rows + 1))
    subsets = sum(comb(problem.rows, size) for size in sizes)
    if subsets > _MOST_SUBSETS:
        raise ParameterError(
            "problem_too_large",
            f"Algorithm {NAME!r} weighs every set of {k} to {2 * k - 1} rows: with "
            f"{problem.rows:,} rows more than {_MOST_SUBSETS:,}. Take 'aggarwal-suppress'.",
        )
    points = DataPoints.of(problem)
    point = np.repeat(np.arange(len(points)), points.counts)
    cells = np.stack([leaves[point] for leaves in points.leaves])
    distances = (cells[:, :, None] != cells[:, None, :]).sum(axis=0)
    groups = _make_disjoint(_cover(distances, sizes, watch), k)
    group = np.empty(len(point), dtype=np.int64)
    for number, rows in enumerate(groups):
        group[list(rows)] = number
    return Partition.of(
        NAME,
        problem,
        Shares.of_rows(points, group),
        "stars",
        weights=cost.weights,
        factor=None if watch.ended else factor(k),
        checked=subsets,
    )


def factor(k: int) -> float:
    """Return the guaranteed factor over the fewest starred cells."""
    harmonic = sum(1 / i for i in range(1, 2 * k))
    return max(1.0, (2 * k - 1) * (2 * k - 2) / k * harmonic)


def _cover(distances: IntArray, sizes: range, watch: SearchProgress) -> list[set[int]]:
    """Take again and again the set of least diameter for each row that it newly covers.

    Out of time, the rows that are left make one set.
    """
    tables = [(table, _diameters(table, distances)) for table in _tables(len(distances), sizes)]
    uncovered = np.ones(len(distances), dtype=np.int64)
    chosen: list[set[int]] = []
    while uncovered.any():
        if watch.expired:
            remaining = set(np.flatnonzero(uncovered).tolist())
            return [
                *chosen,
                remaining if len(remaining) >= sizes.start else remaining | chosen.pop(),
            ]
        watch.report(len(uncovered) - int(uncovered.sum()), len(uncovered))
        best, least = None, (float("inf"), 0)
        for table, diameters in tables:
            new = uncovered[table].sum(axis=1)
            # Greedy set cover: least diameter for each newly covered row.
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(new > 0, diameters / new, np.inf)
            index = int(ratio.argmin())
            candidate = (float(ratio[index]), -int(new[index]))
            if candidate < least:
                best, least = table[index], candidate
        assert best is not None
        chosen.append(set(best.tolist()))
        uncovered[best] = 0
    return chosen


def _tables(rows: int, sizes: range) -> list[IntArray]:
    """Return all sets of rows of each size, one per line."""
    return [
        np.fromiter(chain.from_iterable(combinations(range(rows), size)), dtype=np.int64).reshape(
            -1, size
        )
        for size in sizes
    ]


def _diameters(table: IntArray, distances: IntArray) -> IntArray:
    """Return the largest distance within each set."""
    widest = np.zeros(len(table), dtype=np.int64)
    for first, second in combinations(range(table.shape[1]), 2):
        np.maximum(widest, distances[table[:, first], table[:, second]], out=widest)
    return widest


def _make_disjoint(cover: list[set[int]], k: int) -> list[set[int]]:
    """Make the sets disjoint: a shared row leaves the larger set, or two sets of k rows unite."""
    groups: list[set[int]] = []
    for added in cover:
        fresh = set(added)
        for group in list(groups):
            for row in sorted(group & fresh):
                # A row that two sets share may leave the one that keeps k rows without it.
                if len(group) > k:
                    group.discard(row)
                elif len(fresh) > k:
                    fresh.discard(row)
                else:
                    groups.remove(group)
                    fresh |= group
                    break
        groups.append(fresh)
    return groups
