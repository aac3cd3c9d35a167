"""Graphs drawn to degrees, and rewired until they have so many triangles (TriCycLe).

Everything here is drawn from public or already noisy figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.selection import uniform_integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy

_ROUNDS = 20
_MOST_STEPS = 1_000_000
_TRIES = 6
"""Steps of rewiring for each edge, after which a graph stays as it is."""


def chung_lu(degrees: NDArray[np.int64], entropy: Entropy) -> NDArray[np.int64]:
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
    edges: NDArray[np.int64], wanted: int, entropy: Entropy, kinds: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Swap edges until there are so many triangles; every node keeps its degree.

    With `kinds` of nodes, as many edges as before tie each two kinds.

    A step takes two neighbours of a node that are not tied, ties them, and ties the other ends of
    an edge of each that it takes away; it is undone where that makes no triangle more.
    """
    nodes = int(edges.max(initial=-1)) + 1
    near: list[set[int]] = [set() for _ in range(nodes)]
    for one, other in edges.tolist():
        near[one].add(other)
        near[other].add(one)
    listed = [sorted(one) for one in near]
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
        lost = _untie(near, listed, one, left) + _untie(near, listed, other, right)
        gained = _tie(near, listed, one, other) + _tie(near, listed, left, right)
        if gained > lost:
            held += gained - lost
            continue
        _untie(near, listed, left, right)
        _untie(near, listed, one, other)
        _tie(near, listed, other, right)
        _tie(near, listed, one, left)
    kept = [(one, other) for one, there in enumerate(near) for other in there if one < other]
    return np.array(sorted(kept), dtype=np.int64).reshape(-1, 2)


def _tie(near: list[set[int]], listed: list[list[int]], one: int, other: int) -> int:
    """Add an edge; how many triangles it makes."""
    for here, there in ((one, other), (other, one)):
        near[here].add(there)
        listed[here].append(there)
    return len(near[one] & near[other])


def _untie(near: list[set[int]], listed: list[list[int]], one: int, other: int) -> int:
    """Take an edge away; how many triangles it was in."""
    for here, there in ((one, other), (other, one)):
        near[here].discard(there)
        listed[here].remove(there)
    return len(near[one] & near[other])
