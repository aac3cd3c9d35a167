"""The width of text, computed without a browser, so that labels are neither cut nor overlap.

The widths are those of a wide sans-serif font. In other fonts the same text takes less room.
"""

from __future__ import annotations

import unicodedata

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
    """The most pixels that a line of text takes, at a font size in pixels."""
    return size * sum(map(_letter_width, text))


def fit(text: str, room: float, size: float) -> str:
    """The text, cut with an ellipsis if it does not fit into `room` pixels."""
    if text_width(text, size) <= room:
        return text
    remaining = room / size - _WIDTHS["…"]
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
