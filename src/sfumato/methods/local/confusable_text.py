"""Texts that people take for each other on a page, whatever a computer thinks of them.

Two spellings of one letter, capitals, wide and narrow forms, spaces, and letters of other alphabets
of the same shape are one to the eye. What is compared is a skeleton of a text, which nobody is
shown. The list of shapes is short: it holds the letters that whole words can be forged of.
"""

from __future__ import annotations

import unicodedata

BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""What counts as a letter and shows nothing."""

# Cyrillic, Greek and Armenian letters and figures, by the Latin letter whose shape they have,
# small or capital.
_SHAPES = str.maketrans(
    "авеѕіїјкмнорстухԁԛԝһӏαβεζηικμνορτυχϲϳօ01|",
    "abesiïjkmhopctyxdqwhlabezhikmnoptyxcjooll",
)  # fmt: skip


def skeleton(text: str) -> str:
    """What the eye sees of a text: equal for texts that look the same."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    seen = (letter for letter in plain if not _unseen(letter))
    return " ".join(unicodedata.normalize("NFKC", "".join(seen).translate(_SHAPES)).split())


def _unseen(letter: str) -> bool:
    """Whether it only chooses among forms of the letter before it, or shows nothing."""
    return letter in BLANK or "\ufe00" <= letter <= "\ufe0f"
