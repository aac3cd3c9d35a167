"""Published statistics as pictures: counts along a line, over a map, in boxes or as bars."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.report import charts
from sfumato.report.blocks import Heading, Mosaic, PageTable
from sfumato.report.maps import Rectangle, boxes_map
from sfumato.schema.names import untaken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.report.blocks import Block

_BARS = 30
_LISTED = 20
_DRAWN = 4
"""So many tables are drawn; the others of a release of many are only named."""
_LARGEST_MAP = 256 * 256
_LONGEST_LINE = 1 << 14
_FIGURES = ("count", "running", "rank")
_ENDS = (("low", "high"), ("from", "to"))
"""How the ends of boxes and those of answered ranges are called behind the name of a column."""


def pictures(columns: Sequence[str], tables: Mapping[str, pa.Table]) -> list[Block]:
    """All tables by name, and the first of them in pictures, where there is one, and in figures.

    Whatever a release holds has a page: that of tables without a row is what it will be like.
    """
    named = [(name, f"{table.num_rows:,}") for name, table in tables.items()]
    listed = PageTable("The released tables", ("Table", "Rows"), named, folded=len(named) > _LISTED)
    blocks: list[Block] = [Heading("What was published"), listed]
    for name, table in islice(tables.items(), _DRAWN):
        rows = [tuple(map(_shown, row.values())) for row in table.slice(0, _LISTED).to_pylist()]
        caption = f"The first rows of {name}, of {table.num_rows:,}"
        first = PageTable(caption, table.column_names, rows, folded=True)
        blocks += [*_drawn(columns, table), first]
    return blocks


def _drawn(columns: Sequence[str], table: pa.Table) -> list[Block]:
    """A picture of figures by the columns that the table has; nothing where none would help."""
    for ends in _ENDS:
        named = [f"{column}_{end}" for column in columns for end in ends]
        if {*named, "count"} <= {*table.column_names}:
            return _boxes(columns, named, _present(table, named))
    present = [column for column in columns if column in table.column_names]
    figures = {untaken(one, present): one for one in _FIGURES}
    name = next((one for one in figures if one in table.column_names), None)
    if name is None or not present:
        return []
    table = _present(table, present)
    # Under its own name: a column of the data may have it too.
    values, figure = table.select(present), table.column(name)
    if len(present) == 1:
        return _line(values, figures[name], figure)
    drawn = _map(values, figures[name], figure) if len(present) == 2 else []
    return drawn or _bars(values, figures[name], figure)


def _present(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows in which no column is missing: neither NULL nor, among reals, NaN is a place."""
    for column in columns:
        table = table.filter(pc.invert(pc.is_null(table.column(column), nan_is_null=True)))
    return table


def _bars(values: pa.Table, figure: str, numbers: pa.ChunkedArray, *, each: int = 1) -> list[Block]:
    """The largest figures as bars; noisy counts of zero and below have none.

    Their names are the values of the row, or its ranges where each has two columns.
    """
    figures = np.asarray(numbers, dtype=np.float64)
    largest = np.argsort(-figures, kind="stable")[:_BARS]
    largest = largest[figures[largest] > 0]
    if not len(largest):
        return []
    names = values.column_names
    what = " and ".join(names if each == 1 else [one.rpartition("_")[0] for one in names[::each]])
    rows = zip(*(column.to_pylist() for column in values.take(largest).columns), strict=True)
    bars = [(_named(row, each), float(figures[at])) for row, at in zip(rows, largest, strict=True)]
    some = "" if len(bars) == len(figures) else f", the largest of {len(figures):,}"
    label = f"{figure.capitalize()} by {what}{some}"
    return [charts.bar(bars, label=label, what=what, value=figure.capitalize())]


def _named(row: Sequence[object], each: int) -> str:
    shown = [str(_shown(one)) for one in row]
    return ", ".join(" to ".join(shown[at : at + each]) for at in range(0, len(shown), each))


def _line(values: pa.Table, figure: str, numbers: pa.ChunkedArray) -> list[Block]:
    """Figures along one column; few of them, and those of names, as bars."""
    (column,), at = values.column_names, values.column(0)
    ranks, size = figure == "rank", len(numbers)
    drawable = _ordered(at.type) and 0 < size <= _LONGEST_LINE
    if not drawable or (size <= _BARS and not ranks):
        return [] if ranks else _bars(values, figure, numbers)
    title, places = _scale(column, at)
    points = [
        charts.Point(column, place, float(number))
        for place, number in zip(places.tolist(), numbers.to_pylist(), strict=True)
    ]
    label = f"{figure.capitalize()} by {column}"
    return [charts.line(points, label=label, x=title, y=figure, series="Column", steps=ranks)]


def _map(values: pa.Table, figure: str, numbers: pa.ChunkedArray) -> list[Block]:
    """Every combination of two columns' values, if there are not too many for a picture."""
    across, up = (column.unique() for column in values.columns)
    size = len(numbers)
    if not 0 < size <= _LARGEST_MAP or size != len(across) * len(up):
        return []
    cells = np.asarray(numbers, dtype=np.float64).reshape(len(across), len(up))
    columns = values.column_names
    label = f"{figure.capitalize()} by {columns[0]} (across) and {columns[1]} (up)"
    spread = [(f"{q} %", charts.show(float(np.percentile(cells, q)))) for q in (0, 25, 50, 75, 100)]
    table_of = PageTable(label, ("Of the cells", "at most"), spread)
    return [Mosaic(label, [(" x ".join(columns), cells.T)], table_of)]


def _boxes(columns: Sequence[str], named: Sequence[str], table: pa.Table) -> list[Block]:
    """Boxes that were not divided further: along a line, over a map, or as bars."""
    if "leaf" in table.column_names:
        table = table.filter(table.column("leaf"))
    ends, counts = table.select(named), table.column("count")
    fills = named[0].endswith("_low") and all(_ordered(one.type) for one in ends.columns)
    if fills and len(columns) == 1 and _BARS < len(counts) <= _LONGEST_LINE:
        return _steps(columns[0], ends, counts)
    if fills and len(columns) == 2 and 0 < len(counts) <= _LARGEST_MAP:
        return _rectangles(columns, ends, counts)
    return _bars(ends, "count", counts, each=2)


def _steps(column: str, ends: pa.Table, counts: pa.ChunkedArray) -> list[Block]:
    """Boxes of one column: how many are counted for one unit of it."""
    order = np.argsort(_numbers(ends.column(0)), kind="stable")
    ends = ends.take(pa.array(order))
    title, lows = _scale(column, ends.column(0))
    _, highs = _scale(column, ends.column(1), origin=ends.column(0)[0])
    half = _half_step(lows, highs)
    figures = np.asarray(counts, dtype=np.float64)[order] / (highs - lows + 2 * half)
    # The last of the steps is as wide as its box, too.
    places, heights = [*(lows - half), highs[-1] + half], [*figures, figures[-1]]
    points = [
        charts.Point(column, float(at), float(height))
        for at, height in zip(places, heights, strict=True)
    ]
    label, y = f"Density of rows over {column}", "Count per unit"
    return [charts.line(points, label=label, x=title, y=y, series="Column", steps=True)]


def _rectangles(columns: Sequence[str], ends: pa.Table, counts: pa.ChunkedArray) -> list[Block]:
    """Boxes of two ordered columns."""
    left, right, bottom, top = (_numbers(one) for one in ends.columns)
    halves = [_half_step(left, right), _half_step(bottom, top)]
    rectangles = [
        Rectangle(a - halves[0], b + halves[0], c - halves[1], d + halves[1], mass)
        for a, b, c, d, mass in zip(
            left.tolist(),
            right.tolist(),
            bottom.tolist(),
            top.tolist(),
            counts.to_pylist(),
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


def _scale(
    column: str, values: pa.ChunkedArray, origin: pa.Scalar | None = None
) -> tuple[str, NDArray[np.float64]]:
    """The title of an axis and the places of values on it: dates are days since the first."""
    places = _numbers(values)
    if not pa.types.is_date(values.type):
        return column, places
    first = origin or values[0]
    return f"{column} (days since {first})", places - first.cast(pa.int32()).as_py()


def _numbers(values: pa.ChunkedArray) -> NDArray[np.float64]:
    """Values as numbers, dates as days."""
    whole = values.cast(pa.int32()) if pa.types.is_date(values.type) else values
    return np.asarray(whole, dtype=np.float64)


def _shown(value: object) -> str | int | float:
    if isinstance(value, float):
        return charts.show(value) if math.isfinite(value) else str(value)
    return "–" if value is None else str(value)
