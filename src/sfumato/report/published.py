"""Published statistics as pictures: counts along a line, over a map, or in boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.report import charts
from sfumato.report.blocks import Heading, Mosaic, Table
from sfumato.report.maps import Rectangle, boxes_map

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.report.blocks import Block

_BARS = 30
_LISTED = 20
_LARGEST_MAP = 256 * 256


def pictures(columns: Sequence[str], tables: Mapping[str, pa.Table]) -> list[Block]:
    """The first table of a publication, as a picture where there is one for it, and in figures."""
    name, table = next(iter(tables.items()))
    rows = [tuple(map(_shown, row.values())) for row in table.slice(0, _LISTED).to_pylist()]
    caption = f"The first rows of {name}, of {table.num_rows:,}"
    listed = Table(caption, table.column_names, rows, folded=True)
    return [Heading("What was published"), *_drawn(columns, table), listed]


def _drawn(columns: Sequence[str], table: pa.Table) -> list[Block]:
    """A picture of counts by one or two columns; nothing where none would help."""
    if {f"{column}_{end}" for column in columns for end in ("low", "high")} <= {
        *table.column_names
    }:
        return _boxes(columns, table) if len(columns) == 2 else []
    figure = next((one for one in ("count", "running") if one in table.column_names), None)
    if figure is None or not {*columns} <= {*table.column_names}:
        return []
    for column in columns:
        table = table.filter(table.column(column).is_valid())
    if len(columns) == 1:
        return _line(columns[0], figure, table)
    return _map(columns, figure, table) if len(columns) == 2 else []


def _line(column: str, figure: str, table: pa.Table) -> list[Block]:
    values, counts = table.column(column), table.column(figure).to_pylist()
    label = f"{figure.capitalize()} by {column}"
    if table.num_rows <= _BARS or not _ordered(values.type):
        named = [
            (str(value), count) for value, count in zip(values.to_pylist(), counts, strict=True)
        ]
        bars = sorted(named, key=lambda one: -one[1])[:_BARS]
        if min((count for _, count in bars), default=0) < 0:
            return []
        return [charts.bar(bars, label=label, what=column, value=figure.capitalize())]
    points = [
        charts.Point(column, float(at), float(count))
        for at, count in zip(_numbers(values), counts, strict=True)
    ]
    first = f" (days since {values[0]})" if pa.types.is_date(values.type) else ""
    return [charts.line(points, label=label, x=column + first, y=figure, series="Column")]


def _map(columns: Sequence[str], figure: str, table: pa.Table) -> list[Block]:
    """Every combination of two columns' values, if there are not too many for a picture."""
    across, up = (table.column(column).unique() for column in columns)
    if table.num_rows != len(across) * len(up) or table.num_rows > _LARGEST_MAP:
        return []
    cells = np.asarray(table.column(figure), dtype=np.float64).reshape(len(across), len(up))
    label = f"{figure.capitalize()} by {columns[0]} (across) and {columns[1]} (up)"
    spread = [(f"{q} %", charts.show(float(np.percentile(cells, q)))) for q in (0, 25, 50, 75, 100)]
    table_of = Table(label, ("Of the cells", "at most"), spread)
    return [Mosaic(label, [(" x ".join(columns), cells.T)], table_of)]


def _boxes(columns: Sequence[str], table: pa.Table) -> list[Block]:
    """Boxes of two ordered columns, those that were not divided further."""
    if "leaf" in table.column_names:
        table = table.filter(table.column("leaf"))
    ends = [table.column(f"{column}_{end}") for column in columns for end in ("low", "high")]
    if not all(_ordered(one.type) for one in ends) or table.num_rows > _LARGEST_MAP:
        return []
    left, right, bottom, top = (_numbers(one) for one in ends)
    halves = [_half_step(left, right), _half_step(bottom, top)]
    rectangles = [
        Rectangle(a - halves[0], b + halves[0], c - halves[1], d + halves[1], mass)
        for a, b, c, d, mass in zip(
            left.tolist(),
            right.tolist(),
            bottom.tolist(),
            top.tolist(),
            table.column("count").to_pylist(),
            strict=True,
        )
    ]
    label = f"Density of rows over {columns[0]} and {columns[1]}"
    return [boxes_map(rectangles, label=label, x=columns[0], y=columns[1])]


def _half_step(lows: NDArray[np.float64], highs: NDArray[np.float64]) -> float:
    """Half of the way from the last point of a box to the first one of the next."""
    starts, ends = np.unique(lows)[1:], np.unique(highs)[:-1]
    return float((starts - ends).min() / 2) if len(starts) else 0.5


def _ordered(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_date(kind))


def _numbers(values: pa.ChunkedArray) -> NDArray[np.float64]:
    """Values as numbers, dates as days."""
    whole = values.cast(pa.int32()) if pa.types.is_date(values.type) else values
    return np.asarray(whole, dtype=np.float64)


def _shown(value: object) -> str | int | float:
    return charts.show(value) if isinstance(value, float) else "–" if value is None else str(value)
