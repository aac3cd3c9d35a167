"""Shares on one scale from none to all: a row for each thing, a point with its interval for each
series, and a line where something sets a limit.

Series differ by shape and by colour, so that neither is needed to tell them apart.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sfumato.report.axes import ChartFrame, draw_across
from sfumato.report.charts import Bar, check_finite
from sfumato.report.drawing import LINE, TEXT, number
from sfumato.report.picture import Picture
from sfumato.report.scales import Linear
from sfumato.report.text_width import text_width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.report.blocks import PageTable
    from sfumato.report.drawing import Drawing

_TONES = ("tone3", "tone7", "tone5", "tone4")
"""Cinnabar stands out, lead does not; then sky and moss."""
_LIMIT = "limit"
_SCALE = Linear(0.0, 1.0, percent=True)
_NAME, _TRACK, _GAP, _EDGE = 22.0, 13.0, 12.0, 6.0
"""The pixels of a row: its name, one line for each point, the space below; and beside them."""


class SharePoint(NamedTuple):
    """A share of a series, between two ends that hold it in 95 of 100 cases."""

    series: str
    value: float
    low: float
    high: float


class ShareRow(NamedTuple):
    """What is told on one row: points one below the other, in words beside its name.

    `limit` is what its points should stay below, where there is such a thing.
    """

    name: str
    words: str
    points: Sequence[SharePoint]
    limit: float | None = None


def shares(
    rows: Sequence[ShareRow],
    *,
    label: str,
    table: PageTable,
    value: str,
    limit: str = "",
    note: str = "",
) -> Picture:
    """Draw shares with their intervals; `limit` says in the legend what a line across means."""
    check_finite(Bar(row.name, *point[1:]) for row in rows for point in row.points)
    series = list(dict.fromkeys(point.series for row in rows for point in row.points))
    kinds = {name: _TONES[place % len(_TONES)] for place, name in enumerate(series)}
    paint = partial(_paint, rows, kinds, value, limit)
    return Picture(label, table, paint, note)


def _paint(
    rows: Sequence[ShareRow], kinds: Mapping[str, str], value: str, limit: str, drawing: Drawing
) -> None:
    entries = [(kind, name) for name, kind in kinds.items()]
    if limit and any(row.limit is not None for row in rows):
        entries.append((_LIMIT, limit))
    top = drawing.legend(0, entries, mark=partial(_shape, drawing, kinds)) + _GAP
    for row in rows:
        top = _paint_row(drawing, row, kinds, top)
    frame = _frame(drawing, top, 0.0)
    drawing.height = draw_across(drawing, frame, value)


def _frame(drawing: Drawing, top: float, height: float) -> ChartFrame:
    return ChartFrame(_EDGE, top, drawing.width - 2 * _EDGE, height, _SCALE, _SCALE)


def _paint_row(drawing: Drawing, row: ShareRow, kinds: Mapping[str, str], top: float) -> float:
    """One row from its name to the space below it; the new bottom."""
    told = text_width(row.words, TEXT + 1)
    drawing.text((0, top + 13), row.name, "name", room=drawing.width - told - 16)
    drawing.text((drawing.width, top + 13), row.words, "value", anchor="end")
    frame = _frame(drawing, top + _NAME, _TRACK * len(row.points))
    for tick, _ in _SCALE.ticks(5):
        at = float(frame.across([tick])[0])
        drawing.line((at, frame.top), (at, frame.bottom), "grid")
    if row.limit is not None:
        at = float(frame.across([min(row.limit, 1.0)])[0])
        drawing.rectangle(at - 1, frame.top - 1, 2, frame.height + 2, _LIMIT)
    for place, point in enumerate(row.points):
        y = frame.top + (place + 0.5) * _TRACK
        at, low, high = frame.across(point[1:]).tolist()
        drawing.whiskers([(y, low, high)], across=True)
        _shape(drawing, kinds, kinds[point.series], at, y)
    return frame.bottom + _GAP


def _shape(drawing: Drawing, kinds: Mapping[str, str], kind: str, x: float, y: float) -> None:
    """The mark of a series around a place; a limit is an upright line."""
    if kind == _LIMIT:
        drawing.rectangle(x - 1, y - LINE / 3, 2, LINE / 1.5, _LIMIT)
        return
    left, up = number(x - 4.5), number(y - 4)
    shapes = (
        f"M{left} {number(y)}a4.5 4.5 0 1 1 0 .01z",
        f"M{number(x - 4)} {up}h8v8h-8z",
        f"M{number(x)} {number(y - 5.5)}l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
        f"M{number(x)} {number(y - 5)}l5 9h-10z",
    )
    drawing.path(shapes[list(kinds.values()).index(kind) % len(shapes)], f"{kind} mark")
