"""A sheet of SVG: shapes with a class each, and text that knows how much room it has.

A drawing has no ids, styles or references of its own, so any number of them can share a page; the
style sheet of the page gives each class its colour.
"""

from __future__ import annotations

import re
import unicodedata
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


SMALL, TEXT = 12, 13
"""Font sizes in pixels: of axes and legends, and of names and numbers."""
LINE = 20
"""Pixels from one line of a legend to the next."""
_GAP = 16
_SWATCH = 11

# Characters that XML does not allow, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def coordinate(value: float) -> str:
    """A coordinate in its shortest form, to a tenth of a pixel."""
    # Less than a tenth of a pixel cannot be seen, and fewer digits keep pages small.
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def escape_text(text: str) -> str:
    """Text as it may stand in a drawing; a mark replaces each control character."""
    return escape(_NOT_XML.sub("\ufffd", text))


def rectangle_path(x: float, y: float, width: float, height: float) -> str:
    """A rectangle as part of a path; with a negative height it goes up from `y`."""
    x_, y_, right, down, left = map(coordinate, (x, y, width, height, -width))
    return f"M{x_} {y_}h{right}v{down}h{left}z"


def circle_path(x: float, y: float, radius: float) -> str:
    """A circle as part of a path."""
    size = coordinate(radius)
    return f"M{coordinate(x - radius)} {coordinate(y)}a{size} {size} 0 1 1 0 .01z"


def line_path(
    x: Sequence[float], y: Sequence[float], *, steps: bool = False, rises_first: bool = False
) -> str:
    """A line through points, straight from one to the next or in steps.

    A line in steps keeps the height of a point up to the next point. With `rises_first` it changes
    its height first, as the lower edge of a band does that is drawn backwards.
    """
    points = [f"{coordinate(a)} {coordinate(b)}" for a, b in zip(x, y, strict=True)]
    if not steps:
        return f"M{'L'.join(points)}"
    segments = [f"M{points[0]}"]
    for a, b in zip(map(coordinate, x[1:]), map(coordinate, y[1:]), strict=True):
        segments.append(f"V{b}H{a}" if rises_first else f"H{a}V{b}")
    return "".join(segments)


def band_path(
    x: Sequence[float], tops: Sequence[float], bottoms: Sequence[float], *, steps: bool
) -> str:
    """Return the area between two lines: along the tops, then back along the bottoms."""
    forward = line_path(x, tops, steps=steps)
    backward = line_path(x[::-1], bottoms[::-1], steps=steps, rises_first=True)
    return f"{forward}L{backward[1:]}z"


class Drawing:
    """A sheet of a fixed width. The caller sets `height` to the bottom of its marks."""

    def __init__(self, width: float) -> None:
        """Start an empty sheet, `width` pixels wide."""
        self.width = width
        self.height = 0.0
        self._marks: list[str] = []

    def add(self, mark: str) -> None:
        """Add a mark that is already SVG."""
        self._marks.append(mark)

    def rectangle(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """Add a rectangle, unless it is empty."""
        if width > 0 and height > 0:
            x, y, width, height = map(coordinate, (x, y, width, height))  # type: ignore[assignment]
            self.add(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"/>')

    def line(self, start: tuple[float, float], end: tuple[float, float], kind: str) -> None:
        """Add a straight line."""
        x1, y1, x2, y2 = map(coordinate, (*start, *end))
        self.add(f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')

    def path(self, shape: str, kind: str) -> None:
        """Add a path, unless it is empty."""
        if shape:
            self.add(f'<path class="{kind}" d="{shape}"/>')

    def text(
        self,
        position: tuple[float, float],
        content: str,
        kind: str = "tick",
        *,
        room: float | None = None,
        anchor: str = "start",
        upright: bool = False,
    ) -> None:
        """Add a line of text. Text wider than `room` is cut; a tooltip then has all of it."""
        size = SMALL if kind == "tick" else TEXT
        shown = content if room is None else fit(content, room, size)
        x, y = map(coordinate, position)
        turned = f' transform="rotate(-90 {x} {y})"' if upright else ""
        ends = "" if anchor == "start" else f' text-anchor="{anchor}"'
        title = "" if shown == content else f"<title>{escape_text(content)}</title>"
        self.add(
            f'<text class="{kind}" x="{x}" y="{y}"{ends}{turned}>{title}{escape_text(shown)}</text>'
        )

    def whiskers(self, bars: Iterable[tuple[float, float, float]], *, across: bool) -> None:
        """Add error bars with caps: for each, its position and its two ends.

        With `across` they lie horizontally at a height, else they stand upright at an x.
        """
        segments = []
        for position, low, high in bars:
            at, start, end, length = map(coordinate, (position, low, high, high - low))
            cap = coordinate(position - 3)
            if across:
                segments.append(f"M{start} {cap}v6M{start} {at}h{length}M{end} {cap}v6")
            else:
                segments.append(f"M{cap} {start}h6M{at} {start}v{length}M{cap} {end}h6")
        self.path("".join(segments), "whisker")

    def legend(
        self,
        top: float,
        entries: Sequence[tuple[str, str]],
        title: str = "",
        draw_symbol: Callable[[str, float, float], None] | None = None,
    ) -> float:
        """Add a legend below `top`, in as many lines as it needs; return its bottom.

        An entry is a class and its name. Instead of swatches, `draw_symbol` draws the symbol of a
        class around a point.
        """
        x, y = 0.0, top + LINE
        if title:
            room = min(text_width(title, SMALL), self.width)
            self.text((0, y - 5), title, room=room)
            x = room + _GAP
        for kind, name in entries:
            room = min(text_width(name, SMALL), self.width - _SWATCH - 6)
            if x > 0 and x + _SWATCH + 6 + room > self.width:
                x, y = 0.0, y + LINE
            if draw_symbol is None:
                self.rectangle(x, y - 5 - _SWATCH + 1, _SWATCH, _SWATCH, f"swatch {kind}")
            else:
                draw_symbol(kind, x + _SWATCH / 2, y - 4 - _SWATCH / 2)
            self.text((x + _SWATCH + 6, y - 5), name, room=room)
            x += _SWATCH + 6 + room + _GAP
        return y

    def series_legend(self, tones: dict[str, int], title: str) -> None:
        """Add a legend of series at the bottom; a single series needs none."""
        if len(tones) > 1:
            entries = [(f"tone{tone}", name) for name, tone in tones.items()]
            self.height = self.legend(self.height, entries, title)

    def svg(self, attributes: str, before: str = "") -> str:
        """Return the whole SVG element, with more `attributes` and elements `before` the marks."""
        width, height = coordinate(self.width), coordinate(self.height)
        marks = "".join(self._marks)
        return (
            f'<svg class="picture" {attributes} width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">{before}{marks}</svg>'
        )


# The width of text, computed without a browser, so that labels are neither cut nor overlap.
#
# The widths are those of a wide sans-serif font. In other fonts the same text takes less room.


# The width of each letter, in hundredths of the font size.
_HUNDREDTHS = {
    "'ijlIJ": 29, " ,./:;\\|": 34, "f-()[]t!": 40, 'r"': 46, "*_`–sz?": 53, "cLFkvxy": 59,
    "PTYaoeESbdghnpqu": 63, "0123456789${}": 64, "KAVBRXZC": 70, "UHNDG": 77, "&OQw": 82,
    "#+<=>^~±−M×": 86, "%mW@…": 100,
}  # fmt: skip
_WIDTHS = {letter: width / 100 for letters, width in _HUNDREDTHS.items() for letter in letters}
_USUAL_WIDTH = 0.7
_WIDE = 1.05
"""The width of letters as wide as high, such as Chinese and Japanese ones."""
LONGEST_VALUE = 80
"""The most letters of a value that a table shows; a cell of the data may hold a whole text."""


def text_width(text: str, size: float) -> float:
    """Return the most pixels that a line of text takes, at a font size in pixels."""
    return size * sum(map(_letter_width, text))


def fit(text: str, room: float, size: float) -> str:
    """Return the text, cut with an ellipsis if it does not fit into `room` pixels."""
    if text_width(text, size) <= room:
        return text
    remaining = room / size - _WIDTHS["…"]  # in multiples of the font size
    for index, letter in enumerate(text):
        remaining -= _letter_width(letter)
        if remaining < 0:
            return f"{text[:index].rstrip()}…"
    return f"{text}…"


def cut(text: str, most: int = LONGEST_VALUE) -> str:
    """A value of the user for a table, cut with an ellipsis if it is long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _letter_width(letter: str) -> float:
    known = _WIDTHS.get(letter)
    if known is not None:
        return known
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in {"W", "F"}:
        return _WIDE
    plain = unicodedata.normalize("NFD", letter)[0]
    return _WIDTHS.get(plain, _USUAL_WIDTH)


def wrapped(text: str, room: float, size: float) -> list[str]:
    """The text in lines of at most `room` pixels, broken between words; a longer word is cut."""
    lines: list[str] = []
    for next_word in text.split():
        longer = f"{lines[-1]} {next_word}" if lines else next_word
        if lines and text_width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(fit(next_word, room, size))
    return lines
