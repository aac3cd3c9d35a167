"""Bar charts: named bars, groups of bars, histograms, and a share of a hundred people.

The error of a noisy number is drawn as a thin line, or as a band where bars are narrow.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.errors import ParameterError
from sfumato.report.axes import Dates, Linear, draw_frame, scale_around
from sfumato.report.blocks import PageTable
from sfumato.report.drawing import LINE, TEXT, band_path, coordinate, rectangle_path, text_width
from sfumato.report.palette import series_tones
from sfumato.report.picture import Picture
from sfumato.report.value_text import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.arrays import FloatArray
    from sfumato.report.axes import Scale
    from sfumato.report.drawing import Drawing


NOISE_ALONE = (
    "Thin lines or a pale band are error bars for the noise alone, in 95 % of cases. Other errors "
    "depend on the data."
)
_ERROR_NOTE = (
    "Thin lines or a pale band are error bars: they contain the true value in 95 % of cases."
)
MOST_BARS = 512
"""A histogram with more bars averages neighbours."""
_LEAST_PIXELS_FOR_WHISKERS = 7
_LEAST_PIXELS_FOR_GAPS = 4


class Bar(NamedTuple):
    """A named number; the true value is between `low` and `high` in 95 % of cases."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


class Bins(NamedTuple):
    """Bins of an axis with the height of each, and how far off each height may be."""

    starts: FloatArray
    ends: FloatArray
    heights: FloatArray
    errors: FloatArray | None = None


def bar_with_error(name: str, value: float, error: float | None) -> Bar:
    """Return a bar, with an error bar if the error is known (neither None nor NaN)."""
    if error is None or math.isnan(error):
        return Bar(name, value)
    return Bar(name, value, value - error, value + error)


def draw_bars(
    bars: Sequence[tuple[str, float] | Bar],
    *,
    label: str,
    category: str,
    value: str,
    percent: bool = False,
    accent: str | None = None,
    texts_beside: Sequence[str] | None = None,
    note: str = "",
) -> Picture:
    """Draw horizontal bars in order, each below its name; `accent` names one to highlight.

    Beside each bar stands its number, or its text in `texts_beside`. `category` and `value`
    title the names and the numbers in the table below the picture.
    """
    drawn = [Bar(*bar) for bar in bars]
    check_finite(drawn)
    texts = texts_beside or [show(bar.value, percent=percent) for bar in drawn]
    errors = _error_column(drawn, percent=percent)
    rows = [(bar.name, *cells) for bar, *cells in zip(drawn, texts, *errors, strict=True)]
    table = PageTable(label, (category, value, *errors_header(errors)), rows)
    paint = partial(_paint_bars, drawn, texts, percent=percent, accent=accent)
    return Picture(label, table, paint, error_note(note) if errors else note)


def draw_bar_groups(
    groups: Sequence[tuple[str, Sequence[Bar]]],
    *,
    label: str,
    category: tuple[str, str],
    value: str,
    unit: str = "",
    note: str = "",
) -> Picture:
    """Draw bars of a few series below the name of each group, with a legend for the series.

    `category` titles the groups and the series; `unit` follows each number, such as " %".
    """
    bars = [bar for _, group in groups for bar in group]
    check_finite(bars)
    errors = _error_column(bars)
    names = [name for name, group in groups for _ in group]
    rows = [
        (name, bar.name, show(bar.value), *cells)
        for name, bar, *cells in zip(names, bars, *errors, strict=True)
    ]
    table = PageTable(label, (*category, value, *errors_header(errors)), rows)
    paint = partial(_paint_groups, groups, category[1], unit)
    return Picture(label, table, paint, error_note(note) if errors else note)


def draw_histogram(
    bins: Bins,
    *,
    label: str,
    table: PageTable,
    x: str,
    y: str,
    dates: bool = False,
    note: str = "",
) -> Picture:
    """Draw an upright bar over every bin, in order along the axis."""
    check_finite(Bar("", height) for height in bins.heights.tolist())
    bins, merged = _merge_neighbours(bins)
    if merged > 1:
        note = f"Each bar is the average of {merged:,} neighbours. {note}".strip()
    x_scale: Scale = (Dates if dates else Linear)(float(bins.starts[0]), float(bins.ends[-1]))
    note = note if bins.errors is None else error_note(note)
    return Picture(label, table, partial(_paint_histogram, bins, x_scale, (x, y)), note)


def check_finite(marks: Iterable[tuple[object, ...]]) -> None:
    """Refuse marks that no chart can show: of each mark, all but the name must be finite."""
    for number in (number for mark in marks for number in mark[1:] if number is not None):
        if not math.isfinite(number):  # type: ignore[arg-type]
            raise ParameterError(
                "array_invalid",
                f"A chart cannot show {number}. Pass finite numbers and leave the others out.",
            )


def error_note(note: str) -> str:
    """Return a note that also explains error bars, unless it says already that they are noise."""
    return note if NOISE_ALONE in note else f"{note} {_ERROR_NOTE}".strip()


def errors_header(errors: Sequence[object]) -> tuple[str, ...]:
    """Return the header of the column of errors, where there is one."""
    return ("95 % interval",) if errors else ()


def _error_column(bars: Sequence[Bar], *, percent: bool = False) -> list[list[str]]:
    """Return a table column with the error of each bar; none if no error is known."""
    if all(bar.low is None for bar in bars):
        return []
    return [
        [
            "–"
            if bar.low is None or bar.high is None
            else f"± {show((bar.high - bar.low) / 2, percent=percent)}"
            for bar in bars
        ]
    ]


def _bar_scale(bars: Sequence[Bar], *, percent: bool = False) -> Linear:
    # Error bars count, so that their caps stay inside the drawing. Zero is always on the scale:
    # the length of a bar means nothing without it.
    numbers = [number for bar in bars for number in bar[1:] if number is not None]
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    return Linear(low, max(high, 1.0) if percent else high if high > low else low + 1.0)


def _paint_bars(
    bars: Sequence[Bar],
    texts: Sequence[str],
    drawing: Drawing,
    *,
    percent: bool,
    accent: str | None,
) -> None:
    scale = _bar_scale(bars, percent=percent)
    # Names stand above their bars, not beside them: long names of columns need the full width.
    for position, (bar, text) in enumerate(zip(bars, texts, strict=True)):
        top = 34.0 * position
        room = drawing.width - text_width(text, TEXT + 1) - 16
        drawing.text((0, top + 13), bar.name, "name", room=room)
        drawing.text((drawing.width, top + 13), text, "value", anchor="end")
        kind = "tone3" if accent is not None and bar.name == accent else "tone0"
        _paint_bar(drawing, bar, scale, drawing.width, top + 19, kind)
    drawing.height = 34.0 * len(bars) + 2


def _paint_bar(
    drawing: Drawing, bar: Bar, scale: Linear, length: float, top: float, kind: str
) -> None:
    """One bar from zero, to the left if negative, with its error bar.

    A line marks zero if bars lie on both sides of it.
    """
    edge = 2 if bar.low is not None else 0  # keeps the caps of error bars inside the drawing
    room = length - 2 * edge
    zero, end = (edge + room * scale.share([0.0, bar.value])).tolist()
    drawing.rectangle(min(zero, end), top, abs(end - zero), 9, kind)
    if scale.low < 0:
        drawing.line((zero, top - 3), (zero, top + 12), "axis")
    if bar.low is not None and bar.high is not None:
        low, high = (edge + room * scale.share([bar.low, bar.high])).tolist()
        drawing.whiskers([(top + 4.5, low, high)], across=True)


def _paint_groups(
    groups: Sequence[tuple[str, Sequence[Bar]]], series: str, unit: str, drawing: Drawing
) -> None:
    bars = [bar for _, group in groups for bar in group]
    tones = series_tones(bar.name for bar in bars)
    scale = _bar_scale(bars)
    length = drawing.width - max(text_width(show(bar.value) + unit, TEXT + 1) for bar in bars) - 12
    entries = [(f"tone{tone}", name) for name, tone in tones.items()]
    top = drawing.legend(0, entries, series) + 8
    for name, group in groups:
        drawing.text((0, top + 14), name, "name", room=drawing.width)
        top += 20
        for bar in group:
            _paint_bar(drawing, bar, scale, length, top + 3, f"tone{tones[bar.name]}")
            drawing.text((drawing.width, top + 12), show(bar.value) + unit, "value", anchor="end")
            top += 17
        top += 8
    drawing.height = top


def _merge_neighbours(bins: Bins) -> tuple[Bins, int]:
    """Average neighbouring bins down to `MOST_BARS`; return also how many bins make one.

    The error of an average is at most the largest error of its bins.
    """
    size = len(bins.starts)
    merged = math.ceil(size / MOST_BARS)
    if merged == 1:
        return bins, 1
    # Weighted by width, so that a bar keeps the area of the bars it replaces.
    firsts = np.arange(0, size, merged)
    widths = bins.ends - bins.starts
    areas = np.add.reduceat(bins.heights * widths, firsts)
    heights = areas / np.add.reduceat(widths, firsts)
    errors = None if bins.errors is None else np.maximum.reduceat(bins.errors, firsts)
    lasts = np.minimum(firsts + merged, size) - 1
    return Bins(bins.starts[firsts], bins.ends[lasts], heights, errors), merged


def _paint_histogram(bins: Bins, x_scale: Scale, titles: tuple[str, str], drawing: Drawing) -> None:
    errors = np.zeros(len(bins.heights)) if bins.errors is None else np.nan_to_num(bins.errors)
    lows, highs = bins.heights - errors, bins.heights + errors
    y_scale = scale_around(float(lows.min()), float(highs.max()), zero=True)
    frame = draw_frame(drawing, (x_scale, y_scale), titles, height=240)
    left, right = frame.x(bins.starts), frame.x(bins.ends)
    zero = float(frame.y(0.0))
    narrowest = float((right - left).min())
    # A gap between bars a few pixels wide would cost a quarter of their ink.
    gap = 1.0 if narrowest >= _LEAST_PIXELS_FOR_GAPS else 0.0
    widths, heights = right - left - gap, frame.y(bins.heights) - zero
    # One path for all bars: hundreds of elements would make the page slow.
    corners = zip(left.tolist(), widths.tolist(), heights.tolist(), strict=True)
    shape = (rectangle_path(x, zero, width, height) for x, width, height in corners)
    drawing.path("".join(shape), "tone0")
    if zero < frame.bottom - 1:
        drawing.line((frame.left, zero), (frame.right, zero), "axis")
    if bins.errors is None:
        return
    tops, bottoms = frame.y(highs).tolist(), frame.y(lows).tolist()
    if narrowest >= _LEAST_PIXELS_FOR_WHISKERS:
        middles = ((left + right - gap) / 2).tolist()
        drawing.whiskers(zip(middles, tops, bottoms, strict=True), across=False)
    else:
        edges = [*left.tolist(), float(right[-1])]
        tops, bottoms = [*tops, tops[-1]], [*bottoms, bottoms[-1]]
        drawing.path(band_path(edges, tops, bottoms, steps=True), "haze")


def draw_people(share: float, *, label: str, inside: str, outside: str) -> Picture:
    """Draw a hundred people, a `share` of them in full tone and the rest faint."""
    check_finite([(label, share)])
    count = round(100 * share)
    rows = [(inside, count), (outside, 100 - count)]
    table = PageTable(label, ("Of 100 people", "Count"), rows)
    return Picture(label, table, partial(_paint_people, count, inside, outside))


def _paint_people(count: int, inside: str, outside: str, drawing: Drawing) -> None:
    column = drawing.width / 10
    size, row = 0.34 * column, 0.8 * column
    for kind, people in (("tone0", range(count)), ("faint", range(count, 100))):
        shapes = (
            _person((index % 10 + 0.5) * column, (index // 10 + 0.55) * row, size)
            for index in people
        )
        drawing.path("".join(shapes), kind)
    bottom = drawing.legend(10 * row + 4, [("tone0", inside)])
    drawing.height = drawing.legend(bottom, [("faint", outside)]) + LINE / 4


def _person(x: float, y: float, size: float) -> str:
    """A head above shoulders."""
    half_width = 0.72 * size
    head, radius_x, radius_y = map(coordinate, (0.42 * size, half_width, 0.55 * size))
    up, down, width = map(coordinate, (-0.5 * size, 0.5 * size, 2 * half_width))
    return (
        f"M{coordinate(x)} {coordinate(y - 1.05 * size)}a{head} {head} 0 1 1 -.01 0z"
        f"M{coordinate(x - half_width)} {coordinate(y + size)}v{up}"
        f"a{radius_x} {radius_y} 0 0 1 {width} 0v{down}z"
    )
