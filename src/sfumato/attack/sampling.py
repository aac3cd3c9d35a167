"""Deterministic sampling: the people, questions and sets of columns that attacks try.

The numbers are pseudorandom and the same in every run, so the same tables give the same findings.
No secret depends on them: they only choose what the owner tries. Noise never comes from here.
Sets of columns are taken at even distances in lexicographic order.
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
    """Return pseudorandom 64-bit numbers; another `number` gives another sequence."""
    # Sequences are 2^40 apart, so they never overlap for any table.
    numbers = np.arange(size, dtype=np.uint64) + np.uint64((number + 1) << 40)
    for mixer in _MIXERS:
        numbers ^= numbers >> np.uint64(33)
        numbers *= np.uint64(mixer)
    numbers ^= numbers >> np.uint64(33)
    return numbers


def shuffled(size: int, number: int) -> IntArray:
    """Return a pseudorandom permutation of 0 .. size - 1."""
    return np.argsort(mixed(size, number), kind="stable")


def below(limit: int, size: int, number: int) -> IntArray:
    """Return pseudorandom whole numbers from 0 to below a limit; the bias is below 2^-32."""
    # Multiply and shift (Lemire 2019) in place of a remainder, without its rejection step.
    high = mixed(size, number) >> np.uint64(32)
    drawn: IntArray = ((high * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)
    return drawn


def subset(size: int, most: int, number: int) -> IntArray:
    """Return a sorted pseudorandom subset of 0 .. size - 1, of `most` numbers or all of them."""
    return np.arange(size) if size <= most else np.sort(shuffled(size, number)[:most])


def subsets(columns: int, size: int, most: int) -> list[tuple[int, ...]]:
    """Return sets of columns in lexicographic order: all, or `most` of them at even distances."""
    total = comb(columns, size)
    if total <= most:
        return list(combinations(range(columns), size))
    return [
        _set_at((2 * number + 1) * total // (2 * most), columns, size) for number in range(most)
    ]


def _set_at(number: int, columns: int, size: int) -> tuple[int, ...]:
    """Return the set at an index of the lexicographic order (combinatorial number system)."""
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
