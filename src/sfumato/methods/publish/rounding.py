"""Figures as they leave: on a decimal step far below their noise, so that people can read them.

Decision `exact-noise`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sfumato.arrays import FloatArray

# All figures of a table together are moved by less than half of the noise divided by this.
_FINER = 100
# The significant digits that a float surely has.
_DIGITS = 15
_SD_DIGITS = 6
_FIGURES = ("count", "running")


def readable(
    tables: Mapping[str, pa.Table], error: Mapping[str, Any], columns: tuple[str, ...]
) -> dict[str, pa.Table]:
    """Round estimated figures, by public facts alone; whole numbers and the `columns` stay."""
    sd = min(_stddevs(error), default=0.0)
    return {name: _readable(table, sd, columns) for name, table in tables.items()}


def _readable(table: pa.Table, sd: float, columns: tuple[str, ...]) -> pa.Table:
    for position, name in enumerate(table.column_names):
        if name in columns or not pa.types.is_float64(table[name].type):
            continue
        exact = table[name].to_numpy()
        if name in _FIGURES:
            rounded = np.round(exact, _decimals(exact, sd))
        elif name == "sd":
            rounded = _significant(exact)
        else:
            continue
        figures = rounded + 0.0  # no negative zero
        column = pa.array(figures, mask=np.isnan(figures))
        table = table.set_column(position, table.schema.field(position), column)
    return table


def _decimals(figures: FloatArray, sd: float) -> int:
    """Decimals so many that the sum of any of the figures is moved by less than its noise shows."""
    largest = float(np.nanmax(np.abs(figures), initial=1.0))
    most = _DIGITS - math.ceil(math.log10(largest))
    if sd <= 0:
        return most
    needed = math.ceil(math.log10(_FINER * max(len(figures), 1) / sd))
    return max(0, min(needed, most))


def _significant(values: FloatArray) -> FloatArray:
    """Each value to a few significant digits."""
    return np.array([float(f"{value:.{_SD_DIGITS}g}") for value in values])


def _stddevs(error: object) -> Iterator[float]:
    """Every standard deviation that is stated."""
    if isinstance(error, dict):
        sd = error.get("sd")
        if isinstance(sd, int | float) and sd > 0:
            yield float(sd)
        for value in error.values():
            yield from _stddevs(value)
    elif isinstance(error, list | tuple):
        for value in error:
            yield from _stddevs(value)
