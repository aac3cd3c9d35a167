"""Neighbouring tables on which a broken mechanism is detected.

The pair matters more than the number of draws: a median with noise of its local sensitivity passes
on most pairs and leaks heavily on one.
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
    """Pairs of answers of `size` queries of sensitivity 1 on neighbours (Ding et al. 2018)."""
    zeros, ones = np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.int64)
    first = zeros.copy()
    first[0] = 1
    half = zeros.copy()
    half[: size // 2] = 1
    return [
        (ones, ones + first),  # one above
        (ones, ones - first),  # one below
        (ones, ones + 2 * first - 1),  # one above, the rest below
        (ones, ones + 1 - 2 * first),  # one below, the rest above
        (ones, ones + 2 * half - 1),  # half and half
        (ones, ones + 1),  # all above
        (ones, ones - 1),  # all below
        (half, ones - half),  # crossed
    ]


def small_tables(rows: Sequence[Row], *, relation: Neighbours, most: int = 3) -> Iterator[Pair]:
    """Every pair of neighbouring tables of at most `most` rows taken from `rows`."""
    for size in range(most + 1):
        for table in combinations_with_replacement(rows, size):
            for neighbour in neighbours(table, rows, relation=relation):
                if len(neighbour) <= size:  # additions are removals from the larger table
                    yield table, neighbour


def neighbours(table: Table, rows: Sequence[Row], *, relation: Neighbours) -> list[Table]:
    """The tables that differ from this one in one person."""
    shorter = [(*table[:at], *table[at + 1 :]) for at in range(len(table))]
    if relation is Neighbours.ADD_REMOVE:
        return shorter + [(*table, row) for row in rows]
    return [(*remaining, row) for remaining in shorter for row in rows]


def worst(
    mechanism: Mechanism,
    pairs: Iterable[tuple[Any, Any]],
    claim: Claim,
    *,
    entropy: Entropy,
    draws: int = 5_000,
) -> tuple[Any, Any]:
    """The pair with the largest bound in a short audit. Audit it again with fresh draws."""
    return max(
        pairs, key=lambda pair: _short_audit(mechanism, pair, claim, entropy, draws).lower_bound
    )


@dataclass
class _Choice:
    """Random choices for the search, drawn from an entropy source."""

    entropy: Entropy

    def below(self, bound: int) -> int:
        # The remainder is biased, but a search needs no exact distribution.
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
    """Search for a pair with a larger loss by hill climbing.

    A step replaces, duplicates or drops a row of both tables, or only chooses another neighbour. It
    is kept if a short audit gives a bound at least as large.
    """
    choice = _Choice(entropy)
    # Under replace-one the number of rows is public and stays.
    moves = _MOVES if relation is Neighbours.ADD_REMOVE else _MOVES[:1]
    best, score = start, _short_audit(mechanism, start, claim, entropy, draws).lower_bound
    for _ in range(steps):
        table = best[0]
        # Half of the steps keep the table, to try its other neighbours.
        if choice.below(2):
            table = moves[choice.below(len(moves))](table, rows, choice)
        candidates = neighbours(table, rows, relation=relation)
        pair = (table, candidates[choice.below(len(candidates))])
        new_score = _short_audit(mechanism, pair, claim, entropy, draws).lower_bound
        if new_score >= score:
            best, score = pair, new_score
    return best


def _short_audit(
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
