"""Rows of a period, bounded by person, are the same on every engine: as a plain count has them."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sfumato.data.counting.contribution import count_cells, rows_of_people
from sfumato.data.engines.base import column
from sfumato.data.schema.unit import Entity
from sfumato.vault.feeds.feed import periods

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.base import Engine

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


PERSON = Entity("who", max_rows=2)


def plainly(low: date, high: date) -> dict[Any, list[Any]]:
    """By person the cells of the rows between two days, first by day and then by cell."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for who, day, city in sorted(
        (one for one in ROWS if one[0] is not None), key=lambda one: (one[1], one[2] or "~")
    ):
        if low <= day <= high:
            found[who].append(city)
    return found


def agree(engine: Engine, every: str, number: int) -> None:
    one = periods(every, BEGINS, ENDS)[number]
    here, most = plainly(one.low, one.high), PERSON.max_rows
    asked = engine.table, "day", PERSON, one.low, one.high
    counted = engine.run(rows_of_people(*asked, None, column("who")))
    rows = dict(zip(*(each.to_pylist() for each in counted.columns), strict=True))
    assert rows == {who: min(most, len(cells)) for who, cells in here.items()}
    turned = engine.run(rows_of_people(*asked, "city", column("who"))).to_pylist()
    for who, cells in here.items():
        own = sorted(
            (row["sf_turn"], row["cell"] or "~") for row in turned if who == row["sf_person"]
        )
        firsts = [cell or "~" for cell in cells[:most]]
        assert [turn for turn, _ in own] == list(range(1, len(firsts) + 1))
        # Where a missing cell comes among others of its day, each engine decides.
        assert None in cells or [cell for _, cell in own] == firsts
    cells = engine.run(count_cells(engine.table, "day", one.low, one.high, "city"))
    total = sum(one.low <= day <= one.high for _, day, _ in ROWS)
    assert sum(cells.column(1).to_pylist()) == total
    whole = engine.run(count_cells(engine.table, "day", one.low, one.high, None))
    assert whole.column(0).to_pylist() == [total]


@pytest.mark.parametrize("every", ["day", "week", "month", "quarter", "year", "10d"])
def test_a_period_has_the_rows_that_may_count(
    open_quick_engine: Callable[[pa.Table], Engine], every: str
) -> None:
    engine, last = open_quick_engine(TABLE), len(periods(every, BEGINS, ENDS)) - 1
    for number in sorted({0, last // 2, last}):
        agree(engine, every, number)


def test_every_engine_counts_the_same(open_engine: Callable[[pa.Table], Engine]) -> None:
    engine = open_engine(TABLE)
    for every, number in (("week", 20), ("month", 5), ("10d", 17)):
        agree(engine, every, number)


@pytest.mark.parametrize("by", [None, "city"])
@pytest.mark.parametrize("name", ["sf_person", "sf_turn", "cell", "n"])
def test_a_column_with_a_name_of_ours_does_not_say_who_a_person_is(
    open_engine: Callable[[pa.Table], Engine], name: str, by: str | None
) -> None:
    """One person with forty rows counted as twenty people, by the numbers of that column."""
    day = date(2024, 1, 10)
    rows = {"who": ["a"] * 40, "day": [day] * 40, "city": ["north", "south"] * 20}
    engine = open_engine(pa.table({**rows, name: [*range(20)] * 2}))
    found = engine.run(
        rows_of_people(engine.table, "day", Entity("who", max_rows=2), day, day, by, column("who"))
    )
    assert set(found.column(0).to_pylist()) == {"a"}
    assert found.column(found.num_columns - 1).to_pylist() == ([2] if by is None else [1, 2])
