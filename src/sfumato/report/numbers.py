"""Numbers as people read them, in words, tables and pictures."""

from __future__ import annotations

import re
from fractions import Fraction

from sfumato.exact_numbers import plain
from sfumato.text import share

__all__ = ["decimals", "share", "show"]

_RATIO = re.compile(r"\b\d+/\d+\b")


def show(number: float, *, percent: bool = False) -> str:
    """Write a number for people: thousands apart, three digits of a fraction, shares in percent."""
    if percent:
        return share(number)
    if number == int(number) or abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def decimals(text: str) -> str:
    """A text with its ratios written as people write numbers: 0.5 for 1/2."""
    return _RATIO.sub(lambda ratio: plain(Fraction(ratio[0]), digits=6, up=True), text)
