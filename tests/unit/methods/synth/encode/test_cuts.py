"""Bins begin where people would begin them, and there are few enough."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from sfumato.data.counting.axes import Grid
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.hierarchy import Calendar, Step, Widths
from sfumato.methods.synth.encode.axes import starts

LIMITS = Bounds(-(2**61), 2**61)


def cut(bounds: Bounds, hierarchy: Any = None, most: int = 64, kind: Kind = Kind.INTEGER) -> Any:
    return starts(Grid("x", kind, bounds, nullable=True), hierarchy, most)


@pytest.mark.parametrize(
    ("bounds", "hierarchy", "most", "wanted"),
    [
        (Bounds(0, 63), None, 64, None),
        (Bounds(0, 9), None, 4, (0, 5)),
        (Bounds(18, 40), None, 4, (0, 2, 12, 22)),
        (Bounds(18, 40), Widths((7, 14)), 4, (0, 3, 10, 17)),
        (Bounds(18, 40), Widths((2, 20)), 4, (0, 2, 22)),
        (Bounds(0, 30, 10), Widths((5, 20)), 3, (0, 2)),
        (Bounds(-5, 5), None, 3, (0, 5, 10)),
    ],
)
def test_numbers(bounds: Bounds, hierarchy: Any, most: int, wanted: tuple[int, ...] | None) -> None:
    assert cut(bounds, hierarchy, most) == wanted


def test_reals_and_the_widest_bounds() -> None:
    real = Bounds(Decimal("0.25"), Decimal("1.25"), Decimal("0.05"))
    assert cut(real, most=6, kind=Kind.REAL) == (0, 3, 7, 11, 15, 19)
    cuts = cut(LIMITS, most=2)
    assert cuts == (0, 2**61)
    assert len(cut(LIMITS)) <= 64


@pytest.mark.parametrize(
    ("hierarchy", "most", "days"),
    [
        (None, 30, ["2019-12-30", "2020-01-01", "2020-02-01"]),
        (None, 10, ["2019-12-30", "2020-01-01", "2020-04-01"]),
        (Calendar((Step.YEAR,)), 30, ["2019-12-30", "2020-01-01", "2021-01-01"]),
        (None, 3, ["2019-12-30", "2020-01-01", "2021-01-01"]),
        (None, 2, ["2019-12-30", "2020-01-01"]),
    ],
)
def test_dates_by_the_calendar(hierarchy: Any, most: int, days: list[str]) -> None:
    first = date(2019, 12, 30)
    cuts = cut(Bounds(first, date(2021, 11, 30)), hierarchy, most, Kind.DATE)
    assert len(cuts) <= most
    assert [(first + timedelta(days=day)).isoformat() for day in cuts][: len(days)] == days
    weekly = cut(Bounds(first, date(2021, 11, 29), 7), hierarchy, most, Kind.DATE)
    assert weekly[1] == 1


def test_dates_of_all_times() -> None:
    cuts = cut(Bounds(date.min, date.max), None, 64, Kind.DATE)
    assert 1 < len(cuts) <= 64
