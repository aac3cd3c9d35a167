"""Graphs drawn to degrees, and rewired until they have so many triangles (TriCycLe).

Everything here is drawn from public or already noisy figures.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.selection import permutation, uniform_integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy

_ROUNDS = 20
_TRIES = 30
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
    edges: NDArray[np.int64], degrees: NDArray[np.int64], wanted: int, entropy: Entropy
) -> NDArray[np.int64]:
    """Replace the oldest edges by edges between nodes that share a neighbour, until it is enough.

    A step takes a node by degree, a neighbour of it and a neighbour of that one, and ties the ends
    where that loses no triangle in all.
    """
    stubs = np.repeat(np.arange(len(degrees)), degrees)
    if not len(edges) or not len(stubs):
        return edges
    queue = deque(map(tuple, edges[permutation(len(edges), entropy)].tolist()))
    near: list[set[int]] = [set() for _ in degrees]
    for one, other in queue:
        near[one].add(other)
        near[other].add(one)
    listed = [list(one) for one in near]
    held = sum(len(near[one] & near[other]) for one, other in queue) // 3
    steps = _TRIES * len(edges)
    starts = stubs[uniform_integers(len(stubs), steps, entropy)].tolist()
    draws = uniform_integers(1 << 40, 2 * steps, entropy).tolist()
    for at, start in enumerate(starts):
        if held >= wanted:
            break
        if not listed[start]:
            continue
        middle = listed[start][draws[2 * at] % len(listed[start])]
        end = listed[middle][draws[2 * at + 1] % len(listed[middle])]
        if end == start or end in near[start]:
            continue
        one, other = queue.popleft()
        lost = len(near[one] & near[other])
        _untie(near, listed, one, other)
        gained = len(near[start] & near[end])
        if gained < lost or (gained == 0):
            _tie(near, listed, one, other)
            queue.append((one, other))
            continue
        _tie(near, listed, start, end)
        queue.append((min(start, end), max(start, end)))
        held += gained - lost
    return np.array(sorted(queue), dtype=np.int64).reshape(-1, 2)


def _tie(near: list[set[int]], listed: list[list[int]], one: int, other: int) -> None:
    for here, there in ((one, other), (other, one)):
        near[here].add(there)
        listed[here].append(there)


def _untie(near: list[set[int]], listed: list[list[int]], one: int, other: int) -> None:
    for here, there in ((one, other), (other, one)):
        near[here].discard(there)
        listed[here].remove(there)
