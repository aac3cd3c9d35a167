"""Columns as codes: points, bins, values, what is missing and what is outside."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sfumato.attack.evaluation.coded_counts import BINS, COMMONEST, Coding, coded, coding_of
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values


def counted(column: Column, values: list[Any], kind: pa.DataType) -> tuple[Coding, dict[str, int]]:
    """How a column is coded, and how many rows have each label."""
    engine = open_duckdb(pa.table({column.name: pa.array(values, kind)}))
    try:
        coding = coding_of(column, engine)
        with coded(engine, engine.table, [coding]) as table:
            found = table.counted([0])
            counts: dict[str, int] = {}
            for code, many in zip(found.codes[0].tolist(), found.counts.tolist(), strict=True):
                counts[coding.label(code)] = counts.get(coding.label(code), 0) + many
            return coding, counts
    finally:
        engine.close()


OUTSIDE = "a value that is not declared"
CASES = [
    (Column("x", Kind.INTEGER, domain=Bounds(0, 3)), [0, 3, 3, 4, -1, None], pa.int64(),
     {"0": 1, "3": 2, OUTSIDE: 2, "missing": 1}),
    (Column("x", Kind.REAL, domain=Bounds(Decimal(0), Decimal(1), Decimal("0.1"))),
     [0.1 * 3, 0.7, 1.0, float("nan")], pa.float64(), {"0.3": 1, "0.7": 1, "1.0": 1, OUTSIDE: 1}),
    (Column("x", Kind.TEXT, domain=Values(("b", "a"))), ["a", "b", "b", "c", None], pa.string(),
     {"a": 1, "b": 2, OUTSIDE: 1, "missing": 1}),
    (Column("x", Kind.INTEGER, domain=Values((5, 1))), [5, 1, 2, None], pa.int64(),
     {"5": 1, "1": 1, OUTSIDE: 1, "missing": 1}),
    (Column("x", Kind.BOOLEAN), [True, False, None], pa.bool_(),
     {"true": 1, "false": 1, "missing": 1}),
    (Column("x", Kind.DATE, domain=Bounds(date(2020, 1, 1), date(2020, 1, 3))),
     [date(2020, 1, 1), date(2020, 1, 3), date(2019, 1, 1)], pa.date32(),
     {"2020-01-01": 1, "2020-01-03": 1, OUTSIDE: 1}),
]  # fmt: skip


@pytest.mark.parametrize(("column", "values", "kind", "expected"), CASES)
def test_what_is_declared_is_coded_value_by_value(
    column: Column, values: list[Any], kind: pa.DataType, expected: dict[str, int]
) -> None:
    coding, counts = counted(column, values, kind)
    assert counts == expected
    assert not coding.told


def test_many_points_are_put_into_equal_bins_and_that_is_said() -> None:
    column = Column("x", Kind.INTEGER, domain=Bounds(0, 999))
    coding, counts = counted(column, list(range(1000)), pa.int64())
    assert coding.told == f"compared in {BINS} equal bins of its bounds"
    assert counts == {f"{20 * place:,} to {20 * place + 19:,}": 20 for place in range(BINS)}


def test_a_continuum_is_put_into_equal_bins_that_hold_both_ends() -> None:
    column = Column("x", Kind.REAL, domain=Bounds(Decimal(0), Decimal(1)))
    _, counts = counted(column, [0.0, 1.0, 1.1], pa.float64())
    assert counts == {"0 to 0.02": 1, "0.98 to 1": 1, OUTSIDE: 1}


def test_numbers_without_bounds_have_those_of_the_original() -> None:
    coding, counts = counted(Column("x", Kind.REAL), [1.5, 2.5, float("inf")], pa.float64())
    assert counts == {"1.5 to 1.52": 1, "2.48 to 2.5": 1, "any other value": 1}
    assert "no bounds are declared" in coding.told


def test_open_text_is_coded_by_its_commonest_values() -> None:
    texts = [
        f"t{place:03}" for place in range(COMMONEST + 50) for _ in range(2 - place // COMMONEST)
    ]
    coding, counts = counted(Column("x", Kind.TEXT), texts, pa.string())
    assert len(coding.labels) == COMMONEST
    assert counts["any other value"] == 50
    assert "most often" in coding.told


def test_a_column_without_any_value_has_only_missing_ones() -> None:
    coding, counts = counted(Column("x", Kind.INTEGER), [None, None], pa.int64())
    assert (coding.labels, counts) == ((), {"missing": 2})
