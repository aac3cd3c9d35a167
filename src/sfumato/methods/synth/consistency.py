"""Noisy tables that fit together: one number of rows, no negative counts, the same columns.

All of it is post-processing. Least squares bring together what several tables tell of a column;
a column is then brought to the nearest counts without negative ones, and larger tables to the sums
of their columns.

Decision `synthetic-rows`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray
    from sfumato.methods.synth.measurement_log import ColumnSet, MeasurementLog

    Allowed = NDArray[np.bool_]


def nonnegative(table: FloatArray, total: float) -> FloatArray:
    """The nearest table without negative counts that adds up to a total above 0."""
    flat = np.sort(table, axis=None)[::-1]
    excess = (np.cumsum(flat) - total) / np.arange(1, flat.size + 1)
    last = np.flatnonzero(flat > excess)
    level = excess[last[-1]] if len(last) else flat[0] - total
    clipped: FloatArray = np.maximum(table - level, 0)
    return np.asarray(clipped * (total / clipped.sum()))


def with_margins(
    table: FloatArray,
    margins: Sequence[FloatArray],
    *,
    rounds: int = 30,
    allowed: Allowed | np.bool_ = np.True_,
) -> FloatArray:
    """The table nearest in proportions that has these sums along each of its axes.

    Cells that are not positive become a small share of what independence would give; but those that
    are not allowed are 0.
    """
    fitted = np.maximum(table, _FAINT * independent(margins)) * allowed
    for _ in range(rounds):
        for axis, margin in enumerate(margins):
            summed_axes = tuple(index for index in range(fitted.ndim) if index != axis)
            sums = fitted.sum(axis=summed_axes)
            factor = np.divide(margin, sums, out=np.zeros_like(margin), where=sums > 0)
            fitted *= factor.reshape([-1 if index == axis else 1 for index in range(fitted.ndim)])
    return fitted


_FAINT = 1e-3
_HARDLY = 1e-3
_ROUNDS_OF_POSSIBLE = 200
"""Where much is impossible, scaling takes longer."""


def independent(margins: Sequence[FloatArray]) -> FloatArray:
    """The table of columns that have these sums and nothing to do with each other."""
    total = margins[0].sum()
    table = np.full((), total)
    for margin in margins:
        table = table[..., None] * (margin / total)
    return table


def consistent_tables(log: MeasurementLog) -> tuple[dict[ColumnSet, FloatArray], float]:
    """Every measured set, and every column, as non-negative counts that agree on columns.

    All tables of the log are brought together by least squares first. Gives the total as well.
    """
    singles: list[ColumnSet] = [(column,) for column in log.shape.columns]
    estimate = log.estimate(singles)
    total = max(float(estimate.table(()).item()), 1.0)
    tables: dict[ColumnSet, FloatArray] = {
        single: nonnegative(estimate.table(single), total) for single in singles
    }
    for columns in sorted(log.measured, key=len):
        if len(columns) > 1:
            margins = [tables[(column,)] for column in columns]
            tables[columns] = with_margins(estimate.table(columns), margins)
    return tables, total


def only_possible(
    tables: Mapping[ColumnSet, FloatArray], possible: Mapping[ColumnSet, Allowed]
) -> dict[ColumnSet, FloatArray]:
    """The same tables with nothing in impossible cells, and columns as they were.

    Where no table has all columns of a constraint there is one more, in which they are as
    independent as can be. Where hardly anything is possible by the columns, tables stay.
    """
    held = dict(tables)
    for tied_columns in possible:
        if not any(set(tied_columns) <= set(columns) for columns in tables):
            held[tied_columns] = independent([tables[(column,)] for column in tied_columns])
    for columns, table in held.items():
        within = [tied_columns for tied_columns in possible if set(tied_columns) <= set(columns)]
        if not within:
            continue
        allowed = np.ones(table.shape, dtype=bool)
        for tied_columns in within:
            sizes = [
                size if column in tied_columns else 1
                for column, size in zip(columns, table.shape, strict=True)
            ]
            allowed &= possible[tied_columns].reshape(sizes)
        margins = [tables[(column,)] for column in columns]
        fitted = with_margins(table, margins, rounds=_ROUNDS_OF_POSSIBLE, allowed=allowed)
        if fitted.sum() > _HARDLY * table.sum():
            held[columns] = fitted * (table.sum() / fitted.sum())
    return held
