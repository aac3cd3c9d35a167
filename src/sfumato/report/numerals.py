"""Numbers as people read them, in words, tables and pictures."""

from __future__ import annotations

from sfumato.texts import share

__all__ = ["share", "show"]


def show(number: float, *, percent: bool = False) -> str:
    """Write a number for people: thousands apart, three digits of a fraction, shares in percent."""
    if percent:
        return share(number)
    if number == int(number) or abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.3g}"
