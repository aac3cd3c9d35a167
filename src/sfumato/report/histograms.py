"""Counts along an ordered column: a bar over the stretch of each, and how far it may be off."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.report.axes import framed
from sfumato.report.charts import Bar, check_finite, with_error_note
from sfumato.report.drawing import box, polyline
from sfumato.report.picture import Picture
from sfumato.report.scales import Dates, Linear, around

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray
    from sfumato.report.blocks import PageTable
    from sfumato.report.drawing import Drawing
    from sfumato.report.scales import Scale

MOST_BARS = 512
_ROOM_FOR_WHISKERS = 7
_ROOM_FOR_GAPS = 4


class Stretches(NamedTuple):
    """Stretches of an axis from edge to edge, the height of each and how far it may be off."""

    lows: FloatArray
    highs: FloatArray
    heights: FloatArray
    off: FloatArray | None = None


def histogram(
    stretches: Stretches,
    *,
    label: str,
    table: PageTable,
    x: str,
    y: str,
    dates: bool = False,
    note: str = "",
) -> Picture:
    """Draw a bar over every stretch, in order; of very many, averages of neighbours."""
    check_finite(Bar("", height) for height in stretches.heights.tolist())
    drawn, together = _together(stretches)
    if together > 1:
        note = f"Each bar is the average of {together:,} neighbours. {note}".strip()
    across: Scale = (Dates if dates else Linear)(float(drawn.lows[0]), float(drawn.highs[-1]))
    note = note if drawn.off is None else with_error_note(note)
    return Picture(label, table, partial(_paint, drawn, across, (x, y)), note)


def _together(given: Stretches) -> tuple[Stretches, int]:
    """Neighbours put together until there are not too many, and how many of them make one.

    No average is further off than the worst of the figures that it is made of.
    """
    size = len(given.lows)
    each = math.ceil(size / MOST_BARS)
    if each == 1:
        return given, 1
    starts = np.arange(0, size, each)
    widths = given.highs - given.lows
    masses = np.add.reduceat(given.heights * widths, starts)
    heights = masses / np.add.reduceat(widths, starts)
    off = None if given.off is None else np.maximum.reduceat(given.off, starts)
    ends = np.minimum(starts + each, size) - 1
    return Stretches(given.lows[starts], given.highs[ends], heights, off), each


def _paint(drawn: Stretches, across: Scale, titles: tuple[str, str], drawing: Drawing) -> None:
    off = np.zeros(len(drawn.heights)) if drawn.off is None else np.nan_to_num(drawn.off)
    lowest, highest = float((drawn.heights - off).min()), float((drawn.heights + off).max())
    frame = framed(drawing, (across, around(lowest, highest, zero=True)), titles, height=240)
    left, right = frame.across(drawn.lows), frame.across(drawn.highs)
    zero = float(frame.up(0.0))
    widths = right - left
    gap = 1.0 if widths.min() >= _ROOM_FOR_GAPS else 0.0
    boxes = zip(
        left.tolist(),
        (widths - gap).tolist(),
        (frame.up(drawn.heights) - zero).tolist(),
        strict=True,
    )
    drawing.path("".join(box(x, zero, width, height) for x, width, height in boxes), "tone0")
    if zero < frame.bottom - 1:
        drawing.line((frame.left, zero), (frame.left + frame.width, zero), "axis")
    if drawn.off is None:
        return
    low, high = frame.up(drawn.heights - off), frame.up(drawn.heights + off)
    if widths.min() >= _ROOM_FOR_WHISKERS:
        middles = (left + right - gap) / 2
        drawing.whiskers(
            zip(middles.tolist(), high.tolist(), low.tolist(), strict=True), across=False
        )
    else:
        edges = [*left.tolist(), float(right[-1])]
        there = polyline(edges, [*high.tolist(), float(high[-1])], steps=True)
        back = [float(low[-1]), *low.tolist()[::-1]]
        drawing.path(
            f"{there}L{polyline(edges[::-1], back, steps=True, rises_first=True)[1:]}z", "haze"
        )
