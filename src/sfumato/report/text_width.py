"""How wide text is, known without a browser: so no words are cut, and no two lie on each other.

The widths are those of a wide sans-serif face; in others the same words take less room.
"""

from __future__ import annotations

import unicodedata

_HUNDREDTHS = {
    "'ijlIJ": 29, " ,./:;\\|": 34, "f-()[]t!": 40, 'r"': 46, "*_`–sz?": 53, "cLFkvxy": 59,
    "PTYaoeESbdghnpqu": 63, "0123456789${}": 64, "KAVBRXZC": 70, "UHNDG": 77, "&OQw": 82,
    "#+<=>^~±−M×": 86, "%mW@…": 100,
}  # fmt: skip
_WIDTHS = {letter: width / 100 for letters, width in _HUNDREDTHS.items() for letter in letters}
_OTHERS = 0.7
_WIDE = 1.05
"""Of a letter as wide as high, such as those of Chinese and Japanese."""


LONGEST_VALUE = 80
"""So many letters of a value stand in a table; a cell may hold a whole text."""


def text_width(text: str, size: float) -> float:
    """The pixels that a line of text takes at most, in letters of a size."""
    return size * sum(map(_letter_width, text))


def fit(text: str, room: float, size: float) -> str:
    """The text, or as much of it as there is room for with an ellipsis behind it."""
    if text_width(text, size) <= room:
        return text
    left = room / size - _WIDTHS["…"]
    for place, letter in enumerate(text):
        left -= _letter_width(letter)
        if left < 0:
            return f"{text[:place].rstrip()}…"
    return f"{text}…"


def cut(text: str, most: int = LONGEST_VALUE) -> str:
    """A value of the user for a table: a long one without its end, and an ellipsis for that."""
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
    return _WIDTHS.get(plain, _OTHERS)


def wrapped(text: str, room: float, size: float) -> list[str]:
    """The text in lines that have room, broken between words; a longer word is cut."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(fit(word, room, size))
    return lines
