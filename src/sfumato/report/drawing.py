"""Marks on a sheet of SVG: shapes with a class each, text that knows its room.

Nothing has a name, a style or a reference of its own, so any number of drawings share a page.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from sfumato.report.text_width import fit, text_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SMALL, TEXT = 12, 13
"""The sizes of letters: of axes and legends, and of names and figures."""
_GAP = 16
_SWATCH = 11
LINE = 20
"""From one line of a legend to the next."""

# What XML has no place for, not even escaped.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def number(value: float) -> str:
    """A coordinate: a tenth of a pixel is enough for any eye, and the shortest form of it."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def escaped(text: str) -> str:
    """Text as it may stand in a drawing; characters that steer machines have a mark instead."""
    return escape(_NO_XML.sub("\ufffd", text))


def box(x: float, y: float, width: float, height: float) -> str:
    """A rectangle as a part of a path; it may go up from its beginning."""
    return f"M{number(x)} {number(y)}h{number(width)}v{number(height)}h{number(-width)}z"


def polyline(
    x: Sequence[float], y: Sequence[float], *, steps: bool = False, rises_first: bool = False
) -> str:
    """A line through points, slanting or in steps; one that comes back in steps rises first."""
    places = [f"{number(a)} {number(b)}" for a, b in zip(x, y, strict=True)]
    if not steps:
        return f"M{'L'.join(places)}"
    shape = [f"M{places[0]}"]
    for a, b in zip(x[1:], y[1:], strict=True):
        shape.append(f"V{number(b)}H{number(a)}" if rises_first else f"H{number(a)}V{number(b)}")
    return "".join(shape)


class Drawing:
    """A sheet of a fixed width on which marks are put; it grows as high as it was told."""

    def __init__(self, width: float) -> None:
        """Begin an empty sheet."""
        self.width = width
        self.height = 0.0
        self._marks: list[str] = []

    def add(self, mark: str) -> None:
        """Put a mark that is SVG already."""
        self._marks.append(mark)

    def rectangle(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """Put a rectangle; one without an area is not seen, and left out."""
        if width > 0 and height > 0:
            x, y, width, height = map(number, (x, y, width, height))  # type: ignore[assignment]
            self.add(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"/>')

    def line(self, start: tuple[float, float], end: tuple[float, float], kind: str) -> None:
        """Put a straight line."""
        (x1, y1), (x2, y2) = (map(number, one) for one in (start, end))
        self.add(f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')

    def path(self, shape: str, kind: str) -> None:
        """Put a shape, unless it is empty."""
        if shape:
            self.add(f'<path class="{kind}" d="{shape}"/>')

    def text(
        self,
        place: tuple[float, float],
        words: str,
        kind: str = "tick",
        *,
        room: float | None = None,
        anchor: str = "start",
        upright: bool = False,
    ) -> None:
        """Put words on a line; what has no room is cut with an ellipsis, and told on a touch."""
        size = SMALL if kind == "tick" else TEXT
        shown = words if room is None else fit(words, room, size)
        x, y = map(number, place)
        turned = f' transform="rotate(-90 {x} {y})"' if upright else ""
        ends = "" if anchor == "start" else f' text-anchor="{anchor}"'
        whole = "" if shown == words else f"<title>{escaped(words)}</title>"
        self.add(
            f'<text class="{kind}" x="{x}" y="{y}"{ends}{turned}>{whole}{escaped(shown)}</text>'
        )

    def whiskers(self, bars: Iterable[tuple[float, float, float]], *, across: bool) -> None:
        """Put error bars: the place of each, and its two ends along the other direction."""
        shape = []
        for place, low, high in bars:
            at, start, end, length = map(number, (place, low, high, high - low))
            if across:
                cap = number(place - 3)
                shape.append(f"M{start} {cap}v6M{start} {at}h{length}M{end} {cap}v6")
            else:
                cap = number(place - 3)
                shape.append(f"M{cap} {start}h6M{at} {start}v{length}M{cap} {end}h6")
        self.path("".join(shape), "whisker")

    def legend(
        self,
        top: float,
        entries: Sequence[tuple[str, str]],
        title: str = "",
        mark: Callable[[str, float, float], None] | None = None,
    ) -> float:
        """Put a swatch with words for each entry, in as many lines as they need; the new bottom.

        In place of swatches, `mark` draws that of a kind around a place.
        """
        x, y = 0.0, top + LINE
        if title:
            room = min(text_width(title, SMALL), self.width)
            self.text((0, y - 5), title, room=room)
            x = room + _GAP
        for kind, words in entries:
            room = min(text_width(words, SMALL), self.width - _SWATCH - 6)
            if x > 0 and x + _SWATCH + 6 + room > self.width:
                x, y = 0.0, y + LINE
            if mark is None:
                self.rectangle(x, y - 5 - _SWATCH + 1, _SWATCH, _SWATCH, f"swatch {kind}")
            else:
                mark(kind, x + _SWATCH / 2, y - 4 - _SWATCH / 2)
            self.text((x + _SWATCH + 6, y - 5), words, room=room)
            x += _SWATCH + 6 + room + _GAP
        return y

    def svg(self, head: str, inside: str = "") -> str:
        """The whole element; `head` are more attributes and `inside` what stands before marks."""
        width, height = number(self.width), number(self.height)
        marks = "".join(self._marks)
        return (
            f'<svg class="picture" {head} width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">{inside}{marks}</svg>'
        )
