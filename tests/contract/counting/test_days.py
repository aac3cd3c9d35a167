"""Rows of a period, bounded by person, are the same on every engine: as a plain count has them."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sfumato.counting.days import PeriodBound, count_cells
from sfumato.privacy.units import Entity, Rows
from sfumato.vault.feeds.periods import periods

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.engines.base import Engine

BEGINS, ENDS = date(2024, 1, 10), date(2024, 12, 25)
_SPAN = 400
ROWS = [
    (
        None if place % 29 == 0 else place * 7 % 23,
        date(2023, 12, 20) + timedelta(days=place * place * 13 % _SPAN),
        ("north", "south", None)[place % 7 % 3],
    )
    for place in range(300)
]
TABLE = pa.table(
    {
        "who": pa.array([one[0] for one in ROWS], pa.int64()),
        "day": pa.array([one[1] for one in ROWS], pa.date32()),
        "city": pa.array([one[2] for one in ROWS], pa.string()),
    }
)


def plainly(every: str, unit: Any, days: int | None, number: int) -> int:
    """The rows of a period that count, one by one."""
    found = periods(every, BEGINS, ENDS)
    here = found[number]
    place = {
        day: at
        for at, one in enumerate(found)
        for day in (one.low + timedelta(days=far) for far in range((one.high - one.low).days + 1))
    }
    if unit.column is None:
        return sum(here.low <= day <= here.high for _, day, _ in ROWS)
    seen = sorted((day, who) for who, day, _ in ROWS if who is not None and day in place)
    held: dict[Any, Counter[int]] = defaultdict(Counter)
    total, counted = 0, Counter[Any]()
    for day, who in seen:
        at = place[day]
        held[who][at] += 1
        if days is None:
            counted[who] += 1
            total += at == number and counted[who] <= unit.max_rows
        else:
            total += at == number and len(held[who]) <= days and held[who][at] <= unit.max_rows
    return total


PERSON = Entity("who", max_rows=2)


def agree(engine: Engine, every: str, unit: Any, days: int | None, number: int) -> None:
    one = periods(every, BEGINS, ENDS)[number]
    bound = PeriodBound(BEGINS, every, days)
    asked = count_cells(engine.table, "day", unit, one.low, one.high, bound)
    expected = plainly(every, unit, days, number)
    assert engine.run(asked).column(0).to_pylist() == [expected], (every, unit, number)
    by = PeriodBound(BEGINS, every, days, "city")
    cells = engine.run(count_cells(engine.table, "day", unit, one.low, one.high, by))
    assert sum(cells.column(1).to_pylist()) == expected


@pytest.mark.parametrize("every", ["day", "week", "month", "quarter", "year", "10d"])
def test_a_period_counts_the_rows_that_may_count(
    open_quick_engine: Callable[[pa.Table], Engine], every: str
) -> None:
    engine, last = open_quick_engine(TABLE), len(periods(every, BEGINS, ENDS)) - 1
    for unit, days in ((Rows(), None), (PERSON, None), (PERSON, 1), (PERSON, 3)):
        for number in sorted({0, last // 2, last}):
            agree(engine, every, unit, days, number)


def test_every_engine_counts_the_same(open_engine: Callable[[pa.Table], Engine]) -> None:
    engine = open_engine(TABLE)
    for every, number in (("week", 20), ("month", 5), ("10d", 17)):
        agree(engine, every, PERSON, 3, number)
