"""A publication is the same from every engine, given the same noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.data.counting.axes import declared
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity
from sfumato.methods.method import Dataset
from sfumato.methods.publish.publication import prepare
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.data.engines.base import Engine

UNIT = Entity("person", max_rows=3, max_groups=2)
SCHEMA = Schema(
    "visits",
    (
        Column("person", Kind.INTEGER, Role.IDENTIFIER, nullable=False),
        Column("x", Kind.INTEGER, domain=Bounds(0, 15)),
        Column("y", Kind.INTEGER, domain=Bounds(0, 7)),
    ),
    UNIT,
)
VISITS = pa.table(
    {
        "person": [place % 40 for place in range(400)],
        "x": [None if place % 17 == 0 else place * place % 16 for place in range(400)],
        "y": [place * 3 % 11 for place in range(400)],  # 8 to 10 are clamped into the bounds
    }
)


def released(engine: Engine) -> Mapping[str, pa.Table]:
    request = Request(
        dataset="visits",
        axes=tuple(declared(SCHEMA.column(column)) for column in ("x", "y")),
        unit=UNIT,
        price=price(epsilon=2),
    )
    data = Dataset("visits", engine, engine.table, SCHEMA, UNIT)
    return prepare("histogram", request, {}).run({"visits": data}, SeededEntropy(7)).tables


def test_a_publication_is_the_same_from_every_engine(
    open_engine: Callable[[pa.Table], Engine],
) -> None:
    # A kind sees nothing of an engine but counts, so one kind speaks for all.
    here = open_duckdb(VISITS)
    try:
        expected = released(here)
    finally:
        here.close()
    found = released(open_engine(VISITS))
    assert found["histogram"].equals(expected["histogram"])
    assert found["histogram"].num_rows == 17 * 9
