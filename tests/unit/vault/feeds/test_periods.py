"""Periods: they cover every day once, in order, under names that differ."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sfumato.vault.feeds.feed import periods

EVERY = ("day", "week", "month", "quarter", "year", "10d")


@settings(max_examples=60, deadline=None)
@given(some.sampled_from(EVERY), some.dates(date(1, 1, 1), date(9990, 1, 1)), some.integers(0, 900))
def test_days_belong_to_one_period_each(every: str, begins: date, days: int) -> None:
    ends = begins + timedelta(days=days)
    found = periods(every, begins, ends)
    assert (found[0].low, found[-1].high) == (begins, ends)
    for before, after in pairwise(found):
        assert before.high + timedelta(days=1) == after.low
        assert before.name < after.name
    assert [one.number for one in found] == list(range(1, len(found) + 1))


@pytest.mark.parametrize("every", EVERY)
def test_the_last_day_of_all(every: str) -> None:
    assert periods(every, date.max, date.max)[-1].high == date.max


@pytest.mark.parametrize(
    ("every", "names"),
    [
        ("week", ["0999-W52", "1000-W01"]),
        ("month", ["0999-12", "1000-01"]),
        ("quarter", ["0999-Q4", "1000-Q1"]),
        ("year", ["0999", "1000"]),
    ],
)
def test_names_of_early_years_sort_before_those_of_later_ones(every: str, names: list[str]) -> None:
    found = periods(every, date(999, 12, 29), date(1000, 1, 3))
    assert [one.name for one in found] == names
