"""Charts in one quiet hand: bars, lines and skylines with the error of noisy figures drawn."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.errors import ParameterError
from sfumato.report.axes import framed
from sfumato.report.blocks import PageTable
from sfumato.report.drawing import TEXT, box, number, polyline
from sfumato.report.numbers import show
from sfumato.report.palette import TONES
from sfumato.report.picture import Picture
from sfumato.report.scales import Dates, Linear, Logarithmic, around
from sfumato.report.text_width import text_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.report.axes import ChartFrame
    from sfumato.report.drawing import Drawing
    from sfumato.report.scales import Scale

NOISE_ALONE = (
    "Thin lines or a pale band are error bars of the noise alone, in 95 % of cases: what else "
    "keeps figures from the truth depends on the data."
)
_ERROR_NOTE = "Thin lines or a pale band are error bars: the truth is within in 95 % of cases."
_DOTS = 40
"""Lines of more points than that have no dots."""
_MOST_POINTS = 800


class Point(NamedTuple):
    """A point of a chart; a line's band goes from `low` to `high`."""

    series: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None


class Bar(NamedTuple):
    """A bar with its name; the truth is between `low` and `high` in 95 % of cases."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


def bar(
    bars: Sequence[tuple[str, float] | Bar],
    *,
    label: str,
    what: str,
    value: str,
    percent: bool = False,
    accent: str | None = None,
    words: Sequence[str] | None = None,
    note: str = "",
) -> Picture:
    """Draw horizontal bars in the given order, each under its name; one may be accented.

    Beside each stands its figure, or the words given in place of it.
    """
    drawn = [Bar(*one) for one in bars]
    check_finite(drawn)
    written = words or [show(one.value, percent=percent) for one in drawn]
    paint = partial(_paint_bars, drawn, written, percent=percent, accent=accent)
    far = _far(drawn, percent=percent)
    rows = [(one.name, *rest) for one, *rest in zip(drawn, written, *far, strict=True)]
    headers = (what, value, *(("95 % within",) if far else ()))
    return Picture(label, PageTable(label, headers, rows), paint, _about(drawn, note))


def grouped(
    groups: Sequence[tuple[str, Sequence[Bar]]],
    *,
    label: str,
    what: tuple[str, str],
    value: str,
    note: str = "",
) -> Picture:
    """Draw bars of a few series under the name of each group, in the colours of a legend."""
    drawn = [one for _, bars in groups for one in bars]
    check_finite(drawn)
    far = _far(drawn)
    names = [group for group, bars in groups for _ in bars]
    rows = [
        (group, one.name, show(one.value), *rest)
        for group, one, *rest in zip(names, drawn, *far, strict=True)
    ]
    headers = (*what, value, *(("95 % within",) if far else ()))
    paint = partial(_paint_groups, groups, what[1])
    return Picture(label, PageTable(label, headers, rows), paint, _about(drawn, note))


def skyline(
    bars: Sequence[tuple[str, str, float]],
    *,
    label: str,
    what: str,
    series: str,
    value: str,
    percent: bool = False,
) -> Picture:
    """Draw many thin bars from low to high, coloured by series; names are in the table."""
    check_finite([Bar(name, height) for name, _, height in bars])
    ordered = sorted(bars, key=lambda one: one[2])
    rows = [(name, group, show(n, percent=percent)) for name, group, n in reversed(ordered)]
    tones = _tones(group for _, group, _ in bars)
    paint = partial(_paint_skyline, ordered, tones, series, value, percent=percent)
    return Picture(label, PageTable(label, (what, series, value), rows), paint)


def line(
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
    """Draw one line per series, with a band around it where the points have one.

    A line in steps stays at the height of a point up to the next one, and has no dots. Where x are
    `dates` they are days since the beginning of 1970. The table is that of all points unless given.
    """
    check_finite(points)
    banded = any(point.low is not None for point in points)
    headers = (series, x, y, *(("from", "to") if banded else ()))
    rows = [
        (
            point.series,
            shown_at(point.x, dates=dates),
            *(show(n, percent=percent) for n in point[2:] if n is not None),
        )
        for point in points
    ]
    across = _axis([point.x for point in points], logarithmic=logarithmic, dates=dates)
    heights = [n for point in points for n in point[2:] if n is not None]
    up: Scale = (
        _axis(heights, logarithmic=True)
        if logarithmic_y
        else around(*_ends(heights), percent=percent)
    )
    paint = partial(_paint_lines, points, (across, up), (x, y), series, steps=steps)
    note = with_error_note(note) if banded else note
    return Picture(label, table or PageTable(label, headers, rows), paint, note)


def shown_at(place: float, *, dates: bool) -> str:
    """A place on an axis in words: a number, or the date of a day."""
    return str(np.datetime64(math.floor(place), "D")) if dates else show(place)


def check_finite(marks: Iterable[Bar | Point]) -> None:
    """Refuse what no picture can show."""
    for one in (part for mark in marks for part in mark[1:] if part is not None):
        if not math.isfinite(one):
            raise ParameterError(
                "chart_not_finite",
                f"A chart cannot show {one}; give finite numbers and leave the others out.",
            )


def _far(bars: Sequence[Bar], *, percent: bool = False) -> list[list[str]]:
    """A column of a table with the error of each bar, or none if none is known."""
    if not _with_errors(bars):
        return []
    return [
        [
            "–"
            if one.low is None or one.high is None
            else f"± {show((one.high - one.low) / 2, percent=percent)}"
            for one in bars
        ]
    ]


def _with_errors(bars: Sequence[Bar]) -> bool:
    return any(one.low is not None for one in bars)


def _about(bars: Sequence[Bar], note: str) -> str:
    return with_error_note(note) if _with_errors(bars) else note


def with_error_note(note: str) -> str:
    """A note with what error bars mean behind it, unless it tells that they are of noise alone."""
    if NOISE_ALONE in note:
        return note
    return f"{note} {_ERROR_NOTE}".strip()


def _ends(numbers: Sequence[float]) -> tuple[float, float]:
    return min(numbers, default=0.0), max(numbers, default=0.0)


def _axis(places: Sequence[float], *, logarithmic: bool = False, dates: bool = False) -> Scale:
    low, high = _ends(places)
    if logarithmic and low > 0:
        return Logarithmic(low, high) if low < high else Logarithmic(low / 2, high * 2)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return Dates(low, high) if dates else Linear(low, high)


def _tones(series: Iterable[str]) -> dict[str, int]:
    """One tone for each series, in the order in which they come."""
    return {name: place % len(TONES) for place, name in enumerate(dict.fromkeys(series))}


def _bar_scale(bars: Sequence[Bar], *, percent: bool = False) -> Linear:
    numbers = [number for one in bars for number in one[1:] if number is not None]
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    return Linear(low, max(high, 1.0) if percent else high if high > low else low + 1.0)


def _paint_bars(
    bars: Sequence[Bar],
    written: Sequence[str],
    drawing: Drawing,
    *,
    percent: bool,
    accent: str | None,
) -> None:
    scale = _bar_scale(bars, percent=percent)
    for place, (one, value) in enumerate(zip(bars, written, strict=True)):
        top = 34.0 * place
        taken = text_width(value, TEXT + 1) + 16
        drawing.text((0, top + 13), one.name, "name", room=drawing.width - taken)
        drawing.text((drawing.width, top + 13), value, "value", anchor="end")
        kind = "tone3" if accent is not None and one.name == accent else "tone0"
        _paint_bar(drawing, one, scale, (0, drawing.width), (top + 19, 9), kind)
    drawing.height = 34.0 * len(bars) + 2


def _paint_bar(
    drawing: Drawing,
    one: Bar,
    scale: Linear,
    span: tuple[float, float],
    rows: tuple[float, float],
    kind: str,
) -> None:
    """One bar from zero, to the left where its figure is below it, and how far it may be off.

    Where zero is shows if bars lie on both of its sides.
    """
    (start, length), (top, height) = span, rows
    edge = 2 if one.low is not None else 0  # so that no cap of an error bar is cut
    zero, end = (start + edge + (length - 2 * edge) * scale.share([0.0, one.value])).tolist()
    drawing.rectangle(min(zero, end), top, abs(end - zero), height, kind)
    if scale.low < 0:
        drawing.line((zero, top - 3), (zero, top + height + 3), "axis")
    if one.low is not None and one.high is not None:
        low, high = (start + edge + (length - 2 * edge) * scale.share([one.low, one.high])).tolist()
        drawing.whiskers([(top + height / 2, low, high)], across=True)


def _paint_groups(
    groups: Sequence[tuple[str, Sequence[Bar]]], series: str, drawing: Drawing
) -> None:
    drawn = [one for _, bars in groups for one in bars]
    tones = _tones(one.name for one in drawn)
    scale = _bar_scale(drawn)
    figures = max(text_width(show(one.value), TEXT + 1) for one in drawn) + 12
    length = drawing.width - figures
    entries = [(f"tone{tone}", name) for name, tone in tones.items()]
    top = drawing.legend(0, entries, series) + 8
    for name, bars in groups:
        drawing.text((0, top + 14), name, "name", room=drawing.width)
        top += 20
        for one in bars:
            _paint_bar(drawing, one, scale, (0, length), (top + 3, 9), f"tone{tones[one.name]}")
            drawing.text((drawing.width, top + 12), show(one.value), "value", anchor="end")
            top += 17
        top += 8
    drawing.height = top


def _paint_skyline(
    ordered: Sequence[tuple[str, str, float]],
    tones: dict[str, int],
    series: str,
    value: str,
    drawing: Drawing,
    *,
    percent: bool,
) -> None:
    up = around(*_ends([n for *_, n in ordered]), zero=True, percent=percent)
    frame = framed(
        drawing, (Linear(0, max(len(ordered), 1)), up), ("", value), height=200, labels=False
    )
    each = frame.width / max(len(ordered), 1)
    zero = float(frame.up(0.0))
    shapes: dict[int, list[str]] = {}
    for place, ((_, group, _), top) in enumerate(
        zip(ordered, frame.up([n for *_, n in ordered]).tolist(), strict=True)
    ):
        left = frame.left + each * (place + 0.075)
        shapes.setdefault(tones[group], []).append(box(left, zero, 0.85 * each, top - zero))
    for tone, shape in sorted(shapes.items()):
        drawing.path("".join(shape), f"tone{tone}")
    _legend_of(drawing, tones, series)


def _paint_lines(
    points: Sequence[Point],
    scales: tuple[Scale, Scale],
    titles: tuple[str, str],
    series: str,
    drawing: Drawing,
    *,
    steps: bool,
) -> None:
    frame = framed(drawing, scales, titles, height=240)
    tones = _tones(point.series for point in points)
    by_series = {name: [one for one in points if one.series == name] for name in tones}
    for name, of_series in by_series.items():
        _paint_band(drawing, frame, thinned(of_series), f"band tone{tones[name]}", steps=steps)
    for name, of_series in by_series.items():
        drawn = thinned(of_series)
        x, y = frame.across([one.x for one in drawn]), frame.up([one.y for one in drawn])
        tone = tones[name]
        drawing.path(polyline(x.tolist(), y.tolist(), steps=steps), f"line stroke{tone}")
        if not steps and len(drawn) <= _DOTS:
            dots = (
                f"M{number(a - 3)} {number(b)}a3 3 0 1 1 0 .01z" for a, b in zip(x, y, strict=True)
            )
            drawing.path("".join(dots), f"tone{tone}")
    _legend_of(drawing, tones, series)


def thinned(points: Sequence[Point]) -> Sequence[Point]:
    """As many of the points as an eye can tell apart, evenly, with the last one."""
    step = math.ceil(len(points) / _MOST_POINTS)
    return points if step <= 1 else [*points[:-1:step], points[-1]]


def _paint_band(
    drawing: Drawing, frame: ChartFrame, points: Sequence[Point], kind: str, *, steps: bool
) -> None:
    banded = [(one.x, one.low, one.high) for one in points if one.low is not None is not one.high]
    if not banded:
        return
    x, low, high = (np.asarray(one, dtype=np.float64) for one in zip(*banded, strict=True))
    across = frame.across(x).tolist()
    there = polyline(across, frame.up(high).tolist(), steps=steps)
    back = polyline(across[::-1], frame.up(low).tolist()[::-1], steps=steps, rises_first=True)
    drawing.path(f"{there}L{back[1:]}z", kind)


def _legend_of(drawing: Drawing, tones: dict[str, int], title: str) -> None:
    """A legend below; a single series needs none."""
    if len(tones) > 1:
        entries = [(f"tone{tone}", name) for name, tone in tones.items()]
        drawing.height = drawing.legend(drawing.height, entries, title)
