"""Which items are counted together: bases, which cover the items and pairs that were chosen.

All here is made of choices that were paid for already, so it costs nothing.
*Reference*: Li, Qardaji, Su & Cao 2012, section 4.3 and Algorithm 2.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import BoolArray, FloatArray, IntArray


MOST_LENGTH = 12
"""A base has at most so many items: it has two to that power bins."""


def bases(items: int, pairs: Sequence[tuple[int, int]], power: int) -> list[IntArray]:
    """Sets of the items, from 0 on, such that each item and each pair is in one of them.

    Noise is the louder the more bases there are, and the sum of the more bins the longer a base.
    They begin as the cliques of the pairs, and what no pair has in groups; then two are made one
    as long as the items, pairs and triangles are off by less on average. `power` says how the
    variance of a bin grows with the number of bases: squared for Laplace noise, as it is for
    Gaussian.
    """
    neighbours = [0] * items
    for one, other in pairs:
        neighbours[one] |= 1 << other
        neighbours[other] |= 1 << one
    alone = [one for one in range(items) if not neighbours[one]]
    together = power + 1  # the best size for items that go with none
    found = [alone[start : start + together] for start in range(0, len(alone), together)]
    for clique in _cliques(neighbours):
        found += [clique[at : at + MOST_LENGTH] for at in range(0, len(clique), MOST_LENGTH)]
    members = np.zeros((len(found), items), dtype=bool)
    for place, base in enumerate(found):
        members[place, base] = True
    merged = _merged(members, _asked(items, pairs, neighbours), power)
    return [np.flatnonzero(one) for one in merged]


def _cliques(neighbours: list[int]) -> list[list[int]]:
    """The largest sets of at least two items of which any two are a pair."""
    found: list[int] = []

    def grow(clique: int, possible: int, done: int) -> None:
        if not possible:
            if not done:
                found.append(clique)
            return
        pivot = max(
            _bits(possible | done), key=lambda one: (neighbours[one] & possible).bit_count()
        )
        for one in _bits(possible & ~neighbours[pivot]):
            grow(clique | 1 << one, possible & neighbours[one], done & neighbours[one])
            possible &= ~(1 << one)
            done |= 1 << one

    grow(0, sum(1 << one for one, near in enumerate(neighbours) if near), 0)
    return [_bits(one) for one in found if one]


def _bits(number: int) -> list[int]:
    return [place for place in range(number.bit_length()) if number >> place & 1]


def _asked(items: int, pairs: Sequence[tuple[int, int]], neighbours: list[int]) -> BoolArray:
    """What should be told well: each item, each pair, and each three that are all pairs."""
    triangles = [
        (one, other, third)
        for one, other in pairs
        for third in _bits(neighbours[one] & neighbours[other])
        if third > max(one, other)
    ]
    wanted = [*((one,) for one in range(items)), *pairs, *triangles]
    asked = np.zeros((len(wanted), items), dtype=bool)
    for place, one in enumerate(wanted):
        asked[place, list(one)] = True
    return asked


def _merged(members: BoolArray, asked: BoolArray, power: int) -> BoolArray:
    """Make two bases one, the best two first, while the asked sets are off by less for it."""
    sizes = asked.sum(axis=1)

    def weights(bases: BoolArray) -> FloatArray:
        """How much each base says of each asked set: nothing, or the more the shorter it is."""
        inside = asked.astype(np.float32) @ bases.T.astype(np.float32) == sizes[:, None]
        return np.where(inside, 2.0 ** -bases.sum(axis=1), 0.0)

    while len(members) > 1:
        each = weights(members)
        said = each.sum(axis=1)
        first, second = map(np.array, zip(*combinations(range(len(members)), 2), strict=True))
        unions = members[first] | members[second]
        short = unions.sum(axis=1) <= MOST_LENGTH
        if not short.any():
            return members
        first, second, unions = first[short], second[short], unions[short]
        would = said[:, None] - each[:, first] - each[:, second] + weights(unions)
        scale = 2.0**-sizes
        now = len(members) ** power * float((scale / said).sum())
        then = (len(members) - 1) ** power * (scale[:, None] / would).sum(axis=0)
        best = int(np.argmin(then))
        if then[best] >= now:
            return members
        union = unions[best]
        kept = (members & ~union).any(axis=1)
        members = np.concatenate([members[kept], union[None]])
    return members
