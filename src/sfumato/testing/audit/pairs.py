"""Neighbouring tables that tell a broken mechanism from a sound one.

The pair matters more than the number of draws: a median with noise of its local sensitivity looks
sound on most pairs and leaks wildly on one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.unit import Neighbours
from sfumato.testing.audit.verdict import Audit, Claim, Mechanism, audit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sfumato.arrays import IntArray
    from sfumato.privacy.noise.entropy import Entropy

Row = int | float | str | None | tuple[Any, ...]
Table = tuple[Row, ...]
Pair = tuple[Table, Table]


def patterns(size: int) -> list[tuple[IntArray, IntArray]]:
    """Give the answers of `size` queries of sensitivity 1 on neighbours (Ding et al. 2018)."""
    zero, one = np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.int64)
    first = zero.copy()
    first[0] = 1
    half = zero.copy()
    half[: size // 2] = 1
    return [
        (one, one + first),  # one above
        (one, one - first),  # one below
        (one, one + 2 * first - 1),  # one above, the rest below
        (one, one + 1 - 2 * first),  # one below, the rest above
        (one, one + 2 * half - 1),  # half and half
        (one, one + 1),  # all above
        (one, one - 1),  # all below
        (half, one - half),  # crossed
    ]


def small_tables(rows: Sequence[Row], *, relation: Neighbours, most: int = 3) -> Iterator[Pair]:
    """Give every pair of neighbouring tables of at most `most` rows taken from `rows`."""
    for size in range(most + 1):
        for table in combinations_with_replacement(rows, size):
            for other in neighbours(table, rows, relation=relation):
                if len(other) <= size:  # an addition is seen as a removal from the larger table
                    yield table, other


def neighbours(table: Table, rows: Sequence[Row], *, relation: Neighbours) -> list[Table]:
    """Give the tables that differ from this one in one person."""
    shorter = [(*table[:at], *table[at + 1 :]) for at in range(len(table))]
    if relation is Neighbours.ADD_REMOVE:
        return shorter + [(*table, row) for row in rows]
    return [(*rest, row) for rest in shorter for row in rows]


def worst(
    mechanism: Mechanism,
    pairs: Iterable[tuple[Any, Any]],
    claim: Claim,
    *,
    entropy: Entropy,
    draws: int = 5_000,
) -> tuple[Any, Any]:
    """Choose the pair on which a short audit sees most; audit that one afresh."""
    return max(pairs, key=lambda pair: _seen(mechanism, pair, claim, entropy, draws).lower_bound)


@dataclass
class _Choice:
    """Random choices for the search, drawn from an entropy source."""

    entropy: Entropy

    def below(self, bound: int) -> int:
        return int(self.entropy.words(1)[0] % np.uint64(bound))


def climb(
    mechanism: Mechanism,
    start: Pair,
    rows: Sequence[Row],
    claim: Claim,
    *,
    relation: Neighbours,
    entropy: Entropy,
    steps: int = 200,
    draws: int = 2_000,
) -> Pair:
    """Search for a worse pair: change the table or the one person who differs, keep what is worse.

    A step replaces, doubles or drops a row of both tables, or only chooses another neighbour.
    """
    choice = _Choice(entropy)
    # Under replace-one the number of rows is public and stays.
    moves = _MOVES if relation is Neighbours.ADD_REMOVE else _MOVES[:1]
    best, score = start, _seen(mechanism, start, claim, entropy, draws).lower_bound
    for _ in range(steps):
        table = best[0]
        if choice.below(2):
            table = moves[choice.below(len(moves))](table, rows, choice)
        others = neighbours(table, rows, relation=relation)
        pair = (table, others[choice.below(len(others))])
        found = _seen(mechanism, pair, claim, entropy, draws).lower_bound
        if found >= score:
            best, score = pair, found
    return best


def _seen(
    mechanism: Mechanism, pair: tuple[Any, Any], claim: Claim, entropy: Entropy, draws: int
) -> Audit:
    return audit(mechanism, pair, claim, entropy=entropy, draws=draws, alpha=1e-2)


def _replace(table: Table, rows: Sequence[Row], choice: _Choice) -> Table:
    if not table:
        return table
    at = choice.below(len(table))
    return (*table[:at], rows[choice.below(len(rows))], *table[at + 1 :])


def _duplicate(table: Table, rows: Sequence[Row], choice: _Choice) -> Table:
    return (*table, (table or rows)[choice.below(len(table or rows))])


def _drop(table: Table, rows: Sequence[Row], choice: _Choice) -> Table:
    if len(table) < 2:
        return tuple(rows)
    at = choice.below(len(table))
    return (*table[:at], *table[at + 1 :])


_MOVES: tuple[Callable[[Table, Sequence[Row], _Choice], Table], ...] = (_replace, _duplicate, _drop)
