"""The chart that suits numbers grouped by the values of columns: bars, a line or a heat map."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.report.bars import (
    NOISE_ALONE,
    Bins,
    bar_with_error,
    draw_bar_groups,
    draw_bars,
    draw_histogram,
    errors_header,
)
from sfumato.report.blocks import PageTable
from sfumato.report.drawing import cut
from sfumato.report.heat_maps import MapSide, draw_heat_map, is_latitude, is_longitude
from sfumato.report.points import Point, draw_lines, position_text
from sfumato.report.value_text import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.report.picture import Picture

COUNT, RUNNING, RANK = "Count", "Running count", "Rank"
"""The names of numbers in publications; numbers of answers have names of their own."""
LISTED = 20
"""The most rows of a table below a chart."""
_MOST_BARS = 30
_LEAST_ORDERED = 8
"""An ordered column with fewer values is drawn as named bars."""
_MOST_GROUPED = 40
_MOST_SERIES = 6
_LARGEST_GRID = 1 << 22
_SCATTER_CELLS = 100
"""Squares along each side of a heat map of scattered cells."""
_SECONDS_PER_DAY = 86_400
_LARGEST_POSITION = 1e15
"""Larger numbers cannot be told apart in floating point."""


class GroupedNumbers(NamedTuple):
    """Released numbers, the column values that each belongs to, and how far off each may be.

    An error that is not known is NaN; `errors` is None if none is known.
    """

    groups: pa.Table
    name: str
    numbers: FloatArray
    errors: FloatArray | None
    note: str

    @property
    def columns(self) -> list[str]:
        """The columns that the numbers are grouped by."""
        names: list[str] = self.groups.column_names
        return names

    def select(self, rows: IntArray) -> GroupedNumbers:
        """Some of the rows, in the given order."""
        return self._replace(
            groups=self.groups.take(pa.array(rows)),
            numbers=self.numbers[rows],
            errors=None if self.errors is None else self.errors[rows],
        )


def choose_chart(data: GroupedNumbers) -> Picture:
    """Draw numbers by the number of columns, and by whether their values are ordered."""
    # From the most specific chart to bars, which show anything.
    ordered = all(map(has_positions, data.groups.columns))
    if data.name == RANK and ordered:
        return _draw_ranks(data)
    if len(data.columns) == 1 and ordered:
        return _draw_along(data)
    if len(data.columns) == 2:
        grid = _draw_grid(data)
        if grid is not None:
            return grid
        if ordered:
            return _draw_scattered(data)
    return draw_largest_bars(data)


def draw_largest_bars(
    data: GroupedNumbers, *, columns_per_range: int = 1, keep_order: bool = False
) -> Picture:
    """Draw the numbers as bars, the largest first; of many, only the largest.

    A bar is named by the values of its row. With `columns_per_range=2`, two columns each are the
    ends of a range.
    """
    size = len(data.numbers)
    columns = data.columns
    if columns_per_range > 1:
        columns = [column.rpartition("_")[0] for column in columns[::columns_per_range]]
    names = " and ".join(columns)
    order = np.argsort(-data.numbers, kind="stable")[:_MOST_BARS]
    shown = data.select(np.arange(size) if keep_order else order)
    bars = []
    for index, row in enumerate(shown.groups.to_pylist()):
        texts = [cell_text(value) for value in row.values()]
        starts = range(0, len(texts), columns_per_range)
        name = ", ".join(" to ".join(texts[at : at + columns_per_range]) for at in starts)
        error = None if shown.errors is None else float(shown.errors[index])
        bars.append(bar_with_error(name, float(shown.numbers[index]), error))
    suffix = "" if len(bars) == size else f", the largest of {size:,}"
    label = f"{data.name} by {names}{suffix}"
    return draw_bars(bars, label=label, category=names, value=data.name, note=data.note)


def numbers_table(
    data: GroupedNumbers, names: Sequence[Sequence[str]], columns: Sequence[str], caption: str
) -> PageTable:
    """Return a table of numbers with the names of their groups, and their errors."""
    errors = [] if data.errors is None else [[_error_text(error) for error in data.errors.tolist()]]
    rows = [
        (*texts, show(number), *cells)
        for texts, number, *cells in zip(names, data.numbers.tolist(), *errors, strict=True)
    ]
    return PageTable(caption, (*columns, data.name, *errors_header(errors)), rows)


def _error_text(error: float) -> str:
    return "–" if math.isnan(error) else f"± {show(error)}"


def _label(data: GroupedNumbers) -> str:
    return f"{data.name} by {' and '.join(data.columns)}"


def _largest_table(data: GroupedNumbers, label: str) -> PageTable:
    """Return the largest numbers with their groups."""
    size = len(data.numbers)
    largest = data.select(np.argsort(-data.numbers, kind="stable")[:LISTED])
    caption = label if size <= LISTED else f"{label}: the {LISTED} largest of {size:,}"
    names = [tuple(map(cell_text, row.values())) for row in largest.groups.to_pylist()]
    return numbers_table(largest, names, largest.columns, caption)


def _draw_along(data: GroupedNumbers) -> Picture:
    """Numbers along one ordered column."""
    values = data.groups.column(0)
    positions = positions_of(values)
    data, positions = data.select(np.argsort(positions, kind="stable")), np.sort(positions)
    if len(positions) < _LEAST_ORDERED:
        return draw_largest_bars(data, keep_order=True)
    label, dates, column = _label(data), is_date(values.type), data.columns[0]
    table = _largest_table(data, label)
    if data.name == RUNNING:
        points = []
        for index, (x, y) in enumerate(zip(positions.tolist(), data.numbers.tolist(), strict=True)):
            error = None if data.errors is None else float(data.errors[index])
            ends = () if error is None else (y - error, y + error)
            points.append(Point("running", x, y, *ends))
        return draw_lines(
            points, label=label, x=column, y="Rows so far", series="Column", dates=dates,
            table=table, note=data.note,
        )  # fmt: skip
    # Each bar reaches half way to its neighbours, so that a full range of ages has no gaps.
    half = half_step(positions, positions)
    bins = Bins(positions - half, positions + half, data.numbers, data.errors)
    return draw_histogram(
        bins, label=label, table=table, x=column, y=data.name, dates=dates, note=data.note
    )


def _draw_ranks(data: GroupedNumbers) -> Picture:
    """Quantiles: the share of rows up to each value."""
    values, column = data.groups.column(0), data.columns[0]
    pairs = zip(positions_of(values).tolist(), data.numbers.tolist(), strict=True)
    label = f"Share of rows up to a value of {column}"
    return draw_lines(
        [Point("rank", x, y) for x, y in pairs], label=label, x=column, y="Share of rows",
        series="Column", percent=True, dates=is_date(values.type),
        table=_largest_table(data, label), note=data.note,
    )  # fmt: skip


def _draw_grid(data: GroupedNumbers) -> Picture | None:
    """Every combination of two columns: bars in groups if few, else a heat map.

    None if some combination is absent or the grid is too large.
    """
    sides, codes = zip(*map(_side, data.columns, data.groups.columns), strict=True)
    shape = tuple(int(codes_of.max()) + 1 for codes_of in codes)
    size = len(data.numbers)
    if min(shape) < 2 or not size == shape[0] * shape[1] <= _LARGEST_GRID:
        return None
    # NaN marks absent combinations; released counts are finite.
    cells = np.full(shape, np.nan)
    cells[codes] = data.numbers
    if np.isnan(cells).any():  # one combination occurs twice, so another is absent
        return None
    if size <= _MOST_GROUPED and min(shape) <= _MOST_SERIES and all(side.names for side in sides):
        return _draw_groups(data, sides, cells, codes)
    return _draw_squares(data, cells.T, sides)


def _side(column: str, values: pa.ChunkedArray) -> tuple[MapSide, IntArray]:
    """A column as a side of a map, and the position of each value along it.

    A column has a scale if it has several values at even distances, else the names of its values.
    """
    if not has_positions(values):
        names, codes = encode_names(values)
        return MapSide(column, names), codes
    positions, codes = np.unique(positions_of(values), return_inverse=True)
    steps, dates = np.diff(positions), is_date(values.type)
    if len(positions) >= _LEAST_ORDERED and np.allclose(steps, steps[0]):
        half = steps[0] / 2
        ends = (float(positions[0] - half), float(positions[-1] + half))
        return MapSide(column, ends=ends, dates=dates), codes
    names = [position_text(position, dates=dates) for position in positions.tolist()]
    return MapSide(column, names), codes


def _draw_squares(
    data: GroupedNumbers, cells: FloatArray, sides: tuple[MapSide, MapSide], note: str = ""
) -> Picture:
    x, y = sides
    upside_down = is_latitude(x.title) and is_longitude(y.title)
    # Names read best from the top down, so the longer list of names goes up the side.
    names_fit_better = x.names and (not y.names or len(x.names) > len(y.names))
    if upside_down or names_fit_better:
        cells, sides = cells.T, (y, x)
    # One number for all squares: error bars have no room on a map.
    error = 0.0 if data.errors is None else float(np.nanmax(data.errors))
    data_note, error_note = data.note, ""
    if error and NOISE_ALONE in data_note:
        data_note = data_note.replace(NOISE_ALONE, "").strip()
        error_note = f"The noise of a cell is within ± {show(error)} in 95 % of cases."
    elif error:
        error_note = f"A cell is within ± {show(error)} of the true value in 95 % of cases."
    label = _label(data)
    return draw_heat_map(
        cells, sides, label=label, table=_largest_table(data, label), value=data.name,
        floor=error / 2, note=" ".join(filter(None, (note, error_note, data_note))),
    )  # fmt: skip


def _draw_groups(
    data: GroupedNumbers,
    sides: tuple[MapSide, MapSide],
    cells: FloatArray,
    codes: tuple[IntArray, ...],
) -> Picture:
    """Bars of the column with fewer values, grouped by the values of the other column."""
    errors = np.full(cells.shape, np.nan)
    if data.errors is not None:
        errors[codes] = data.errors
    outer, inner = sides
    if cells.shape[0] < cells.shape[1]:
        outer, inner, cells, errors = inner, outer, cells.T, errors.T
    groups = [
        (group, [*map(bar_with_error, inner.names, row, row_errors)])
        for group, row, row_errors in zip(outer.names, cells.tolist(), errors.tolist(), strict=True)
    ]
    titles = (outer.title, inner.title)
    return draw_bar_groups(
        groups, label=_label(data), category=titles, value=data.name, note=data.note
    )


def _draw_scattered(data: GroupedNumbers) -> Picture:
    """Draw a few cells of two ordered columns: the sum of released values in each square."""
    positions = [positions_of(values) for values in data.groups.columns]
    edges = [_square_edges(values) for values in positions]
    cells, *_ = np.histogram2d(
        positions[0], positions[1], bins=(edges[0], edges[1]), weights=data.numbers
    )
    x, y = (
        MapSide(
            column, ends=(float(ends[0]), float(ends[-1])), dates=is_date(data.groups[column].type)
        )
        for column, ends in zip(data.columns, edges, strict=True)
    )
    note = f"{len(data.numbers):,} cells are released. The squares between them have none."
    return _draw_squares(data._replace(errors=None, note=""), cells.T, (x, y), note)


def _square_edges(values: FloatArray) -> FloatArray:
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.array([low - 0.5, low + 0.5])
    return np.linspace(low, high, _SCATTER_CELLS + 1)


def is_ordered(kind: pa.DataType) -> bool:
    """Return whether values of a type have positions on an axis."""
    types = pa.types
    return is_date(kind) or bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    )


def has_positions(values: pa.ChunkedArray) -> bool:
    """Return whether values are ordered, and small enough for an axis to tell them apart."""
    return is_ordered(values.type) and bool(
        (np.abs(positions_of(values)) < _LARGEST_POSITION).all()
    )


def is_date(kind: pa.DataType) -> bool:
    """Return whether values of a type are dates or timestamps."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def positions_of(values: pa.ChunkedArray) -> FloatArray:
    """Values as numbers; dates and timestamps as days since 1 January 1970."""
    if pa.types.is_timestamp(values.type):
        seconds = values.cast(pa.timestamp("s", values.type.tz), safe=False).cast(pa.int64())
        return np.asarray(seconds, dtype=np.float64) / _SECONDS_PER_DAY
    if pa.types.is_date(values.type):
        values = values.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    return np.asarray(values, dtype=np.float64)


def half_step(lows: FloatArray, highs: FloatArray) -> float:
    """Half the distance from the last value of a box to the first value of the next."""
    starts, ends = np.unique(lows)[1:], np.unique(highs)[:-1]
    return float((starts - ends).min() / 2) if len(starts) else 0.5


def cell_text(value: object) -> str:
    """A released value for people, cut if long; None is a dash."""
    if isinstance(value, float):
        return show(value) if math.isfinite(value) else str(value)
    return "–" if value is None else cut(str(value))


def encode_names(values: pa.ChunkedArray) -> tuple[list[str], IntArray]:
    """The distinct values as text, in the order of appearance, and the index of each value."""
    encoded = values.combine_chunks().dictionary_encode()
    names = [cell_text(value) for value in encoded.dictionary.to_pylist()]
    return names, np.asarray(encoded.indices, dtype=np.int64)
