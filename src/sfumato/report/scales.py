"""Scales of axes: where a value lies between two ends, and which round values are marked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS, _MONTH_STEPS = (1, 2, 7, 14), (1, 2, 3, 6)
_MONDAY = 4
"""The first Monday, in days since the beginning of 1970."""
_YEAR = 365.2425
_UNDER = 1 - 1e-9

Tick = tuple[float, str]


class Scale(Protocol):
    """Where values lie along an axis."""

    def share(self, values: Any) -> FloatArray:
        """How far along the axis values lie: 0 at its beginning, 1 at its end."""

    def ticks(self, most: int) -> list[Tick]:
        """Round values within the ends, at most so many, and what is written beside them."""


@dataclass(frozen=True)
class Linear:
    """Equal steps for equal differences."""

    low: float
    high: float
    percent: bool = False

    @property
    def span(self) -> float:
        """How far apart the ends are, at least by what floating point can tell apart."""
        return max(self.high - self.low, 1e-9 * max(abs(self.low), abs(self.high)), 1e-300)

    def share(self, values: Any) -> FloatArray:
        """How far along the axis."""
        return (np.asarray(values, dtype=np.float64) - self.low) / self.span

    def ticks(self, most: int) -> list[Tick]:
        """Multiples of 1, 2 or 5 of a power of ten."""
        step = nice_step(self.span, most)
        slack = 1e-9 * step
        first = math.ceil((self.low - slack) / step)
        last = math.floor((self.high + slack) / step)
        digits = max(0, -math.floor(math.log10(step * (100 if self.percent else 1)) + 1e-9))
        return [
            (place * step, self._label(place * step, digits)) for place in range(first, last + 1)
        ]

    def _label(self, value: float, digits: int) -> str:
        if self.percent:
            return f"{100 * value:.{digits}f} %"
        if digits > 6 or abs(value) >= 1e12:
            return f"{value:.3g}"
        text = f"{value:,.{digits}f}"
        return text.replace("-", "−") if float(text.replace(",", "")) else "0"


def around(low: float, high: float, *, zero: bool = False, percent: bool = False) -> Linear:
    """A linear scale from one round value to another that holds both ends."""
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high <= low:
        low, high = (low - 1, high + 1) if low else (0.0, 1.0)
    step = nice_step(high - low, 6)
    return Linear(
        math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, percent
    )


def nice_step(span: float, most: int) -> float:
    """The smallest step of 1, 2 or 5 times a power of ten of which at most so many fit."""
    least = span / max(most, 1)
    power = 10.0 ** math.floor(math.log10(least))
    return next(one * power for one in (1, 2, 5, 10, 20) if one * power >= least * (1 - 1e-9))


@dataclass(frozen=True)
class Logarithmic:
    """Equal steps for equal ratios; all values are above zero."""

    low: float
    high: float

    def share(self, values: Any) -> FloatArray:
        """How far along the axis."""
        ends = np.log([self.low, self.high])
        logs = np.log(np.asarray(values, dtype=np.float64))
        return np.asarray((logs - ends[0]) / (ends[1] - ends[0]))

    def ticks(self, most: int) -> list[Tick]:
        """Powers of ten; with 2 and 5 of each where there are few of them."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for parts in ((1, 2, 5), (1, 3), (1,)):
            found = [one * 10.0**power for power in powers for one in parts]
            inside = [one for one in found if self.low * _UNDER <= one <= self.high / _UNDER]
            if len(inside) <= most:
                break
        else:
            inside = inside[:: math.ceil(len(inside) / max(most, 1))]
        if len(inside) < 2:
            return Linear(self.low, self.high).ticks(max(most, 2))
        return [(one, f"{one:,.10g}" if one < 1e7 else f"{one:.3g}") for one in inside]


@dataclass(frozen=True)
class Dates:
    """Days since the beginning of 1970, marked where days, weeks, months or years begin."""

    low: float
    high: float

    def share(self, values: Any) -> FloatArray:
        """How far along the axis."""
        return Linear(self.low, self.high).share(values)

    def ticks(self, most: int) -> list[Tick]:
        """Beginnings of the shortest spans of which at most so many fit."""
        first, last = math.ceil(self.low), math.floor(self.high)
        span = (self.high - self.low) / max(most, 1)
        for step in _DAYS:
            if step >= span:
                start = first + (_MONDAY - first) % step
                return _named(np.arange(start, last + 1, step), "day")
        months = 12 * span / _YEAR
        step = next((one for one in _MONTH_STEPS if one >= months), 0)
        if not step:
            step = 12 * max(1, round(nice_step(span * most / _YEAR, most)))
        start_month = np.datetime64(first, "D").astype("datetime64[M]").astype(int)
        # Months are counted from January 1970, years must begin at round ones.
        offset = 12 * 1970 if step > 12 else 0
        start_month += -(start_month + offset) % step
        end_month = np.datetime64(last, "D").astype("datetime64[M]").astype(int)
        begins = np.arange(start_month, end_month + 1, step).astype("datetime64[M]")
        days = begins.astype("datetime64[D]").astype(int)
        return _named(days[days >= first], "year" if step >= 12 else "month")


def _named(days: IntArray, span: str) -> list[Tick]:
    """Days with their names; a year is told with the first and where it changes."""
    ticks: list[Tick] = []
    told = ""
    for day in days.tolist():
        year, month, of_month = str(np.datetime64(day, "D")).rsplit("-", 2)
        name = _MONTHS[int(month) - 1]
        words = {"day": f"{int(of_month)} {name}", "month": name, "year": ""}[span]
        ticks.append((float(day), words if year == told else f"{words} {year}".strip()))
        told = year
    return ticks
