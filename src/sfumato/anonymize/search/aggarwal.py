"""Aggarwal et al.: groups of near rows, from a forest of nearest neighbours cut into bundles."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.partition import DataPoints, Partition, Shares, only_crowds
from sfumato.anonymize.search import mondrian
from sfumato.anonymize.search.base import unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.partition import Style
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search.base import SearchProgress
    from sfumato.arrays import IntArray

    Digits = Callable[[Problem, DataPoints], Sequence["Digit"]]

_BLOCK = 1 << 22
"""Distances in memory at once: 16 megabytes of 32-bit numbers."""


@dataclass(frozen=True)
class Digit:
    """One term of the distance: a code of each point, and the cost of two different codes."""

    codes: NDArray[np.integer]
    weight: int


def bundle(digits: Sequence[Digit], counts: IntArray, k: int, watch: SearchProgress) -> IntArray:
    """Return the group of each row, numbered point by point; one group if time is up.

    *Guarantee*: groups have k to max(k, 3k - 3) rows, and the edges that hold them together weigh
    in sum at most what the best grouping pays.
    *Reference*: Aggarwal et al. 2005, with a simpler cut, whose factor is larger.
    """
    if k == 1:
        return np.arange(int(counts.sum()))
    nearest = _nearest(digits, counts, k, watch)
    if nearest is None:
        return np.zeros(int(counts.sum()), dtype=np.int64)
    point = np.repeat(np.arange(len(counts)), counts)
    return _cut_trees(*_grow_trees(nearest, point.tolist(), k), k)


def _nearest(
    digits: Sequence[Digit], counts: IntArray, k: int, watch: SearchProgress
) -> IntArray | None:
    """Return the k nearest rows of each point, its own first; None if time is up."""
    points = len(counts)
    nearest_count = min(k, points)
    first = np.cumsum(counts) - counts
    # More than k equal rows of a point are never needed among the k nearest.
    capped = np.minimum(counts, k)
    rows = np.empty((points, k), dtype=np.int64)
    step = max(1, _BLOCK // points)
    for start in range(0, points, step):
        if watch.expired:
            return None
        watch.report(start, points)
        block = np.zeros((min(step, points - start), points), dtype=np.int32)
        for digit in digits:
            differs = digit.codes[start : start + step, None] != digit.codes[None, :]
            block += differs if digit.weight == 1 else differs * np.int32(digit.weight)
        # A point is nearest to itself: its own equal rows come first.
        block[np.arange(len(block)), np.arange(start, start + len(block))] = -1
        near = np.argpartition(block, nearest_count - 1, axis=1)[:, :nearest_count]
        distance = np.take_along_axis(block, near, axis=1)
        near = np.take_along_axis(near, np.argsort(distance, axis=1, kind="stable"), axis=1)
        ends = np.cumsum(capped[near], axis=1)
        for rank in range(k):
            index = (ends <= rank).sum(axis=1)
            chosen = near[np.arange(len(near)), index]
            before = ends[np.arange(len(near)), index] - capped[chosen]
            rows[start : start + len(block), rank] = first[chosen] + rank - before
    return rows


def _grow_trees(nearest: IntArray, point: list[int], k: int) -> tuple[list[int], list[int]]:
    """Join every small tree to a near row outside; return parents, and rows with children first.

    A tree of fewer than k rows cannot hold all of the k - 1 rows nearest to its root.
    """
    rows = len(point)
    lists = nearest.tolist()
    parent, tree = [-1] * rows, list(range(rows))
    members = [[row] for row in range(rows)]
    roots = list(range(rows))
    waiting = list(range(rows))
    while waiting:
        root = waiting.pop()
        small = tree[root]
        if parent[root] >= 0 or len(members[small]) >= k:
            continue
        target = next(row for row in lists[point[root]] if tree[row] != small)
        parent[root] = target
        joined = tree[target]
        top = roots[joined]
        # Union by size keeps the relabelling of rows below n log n.
        if len(members[small]) > len(members[joined]):
            small, joined = joined, small
        for row in members[small]:
            tree[row] = joined
        members[joined] += members[small]
        members[small] = []
        roots[joined] = top
        waiting.append(top)
    return parent, _children_first(parent)


def _children_first(parent: list[int]) -> list[int]:
    """Return the rows in an order in which each comes before its parent."""
    open_children = [0] * len(parent)
    for above in parent:
        if above >= 0:
            open_children[above] += 1
    order = [row for row, child_count in enumerate(open_children) if child_count == 0]
    for row in order:
        above = parent[row]
        if above >= 0:
            open_children[above] -= 1
            if open_children[above] == 0:
                order.append(above)
    return order


def _cut_trees(parent: list[int], order: list[int], k: int) -> IntArray:
    """Cut the trees into groups of at least k rows.

    At each row the remaining rows of its children are bundled until k are together. The row
    connects the bundle without being in it, and goes up with the remainder. A remainder at the root
    joins a bundle that one more edge connects it to.
    """
    group = np.full(len(parent), -1, dtype=np.int64)
    rests: list[list[int]] = [[] for _ in parent]
    beside = [-1] * len(parent)
    groups = 0
    for row in order:
        rests[row].append(row)
        above = parent[row]
        if len(rests[row]) >= k:
            group[rests[row]] = beside[row] = groups
            groups += 1
            rests[row] = []
        elif above < 0:
            group[rests[row]] = beside[row]
        if above < 0:
            continue
        if beside[row] >= 0:
            beside[above] = beside[row]
        rests[above] += rests[row]
        rests[row] = []
        if len(rests[above]) >= k:
            group[rests[above]] = beside[above] = groups
            groups += 1
            rests[above] = []
    return group


# Distances of all pairs grow with the square of the rows, so larger tables are split into blocks.
MOST_ROWS = 50_000
BLOCK_ROWS = 10_000


def grouped(
    name: str, problem: Problem, cost: Cost, watch: SearchProgress, *, digits: Digits, style: Style
) -> Partition:
    """Bundle near rows; large tables are bundled in blocks, and then no factor is claimed."""
    k = only_crowds(problem, name)
    if problem.rows < k:
        raise unreachable(problem, suppresses=False)
    points = DataPoints.of(problem)
    coded = digits(problem, points)
    group = np.empty(problem.rows, dtype=np.int64)
    first = np.cumsum(points.counts) - points.counts
    groups = 0
    for block in _blocks(problem, points, watch):
        mine = [Digit(digit.codes[block], digit.weight) for digit in coded]
        numbers = bundle(mine, points.counts[block], k, watch) + groups
        starts = np.cumsum(points.counts[block]) - points.counts[block]
        within = np.arange(len(numbers)) - np.repeat(starts, points.counts[block])
        group[np.repeat(first[block], points.counts[block]) + within] = numbers
        groups = int(numbers.max()) + 1
    shares = Shares.of_rows(points, group)
    unsplit = problem.rows <= MOST_ROWS and watch.ended is None
    factor = float(max(1, 3 * (k - 1))) if unsplit else None
    return Partition.of(name, problem, shares, style, weights=cost.weights, factor=factor)


def _blocks(problem: Problem, points: DataPoints, watch: SearchProgress) -> Iterator[IntArray]:
    """Yield all points of a small table, else boxes of Mondrian up to the size of a block."""
    if problem.rows <= MOST_ROWS:
        yield np.arange(len(points))
        return
    boxes = mondrian.partition(problem, points, watch)
    order = np.argsort(boxes, kind="stable")
    sizes = np.bincount(boxes, points.counts).astype(np.int64)
    block = np.zeros(len(sizes), dtype=np.int64)
    number, filled = 0, 0
    for box, size in enumerate(sizes.tolist()):
        if filled and filled + size > BLOCK_ROWS:
            number, filled = number + 1, 0
        block[box] = number
        filled += size
    ends = np.searchsorted(block[boxes[order]], np.arange(1, number + 1))
    yield from np.split(order, ends)


GENERALIZE = "aggarwal-generalize"


def generalize(problem: Problem, cost: Cost, watch: SearchProgress) -> Partition:
    """Group rows whose common ancestors are low, and release those.

    *Guarantee*: precision at most 3 (k - 1) times the least of any grouping, up to 50,000 rows.
    *Reference*: Aggarwal et al. 2005 (generalization), with a simpler cut.
    """
    return grouped(GENERALIZE, problem, cost, watch, digits=_steps, style="ancestors")


def _steps(problem: Problem, points: DataPoints) -> Sequence[Digit]:
    """Return digits in which every differing level counts one step of its column's height.

    Rows with one label share all labels above it, so the sum is the level of their lowest common
    ancestor.
    """
    # A common denominator of the heights keeps distances whole numbers.
    scale = lcm(*(column.taxonomy.height for column in problem.quasi))
    return [
        Digit(column.taxonomy.codes[leaves, level], scale // column.taxonomy.height)
        for column, leaves in zip(problem.quasi, points.leaves, strict=True)
        for level in range(column.taxonomy.height)
    ]


SUPPRESS = "aggarwal-suppress"


def suppress_cells(problem: Problem, cost: Cost, watch: SearchProgress) -> Partition:
    """Group rows that differ in few columns, and star those columns.

    *Guarantee*: starred cells at most 3 (k - 1) times the fewest possible, up to 50,000 rows.
    *Reference*: Aggarwal et al. 2005 (cell suppression), with a simpler cut.
    """
    return grouped(SUPPRESS, problem, cost, watch, digits=_cells, style="stars")


def _cells(problem: Problem, points: DataPoints) -> Sequence[Digit]:
    """Return digits in which every differing column counts 1."""
    del problem
    return [Digit(leaves, 1) for leaves in points.leaves]
