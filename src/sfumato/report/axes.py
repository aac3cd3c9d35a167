"""The frame of a chart: two axes with their titles, and the place of every value between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.report.drawing import LINE, SMALL
from sfumato.report.text_width import text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray
    from sfumato.report.drawing import Drawing
    from sfumato.report.scales import Scale, Tick

_APART = 12
"""At least so many pixels lie between two labels of an axis."""


@dataclass(frozen=True)
class ChartFrame:
    """The inside of a chart in pixels, and the scales of its sides."""

    left: float
    top: float
    width: float
    height: float
    x: Scale
    y: Scale

    @property
    def bottom(self) -> float:
        """The lower side."""
        return self.top + self.height

    def across(self, values: Any) -> FloatArray:
        """Where values lie from left to right."""
        return self.left + self.width * self.x.share(values)

    def up(self, values: Any) -> FloatArray:
        """Where values lie from top to bottom: the higher, the nearer to the top."""
        return self.bottom - self.height * self.y.share(values)


def framed(
    drawing: Drawing,
    scales: tuple[Scale, Scale],
    titles: tuple[str, str],
    *,
    height: float,
    labels: bool = True,
) -> ChartFrame:
    """Draw two axes around a place for marks; the title of the upright one lies above it.

    The axis below has no `labels` where places along it have no meaning.
    """
    x, y = scales
    left = upright_room(y, height)
    top = LINE + 8.0
    frame = ChartFrame(left, top, drawing.width - left - 8, height, x, y)
    drawing.text((0, SMALL + 2), titles[1], room=drawing.width)
    draw_up(drawing, frame, grid=True)
    drawing.height = frame.bottom + 6
    if labels:
        drawing.height = draw_across(drawing, frame, titles[0])
    return frame


def upright_room(scale: Scale, height: float) -> float:
    """The pixels that the labels of an upright axis take."""
    return max((text_width(words, SMALL) for _, words in _rising(scale, height)), default=0.0) + 8


def _rising(scale: Scale, height: float) -> list[Tick]:
    return scale.ticks(max(2, int(height / 40)))


def draw_up(drawing: Drawing, frame: ChartFrame, *, grid: bool) -> None:
    """Draw the labels of the upright axis, each with a line across the frame where asked for."""
    rising = _rising(frame.y, frame.height)
    for (_, words), at in zip(rising, frame.up([one for one, _ in rising]).tolist(), strict=True):
        if grid:
            drawing.line((frame.left, at), (frame.left + frame.width, at), "grid")
        drawing.text((frame.left - 8, at + 4), words, anchor="end")


def draw_across(drawing: Drawing, frame: ChartFrame, title: str) -> float:
    """Draw the axis below a frame and its title; the new bottom."""
    drawing.line((frame.left, frame.bottom), (frame.left + frame.width, frame.bottom), "axis")
    for tick, (start, words) in _apart(drawing, frame):
        at = float(frame.across([tick])[0])
        drawing.line((at, frame.bottom), (at, frame.bottom + 4), "axis")
        drawing.text((start, frame.bottom + 18), words)
    drawing.text(
        (frame.left + frame.width / 2, frame.bottom + 18 + LINE),
        title,
        room=2 * min(frame.width / 2 + 8, frame.left + frame.width / 2),
        anchor="middle",
    )
    return frame.bottom + 18 + LINE + 6


def _apart(drawing: Drawing, frame: ChartFrame) -> list[tuple[float, tuple[float, str]]]:
    """As many labels as lie apart from each other, each with where it begins, none cut."""
    for most in range(min(12, max(2, int(frame.width / 40))), 0, -1):
        ticks = frame.x.ticks(most)
        placed = place_labels(ticks, frame.across([one for one, _ in ticks]), drawing.width)
        ends = [start + text_width(words, SMALL) for start, words in placed]
        if all(end + _APART <= start for end, (start, _) in zip(ends, placed[1:], strict=False)):
            break
    return list(zip([one for one, _ in ticks], placed, strict=True))


def place_labels(
    ticks: Sequence[Tick], centres: FloatArray, width: float
) -> list[tuple[float, str]]:
    """Where each label begins: around its tick, and inside the drawing."""
    placed = []
    for (_, words), centre in zip(ticks, centres.tolist(), strict=True):
        room = text_width(words, SMALL)
        placed.append((max(0.0, min(centre - room / 2, width - room)), words))
    return placed
