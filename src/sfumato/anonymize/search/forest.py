"""Groups of near rows: a forest of edges to nearest neighbours, cut into bundles of at least k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.search.base import Watch

    Ints = NDArray[np.int64]

_BLOCK = 1 << 22
"""How many distances are held at once."""


@dataclass(frozen=True)
class Digit:
    """A code of each point, and what it costs two points to differ in it."""

    codes: NDArray[np.integer]
    weight: int


def bundle(digits: Sequence[Digit], counts: Ints, k: int, watch: Watch) -> Ints:
    """The group of each row, rows being numbered point by point; one group when time is up.

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
    return _cut(*_grow(nearest, point.tolist(), k), k)


def _nearest(digits: Sequence[Digit], counts: Ints, k: int, watch: Watch) -> Ints | None:
    """The k rows nearest to each point, its own first, nearest first; distances block by block.

    None when time is up.
    """
    points = len(counts)
    few = min(k, points)
    first = np.cumsum(counts) - counts
    capped = np.minimum(counts, k)
    found = np.empty((points, k), dtype=np.int64)
    step = max(1, _BLOCK // points)
    for start in range(0, points, step):
        if watch.expired:
            return None
        watch.tell(start, points)
        block = np.zeros((min(step, points - start), points), dtype=np.int32)
        for digit in digits:
            differs = digit.codes[start : start + step, None] != digit.codes[None, :]
            block += differs if digit.weight == 1 else differs * np.int32(digit.weight)
        block[np.arange(len(block)), np.arange(start, start + len(block))] = -1
        near = np.argpartition(block, few - 1, axis=1)[:, :few]
        distance = np.take_along_axis(block, near, axis=1)
        near = np.take_along_axis(near, np.argsort(distance, axis=1, kind="stable"), axis=1)
        ends = np.cumsum(capped[near], axis=1)
        for place in range(k):
            which = (ends <= place).sum(axis=1)
            chosen = near[np.arange(len(near)), which]
            before = ends[np.arange(len(near)), which] - capped[chosen]
            found[start : start + len(block), place] = first[chosen] + place - before
    return found


def _grow(nearest: Ints, point: list[int], k: int) -> tuple[list[int], list[int]]:
    """Give the root of every small tree an edge to a near row outside; parents, children first.

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
    """The rows in an order in which each comes before its parent."""
    open_children = [0] * len(parent)
    for above in parent:
        if above >= 0:
            open_children[above] += 1
    order = [row for row, many in enumerate(open_children) if many == 0]
    for row in order:
        above = parent[row]
        if above >= 0:
            open_children[above] -= 1
            if open_children[above] == 0:
                order.append(above)
    return order


def _cut(parent: list[int], order: list[int], k: int) -> Ints:
    """Cut the trees into groups of at least k rows.

    At each row the rests of its children are bundled until k rows are together; the row holds the
    bundle together without being in it, and goes up with what is left. A rest at the root joins a
    bundle that one more edge connects it to.
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
