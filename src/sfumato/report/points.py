"""Charts of lines and points with error bars.

Lines with bands, rows of points on a scale from 0 % to 100 %, and named points between two goals.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.report.axes import (
    ChartFrame,
    Dates,
    Linear,
    Logarithmic,
    draw_frame,
    draw_x_axis,
    scale_around,
)
from sfumato.report.bars import check_finite, error_note
from sfumato.report.blocks import PageTable
from sfumato.report.drawing import (
    LINE,
    TEXT,
    band_path,
    circle_path,
    coordinate,
    fit,
    line_path,
    text_width,
)
from sfumato.report.palette import series_tones
from sfumato.report.picture import Picture
from sfumato.report.value_text import show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.report.axes import Scale
    from sfumato.report.bars import Bar
    from sfumato.report.drawing import Drawing

    Box = tuple[float, float, float, float]

_MOST_DOTS = 40
"""A line of more points has no dots."""
_MOST_POINTS = 800
"""A line of more points is thinned: a screen has no more pixels for them."""
_INTERVAL_TONES = ("tone3", "tone7", "tone5", "tone4")
"""Cinnabar stands out and lead recedes: attacker and guess. Then sky and moss."""
_LIMIT = "limit"
_SHARES = Linear(0.0, 1.0, percent=True)
_NAME_HEIGHT, _TRACK_HEIGHT, _ROW_GAP, _EDGE = 22.0, 13.0, 12.0, 6.0
"""Pixels of a row of intervals: its name, each point, the gap below, and at both sides."""
_RADIUS = 5.0
_LETTER_HEIGHT = 15.0
_VEILS = 16
_LONGEST_NAME = 0.5
"""The share of a picture's width that a name takes at most."""
_BEST, _BEATEN = 1, 7
"""The tones of points that no other beats, and of the others."""


class Point(NamedTuple):
    """A point of a line; the band of the line goes from `low` to `high`."""

    series: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None


class IntervalRow(NamedTuple):
    """A named row of points, one per series, each with its interval.

    `summary` stands beside the name. `limit` is what the points should stay below, if anything.
    """

    name: str
    summary: str
    points: Sequence[Bar]
    limit: float | None = None


class Interval(NamedTuple):
    """A share with the ends of its interval."""

    value: float
    low: float
    high: float


class NamedPoint(NamedTuple):
    """A named point with an interval in both directions; `best` if no other point beats it."""

    name: str
    x: Interval
    y: Interval
    best: bool


def draw_lines(
    points: Sequence[Point],
    *,
    label: str,
    x: str,
    y: str,
    series: str,
    logarithmic: bool = False,
    logarithmic_y: bool = False,
    percent: bool = False,
    steps: bool = False,
    dates: bool = False,
    table: PageTable | None = None,
    note: str = "",
) -> Picture:
    """Draw one line per series, with a band around it where its points have errors.

    A line in `steps` keeps the height of a point up to the next one, and has no dots. With `dates`
    the x are days since 1 January 1970. The table lists all points unless one is given.
    """
    check_finite(points)
    has_band = any(point.low is not None for point in points)
    if table is None:
        rows = [
            (
                point.series,
                position_text(point.x, dates=dates),
                *(show(number, percent=percent) for number in point[2:] if number is not None),
            )
            for point in points
        ]
        table = PageTable(label, (series, x, y, *(("from", "to") if has_band else ())), rows)
    heights = [number for point in points for number in point[2:] if number is not None]
    y_scale: Scale = (
        _scale_of(heights, logarithmic=True)
        if logarithmic_y
        else scale_around(min(heights, default=0.0), max(heights, default=0.0), percent=percent)
    )
    x_scale = _scale_of([point.x for point in points], logarithmic=logarithmic, dates=dates)
    paint = partial(_paint_lines, points, (x_scale, y_scale), (x, y), series, steps=steps)
    return Picture(label, table, paint, error_note(note) if has_band else note)


def draw_intervals(
    rows: Sequence[IntervalRow],
    *,
    label: str,
    table: PageTable,
    value: str,
    limit: str = "",
    note: str = "",
) -> Picture:
    """Draw shares with their intervals, row by row, on one scale from 0 % to 100 %.

    Series differ by shape and by colour, so that either is enough to distinguish them. `limit` is
    the legend of the line across a row.
    """
    # Shares are drawn from 0 % to 100 % even where all are small, so that rows of different
    # charts compare.
    check_finite(point for row in rows for point in row.points)
    series = list(dict.fromkeys(point.name for row in rows for point in row.points))
    kinds = {
        name: _INTERVAL_TONES[index % len(_INTERVAL_TONES)] for index, name in enumerate(series)
    }
    return Picture(label, table, partial(_paint_intervals, rows, kinds, value, limit), note)


def draw_tradeoff(
    points: Sequence[NamedPoint],
    *,
    label: str,
    titles: tuple[str, str],
    table: PageTable,
    note: str = "",
) -> Picture:
    """Draw named points between two goals, with a line through the best of them.

    To the right and up is better. The background fades from full tone, where everybody is exposed,
    to none.
    """
    return Picture(label, table, partial(_paint_tradeoff, points, titles), note)


def position_text(position: float, *, dates: bool) -> str:
    """A position on an axis in words: a number, or the date of a day."""
    return str(np.datetime64(math.floor(position), "D")) if dates else show(position)


def thin(points: Sequence[Point]) -> Sequence[Point]:
    """Keep as many points as an eye can distinguish, at even steps, and the last one."""
    step = math.ceil(len(points) / _MOST_POINTS)
    return points if step <= 1 else [*points[:-1:step], points[-1]]


def _scale_of(
    positions: Sequence[float], *, logarithmic: bool = False, dates: bool = False
) -> Scale:
    low, high = min(positions, default=0.0), max(positions, default=0.0)
    if logarithmic and low > 0:
        return Logarithmic(low, high) if low < high else Logarithmic(low / 2, high * 2)
    if low == high:  # a scale of zero length would divide by zero
        low, high = low - 0.5, high + 0.5
    return Dates(low, high) if dates else Linear(low, high)


def _paint_lines(
    points: Sequence[Point],
    scales: tuple[Scale, Scale],
    titles: tuple[str, str],
    series: str,
    drawing: Drawing,
    *,
    steps: bool,
) -> None:
    frame = draw_frame(drawing, scales, titles, height=240)
    tones = series_tones(point.series for point in points)
    # Thinned after the scales are chosen, so that no extreme value leaves the frame.
    lines = {name: thin([point for point in points if point.series == name]) for name in tones}
    for name, line in lines.items():  # all bands first, so that no band covers a line
        with_band = [
            (point.x, point.low, point.high)
            for point in line
            if point.low is not None is not point.high
        ]
        if with_band:
            x, lows, highs = (np.asarray(values, float) for values in zip(*with_band, strict=True))
            shape = band_path(
                frame.x(x).tolist(), frame.y(highs).tolist(), frame.y(lows).tolist(), steps=steps
            )
            drawing.path(shape, f"band tone{tones[name]}")
    for name, line in lines.items():
        x = frame.x([point.x for point in line]).tolist()
        y = frame.y([point.y for point in line]).tolist()
        drawing.path(line_path(x, y, steps=steps), f"line stroke{tones[name]}")
        if not steps and len(line) <= _MOST_DOTS:
            dots = (circle_path(a, b, 3) for a, b in zip(x, y, strict=True))
            drawing.path("".join(dots), f"tone{tones[name]}")
    drawing.series_legend(tones, series)


def _paint_intervals(
    rows: Sequence[IntervalRow],
    kinds: Mapping[str, str],
    value: str,
    limit: str,
    drawing: Drawing,
) -> None:
    entries = [(kind, name) for name, kind in kinds.items()]
    if limit and any(row.limit is not None for row in rows):
        entries.append((_LIMIT, limit))
    draw_symbol = partial(_paint_symbol, drawing, kinds)
    top = drawing.legend(0, entries, draw_symbol=draw_symbol) + _ROW_GAP
    for row in rows:
        top = _paint_row(drawing, row, kinds, top)
    drawing.height = draw_x_axis(drawing, _share_frame(drawing, top, 0.0), value)


def _share_frame(drawing: Drawing, top: float, height: float) -> ChartFrame:
    return ChartFrame(_EDGE, top, drawing.width - 2 * _EDGE, height, _SHARES, _SHARES)


def _paint_row(drawing: Drawing, row: IntervalRow, kinds: Mapping[str, str], top: float) -> float:
    """Draw one row; return where the next one starts."""
    room = drawing.width - text_width(row.summary, TEXT + 1) - 16
    drawing.text((0, top + 13), row.name, "name", room=room)
    drawing.text((drawing.width, top + 13), row.summary, "value", anchor="end")
    frame = _share_frame(drawing, top + _NAME_HEIGHT, _TRACK_HEIGHT * len(row.points))
    for tick, _ in _SHARES.ticks(5):
        x = float(frame.x(tick))
        drawing.line((x, frame.top), (x, frame.bottom), "grid")
    if row.limit is not None:
        x = float(frame.x(min(row.limit, 1.0)))
        drawing.rectangle(x - 1, frame.top - 1, 2, frame.height + 2, _LIMIT)
    for position, point in enumerate(row.points):
        y = frame.top + (position + 0.5) * _TRACK_HEIGHT
        x, low, high = frame.x(point[1:]).tolist()
        drawing.whiskers([(y, low, high)], across=True)
        _paint_symbol(drawing, kinds, kinds[point.name], x, y)
    return frame.bottom + _ROW_GAP


def _paint_symbol(
    drawing: Drawing, kinds: Mapping[str, str], kind: str, x: float, y: float
) -> None:
    """Draw the symbol of a series around a point; that of a limit is an upright line."""
    if kind == _LIMIT:
        drawing.rectangle(x - 1, y - LINE / 3, 2, LINE / 1.5, _LIMIT)
        return
    symbols = (
        circle_path(x, y, 4.5),
        f"M{coordinate(x - 4)} {coordinate(y - 4)}h8v8h-8z",
        f"M{coordinate(x)} {coordinate(y - 5.5)}l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
        f"M{coordinate(x)} {coordinate(y - 5)}l5 9h-10z",
    )
    drawing.path(symbols[list(kinds.values()).index(kind) % len(symbols)], f"{kind} mark")


def _paint_tradeoff(
    points: Sequence[NamedPoint], titles: tuple[str, str], drawing: Drawing
) -> None:
    scales = (
        _scale_of_intervals([point.x for point in points]),
        _scale_of_intervals([point.y for point in points]),
    )
    frame = draw_frame(drawing, scales, titles, height=300)
    # Thin veils, each longer than the one before, so that the tone fades without an edge.
    for veil in range(1, _VEILS):
        width = frame.width * veil / _VEILS
        drawing.rectangle(frame.left, frame.top, width, frame.height, "veil")
    x = frame.x([point.x.value for point in points]).tolist()
    y = frame.y([point.y.value for point in points]).tolist()
    placed = list(zip(points, x, y, strict=True))
    best = sorted((a, b) for point, a, b in placed if point.best)
    if len(best) > 1:
        drawing.path(line_path(*map(list, zip(*best, strict=True))), f"line stroke{_BEST}")
    # Names must cover neither points nor error bars of other points.
    occupied: list[Box] = []
    for point, a, b in placed:
        (left, right), (bottom, top) = frame.x(point.x[1:]), frame.y(point.y[1:])
        drawing.whiskers([(b, left, right)], across=True)
        drawing.whiskers([(a, top, bottom)], across=False)
        occupied += [(left, b - 2, right, b + 2), (a - 2, top, a + 2, bottom)]
    for point, a, b in placed:
        drawing.path(circle_path(a, b, _RADIUS), f"mark tone{_BEST if point.best else _BEATEN}")
    _paint_names(drawing, frame, placed, occupied)


def _scale_of_intervals(intervals: Sequence[Interval]) -> Linear:
    """A scale with round ends around all intervals, within 0 % and 100 %."""
    low, high = min(share.low for share in intervals), max(share.high for share in intervals)
    # At least half a percent, for candidates that hardly differ.
    margin = max(0.05 * (high - low), 0.005)
    scale = scale_around(max(low - margin, 0.0), min(high + margin, 1.0), percent=True)
    return Linear(max(scale.low, 0.0), min(scale.high, 1.0), percent=True)


def _paint_names(
    drawing: Drawing,
    frame: ChartFrame,
    placed: Sequence[tuple[NamedPoint, float, float]],
    occupied: list[Box],
) -> None:
    """Write each name beside its point, or as near as there is room, with a line to the point."""
    occupied += [(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for _, x, y in placed]
    for point, x, y in sorted(placed, key=lambda item: item[2]):
        width = text_width(fit(point.name, _LONGEST_NAME * drawing.width, TEXT), TEXT)
        free = (
            box
            for box in _name_boxes(x, y, width)
            if box[0] >= frame.left
            and box[1] >= frame.top
            and box[2] <= frame.right
            and box[3] <= frame.bottom
            and not any(_overlap(box, occupied_box) for occupied_box in occupied)
        )
        box = next(free, None)
        if box is None:  # too many points here: the table below lists them all
            continue
        occupied.append(box)
        left, top, right, bottom = box
        middle = (top + bottom) / 2
        if abs(middle - y) > _LETTER_HEIGHT + _RADIUS:
            nearer = left if abs(left - x) < abs(right - x) else right
            drawing.line((x, y + (_RADIUS if middle > y else -_RADIUS)), (nearer, middle), "axis")
        drawing.text((left, bottom - 3), point.name, "name haloed", room=width + 1)


def _name_boxes(x: float, y: float, width: float) -> list[Box]:
    """Boxes for the name of a point, the best first: right, left, centred, then further away."""
    gap = _RADIUS + 4
    lefts = [x + gap, x - gap - width, x - width / 2]
    offsets = [0.0]
    for step in range(1, 12):
        offsets += [-step * _LETTER_HEIGHT, step * _LETTER_HEIGHT]
    tops = (y - _LETTER_HEIGHT / 2 + offset for offset in offsets)
    return [(left, top, left + width, top + _LETTER_HEIGHT) for top, left in product(tops, lefts)]


def _overlap(first: Box, second: Box) -> bool:
    return (
        first[0] < second[2]
        and second[0] < first[2]
        and first[1] < second[3]
        and second[1] < first[3]
    )
