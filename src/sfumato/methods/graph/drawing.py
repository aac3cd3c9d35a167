"""Random graphs with given degrees, ties between kinds of nodes, and triangles.

Everything here uses public or already noisy figures, so that it costs nothing.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.noise.selection import permutation, uniform_integers

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy


_EXCHANGE_ROUNDS = 100
_MOST_SWAPS = 400_000


def shares(noisy: IntArray) -> FloatArray:
    """Project noisy counts to the simplex by least squares: subtract one amount, clip at 0."""
    total = max(float(noisy.sum()), 1.0)
    falling = np.sort(noisy.astype(np.float64))[::-1]
    amounts = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    amount = amounts[np.flatnonzero(falling > amounts)[-1]]
    return np.asarray(np.maximum(noisy - amount, 0) / total)


def apportion(shares: FloatArray, total: int) -> IntArray:
    """Round shares to integers of a given total, by the largest remainders."""
    exact = shares / shares.sum() * total
    counts: IntArray = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: total - int(counts.sum())]] += 1
    return counts


def triangle(cells: int) -> tuple[IntArray, IntArray]:
    """Return the two kinds of each cell of the upper triangle, row by row."""
    low, high = np.triu_indices((isqrt(8 * cells + 1) - 1) // 2)
    return low, high


def ends_of(edge_counts: IntArray) -> IntArray:
    """The number of edge ends of each kind, from the edges between each two kinds."""
    every = np.concatenate(triangle(len(edge_counts)))
    return np.bincount(every, np.tile(edge_counts, 2)).astype(np.int64)


def assigned(degrees: IntArray, kinds: IntArray, ends: IntArray, entropy: Entropy) -> IntArray:
    """Assign kinds to nodes, `kinds` of each, so that each kind has about `ends` edge ends.

    The first assignment is random; then two nodes swap kinds if that lowers the distance of both.
    """
    codes = np.repeat(np.arange(len(kinds)), kinds)[permutation(len(degrees), entropy)]
    excess = (np.bincount(codes, degrees, minlength=len(kinds)).astype(np.int64) - ends).tolist()
    tries = min(4 * len(degrees), _MOST_SWAPS) if len(kinds) > 1 else 0
    drawn = uniform_integers(max(len(degrees), 1), 2 * tries, entropy).reshape(-1, 2).tolist()
    kind_of_node, degree_of_node = codes.tolist(), degrees.tolist()
    for first, second in drawn:
        first_kind, second_kind, difference = (
            kind_of_node[first],
            kind_of_node[second],
            degree_of_node[first] - degree_of_node[second],
        )
        after = abs(excess[first_kind] - difference) + abs(excess[second_kind] + difference)
        if first_kind != second_kind and after < abs(excess[first_kind]) + abs(excess[second_kind]):
            excess[first_kind], excess[second_kind] = (
                excess[first_kind] - difference,
                excess[second_kind] + difference,
            )
            kind_of_node[first], kind_of_node[second] = second_kind, first_kind
    return np.array(kind_of_node, dtype=np.int64)


def drawn_edges(
    degrees: IntArray, codes: IntArray, edge_counts: IntArray, entropy: Entropy
) -> IntArray:
    """Draw the given number of edges between each two kinds, with the given degrees if possible.

    Ends are dealt to edges at random within kinds. A kind with too few ends gets more, by degree.
    """
    kind_pairs = triangle(len(edge_counts))
    need = ends_of(edge_counts)
    dealt = [_dealt(np.flatnonzero(codes == low), degrees, count, entropy)
             for low, count in enumerate(need.tolist())]  # fmt: skip
    first: list[IntArray] = []
    second: list[IntArray] = []
    cells, used = [], [0] * len(dealt)
    for cell, (low, high, count) in enumerate(zip(*kind_pairs, edge_counts.tolist(), strict=True)):
        if len(dealt[low]) and len(dealt[high]):
            for side, kind in ((first, low), (second, high)):
                side.append(dealt[kind][used[kind] : used[kind] + count])
                used[kind] += count
            cells.append(np.full(count, cell))
    if not cells:
        return np.zeros((0, 2), dtype=np.int64)
    pairs = np.stack([np.concatenate(first), np.concatenate(second)], axis=1)
    return _simple(pairs, np.concatenate(cells), entropy)


def _dealt(nodes: IntArray, degrees: IntArray, count: int, entropy: Entropy) -> IntArray:
    """`count` edge ends at these nodes, by their degrees, in random order."""
    stubs = np.repeat(nodes, degrees[nodes])
    stubs = stubs if len(stubs) else nodes
    if not len(stubs):
        return stubs
    stubs = stubs[permutation(len(stubs), entropy)]
    extra = stubs[uniform_integers(len(stubs), max(count - len(stubs), 0), entropy)]
    return np.concatenate([stubs, extra])[:count]


def _simple(pairs: IntArray, cells: IntArray, entropy: Entropy) -> IntArray:
    """Swap ends within cells until no edge is a loop or a repeat; drop the remaining ones."""
    starts = np.searchsorted(cells, np.arange(int(cells.max(initial=0)) + 2))
    for _ in range(_EXCHANGE_ROUNDS):
        bad = _bad(pairs)
        if not len(bad):
            break
        sizes = (starts[1:] - starts[:-1])[cells[bad]]
        partners = starts[cells[bad]] + uniform_integers(1 << 40, len(bad), entropy) % sizes
        partners, once = np.unique(partners, return_index=True)
        fresh = ~np.isin(partners, bad)
        swapped, swapped_with = bad[once][fresh], partners[fresh]
        pairs[swapped, 1], pairs[swapped_with, 1] = pairs[swapped_with, 1], pairs[swapped, 1]
    edges = np.sort(np.delete(pairs, _bad(pairs), axis=0), axis=1)
    return edges[np.lexsort((edges[:, 1], edges[:, 0]))]


def _bad(pairs: IntArray) -> IntArray:
    """Return the positions of loops, and of repeats of an earlier edge."""
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    number = low * (int(pairs.max(initial=0)) + 1) + high
    repeat = np.ones(len(pairs), dtype=bool)
    repeat[np.unique(number, return_index=True)[1]] = False
    return np.flatnonzero(repeat | (low == high))


# Graphs with given degrees, rewired until they have a given number of triangles (TriCycLe).

_DRAWING_ROUNDS = 20
_MOST_STEPS = 1_000_000
# Rewiring stops after so many steps for each edge.
_TRIES = 6


def chung_lu(degrees: IntArray, entropy: Entropy) -> IntArray:
    """Edges whose ends are drawn by degree; loops and repeats are drawn again."""
    stubs = np.repeat(np.arange(len(degrees)), degrees)
    edge_count, edges = int(degrees.sum()) // 2, np.zeros((0, 2), dtype=np.int64)
    for _ in range(_DRAWING_ROUNDS):
        missing = edge_count - len(edges)
        if missing <= 0 or not len(stubs):
            break
        drawn = stubs[uniform_integers(len(stubs), 2 * missing, entropy)].reshape(-1, 2)
        drawn = np.sort(drawn[drawn[:, 0] != drawn[:, 1]], axis=1)
        edges = np.unique(np.concatenate([edges, drawn]), axis=0)
    return edges


def with_triangles(
    edges: IntArray, triangle_count: int, entropy: Entropy, kinds: IntArray | None = None
) -> IntArray:
    """Swap edges until there are `triangle_count` triangles; every node keeps its degree.

    With `kinds` of nodes, the number of edges between each two kinds stays the same.

    A step chooses two neighbours of a node that are not tied, removes one other edge of each, ties
    the two, and ties the other ends of the removed edges. It is undone unless it adds triangles.
    """
    ties = _Ties(int(edges.max(initial=-1)) + 1, edges)
    near, listed = ties.near, ties.listed
    current = (
        sum(len(near[near_first] & near[near_second]) for near_first, near_second in edges.tolist())
        // 3
    )
    ends = edges.ravel().tolist()
    held_kinds = [] if kinds is None else kinds.tolist()
    steps = min(_TRIES * len(edges), _MOST_STEPS)
    drawn = uniform_integers(1 << 40, 5 * steps, entropy).reshape(-1, 5).tolist()
    for first, *draws in drawn if ends else ():
        if current >= triangle_count:
            break
        middle = ends[first % len(ends)]  # in proportion to degrees, which never change
        near_first, near_second = (listed[middle][at % len(listed[middle])] for at in draws[:2])
        if near_first == near_second or near_second in near[near_first]:
            continue
        third, fourth = (
            listed[end][at % len(listed[end])]
            for end, at in zip((near_first, near_second), draws[2:], strict=True)
        )
        if middle in (third, fourth) or third == fourth or fourth in near[third]:
            continue
        # The swap keeps the ties between kinds only if one of these pairs is of one kind.
        if held_kinds and (
            held_kinds[third] != held_kinds[near_second]
            and held_kinds[near_first] != held_kinds[fourth]
        ):
            continue
        lost = ties.cut(near_first, third) + ties.cut(near_second, fourth)
        gained = ties.tie(near_first, near_second) + ties.tie(third, fourth)
        if gained > lost:
            current += gained - lost
            continue
        ties.cut(third, fourth)
        ties.cut(near_first, near_second)
        ties.tie(near_second, fourth)
        ties.tie(near_first, third)
    pairs = [
        (near_first, near_second)
        for near_first, neighbours in enumerate(near)
        for near_second in neighbours
        if near_first < near_second
    ]
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


class _Ties:
    """Neighbours of nodes with constant-time lookup, random choice and change."""

    def __init__(self, nodes: int, edges: IntArray) -> None:
        both = np.concatenate([edges, edges[:, ::-1]])
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        ends = np.searchsorted(both[:, 0], np.arange(1, nodes))
        self.listed: list[list[int]] = [
            neighbours.tolist() for neighbours in np.split(both[:, 1], ends)
        ]
        self.near = [set(nodes_near) for nodes_near in self.listed]
        self._positions = [
            dict(zip(nodes_near, range(len(nodes_near)), strict=True)) for nodes_near in self.listed
        ]

    def tie(self, first: int, second: int) -> int:
        """Add an edge; return how many triangles it closes."""
        for node, neighbour in ((first, second), (second, first)):
            self.near[node].add(neighbour)
            self._positions[node][neighbour] = len(self.listed[node])
            self.listed[node].append(neighbour)
        return len(self.near[first] & self.near[second])

    def cut(self, first: int, second: int) -> int:
        """Remove an edge; return how many triangles it was in."""
        for node, neighbour in ((first, second), (second, first)):
            self.near[node].discard(neighbour)
            listed, positions = self.listed[node], self._positions[node]
            at, last = positions.pop(neighbour), listed.pop()
            if last != neighbour:
                listed[at], positions[last] = last, at
        return len(self.near[first] & self.near[second])
