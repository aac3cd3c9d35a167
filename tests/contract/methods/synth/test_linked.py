"""A parent and a child table are the same from every engine, given the same noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity
from sfumato.methods.method import Dataset
from sfumato.methods.query.sql.tables import PrivateRows
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy
from sfumato.vault.syntheses import LinkedPair, linked_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.data.engines.base import Engine

PARENT, CHILD = Entity("person", 1), Entity("person", 3)
KEY = Column("person", Kind.TEXT, Role.IDENTIFIER, nullable=False)
PEOPLE = Schema(
    "people",
    (
        KEY,
        Column("age", Kind.INTEGER, domain=Bounds(0, 199)),
        Column("town", Kind.TEXT, nullable=False),
    ),
    PARENT,
)
VISITS = Schema(
    "visits",
    (
        KEY,
        Column("ward", Kind.TEXT, domain=Values(("x", "y"))),
        Column("cost", Kind.INTEGER, domain=Bounds(0, 9)),
    ),
    CHILD,
)
# Some people twice, some children without a parent, some with more than three, and no key at all.
OWNERS = [f"p{place % 240}" for place in range(900)] + [None]
TABLES = {
    "people": pa.table(
        {
            "person": [f"p{place % 200}" for place in range(210)] + [None],
            "age": [None if place % 17 == 0 else place * place % 230 for place in range(211)],
            "town": ["Ulm" if place % 5 else "Bonn" for place in range(211)],
        }
    ),
    "visits": pa.table(
        {
            "person": OWNERS,
            "ward": [None if place % 11 == 0 else "xy"[place % 2] for place in range(901)],
            "cost": [place % 12 for place in range(901)],
        }
    ),
}


def released(engine: Engine) -> Mapping[str, pa.Table]:
    rows = (PrivateRows(PEOPLE, PARENT, "all"), PrivateRows(VISITS, CHILD, "all"))
    request = linked_request(
        LinkedPair(*rows, PARENT, CHILD),
        price(rho=20, delta="1e-5"),
        rows=None,
        columns=None,
        method="workload",  # few queries: Spark takes seconds for each
        target=None,
        sets=(("town", "visits"), ("ward", "people.town"), ("cost", "people.visits")),
    )
    with engine.lend(TABLES["visits"]) as lent:
        data = {
            "people": Dataset("people", engine, engine.table, PEOPLE, PARENT),
            "visits": Dataset("visits", engine, lent, VISITS, CHILD),
        }
        return request.run(data, SeededEntropy(3)).tables


def check_same(open_engine: Callable[[pa.Table], Engine]) -> None:
    usual = open_duckdb(TABLES["people"])
    try:
        expected = released(usual)
    finally:
        usual.close()
    assert expected["child rows"].num_rows == pytest.approx(600, abs=60)  # three of each at most
    found = released(open_engine(TABLES["people"]))
    for name in ("model", "child model"):
        assert found[name].equals(expected[name], check_metadata=True)
    for name in ("rows", "child rows"):
        assert found[name].equals(expected[name])


def test_quick_engines_agree(open_quick_engine: Callable[[pa.Table], Engine]) -> None:
    check_same(open_quick_engine)


@pytest.mark.slow
def test_spark_agrees(spark_engine: Callable[[pa.Table], Engine]) -> None:
    check_same(spark_engine)
