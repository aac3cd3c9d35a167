"""An original that lies in any engine is compared alike."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.attack.evaluation import coded_counts
from sfumato.attack.evaluation.coded_counts import coding_of
from sfumato.attack.evaluation.evaluate import Form, compare
from sfumato.data.engines.sources import open_duckdb

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.base import Engine

COLUMNS = (
    sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 999)),
    sf.Column("height", sf.Kind.REAL, domain=sf.Bounds(Decimal(0), Decimal(2), Decimal("0.1"))),
    sf.Column("weight", sf.Kind.REAL),
    sf.Column("city", sf.Kind.TEXT),
    sf.Column("born", sf.Kind.DATE, domain=sf.Bounds(date(1990, 1, 1), date(1990, 12, 31))),
    sf.Column("ill", sf.Kind.BOOLEAN),
    sf.Column("grade", sf.Kind.INTEGER, domain=sf.Values((3, 1, 2))),
)


def people(shift: int) -> pa.Table:
    numbers = range(shift, 90 + shift)
    gap = [None, True, False]
    return pa.table(
        {
            "age": pa.array([37 * one % 1001 if one % 11 else None for one in numbers]),
            "height": pa.array([one % 21 / 10 for one in numbers], pa.float64()),
            "weight": pa.array([1.5 * (one % 40) for one in numbers], pa.float64()),
            "city": pa.array([f"c{one % 4}" if one % 7 else None for one in numbers]),
            "born": pa.array([date(1990, 1 + one % 12, 1) for one in numbers]),
            "ill": pa.array([gap[one % 3] for one in numbers], pa.bool_()),
            "grade": pa.array([one % 4 for one in numbers], pa.int64()),
        }
    )


def test_every_engine_compares_alike(
    open_engine: Callable[[pa.Table], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    form = Form((), {})
    expected = compare(open_duckdb(people(0)), open_duckdb(people(45)), COLUMNS, form)
    found = compare(open_engine(people(0)), open_duckdb(people(45)), COLUMNS, form)
    assert found.json() == expected.json()
    assert found.copies.exact == 45
    assert any(one.outside for one in found.columns)
    monkeypatch.setattr(coded_counts, "MOST_HELD", 10)
    asked = compare(open_engine(people(0)), open_duckdb(people(45)), COLUMNS[:4], form)
    assert asked.sets[3].mean.tvd == pytest.approx(expected_of(4))


def expected_of(columns: int) -> float:
    found = compare(
        open_duckdb(people(0)), open_duckdb(people(45)), COLUMNS[:columns], Form((), {})
    )
    return found.sets[3].mean.tvd


def test_a_sample_is_a_share_of_the_rows_on_every_engine(
    open_engine: Callable[[pa.Table], Engine],
) -> None:
    engine = open_engine(people(0))
    codings = [coding_of(one, engine) for one in COLUMNS]
    with coded_counts.coded(engine, engine.table, codings) as table:
        some = table.counted(range(len(codings)), one_in=3)
    assert 10 <= some.counts.sum() <= 55  # a third of 90; three standard deviations are 13
