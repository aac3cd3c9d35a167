"""Points by two shares, each with its intervals and its name; those that no other beats are joined.

To the right and up is better. Behind them the ground goes from full tone, where everybody is
exposed, to none: privacy in shades. Decision 0294.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from sfumato.report.axes import framed
from sfumato.report.drawing import TEXT, number, polyline
from sfumato.report.picture import Picture
from sfumato.report.scales import Linear, around
from sfumato.report.text_width import fit, text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.report.axes import ChartFrame
    from sfumato.report.blocks import PageTable
    from sfumato.report.drawing import Drawing

    Box = tuple[float, float, float, float]

_RADIUS = 5.0
_HEIGHT = 300
_LETTERS = 15.0
_VEILS = 16
_LONGEST = 0.5
"""A name takes at most such a share of the picture's width."""
_BEST, _BEATEN = 1, 7
"""The tones of points that no other beats, and of the others."""


class Interval(NamedTuple):
    """A share, between its ends."""

    value: float
    low: float
    high: float


class Spot(NamedTuple):
    """A named point; `best` if no other beats it."""

    name: str
    across: Interval
    up: Interval
    best: bool


def frontier(
    spots: Sequence[Spot],
    *,
    label: str,
    titles: tuple[str, str],
    table: PageTable,
    note: str = "",
) -> Picture:
    """Draw named points with their intervals, and a line through the best of them."""
    return Picture(label, table, partial(_paint, spots, titles), note)


def _paint(spots: Sequence[Spot], titles: tuple[str, str], drawing: Drawing) -> None:
    scales = _scale([one.across for one in spots]), _scale([one.up for one in spots])
    frame = framed(drawing, scales, titles, height=_HEIGHT)
    _paint_ground(drawing, frame)
    x = frame.across([one.across.value for one in spots]).tolist()
    y = frame.up([one.up.value for one in spots]).tolist()
    best = sorted((a, b) for one, a, b in zip(spots, x, y, strict=True) if one.best)
    if len(best) > 1:
        drawing.path(polyline(*map(list, zip(*best, strict=True))), f"line stroke{_BEST}")
    taken: list[Box] = []
    for one, a, b in zip(spots, x, y, strict=True):
        (left, right), (bottom, top) = frame.across(one.across[1:]), frame.up(one.up[1:])
        drawing.whiskers([(b, left, right)], across=True)
        drawing.whiskers([(a, top, bottom)], across=False)
        taken += [(left, b - 2, right, b + 2), (a - 2, top, a + 2, bottom)]
    for one, a, b in zip(spots, x, y, strict=True):
        drawing.path(_circle(a, b), f"mark tone{_BEST if one.best else _BEATEN}")
    _paint_names(drawing, frame, list(zip(spots, x, y, strict=True)), taken)


def _scale(ends: Sequence[Interval]) -> Linear:
    """Round shares around all ends, and no further than from none to all."""
    low, high = min(one.low for one in ends), max(one.high for one in ends)
    room = max(0.05 * (high - low), 0.005)
    found = around(max(low - room, 0.0), min(high + room, 1.0), percent=True)
    return Linear(max(found.low, 0.0), min(found.high, 1.0), percent=True)


def _paint_ground(drawing: Drawing, frame: ChartFrame) -> None:
    """Thin veils, each longer than the one before, so that the tone melts away without an edge."""
    for place in range(1, _VEILS):
        width = frame.width * place / _VEILS
        drawing.rectangle(frame.left, frame.top, width, frame.height, "veil")


def _circle(x: float, y: float) -> str:
    size = number(_RADIUS)
    return f"M{number(x - _RADIUS)} {number(y)}a{size} {size} 0 1 1 0 .01z"


def _paint_names(
    drawing: Drawing,
    frame: ChartFrame,
    placed: Sequence[tuple[Spot, float, float]],
    taken: list[Box],
) -> None:
    """Each name beside its point, or as near as there is room, with a line to it."""
    taken += [(a - _RADIUS, b - _RADIUS, a + _RADIUS, b + _RADIUS) for _, a, b in placed]
    inside = frame.left, frame.top, frame.left + frame.width, frame.bottom
    for one, a, b in sorted(placed, key=lambda spot: spot[2]):
        shown = fit(one.name, _LONGEST * drawing.width, TEXT)
        width = text_width(shown, TEXT)
        free = [box for box in _places(a, b, width) if _within(box, inside)]
        box = next((one for one in free if not any(_meet(one, other) for other in taken)), None)
        if box is None:  # so many points: the table has them all
            continue
        taken.append(box)
        left, top, right, bottom = box
        middle = (top + bottom) / 2
        if abs(middle - b) > _LETTERS + _RADIUS:
            nearer = left if abs(left - a) < abs(right - a) else right
            start = b + (_RADIUS if middle > b else -_RADIUS)
            drawing.line((a, start), (nearer, middle), "axis")
        drawing.text((left, bottom - 3), one.name, "name haloed", room=width + 1)


def _places(x: float, y: float, width: float) -> list[Box]:
    """Where a name may stand, the best places first: to the sides of its point, then further."""
    gap = _RADIUS + 4
    starts = [x + gap, x - gap - width, x - width / 2]
    rises = [0.0]
    for step in range(1, 12):
        rises += [-step * _LETTERS, step * _LETTERS]
    found = []
    for rise, start in product(rises, starts):
        top = y - _LETTERS / 2 + rise
        found.append((start, top, start + width, top + _LETTERS))
    return found


def _within(box: Box, outer: Box) -> bool:
    return box[0] >= outer[0] and box[1] >= outer[1] and box[2] <= outer[2] and box[3] <= outer[3]


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
