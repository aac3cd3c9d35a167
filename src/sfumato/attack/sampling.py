"""Numbers that nothing explains, the same each time: attacks draw by them whom they try.

No secret hangs on them: what is drawn is the owner's choice of people and questions to try, and the
same tables are to be found the same. Noise comes from elsewhere.

Which sets of columns are looked at: all of them or, of very many, some that lie evenly spread.

No generator draws them: who asks twice gets the same answer twice.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import IntArray


_MIXERS = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)  # Appleby's finalizer of 64 bits


def mixed(size: int, number: int) -> NDArray[np.uint64]:
    """So many words of 64 bits; others for another number."""
    numbers = np.arange(size, dtype=np.uint64) + np.uint64((number + 1) << 40)
    for mixer in _MIXERS:
        numbers ^= numbers >> np.uint64(33)
        numbers *= np.uint64(mixer)
    numbers ^= numbers >> np.uint64(33)
    return numbers


def shuffled(size: int, number: int) -> IntArray:
    """The places 0 .. size - 1 in an order that nothing explains."""
    return np.argsort(mixed(size, number), kind="stable")


def below(limit: int, size: int, number: int) -> IntArray:
    """So many whole numbers from 0 to below a limit; unevenness is beyond 32 bits."""
    high = mixed(size, number) >> np.uint64(32)
    drawn: IntArray = ((high * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)
    return drawn


def subset(size: int, most: int, number: int) -> IntArray:
    """Some of the places 0 .. size - 1, in order; all of them where they are no more than that."""
    return np.arange(size) if size <= most else np.sort(shuffled(size, number)[:most])


def subsets(columns: int, size: int, most: int) -> list[tuple[int, ...]]:
    """Sets of columns in lexicographic order: all, or `most` of them at even distances."""
    total = comb(columns, size)
    if total <= most:
        return list(combinations(range(columns), size))
    return [
        _numbered((2 * number + 1) * total // (2 * most), columns, size) for number in range(most)
    ]


def _numbered(number: int, columns: int, size: int) -> tuple[int, ...]:
    """The set of a number in lexicographic order."""
    chosen: list[int] = []
    first = 0
    while len(chosen) < size:
        below = comb(columns - first - 1, size - len(chosen) - 1)
        if number < below:
            chosen.append(first)
        else:
            number -= below
        first += 1
    return tuple(chosen)
