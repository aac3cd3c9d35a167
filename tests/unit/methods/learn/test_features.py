"""Coordinates are the same in SQL and in memory, within their grid, and never missing."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.errors import ParameterError
from sfumato.methods.learn.features import GRID, FeatureSpace

COLUMNS = (
    Column("age", Kind.INTEGER, domain=Bounds(0, 110)),
    Column("wide", Kind.INTEGER, domain=Bounds(-(2**61), 2**60)),
    Column("stepped", Kind.INTEGER, domain=Bounds(-7, 8, 5)),
    Column("grid", Kind.REAL, domain=Bounds(Decimal(0), Decimal(3), Decimal("0.1"))),
    Column("real", Kind.REAL, domain=Bounds(Decimal("-1.5"), Decimal("7.3"))),
    Column("day", Kind.DATE, domain=Bounds(date(1950, 1, 1), date(2020, 1, 1))),
    Column("well", Kind.BOOLEAN),
    Column("sex", Kind.TEXT, domain=Values(("F", "M"))),
    Column("city", Kind.TEXT, domain=Values(("x", "it's", "z"))),
    Column("code", Kind.INTEGER, domain=Values((1, 2, 5))),
    Column("size", Kind.REAL, domain=Values((Decimal("0.5"), Decimal("1.5"), Decimal(2)))),
    Column("same", Kind.INTEGER, domain=Bounds(4, 4)),
)
SPACE = FeatureSpace(COLUMNS)
NAN, INFINITE = float("nan"), float("inf")


def _values(draw: Random) -> dict[str, Any]:
    return {
        "age": draw.choice([None, -(2**63), 2**63 - 1, draw.randrange(-10, 130)]),
        "wide": draw.choice([None, draw.randrange(-(2**63), 2**63)]),
        "stepped": draw.choice([None, draw.randrange(-12, 14)]),
        "grid": draw.choice([None, NAN, INFINITE, -0.0, draw.uniform(-1, 4)]),
        "real": draw.choice([None, NAN, -INFINITE, 1e300, 7.3, draw.uniform(-2, 9)]),
        "day": draw.choice([None, date(1940, 1, 1) + timedelta(draw.randrange(35_000))]),
        "well": draw.choice([None, True, False]),
        "sex": draw.choice([None, "F", "M", "X"]),
        "city": draw.choice([None, "x", "it's", "z", ""]),
        "code": draw.choice([None, 1, 2, 3, 5]),
        "size": draw.choice([None, NAN, 0.5, 1.5, 2.0, 7.0]),
        "same": draw.choice([None, 4, 5]),
    }


def table_of(rows: int, seed: int = 1) -> pa.Table:
    draw = Random(seed)
    types = {"age": pa.int64(), "wide": pa.int64(), "stepped": pa.int64(), "code": pa.int64()}
    kinds = {"day": pa.date32(), "well": pa.bool_(), "sex": pa.string(), "city": pa.string()}
    reals = dict.fromkeys(("grid", "real", "size"), pa.float64())
    schema = pa.schema({**types, **kinds, **reals, "same": pa.int64()})
    return pa.Table.from_pylist([_values(draw) for _ in range(rows)], schema=schema)


def in_engine(table: pa.Table) -> np.ndarray[Any, Any]:
    engine = open_duckdb(table)
    named = [exp.alias_(tree, f"x{at}") for at, tree in enumerate(SPACE.expressions())]
    found = engine.run(exp.select(*named).from_(engine.table))
    engine.close()
    assert all(one.null_count == 0 for one in found.columns)
    return np.stack([np.asarray(one) for one in found.columns], axis=1)


def test_coordinates_are_the_same_in_the_engine_and_in_memory() -> None:
    table = table_of(3_000)
    expected, found = SPACE.encode(table) * GRID, in_engine(table)
    assert np.abs(found).max() == GRID
    order, other = (np.lexsort(one.T) for one in (expected, found))
    assert np.array_equal(expected[order], found[other])


def test_what_coordinates_stand_for() -> None:
    assert SPACE.names[:7] == ("age", "wide", "stepped", "grid", "real", "day", "well")
    assert SPACE.names[7:11] == ("sex=M", "city=x", "city=it's", "city=z")
    assert [len(one) for one in SPACE.blocks] == [1] * 8 + [3, 3, 3, 1]
    space = FeatureSpace((COLUMNS[0], COLUMNS[7], COLUMNS[8], COLUMNS[11]))
    rows = pa.table(
        {
            "age": [0, 110, 55, None],
            "sex": ["F", "M", None, "?"],
            "city": ["x", "z", None, "?"],
            "same": [4, 4, 4, None],
        }
    )
    assert space.encode(rows).tolist() == [
        [-1, -1, 1, 0, 0, 0],
        [1, 1, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]
    assert space.halves.tolist() == [55, 0.5, 1, 1, 1, 0]
    assert space.middles.tolist() == [55, 0.5, 0, 0, 0, 4]


def test_facts_are_all_that_a_space_needs() -> None:
    again, table = FeatureSpace.from_facts(SPACE.facts()), table_of(200, seed=2)
    assert again.names == SPACE.names
    assert np.array_equal(again.encode(table), SPACE.encode(table))


def test_whole_numbers_may_come_as_reals() -> None:
    space = FeatureSpace(COLUMNS[:2])
    rows = pa.table({"age": [55.0, NAN, 1e300], "wide": [0.0, None, -1e300]})
    assert space.encode(rows)[:, 0].tolist() == [0, 0, 1]
    assert space.encode(rows)[2, 1] == -1


@pytest.mark.parametrize("kind", [Kind.INTEGER, Kind.REAL, Kind.TEXT, Kind.DATE])
def test_what_is_not_declared_is_refused(kind: Kind) -> None:
    with pytest.raises(ParameterError) as refused:
        _ = FeatureSpace((Column("a", kind),)).encodings
    assert refused.value.code == "domain_missing"
    assert "[columns.a]" in refused.value.message


def test_an_absent_feature_is_refused() -> None:
    with pytest.raises(ParameterError) as refused:
        FeatureSpace(COLUMNS[:1]).encode(pa.table({"other": [1]}))
    assert refused.value.code == "column_unknown"


def test_F29_a_whole_number_that_no_real_holds_is_the_nearest_real() -> None:
    real = FeatureSpace((Column("real", Kind.REAL, domain=Bounds(Decimal(0), Decimal(10))),))
    whole = pa.table({"real": pa.array([2**53 + 1, 2**63 - 1, None], pa.int64())})
    assert np.array_equal(
        real.encode(whole), real.encode(pa.table({"real": [2.0**53, 2.0**63, None]}))
    )
