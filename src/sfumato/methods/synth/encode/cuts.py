"""Where a grid is cut into bins: from what is declared alone, at ends that people would choose.

Of the widths and calendar steps that a column's hierarchy declares, and else of round ones, the
finest that gives few enough bins is taken. Bins begin at multiples of their width.
"""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from itertools import chain, count
from typing import TYPE_CHECKING

from sfumato.data.schema.hierarchy.rules import Calendar, Step, Widths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.data.counting.axes import Grid
    from sfumato.data.schema.hierarchy.base import Hierarchy

_MONTHS = {Step.MONTH: 1, Step.QUARTER: 3, Step.YEAR: 12, Step.DECADE: 120}


def starts(grid: Grid, hierarchy: Hierarchy | None, most: int) -> tuple[int, ...] | None:
    """The first points of at most so many bins, more than one; None if points are few enough."""
    if grid.points <= most:
        return None
    low, high = grid.bounds.low, grid.bounds.high
    if isinstance(low, date) and isinstance(high, date):
        steps = hierarchy.steps if isinstance(hierarchy, Calendar) else tuple(_MONTHS)
        for months in (_MONTHS[step] for step in steps):
            if _month(high) // months - _month(low) // months < most:
                return _calendar(grid, low, high, months)
    zero = date(1, 1, 1)
    first = (low - zero).days if isinstance(low, date) else low
    last = (high - zero).days if isinstance(high, date) else high
    declared = hierarchy.widths if isinstance(hierarchy, Widths) else ()
    step = Fraction(grid.bounds.grid_step or 1)
    for width in chain(map(Fraction, declared), _round(step)):
        if width >= step and Fraction(last) // width - Fraction(first) // width < most:
            return _multiples(Fraction(first), Fraction(last), step, width)
    raise AssertionError("round widths grow until all is one bin or two")


def _round(step: Fraction) -> Iterator[Fraction]:
    """1, 2, 5, 10, 20, 50, ... from the least that is no less than a step of at most 10^15."""
    power = -12
    while Fraction(10) ** (power + 1) <= step:
        power += 1
    for exponent in count(power):
        yield from (digit * Fraction(10) ** exponent for digit in (1, 2, 5))


def _multiples(first: Fraction, last: Fraction, step: Fraction, width: Fraction) -> tuple[int, ...]:
    ends = range(first // width + 1, last // width + 1)
    return (0, *dict.fromkeys(-((first - end * width) // step) for end in ends))


def _calendar(grid: Grid, low: date, high: date, months: int) -> tuple[int, ...]:
    step = int(grid.bounds.grid_step or 1)
    numbers = range(_month(low) // months + 1, _month(high) // months + 1)
    days = [(date(*_year_and_month(one * months), 1) - low).days for one in numbers]
    return (0, *dict.fromkeys(-(-day // step) for day in days))


def _month(day: date) -> int:
    return 12 * day.year + day.month - 1


def _year_and_month(number: int) -> tuple[int, int]:
    return number // 12, number % 12 + 1
