"""Counting in the engine equals counting by hand, on every engine."""

from __future__ import annotations

from collections import Counter
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from sfumato.data.counting.axes import Grid, declared
from sfumato.data.counting.frequencies import count
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.errors import ParameterError, SchemaError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.base import Engine

    Open = Callable[[pa.Table], Engine]

NAN = float("nan")

MIXED = pa.table(
    {
        "city": pa.array(["b", "a", None, "a", "", "a", 'q"x', "b"]),
        "age": pa.array([30, 20, 20, None, 20, 20, 9_007_199_254_740_993, 30], pa.int64()),
        "dose": pa.array([0.5, -0.0, NAN, None, 0.0, 0.0, NAN, 0.5], pa.float64()),
        "born": pa.array([date(1976, 2, 29), None, date(1, 1, 1), date(1976, 2, 29)] * 2),
        "male": pa.array([True, None, False, True] * 2),
        "weight": pa.array([1, 2, 3, 4, 5, 6, 7, 8], pa.int64()),
    }
)


def by_hand(table: pa.Table, columns: list[str]) -> Counter[tuple[str, ...]]:
    """Count rows in Python; repr makes NaN equal to itself, and + 0.0 makes -0.0 equal to 0.0."""
    rows = zip(*(table[column].to_pylist() for column in columns), strict=True)
    plain = (tuple(v + 0.0 if isinstance(v, float) else v for v in row) for row in rows)
    return Counter(tuple(map(repr, row)) for row in plain)


def as_counter(table: pa.Table) -> Counter[tuple[str, ...]]:
    rows = table.to_pylist()
    return Counter(
        {tuple(repr(row[name]) for name in table.column_names[:-1]): row["count"] for row in rows}
    )


@pytest.mark.parametrize(
    "columns",
    [["city"], ["age"], ["dose"], ["born"], ["male"], ["city", "age", "dose", "born", "male"]],
    ids="+".join,
)
def test_counts_equal_counting_by_hand(open_engine: Open, columns: list[str]) -> None:
    engine = open_engine(MIXED)
    found = count(engine, engine.table, columns)
    assert as_counter(found.table()) == by_hand(MIXED, columns)
    assert found.total == 8
    assert not found.declared


def test_combinations_come_in_canonical_order_with_null_last(open_engine: Open) -> None:
    engine = open_engine(MIXED)
    found = count(engine, engine.table, ["city", "male"])
    assert found.axis("city").decode(np.arange(5)).to_pylist() == ["", "a", "b", 'q"x', None]
    keys = list(zip(*(codes.tolist() for codes in found.codes), strict=True))
    assert keys == sorted(keys)


def test_marginal_rolls_up_to_the_same_counts(open_engine: Open) -> None:
    engine = open_engine(MIXED)
    rolled = count(engine, engine.table, ["city", "age", "dose", "male"]).marginal(["dose", "city"])
    direct = count(engine, engine.table, ["dose", "city"])
    assert as_counter(rolled.table()) == as_counter(direct.table())
    assert rolled.columns == ("dose", "city")


def test_dense_view_has_a_cell_for_every_combination(open_engine: Open) -> None:
    engine = open_engine(MIXED)
    found = count(engine, engine.table, ["city", "male"])
    dense = found.dense()
    assert dense.shape == (5, 3)
    assert dense.sum() == 8
    assert dense[2].tolist() == [0, 2, 0]


def test_weighted_counts_add_up_a_column(open_engine: Open) -> None:
    engine = open_engine(MIXED)
    found = count(engine, engine.table, ["male"], weight="weight")
    values = found.axis("male").decode(found.codes[0]).to_pylist()
    assert dict(zip(values, found.counts.tolist(), strict=True)) == {False: 10, True: 18, None: 8}


def test_where_keeps_only_matching_rows(open_engine: Open) -> None:
    engine = open_engine(MIXED)
    adults = exp.column("age", quoted=True) > 25
    assert count(engine, engine.table, ["city"], where=adults).total == 3


def test_declared_values_have_their_declared_codes(open_engine: Open) -> None:
    engine = open_engine(MIXED)
    domain = Values(("b", "zz", "a", "", 'q"x'))
    axis = declared(Column("city", Kind.TEXT, domain=domain, nullable=True))
    found = count(engine, engine.table, [axis])
    assert found.declared
    assert found.dense().tolist() == [2, 0, 3, 1, 1, 1]


def test_values_outside_the_domain_are_refused_or_dropped(open_engine: Open) -> None:
    engine = open_engine(MIXED)
    axis = declared(Column("city", Kind.TEXT, domain=Values(("a",)), nullable=False))
    with pytest.raises(SourceError) as refusal:
        count(engine, engine.table, [axis])
    assert refusal.value.code == "value_outside_domain"
    assert "5 rows" in refusal.value.message
    assert 'q"x' not in refusal.value.message
    assert count(engine, engine.table, [axis], outside="drop").dense().tolist() == [3]


def test_integers_go_to_the_nearest_point_of_a_grid(open_engine: Open) -> None:
    engine = open_engine(
        pa.table({"age": pa.array([-7, 0, 2, 3, 7, 8, 19, 20, 99, None], pa.int64())})
    )
    axis = declared(Column("age", Kind.INTEGER, domain=Bounds(0, 20, 5)))
    found = count(engine, engine.table, [axis])
    assert found.dense().tolist() == [3, 2, 1, 0, 3, 1]
    assert axis.decode(np.arange(6)).to_pylist() == [0, 5, 10, 15, 20, None]


def test_reals_go_to_the_nearest_point_of_a_grid(open_engine: Open) -> None:
    values = [-1e308, -0.0, 0.24, 0.25, 0.74, 0.75, 1.0, float("inf"), -float("inf"), NAN, None]
    engine = open_engine(pa.table({"dose": pa.array(values, pa.float64())}))
    domain = Bounds(Decimal(0), Decimal(1), Decimal("0.5"))
    axis = declared(Column("dose", Kind.REAL, domain=domain))
    found = count(engine, engine.table, [axis])
    assert found.dense().tolist() == [4, 2, 3, 1, 1]
    decoded = axis.decode(np.arange(5)).to_pylist()
    assert decoded[:4] == [0.0, 0.5, 1.0, None]
    assert repr(decoded[4]) == "nan"


def test_dates_go_to_the_nearest_point_of_a_grid(open_engine: Open) -> None:
    days = [
        date(2019, 5, 1),
        date(2020, 1, 1),
        date(2020, 1, 4),
        date(2020, 1, 5),
        date(2021, 1, 1),
    ]
    engine = open_engine(pa.table({"day": pa.array([*days, None])}))
    domain = Bounds(date(2020, 1, 1), date(2020, 1, 15), 7)
    axis = declared(Column("day", Kind.DATE, domain=domain))
    assert count(engine, engine.table, [axis]).dense().tolist() == [3, 1, 1, 1]
    assert axis.decode(np.arange(2)).to_pylist() == [date(2020, 1, 1), date(2020, 1, 8)]


def test_missing_values_have_no_place_where_the_column_cannot_miss_any(open_engine: Open) -> None:
    engine = open_engine(pa.table({"age": pa.array([1, None], pa.int64())}))
    axis = declared(Column("age", Kind.INTEGER, domain=Bounds(0, 3), nullable=False))
    assert count(engine, engine.table, [axis], outside="drop").dense().tolist() == [0, 1, 0, 0]


def test_empty_table_has_no_combinations(open_engine: Open) -> None:
    engine = open_engine(MIXED.slice(0, 0))
    found = count(engine, engine.table, ["city", "dose"])
    assert (len(found), found.total, found.sizes) == (0, 0, (0, 0))
    assert found.marginal(["dose"]).total == 0


def test_without_columns_there_is_one_count_of_all_rows(open_quick_engine: Open) -> None:
    engine = open_quick_engine(MIXED)
    found = count(engine, engine.table, [])
    assert (found.total, len(found)) == (8, 1)
    empty = open_quick_engine(MIXED.slice(0, 0))
    assert count(empty, empty.table, []).total == 0


def test_a_domain_without_end_is_refused() -> None:
    for column in (
        Column("note", Kind.TEXT),
        Column("dose", Kind.REAL),
    ):
        with pytest.raises(SchemaError) as refusal:
            declared(column)
        assert refusal.value.code == "domain_missing"


def test_a_dense_table_too_large_is_refused() -> None:
    axis = declared(Column("n", Kind.INTEGER, domain=Bounds(0, 1 << 40), nullable=False))
    assert isinstance(axis, Grid)
    from sfumato.data.counting.frequencies import Frequencies

    huge = Frequencies((axis,), (np.array([5]),), np.array([1]))
    with pytest.raises(ParameterError) as refusal:
        huge.dense()
    assert refusal.value.code == "problem_too_large"
