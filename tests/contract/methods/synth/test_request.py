"""A synthesis is the same from every engine, given the same noise: only counts are asked of it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity
from sfumato.methods.method import Dataset
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.methods.synth.request import SynthesisRequest
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.data.engines.base import Engine

UNIT = Entity("person", max_rows=3)
SCHEMA = Schema(
    "visits",
    (
        Column("person", Kind.INTEGER, Role.IDENTIFIER, nullable=False),
        Column("x", Kind.INTEGER, domain=Bounds(0, 199)),
        Column("smoker", Kind.BOOLEAN, nullable=False),
        Column("town", Kind.TEXT, nullable=False),
        Column("day", Kind.DATE, domain=Bounds(date(2023, 3, 29), date(2024, 3, 1))),
    ),
    UNIT,
)
VISITS = pa.table(
    {
        "person": [place % 200 for place in range(800)],
        "x": [None if place % 17 == 0 else place * place % 230 for place in range(800)],
        "smoker": [place % 3 == 0 for place in range(800)],
        "town": ["Ulm" if place % 5 else "Bonn" for place in range(800)],
        "day": [
            None if place % 13 == 0 else date(2023, 3, 20) + timedelta(days=place % 360)
            for place in range(800)
        ],
    }
)


def released(engine: Engine) -> Mapping[str, pa.Table]:
    request = SynthesisRequest(
        dataset="visits",
        encoding=Encoding(SCHEMA, weekdays=("day",)),
        unit=UNIT,
        price=price(rho=20, delta="1e-5"),
        method="workload",  # few queries: Spark takes seconds for each
        sets=(("x", "town"), ("town", "smoker"), ("day", "day.weekday")),
    )
    data = Dataset("visits", engine, engine.table, SCHEMA, UNIT)
    return request.run({"visits": data}, SeededEntropy(3)).tables


def check_same(open_engine: Callable[[pa.Table], Engine]) -> None:
    usual = open_duckdb(VISITS)
    try:
        expected = released(usual)
    finally:
        usual.close()
    assert set(expected["rows"]["town"].to_pylist()) >= {"Ulm", "Bonn"}
    found = released(open_engine(VISITS))
    assert found["model"].equals(expected["model"], check_metadata=True)
    assert found["rows"].equals(expected["rows"])


def test_quick_engines_agree(open_quick_engine: Callable[[pa.Table], Engine]) -> None:
    check_same(open_quick_engine)


@pytest.mark.slow
def test_spark_agrees(spark_engine: Callable[[pa.Table], Engine]) -> None:
    check_same(spark_engine)
