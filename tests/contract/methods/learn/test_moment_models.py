"""Models of moments are the same from every engine, given the same noise."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity
from sfumato.methods.learn.request import LearningRequest
from sfumato.methods.learn.request import prepare as plan_model
from sfumato.methods.method import Dataset, SaltedData
from sfumato.privacy.accounting.price import Price
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.data.engines.base import Engine

FEATURES = (
    Column("age", Kind.INTEGER, domain=Bounds(0, 110)),
    Column("real", Kind.REAL, domain=Bounds(Decimal("-1.5"), Decimal("7.3"))),
    Column("grid", Kind.REAL, domain=Bounds(Decimal(0), Decimal(3), Decimal("0.1"))),
    Column("day", Kind.DATE, domain=Bounds(date(1950, 1, 1), date(2020, 1, 1))),
    Column("well", Kind.BOOLEAN),
    Column("city", Kind.TEXT, domain=Values(("x", "y", "z"))),
)
TARGET = Column("y", Kind.INTEGER, domain=Bounds(-50, 50))
UNIT = Entity("p", max_rows=2)
SCHEMA = Schema("t", (Column("p", Kind.INTEGER, nullable=False), *FEATURES, TARGET), UNIT)
NAN = float("nan")
ROWS = pa.table(
    {
        "p": [at * at % 23 for at in range(80)],
        "age": [(at * 37) % 140 - 10 if at % 11 else None for at in range(80)],
        "real": [[None, NAN, float("inf"), at * 0.13 - 2][min(at % 7, 3)] for at in range(80)],
        "grid": [at * 0.05 - 0.3 for at in range(80)],
        "day": [date(1945, 1, 1) + timedelta(at * 400) for at in range(80)],
        "well": [[True, False, None][at % 3] for at in range(80)],
        "city": [["x", "y", "z", "?", None][at % 5] for at in range(80)],
        "y": [(at * 29) % 120 - 60 for at in range(80)],
    }
)


def learnt(open_on: Callable[[pa.Table], Engine], kind: str) -> Mapping[str, pa.Table]:
    request = LearningRequest(
        dataset="t",
        schema=SCHEMA,
        features=FEATURES,
        target=TARGET if kind == "linear" else None,
        unit=UNIT,
        price=Price(epsilon=Fraction(5)),
    )
    engine = open_on(ROWS)
    data = Dataset("t", engine, engine.table, SCHEMA, UNIT)
    return plan_model(kind, request, {}).method.release(SaltedData(data, "salt"), SeededEntropy(7))


def test_models_of_moments_are_the_same_from_every_engine(
    open_engine: Callable[[pa.Table], Engine],
) -> None:
    opened: list[Engine] = []

    def here(table: pa.Table) -> Engine:
        opened.append(open_duckdb(table))
        return opened[-1]

    for kind in ("linear", "pca", "covariance"):
        expected, found = learnt(here, kind), learnt(open_engine, kind)
        for name, table in expected.items():
            assert found[name].equals(table), (kind, name)
    for one in opened:
        one.close()
