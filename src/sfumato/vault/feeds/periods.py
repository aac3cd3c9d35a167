"""Periods: the days, weeks, months or years that a feed tells of, one after the other.

They follow from public facts alone; which rows belong to one is decided by a declared column of
dates. A period is over when the later of the clock and of the ledger's last entry says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from sfumato.data.counting.date_ranges import between
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError, option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot import exp

    from sfumato.methods.method import Dataset

MOST_PERIODS = 10_000
_DAYS = re.compile(r"([1-9]\d{0,3})d", re.ASCII)
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Period:
    """The days from `low` to `high`, both included, under a name that sorts by time."""

    number: int
    """From 1."""
    name: str
    low: date
    high: date

    def rows(self, data: Dataset, of: str) -> exp.Select:
        """The rows of a data set that belong to it, by a column of dates."""
        return between(data.table, of, self.low, self.high)

    def to_json(self) -> dict[str, Any]:
        """The period as JSON-able data."""
        return {"period": self.name, "from": self.low.isoformat(), "to": self.high.isoformat()}


def periods(every: str, begins: date, ends: date, *, cut: bool = False) -> tuple[Period, ...]:
    """All periods from one day to another; the first and last may be cut short by them.

    More than can be are refused, or else `cut` off.
    """
    if begins > ends:
        raise ParameterError(
            "feed_ends_early",
            f"The feed would end on {ends} before it begins on {begins}. Give a later "
            f"{option('ends')}.",
        )
    found = []
    for number, (name, low, high) in enumerate(_cut(every, begins, ends), start=1):
        if number > MOST_PERIODS and cut:
            break
        if number > MOST_PERIODS:
            raise ParameterError(
                "feed_too_long",
                f"A feed has at most {MOST_PERIODS:,} periods. Give an earlier {option('ends')}, "
                f"or longer periods such as {option('every', 'month')}.",
            )
        found.append(Period(number, name, low, high))
    return tuple(found)


def _cut(every: str, begins: date, ends: date) -> Iterator[tuple[str, date, date]]:
    low = begins
    while low <= ends:
        name, high = _period(every, low)
        high = min(high, ends)
        yield name, low, high
        if high == date.max:
            return
        low = high + _DAY


def _period(every: str, low: date) -> tuple[str, date]:
    """The name and the last day of the period that a day belongs to.

    Years have four digits, which strftime's %Y does not give to those below 1000: names sort by
    time.
    """
    if every == "day":
        return low.isoformat(), low
    if every == "week":
        year, week, weekday = low.isocalendar()
        return f"{year:04}-W{week:02}", _later(low, 7 - weekday)
    if every in _MONTHS:
        length = _MONTHS[every]
        first = (low.month - 1) // length * length
        behind = low.year * 12 + first + length
        last = (
            date.max
            if behind // 12 > date.max.year
            else date(behind // 12, behind % 12 + 1, 1) - _DAY
        )
        names = {
            "month": f"{low.year:04}-{low.month:02}",
            "quarter": f"{low.year:04}-Q{first // 3 + 1}",
            "year": f"{low.year:04}",
        }
        return names[every], last
    if days := _DAYS.fullmatch(every):
        return low.isoformat(), _later(low, int(days[1]) - 1)
    raise ParameterError(
        "feed_period_unknown",
        f"{quoted(every)} is no period of a feed. Write day, week, month, quarter, year, or days "
        "such as 10d.",
    )


def _later(day: date, days: int) -> date:
    return date.max if (date.max - day).days < days else day + timedelta(days=days)
