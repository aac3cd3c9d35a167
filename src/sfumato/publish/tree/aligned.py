"""Ladders whose blocks are those that a workload asks for: weeks of days, floors of rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.publish.tree.ladder import Ladder, balanced

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WIDEST = 2048
_QUERIES = 1024
"""Widths and queries that are looked at, at most."""
_OFTEN = 0.1
"""A width counts when more than chance, by this part, of the longer queries fit its blocks."""
_CONTENDERS = 64


def aligned_ladders(
    points: int, ranges: NDArray[np.int64], cuts: NDArray[np.int64] | None = None
) -> list[Ladder]:
    """Ladders through the widths at whose multiples many ranges of codes begin and end."""
    cells = points if cuts is None else len(cuts) - 1
    edges = np.stack([ranges[:, 0], ranges[:, 1] + 1], axis=1)
    if cuts is not None:
        edges = np.searchsorted(cuts, edges)
    lengths = edges[:, 1] - edges[:, 0]
    longer = edges[(lengths > 1) & (lengths < cells)]
    chain = _nested_widths(longer[:: len(longer) // _QUERIES + 1], cells)
    if not chain:
        return []
    lower = [
        prime
        for wide, narrow in zip(chain, [*chain[1:], 1], strict=True)
        for prime in _primes(wide // narrow)
    ]
    blocks = -(-cells // chain[0])
    depths = {1, max((blocks - 1).bit_length(), 1)}
    return [Ladder(points, (*balanced(blocks, depth), *lower), cuts) for depth in sorted(depths)]


def _nested_widths(edges: NDArray[np.int64], cells: int) -> list[int]:
    """Widths, each a multiple of the next, that serve the most and the longest queries."""
    widths = np.arange(2, min(cells // 2, _WIDEST) + 1)
    if not len(edges) or not len(widths):
        return []
    first, last = edges[:, :1], edges[:, 1:]
    fits = (first % widths == 0) & ((last % widths == 0) | (last == cells))
    often = (fits & (last - first >= widths)).mean(axis=0)
    enough = often >= _OFTEN + widths**-2.0
    chain: list[int] = []
    for place in np.argsort(-often * widths, kind="stable")[:_CONTENDERS]:
        width = int(widths[place])
        nests = all(width % one == 0 or one % width == 0 for one in chain)
        if enough[place] and nests:
            chain.append(width)
    return sorted(chain, reverse=True)


def _primes(number: int) -> list[int]:
    """The prime factors of a number, in order."""
    found = []
    factor = 2
    while factor * factor <= number:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return [*found, number] if number > 1 else found
