"""Figures by the values of columns, in the picture that suits them: bars, a line, squares."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.report import charts, positions
from sfumato.report.blocks import PageTable
from sfumato.report.charts import Bar, Point
from sfumato.report.heat import heat
from sfumato.report.histograms import Stretches, histogram
from sfumato.report.map_axes import MapSide, is_latitude, is_longitude
from sfumato.report.numbers import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.report.picture import Picture

COUNT, RUNNING, RANK = "Count", "Running count", "Rank"
"""What figures of publications are called; those of answers have names of their own."""
_BARS = 30
_FEW = 8
"""Fewer values of an ordered column than that are bars under their names."""
_LISTED = 20
_GROUPED = 40
_SERIES = 6
_LARGEST_GRID = 1 << 22
_ALONG = 100
"""Squares along each side of a map of scattered cells."""


class Figures(NamedTuple):
    """Released numbers with the values that they belong to, and how far off they may be.

    What is not known of single ones is not a number.
    """

    values: pa.Table
    name: str
    numbers: FloatArray
    off: FloatArray | None
    note: str

    @property
    def columns(self) -> list[str]:
        """The columns whose values they belong to."""
        names: list[str] = self.values.column_names
        return names

    def take(self, chosen: IntArray) -> Figures:
        """Some of them, in the order given."""
        off = None if self.off is None else self.off[chosen]
        values = self.values.take(pa.array(chosen))
        return self._replace(values=values, numbers=self.numbers[chosen], off=off)


def picture_of(shown: Figures) -> Picture:
    """The picture by the number of columns, and by whether their values have an order."""
    ordered = all(map(positions.are_placed, shown.values.columns))
    if shown.name == RANK and ordered:
        return _ranks(shown)
    if len(shown.columns) == 1 and ordered:
        return _along(shown)
    drawn = _grid(shown) if len(shown.columns) == 2 else None
    if drawn is None and len(shown.columns) == 2 and ordered:
        drawn = _scattered(shown)
    return drawn or bars_of(shown)


def _label(shown: Figures) -> str:
    return f"{shown.name} by {' and '.join(shown.columns)}"


def _largest_of(shown: Figures, label: str) -> PageTable:
    """The largest figures with their values as a table."""
    size = len(shown.numbers)
    top = shown.take(np.argsort(-shown.numbers, kind="stable")[:_LISTED])
    caption = label if size <= _LISTED else f"{label}: the {_LISTED} largest of {size:,}"
    named = [tuple(map(positions.in_words, row.values())) for row in top.values.to_pylist()]
    return table_of(top, named, top.columns, caption)


def table_of(
    shown: Figures, named: Sequence[Sequence[str]], columns: Sequence[str], caption: str
) -> PageTable:
    """Figures under the words for their values as a table, with how far off each may be."""
    far = [] if shown.off is None else [[_far(one) for one in shown.off.tolist()]]
    rows = [
        (*words, show(figure), *rest)
        for words, figure, *rest in zip(named, shown.numbers.tolist(), *far, strict=True)
    ]
    return PageTable(caption, (*columns, shown.name, *(["95 % within"] if far else [])), rows)


def _far(off: float) -> str:
    return "–" if math.isnan(off) else f"± {show(off)}"


def bars_of(shown: Figures, *, each: int = 1, in_order: bool = False) -> Picture:
    """The figures as bars, the largest first; of many the largest.

    Their names are the values of the row, or its ranges where each has two columns.
    """
    size = len(shown.numbers)
    names = shown.columns
    what = " and ".join(names if each == 1 else [one.rpartition("_")[0] for one in names[::each]])
    kept = np.arange(size) if in_order else np.argsort(-shown.numbers, kind="stable")[:_BARS]
    top = shown.take(kept)
    off = [None] * len(kept) if top.off is None else top.off.tolist()
    bars = [
        error_bar(_named(list(row.values()), each), figure, far)
        for row, figure, far in zip(top.values.to_pylist(), top.numbers.tolist(), off, strict=True)
    ]
    some = "" if len(bars) == size else f", the largest of {size:,}"
    label = f"{shown.name} by {what}{some}"
    return charts.bar(bars, label=label, what=what, value=shown.name, note=shown.note)


def _named(row: Sequence[object], each: int) -> str:
    shown = [positions.in_words(one) for one in row]
    return ", ".join(" to ".join(shown[at : at + each]) for at in range(0, len(shown), each))


def _along(shown: Figures) -> Picture:
    """Figures along one ordered column."""
    column = shown.values.column(0)
    at = positions.numbers_of(column)
    shown, at = shown.take(np.argsort(at, kind="stable")), np.sort(at)
    if len(at) < _FEW:
        return bars_of(shown, in_order=True)
    label, dates = _label(shown), positions.is_dated(column.type)
    table = _largest_of(shown, label)
    if shown.name == RUNNING:
        points = [
            Point("running", x, y, *(() if far is None else (y - far, y + far)))
            for x, y, far in zip(
                at.tolist(),
                shown.numbers.tolist(),
                [None] * len(at) if shown.off is None else shown.off.tolist(),
                strict=True,
            )
        ]
        return charts.line(
            points, label=label, x=shown.columns[0], y="Rows so far", series="Column",
            dates=dates, table=table, note=shown.note,
        )  # fmt: skip
    half = positions.half_step(at, at)
    stretches = Stretches(at - half, at + half, shown.numbers, shown.off)
    return histogram(
        stretches, label=label, table=table, x=shown.columns[0], y=shown.name, dates=dates,
        note=shown.note,
    )  # fmt: skip


def _ranks(shown: Figures) -> Picture:
    """Values at ranks: the share of rows up to each value."""
    column = shown.values.column(0)
    places_of = positions.numbers_of(column).tolist()
    points = [Point("rank", x, y) for x, y in zip(places_of, shown.numbers.tolist(), strict=True)]
    label = f"Share of rows up to a value of {shown.columns[0]}"
    return charts.line(
        points, label=label, x=shown.columns[0], y="Share of rows", series="Column", percent=True,
        dates=positions.is_dated(column.type), table=_largest_of(shown, label), note=shown.note,
    )  # fmt: skip


def _grid(shown: Figures) -> Picture | None:
    """Every combination of two columns' values: bars in groups if they are few, else squares."""
    sides, codes = zip(*map(_side, shown.columns, shown.values.columns), strict=True)
    shape = tuple(int(one.max()) + 1 for one in codes)
    size = len(shown.numbers)
    if min(shape) < 2 or not size == shape[0] * shape[1] <= _LARGEST_GRID:
        return None
    cells = np.full(shape, np.nan)
    cells[codes] = shown.numbers
    if np.isnan(cells).any():  # some combination twice, and so another not at all
        return None
    if size <= _GROUPED and min(shape) <= _SERIES and all(side.names for side in sides):
        return _groups(shown, sides, cells, codes)
    return _squares(shown, cells.T, sides)


def _side(column: str, values: pa.ChunkedArray) -> tuple[MapSide, IntArray]:
    """A column as a side of a map, and the place of each of its values along it.

    Values that are not evenly apart, and few of them, have their names.
    """
    if not positions.are_placed(values):
        names, codes = positions.coded(values)
        return MapSide(column, names), codes
    at, codes = np.unique(positions.numbers_of(values), return_inverse=True)
    steps = np.diff(at)
    if len(at) >= _FEW and np.allclose(steps, steps[0]):
        half = steps[0] / 2
        ends = (float(at[0] - half), float(at[-1] + half))
        return MapSide(column, ends=ends, dates=positions.is_dated(values.type)), codes
    dates = positions.is_dated(values.type)
    return MapSide(column, [charts.shown_at(one, dates=dates) for one in at.tolist()]), codes


def _squares(
    shown: Figures, cells: FloatArray, sides: tuple[MapSide, MapSide], note: str = ""
) -> Picture:
    label = _label(shown)
    x, y = sides
    longer_names = x.names and y.names and len(x.names) > len(y.names)
    if (
        (is_latitude(x.title) and is_longitude(y.title))
        or longer_names
        or (x.names and not y.names)
    ):
        cells, sides = cells.T, (y, x)
    floor = 0.0 if shown.off is None else float(np.nanmax(shown.off))
    said, within = shown.note, ""
    if floor and charts.NOISE_ALONE in said:
        said = said.replace(charts.NOISE_ALONE, "").strip()
        within = f"By noise alone a cell is within ± {show(floor)} in 95 % of cases."
    elif floor:
        within = f"A cell is within ± {show(floor)} of the truth in 95 % of cases."
    note = " ".join(one for one in (note, within, said) if one)
    return heat(
        cells, sides, label=label, table=_largest_of(shown, label), value=shown.name,
        floor=floor / 2, note=note,
    )  # fmt: skip


def _groups(
    shown: Figures,
    sides: tuple[MapSide, MapSide],
    cells: FloatArray,
    codes: tuple[IntArray, ...],
) -> Picture:
    """Bars of the column with fewer values, under the names of the other one's."""
    off = np.full(cells.shape, np.nan)
    if shown.off is not None:
        off[codes] = shown.off
    names = [list(side.names) for side in sides]
    outer, inner = (0, 1) if cells.shape[0] >= cells.shape[1] else (1, 0)
    if outer == 1:
        cells, off = cells.T, off.T
    groups = [
        (
            group,
            [
                error_bar(name, figure, far)
                for name, figure, far in zip(names[inner], row, row_off, strict=True)
            ],
        )
        for group, row, row_off in zip(names[outer], cells.tolist(), off.tolist(), strict=True)
    ]
    what = (sides[outer].title, sides[inner].title)
    label = _label(shown)
    return charts.grouped(groups, label=label, what=what, value=shown.name, note=shown.note)


def _scattered(shown: Figures) -> Picture:
    """Cells here and there of two ordered columns: what is released in each square of a map."""
    at = [positions.numbers_of(column) for column in shown.values.columns]
    edges = [_edges(one) for one in at]
    cells, *_ = np.histogram2d(at[0], at[1], bins=(edges[0], edges[1]), weights=shown.numbers)
    sides = tuple(
        MapSide(name, ends=(float(one[0]), float(one[-1])), dates=positions.is_dated(column.type))
        for name, one, column in zip(shown.columns, edges, shown.values.columns, strict=True)
    )
    note = f"{len(shown.numbers):,} cells are released; squares between them have none."
    return _squares(shown._replace(off=None, note=""), cells.T, (sides[0], sides[1]), note)


def _edges(at: FloatArray) -> FloatArray:
    low, high = float(at.min()), float(at.max())
    return np.linspace(low, high, _ALONG + 1) if low < high else np.array([low - 0.5, low + 0.5])


def error_bar(name: str, figure: float, far: float | None) -> Bar:
    """A bar with a name, and with an error where one is known."""
    if far is None or math.isnan(far):
        return Bar(name, figure)
    return Bar(name, figure, figure - far, figure + far)
