"""Which sets of columns are looked at: all of them or, of very many, some that lie evenly spread.

No generator draws them: who asks twice gets the same answer twice.
"""

from __future__ import annotations

from itertools import combinations
from math import comb


def subsets(columns: int, size: int, most: int) -> list[tuple[int, ...]]:
    """Sets of columns in lexicographic order: all, or `most` of them at even distances."""
    total = comb(columns, size)
    if total <= most:
        return list(combinations(range(columns), size))
    return [
        _numbered((2 * place + 1) * total // (2 * most), columns, size) for place in range(most)
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
