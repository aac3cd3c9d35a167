"""Synthetic rows that are copies of original rows, and how many a fresh sample would have.

*Expected*: the share of the original's rows with a twin among the others estimates, almost without
bias, the copies in a fresh sample of the same people: leave each row out in turn and ask whether it
is still there, which it is unless it is unique (Good 1953). A table with more copies has stored
rows. Copies of unique rows reveal most; a fresh sample has as many as the share of rows in pairs.
Independence is no measure: independent columns would hardly ever match a real row, while correlated
columns, as in a good synthetic table, do so much more often.
Both tables are united and counted in the engine of the original. Decision `large-releases`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from sfumato.data.engines.base import column
from sfumato.data.schema.names import free_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.engines.base import Engine

MOST_LENT = 1_000_000
"""So many different rows of the synthetic table are looked for; of more, the share is told."""


@dataclass(frozen=True)
class Copies:
    """How many rows are copies, of any row and of rows that are one of a kind."""

    exact: int
    expected: float
    unique: int
    unique_expected: float
    looked_at: int
    """Of so many synthetic rows: all of them, unless there are very many."""

    def json(self) -> dict[str, float]:
        """All of it, ready to be written."""
        return {
            "exact": self.exact,
            "expected": self.expected,
            "unique": self.unique,
            "unique_expected": self.unique_expected,
            "looked_at": self.looked_at,
        }


def copies(
    original: tuple[Engine, exp.Table], synthetic: tuple[Engine, exp.Table], names: Sequence[str]
) -> Copies:
    """Look for the rows of one table in another, by some columns."""
    engine, table = synthetic
    prefix = free_prefix(names)
    drawn_name, real_name, rows = (f"{prefix}{suffix}" for suffix in ("here", "there", "rows"))
    row_count = exp.cast(exp.Count(this=exp.Star()), "BIGINT")
    distinct = (
        exp.select(*map(column, names), row_count.as_(drawn_name))
        .from_(table.copy())
        .group_by(*map(column, names))
    )
    lent = engine.run(distinct.limit(MOST_LENT))
    engine, table = original
    with engine.lend(lent) as ours:
        zero = exp.cast(exp.convert(0), "BIGINT")
        unit = exp.cast(exp.convert(1), "BIGINT")
        both = exp.union(
            exp.select(*map(column, names), zero.as_(drawn_name), unit.as_(real_name)).from_(
                table.copy()
            ),
            exp.select(*map(column, names), column(drawn_name), zero.copy().as_(real_name)).from_(
                ours
            ),
            distinct=False,
        )
        sums = [
            exp.cast(exp.Sum(this=column(name)), "BIGINT").as_(name)
            for name in (drawn_name, real_name)
        ]
        combined = exp.select(*sums).from_(both.subquery("sf_both")).group_by(*map(column, names))
        total = exp.cast(exp.Sum(this=column(drawn_name)), "BIGINT").as_(drawn_name)
        query = (
            exp.select(column(real_name), total, row_count.copy().as_(rows))
            .from_(combined.subquery("sf_combined"))
            .group_by(column(real_name))
        )
        kinds_counted = engine.run(query)
    often, drawn, kinds = (
        kinds_counted.column(name).to_numpy().astype(np.int64)
        for name in (real_name, drawn_name, rows)
    )
    return tallied(often, drawn, kinds)


def tallied(often: np.ndarray, drawn: np.ndarray, kinds: np.ndarray) -> Copies:
    """Of kinds of rows that the original has so often: how many there are, and were drawn."""
    real, all_drawn = int((often * kinds).sum()), int(drawn.sum())
    alone = int(kinds[often == 1].sum())
    in_pairs = 2 * int(kinds[often == 2].sum())
    return Copies(
        exact=int(drawn[often > 0].sum()),
        expected=all_drawn * (1 - alone / real),
        unique=int(drawn[often == 1].sum()),
        unique_expected=all_drawn * in_pairs / real,
        looked_at=all_drawn,
    )
