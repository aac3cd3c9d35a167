"""Noisy tables that fit together: one number of rows, no negative counts, the same columns.

All of it is post-processing. Least squares bring together what several tables tell of a column;
a column is then brought to the nearest counts without negative ones, and larger tables to the sums
of their columns.

Decision 0261.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.synth.log import MeasurementLog
    from sfumato.synth.shape import Set

    Floats = NDArray[np.float64]


def nonnegative(table: Floats, total: float) -> Floats:
    """The nearest table without negative counts that adds up to a total above 0."""
    flat = np.sort(table, axis=None)[::-1]
    excess = (np.cumsum(flat) - total) / np.arange(1, flat.size + 1)
    last = np.flatnonzero(flat > excess)
    level = excess[last[-1]] if len(last) else flat[0] - total
    kept: Floats = np.maximum(table - level, 0)
    return np.asarray(kept * (total / kept.sum()))


def with_margins(table: Floats, margins: Sequence[Floats], *, rounds: int = 30) -> Floats:
    """The table nearest in proportions that has these sums along each of its axes.

    Cells that are not positive become a small share of what independence would give.
    """
    fitted = np.maximum(table, _FAINT * independent(margins))
    for _ in range(rounds):
        for axis, margin in enumerate(margins):
            others = tuple(other for other in range(fitted.ndim) if other != axis)
            found = fitted.sum(axis=others)
            factor = np.divide(margin, found, out=np.zeros_like(margin), where=found > 0)
            fitted *= factor.reshape([-1 if other == axis else 1 for other in range(fitted.ndim)])
    return fitted


_FAINT = 1e-3


def independent(margins: Sequence[Floats]) -> Floats:
    """The table of columns that have these sums and nothing to do with each other."""
    total = margins[0].sum()
    table = np.full((), total)
    for margin in margins:
        table = table[..., None] * (margin / total)
    return table


def consistent_tables(log: MeasurementLog) -> tuple[dict[Set, Floats], float]:
    """Every measured set, and every column, as non-negative counts that agree on columns.

    All tables of the log are brought together by least squares first. Gives the total as well.
    """
    singles: list[Set] = [(column,) for column in log.shape.columns]
    estimate = log.estimate(singles)
    total = max(float(estimate.table(()).item()), 1.0)
    tables: dict[Set, Floats] = {one: nonnegative(estimate.table(one), total) for one in singles}
    for one in sorted(log.measured, key=len):
        if len(one) > 1:
            margins = [tables[(column,)] for column in one]
            tables[one] = with_margins(estimate.table(one), margins)
    return tables, total
