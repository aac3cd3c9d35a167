"""Small tables of transactions and all their neighbours, by brute force."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING

import numpy as np

from sfumato.sets.profiles import RowSets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Table = tuple[tuple[int, ...], ...]


def transactions(table: Sequence[Sequence[int]], kinds: int) -> RowSets:
    """Transactions written as the items of each."""
    many = Counter(tuple(one) for one in table)
    has = np.zeros((len(many), kinds), dtype=np.int64)
    for place, items in enumerate(many):
        has[place, list(items)] = 1
    named = [(place, 1) for place in range(kinds)]
    return RowSets(list(has.T), np.array([*many.values()], dtype=np.int64), named)


def all_transactions(kinds: int) -> list[tuple[int, ...]]:
    """Every set of items that somebody can have."""
    return [
        tuple(np.flatnonzero(one).tolist()) for one in product((0, 1), repeat=kinds) if any(one)
    ]


def added(kinds: int, people: int) -> Iterator[tuple[Table, Table]]:
    """Every small table, beside every one that has a person more."""
    every = all_transactions(kinds)
    for table in combinations_with_replacement(every, people):
        for one in every:
            yield table, (*table, one)


def replaced(kinds: int, people: int) -> Iterator[tuple[Table, Table]]:
    """Every small table, beside every one in which a person is another."""
    every = all_transactions(kinds)
    for table in combinations_with_replacement(every, people - 1):
        for place, one in enumerate(every):
            for other in every[place + 1 :]:
                yield (*table, one), (*table, other)
