"""A graph drawn to given degrees, and to how often which kinds of nodes are tied.

Everything here is drawn from public or already noisy figures.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.noise.selection import permutation, uniform_integers

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy


_ROUNDS = 100
_MOST_SWAPS = 400_000


def shares(noisy: IntArray) -> FloatArray:
    """Shares nearest to noisy counts: one amount less of each, none below 0 (least squares)."""
    total = max(float(noisy.sum()), 1.0)
    falling = np.sort(noisy.astype(np.float64))[::-1]
    less = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    amount = less[np.flatnonzero(falling > less)[-1]]
    return np.asarray(np.maximum(noisy - amount, 0) / total)


def whole(parts: FloatArray, total: int) -> IntArray:
    """Whole numbers of such shares that sum to a total: the largest remainders are rounded up."""
    exact = parts / parts.sum() * total
    found: IntArray = np.floor(exact).astype(np.int64)
    found[np.argsort(found - exact, kind="stable")[: total - int(found.sum())]] += 1
    return found


def triangle(cells: int) -> tuple[IntArray, IntArray]:
    """The two kinds of each cell of an upper triangle, row by row."""
    low, high = np.triu_indices((isqrt(8 * cells + 1) - 1) // 2)
    return low, high


def ends_of(wanted: IntArray) -> IntArray:
    """How many ends of edges each kind has, where so many edges tie each two kinds."""
    every = np.concatenate(triangle(len(wanted)))
    return np.bincount(every, np.tile(wanted, 2)).astype(np.int64)


def assigned(degrees: IntArray, kinds: IntArray, ends: IntArray, entropy: Entropy) -> IntArray:
    """Give nodes their kinds, so many of each, so that each kind has about so many ends of edges.

    At random first; then nodes exchange kinds where that brings both kinds nearer.
    """
    codes = np.repeat(np.arange(len(kinds)), kinds)[permutation(len(degrees), entropy)]
    over = (np.bincount(codes, degrees, minlength=len(kinds)).astype(np.int64) - ends).tolist()
    tries = min(4 * len(degrees), _MOST_SWAPS) if len(kinds) > 1 else 0
    drawn = uniform_integers(max(len(degrees), 1), 2 * tries, entropy).reshape(-1, 2).tolist()
    held, ties = codes.tolist(), degrees.tolist()
    for one, other in drawn:
        here, there, moved = held[one], held[other], ties[one] - ties[other]
        after = abs(over[here] - moved) + abs(over[there] + moved)
        if here != there and after < abs(over[here]) + abs(over[there]):
            over[here], over[there] = over[here] - moved, over[there] + moved
            held[one], held[other] = there, here
    return np.array(held, dtype=np.int64)


def drawn_edges(degrees: IntArray, codes: IntArray, wanted: IntArray, entropy: Entropy) -> IntArray:
    """Edges between kinds, so many of each pair of them; nodes have their degrees where they can.

    Ends are dealt to edges at random within kinds. A kind that has too few gets more, by degree.
    """
    every = triangle(len(wanted))
    need = ends_of(wanted)
    dealt = [_dealt(np.flatnonzero(codes == one), degrees, many, entropy)
             for one, many in enumerate(need.tolist())]  # fmt: skip
    first: list[IntArray] = []
    second: list[IntArray] = []
    cells, used = [], [0] * len(dealt)
    for cell, (one, other, many) in enumerate(zip(*every, wanted.tolist(), strict=True)):
        if len(dealt[one]) and len(dealt[other]):
            for side, kind in ((first, one), (second, other)):
                side.append(dealt[kind][used[kind] : used[kind] + many])
                used[kind] += many
            cells.append(np.full(many, cell))
    if not cells:
        return np.zeros((0, 2), dtype=np.int64)
    pairs = np.stack([np.concatenate(first), np.concatenate(second)], axis=1)
    return _simple(pairs, np.concatenate(cells), entropy)


def _dealt(nodes: IntArray, degrees: IntArray, many: int, entropy: Entropy) -> IntArray:
    """So many ends of edges at these nodes, by their degrees, in a random order."""
    stubs = np.repeat(nodes, degrees[nodes])
    stubs = stubs if len(stubs) else nodes
    if not len(stubs):
        return stubs
    stubs = stubs[permutation(len(stubs), entropy)]
    more = stubs[uniform_integers(len(stubs), max(many - len(stubs), 0), entropy)]
    return np.concatenate([stubs, more])[:many]


def _simple(pairs: IntArray, cells: IntArray, entropy: Entropy) -> IntArray:
    """Exchange ends within cells until no edge is a loop or a repeat; what still is, goes."""
    starts = np.searchsorted(cells, np.arange(int(cells.max(initial=0)) + 2))
    for _ in range(_ROUNDS):
        bad = _bad(pairs)
        if not len(bad):
            break
        sizes = (starts[1:] - starts[:-1])[cells[bad]]
        other = starts[cells[bad]] + uniform_integers(1 << 40, len(bad), entropy) % sizes
        other, once = np.unique(other, return_index=True)
        fresh = ~np.isin(other, bad)
        here, there = bad[once][fresh], other[fresh]
        pairs[here, 1], pairs[there, 1] = pairs[there, 1], pairs[here, 1]
    kept = np.sort(np.delete(pairs, _bad(pairs), axis=0), axis=1)
    return kept[np.lexsort((kept[:, 1], kept[:, 0]))]


def _bad(pairs: IntArray) -> IntArray:
    """The places of loops, and of edges that came before."""
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    number = low * (int(pairs.max(initial=0)) + 1) + high
    repeat = np.ones(len(pairs), dtype=bool)
    repeat[np.unique(number, return_index=True)[1]] = False
    return np.flatnonzero(repeat | (low == high))
