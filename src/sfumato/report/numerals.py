"""Numbers as people read them, in words, tables and pictures."""

from __future__ import annotations


def show(number: float, *, percent: bool = False) -> str:
    """Write a number for people: thousands apart, three digits of a fraction, shares in percent."""
    if percent:
        return share(number)
    if number == int(number) or abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def share(fraction: float) -> str:
    """Write a share in percent; only none is 0 %, only all is 100 %."""
    percent = 100 * fraction
    for edge, word in ((0.0, "< 0.1 %"), (100.0, "> 99.9 %")):
        if percent != edge and abs(percent - edge) < 0.05:
            return word
    return f"{percent:.0f} %" if percent in {0.0, 100.0} else f"{percent:.1f} %"
