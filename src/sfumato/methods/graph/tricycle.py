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
_TRIES = 6
"""Steps of rewiring for each edge, after which a graph stays as it is."""


def chung_lu(degrees: IntArray, entropy: Entropy) -> IntArray:
    """Edges whose ends are drawn by degree; loops and repeats are drawn again."""
    stubs = np.repeat(np.arange(len(degrees)), degrees)
    wanted, kept = int(degrees.sum()) // 2, np.zeros((0, 2), dtype=np.int64)
    for _ in range(_ROUNDS):
        missing = wanted - len(kept)
        if missing <= 0 or not len(stubs):
            break
        drawn = stubs[uniform_integers(len(stubs), 2 * missing, entropy)].reshape(-1, 2)
        drawn = np.sort(drawn[drawn[:, 0] != drawn[:, 1]], axis=1)
        kept = np.unique(np.concatenate([kept, drawn]), axis=0)
    return kept


def with_triangles(
    edges: IntArray, wanted: int, entropy: Entropy, kinds: IntArray | None = None
) -> IntArray:
    """Swap edges until there are so many triangles; every node keeps its degree.

    With `kinds` of nodes, as many edges as before tie each two kinds.

    A step takes two neighbours of a node that are not tied, ties them, and ties the other ends of
    an edge of each that it takes away; it is undone where that makes no triangle more.
    """
    ties = _Ties(int(edges.max(initial=-1)) + 1, edges)
    near, listed = ties.near, ties.listed
    held = sum(len(near[one] & near[other]) for one, other in edges.tolist()) // 3
    ends = edges.ravel().tolist()
    held_kinds = [] if kinds is None else kinds.tolist()
    steps = min(_TRIES * len(edges), _MOST_STEPS)
    drawn = uniform_integers(1 << 40, 5 * steps, entropy).reshape(-1, 5).tolist()
    for first, *rest in drawn if ends else ():
        if held >= wanted:
            break
        middle = ends[first % len(ends)]  # by degree, which never changes
        one, other = (listed[middle][at % len(listed[middle])] for at in rest[:2])
        if one == other or other in near[one]:
            continue
        left, right = (
            listed[end][at % len(listed[end])]
            for end, at in zip((one, other), rest[2:], strict=True)
        )
        if middle in (left, right) or left == right or right in near[left]:
            continue
        # Else a swap would change which kinds are tied.
        if held_kinds and (
            held_kinds[left] != held_kinds[other] and held_kinds[one] != held_kinds[right]
        ):
            continue
        lost = ties.cut(one, left) + ties.cut(other, right)
        gained = ties.tie(one, other) + ties.tie(left, right)
        if gained > lost:
            held += gained - lost
            continue
        ties.cut(left, right)
        ties.cut(one, other)
        ties.tie(other, right)
        ties.tie(one, left)
    kept = [(one, other) for one, there in enumerate(near) for other in there if one < other]
    return np.array(sorted(kept), dtype=np.int64).reshape(-1, 2)


class _Ties:
    """The neighbours of each node, to look up, to draw from and to change, whatever its degree."""

    def __init__(self, nodes: int, edges: IntArray) -> None:
        both = np.concatenate([edges, edges[:, ::-1]])
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        ends = np.searchsorted(both[:, 0], np.arange(1, nodes))
        self.listed: list[list[int]] = [part.tolist() for part in np.split(both[:, 1], ends)]
        self.near = [set(one) for one in self.listed]
        self._places = [dict(zip(one, range(len(one)), strict=True)) for one in self.listed]

    def tie(self, one: int, other: int) -> int:
        """Add an edge; how many triangles it makes."""
        for here, there in ((one, other), (other, one)):
            self.near[here].add(there)
            self._places[here][there] = len(self.listed[here])
            self.listed[here].append(there)
        return len(self.near[one] & self.near[other])

    def cut(self, one: int, other: int) -> int:
        """Take an edge away; how many triangles it was in."""
        for here, there in ((one, other), (other, one)):
            self.near[here].discard(there)
            listed, places = self.listed[here], self._places[here]
            at, last = places.pop(there), listed.pop()
            if last != there:
                listed[at], places[last] = last, at
        return len(self.near[one] & self.near[other])
