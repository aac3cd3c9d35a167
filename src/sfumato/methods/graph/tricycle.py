"""Graphs drawn to degrees, and rewired until they have so many triangles (TriCycLe).

Everything here is drawn from public or already noisy figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.noise.selection import uniform_integers

if TYPE_CHECKING:
    from sfumato.arrays import IntArray
    from sfumato.privacy.noise.entropy import Entropy

_ROUNDS = 20
_MOST_STEPS = 1_000_000
# Steps of rewiring for each edge, after which a graph stays as it is.
_TRIES = 6


def chung_lu(degrees: IntArray, entropy: Entropy) -> IntArray:
    """Edges whose ends are drawn by degree; loops and repeats are drawn again."""
    stubs = np.repeat(np.arange(len(degrees)), degrees)
    edge_count, edges = int(degrees.sum()) // 2, np.zeros((0, 2), dtype=np.int64)
    for _ in range(_ROUNDS):
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
    """Swap edges until there are so many triangles; every node keeps its degree.

    With `kinds` of nodes, as many edges as before tie each two kinds.

    A step takes two neighbours of a node that are not tied, ties them, and ties the other ends of
    an edge of each that it takes away; it is undone where that makes no triangle more.
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
        middle = ends[first % len(ends)]  # by degree, which never changes
        near_first, near_second = (listed[middle][at % len(listed[middle])] for at in draws[:2])
        if near_first == near_second or near_second in near[near_first]:
            continue
        third, fourth = (
            listed[end][at % len(listed[end])]
            for end, at in zip((near_first, near_second), draws[2:], strict=True)
        )
        if middle in (third, fourth) or third == fourth or fourth in near[third]:
            continue
        # Else a swap would change which kinds are tied.
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
    """The neighbours of each node, to look up, to draw from and to change, whatever its degree."""

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
        """Add an edge; how many triangles it makes."""
        for node, neighbour in ((first, second), (second, first)):
            self.near[node].add(neighbour)
            self._positions[node][neighbour] = len(self.listed[node])
            self.listed[node].append(neighbour)
        return len(self.near[first] & self.near[second])

    def cut(self, first: int, second: int) -> int:
        """Take an edge away; how many triangles it was in."""
        for node, neighbour in ((first, second), (second, first)):
            self.near[node].discard(neighbour)
            listed, positions = self.listed[node], self._positions[node]
            at, last = positions.pop(neighbour), listed.pop()
            if last != neighbour:
                listed[at], positions[last] = last, at
        return len(self.near[first] & self.near[second])
