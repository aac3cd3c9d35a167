"""Axes of charts: scales with round ticks, and the frame that two of them make."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.report.drawing import LINE, SMALL, text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.report.drawing import Drawing

    Tick = tuple[float, str]

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY_STEPS, _MONTH_STEPS = (1, 2, 7, 14), (1, 2, 3, 6)
_MONDAY = 4
"""The first Monday, in days since 1 January 1970."""
_DAYS_PER_YEAR = 365.2425
_LABEL_GAP = 12
"""Pixels between two labels of an axis, at least."""


class Scale(Protocol):
    """Maps values to positions along an axis."""

    def share(self, values: Any) -> FloatArray:
        """Return positions along the axis: 0 at its start, 1 at its end."""

    def ticks(self, most: int) -> list[Tick]:
        """Round values between the ends, about `most` of them at most, with their labels."""


@dataclass(frozen=True)
class Linear:
    """A scale with equal steps for equal differences."""

    low: float
    high: float
    percent: bool = False

    @property
    def span(self) -> float:
        """The distance between the ends, never below what floating point can resolve."""
        return max(self.high - self.low, 1e-9 * max(abs(self.low), abs(self.high)), 1e-300)

    def share(self, values: Any) -> FloatArray:
        """Return positions along the axis, from 0 to 1."""
        return (np.asarray(values, dtype=np.float64) - self.low) / self.span

    def ticks(self, most: int) -> list[Tick]:
        """Multiples of 1, 2 or 5 times a power of ten."""
        step = round_step(self.span, most)
        # A tick that floating point puts just outside an end still counts as inside.
        slack = 1e-9 * step
        first = math.ceil((self.low - slack) / step)
        last = math.floor((self.high + slack) / step)
        digits = max(0, -math.floor(math.log10(step * (100 if self.percent else 1)) + 1e-9))
        return [(n * step, self._label(n * step, digits)) for n in range(first, last + 1)]

    def _label(self, value: float, digits: int) -> str:
        if self.percent:
            return f"{100 * value:.{digits}f} %"
        if digits > 6 or abs(value) >= 1e12:
            return f"{value:.3g}"
        text = f"{value:,.{digits}f}"
        return text.replace("-", "−") if float(text.replace(",", "")) else "0"


@dataclass(frozen=True)
class Logarithmic:
    """A scale with equal steps for equal ratios; all values are above zero."""

    low: float
    high: float

    def share(self, values: Any) -> FloatArray:
        """Return positions along the axis, from 0 to 1."""
        ends = np.log([self.low, self.high])
        logs = np.log(np.asarray(values, dtype=np.float64))
        return np.asarray((logs - ends[0]) / (ends[1] - ends[0]))

    def ticks(self, most: int) -> list[Tick]:
        """Powers of ten; also 2 and 5 times each power where there is room."""
        slack = 1 - 1e-9
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1, 2, 5), (1, 3), (1,)):
            values = [factor * 10.0**power for power in powers for factor in factors]
            inside = [value for value in values if self.low * slack <= value <= self.high / slack]
            if len(inside) <= most:
                break
        else:
            inside = inside[:: math.ceil(len(inside) / max(most, 1))]
        if len(inside) < 2:
            return Linear(self.low, self.high).ticks(max(most, 2))
        return [(value, f"{value:,.10g}" if value < 1e7 else f"{value:.3g}") for value in inside]


@dataclass(frozen=True)
class Dates:
    """A scale of days since 1 January 1970; ticks start days, weeks, months or years."""

    low: float
    high: float

    def share(self, values: Any) -> FloatArray:
        """Return positions along the axis, from 0 to 1."""
        return Linear(self.low, self.high).share(values)

    def ticks(self, most: int) -> list[Tick]:
        """Return the first days of the shortest periods of which at most `most` fit."""
        first, last = math.ceil(self.low), math.floor(self.high)
        days = (self.high - self.low) / max(most, 1)
        for step in _DAY_STEPS:
            if step >= days:
                start = first + (_MONDAY - first) % step
                return _label_days(np.arange(start, last + 1, step), "day")
        months = 12 * days / _DAYS_PER_YEAR
        step = next((step for step in _MONTH_STEPS if step >= months), 0)
        if not step:
            step = 12 * max(1, round(round_step(days * most / _DAYS_PER_YEAR, most)))
        start_month = np.datetime64(first, "D").astype("datetime64[M]").astype(int)
        # NumPy counts months from January 1970, but years must start at round numbers.
        offset = 12 * 1970 if step > 12 else 0
        start_month += -(start_month + offset) % step
        end_month = np.datetime64(last, "D").astype("datetime64[M]").astype(int)
        starts = np.arange(start_month, end_month + 1, step).astype("datetime64[M]")
        start_days = starts.astype("datetime64[D]").astype(int)
        return _label_days(start_days[start_days >= first], "year" if step >= 12 else "month")


def _label_days(days: IntArray, period: str) -> list[Tick]:
    """Return ticks at days; the first label, and each first one of a year, has the year."""
    ticks: list[Tick] = []
    last_year = ""
    for day in days.tolist():
        year, month, day_of_month = str(np.datetime64(day, "D")).rsplit("-", 2)
        name = _MONTHS[int(month) - 1]
        label = {"day": f"{int(day_of_month)} {name}", "month": name, "year": ""}[period]
        ticks.append((float(day), label if year == last_year else f"{label} {year}".strip()))
        last_year = year
    return ticks


def scale_around(low: float, high: float, *, zero: bool = False, percent: bool = False) -> Linear:
    """Return a linear scale between round values around both ends, and around 0 with `zero`."""
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high <= low:  # a flat line lies in the middle of its chart
        low, high = (low - 1, high + 1) if low else (0.0, 1.0)
    step = round_step(high - low, 6)
    return Linear(
        math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, percent
    )


def round_step(span: float, most: int) -> float:
    """Return the smallest step of 1, 2 or 5 times a power of ten that fits at most `most` times."""
    least = span / max(most, 1)
    power = 10.0 ** math.floor(math.log10(least))  # the largest power of ten up to `least`
    steps = (factor * power for factor in (1, 2, 5, 10, 20))
    return next(step for step in steps if step >= least * (1 - 1e-9))


@dataclass(frozen=True)
class ChartFrame:
    """The plotting area in pixels, with the scales of its two axes."""

    left: float
    top: float
    width: float
    height: float
    x_scale: Scale
    y_scale: Scale

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.top + self.height

    @property
    def right(self) -> float:
        """The right edge."""
        return self.left + self.width

    def x(self, values: Any) -> FloatArray:
        """Horizontal positions of values."""
        return self.left + self.width * self.x_scale.share(values)

    def y(self, values: Any) -> FloatArray:
        """Vertical positions of values. Pixels count downwards, values upwards."""
        return self.bottom - self.height * self.y_scale.share(values)


def draw_frame(
    drawing: Drawing,
    scales: tuple[Scale, Scale],
    titles: tuple[str, str],
    *,
    height: float,
    x_labels: bool = True,
) -> ChartFrame:
    """Draw both axes and return the plotting area; the title of the y axis stands above it.

    Without `x_labels` the x axis is left out, as where positions along it mean nothing.
    """
    x_scale, y_scale = scales
    # The widest label decides where the frame begins, so that no label is cut.
    left = y_label_width(y_scale, height)
    frame = ChartFrame(left, LINE + 8.0, drawing.width - left - 8, height, x_scale, y_scale)
    drawing.text((0, SMALL + 2), titles[1], room=drawing.width)
    draw_y_axis(drawing, frame, grid=True)
    drawing.height = frame.bottom + 6
    if x_labels:
        drawing.height = draw_x_axis(drawing, frame, titles[0])
    return frame


def y_label_width(scale: Scale, height: float) -> float:
    """Return the pixels that the labels of a y axis need, with a gap."""
    labels = (label for _, label in _y_ticks(scale, height))
    return max((text_width(label, SMALL) for label in labels), default=0.0) + 8


def _y_ticks(scale: Scale, height: float) -> list[Tick]:
    return scale.ticks(max(2, int(height / 40)))


def draw_y_axis(drawing: Drawing, frame: ChartFrame, *, grid: bool) -> None:
    """Draw the labels of the y axis; with `grid` also a line across the frame for each."""
    for value, label in _y_ticks(frame.y_scale, frame.height):
        y = float(frame.y(value))
        if grid:
            drawing.line((frame.left, y), (frame.right, y), "grid")
        drawing.text((frame.left - 8, y + 4), label, anchor="end")


def draw_x_axis(drawing: Drawing, frame: ChartFrame, title: str) -> float:
    """Draw the axis below a frame with its title; return the new bottom of the drawing."""
    drawing.line((frame.left, frame.bottom), (frame.right, frame.bottom), "axis")
    ticks, starts = _separate_ticks(drawing, frame)
    for (value, label), start in zip(ticks, starts, strict=True):
        x = float(frame.x(value))
        drawing.line((x, frame.bottom), (x, frame.bottom + 4), "axis")
        drawing.text((start, frame.bottom + 18), label)
    middle = frame.left + frame.width / 2
    room = 2 * min(frame.width / 2 + 8, middle)
    drawing.text((middle, frame.bottom + 18 + LINE), title, room=room, anchor="middle")
    return frame.bottom + 18 + LINE + 6


def _separate_ticks(drawing: Drawing, frame: ChartFrame) -> tuple[Sequence[Tick], list[float]]:
    """Thin ticks out until their whole labels fit; return the start of each label too."""
    for most in range(min(12, max(2, int(frame.width / 40))), 0, -1):
        ticks = frame.x_scale.ticks(most)
        widths = [text_width(label, SMALL) for _, label in ticks]
        # A label is centred on its tick, but stays inside the drawing.
        starts = [
            max(0.0, min(float(frame.x(value)) - width / 2, drawing.width - width))
            for (value, _), width in zip(ticks, widths, strict=True)
        ]
        ends = [start + width + _LABEL_GAP for start, width in zip(starts, widths, strict=True)]
        if all(end <= start for end, start in zip(ends, starts[1:], strict=False)):
            break
    return ticks, starts
