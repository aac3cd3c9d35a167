"""Synthetic rows that are copies of original rows, and the number that a fresh sample would have.

*Expected*: leave each row of the original out in turn. It is still found among the others unless it
is unique, so the share of rows that are not unique estimates the copies in a fresh sample, almost
without bias (Good 1953). A table with more copies has stored rows. Copies of unique rows reveal
most. The share of rows that occur exactly twice estimates how many a fresh sample has of these.
Independent columns are no baseline: they hardly ever match a real row, and correlated columns, as
in a good synthetic table, do so much more often.
Both tables are united and counted in the engine of the original. Decision `large-releases`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from sfumato.data.engines.base import column
from sfumato.data.schema.names import free_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.engines.base import Engine

MOST_LOOKED_UP = 1_000_000
"""The largest number of distinct synthetic rows that are looked up."""


@dataclass(frozen=True)
class Copies:
    """The number of copies, of any row and of unique rows, with the numbers expected by chance."""

    exact: int
    expected: float
    unique: int
    unique_expected: float
    looked_at: int
    """The number of synthetic rows that were looked up: all, unless there are very many."""

    def json(self) -> dict[str, float]:
        """Return it as plain data for JSON."""
        return asdict(self)


def copies(
    original: tuple[Engine, exp.Table], synthetic: tuple[Engine, exp.Table], names: Sequence[str]
) -> Copies:
    """Count rows of a synthetic table that its original also has, by some columns."""
    engine, table = synthetic
    prefix = free_prefix(names)
    drawn_name, real_name, rows = (f"{prefix}{suffix}" for suffix in ("here", "there", "rows"))
    row_count = exp.cast(exp.Count(this=exp.Star()), "BIGINT")
    distinct = (
        exp.select(*map(column, names), row_count.as_(drawn_name))
        .from_(table.copy())
        .group_by(*map(column, names))
    )
    lent = engine.run(distinct.limit(MOST_LOOKED_UP))
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
    return count_copies(often, drawn, kinds)


def count_copies(often: np.ndarray, drawn: np.ndarray, kinds: np.ndarray) -> Copies:
    """Count copies and their expectation.

    Distinct rows are grouped by how often the original has them (`often`). For each group, `kinds`
    is the number of distinct rows, and `drawn` the number of synthetic rows that equal one of them.
    """
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
