"""Paths are the same from every engine, given the same noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Points, Schema
from sfumato.data.schema.unit import Entity
from sfumato.methods.method import Dataset, KindPlan
from sfumato.methods.publish.catalogue import KINDS
from sfumato.methods.publish.request import FormRequest
from sfumato.methods.trajectory import synthesize
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.data.engines.base import Engine

FORM = Points("trip", "at", "x", "y")
COLUMNS = (
    Column("taxi", Kind.INTEGER, Role.IDENTIFIER, nullable=False),
    Column("trip", Kind.INTEGER, Role.IDENTIFIER, nullable=False),
    Column("at", Kind.INTEGER, domain=Bounds(0, 3600)),
    Column("x", Kind.INTEGER, domain=Bounds(0, 1000)),
    Column("y", Kind.INTEGER, domain=Bounds(0, 1000)),
)
# Taxis of more rows than may count, a row without a place, one beyond the map.
SCHEMA = Schema("trips", COLUMNS, Entity("taxi", max_rows=12, max_groups=2), form=FORM)
MANY = np.arange(240)
ROWS = pa.table(
    {
        "taxi": MANY // 24,
        "trip": MANY // 8,
        "at": MANY % 8 * 60 + MANY // 8,
        "x": pa.array([None, 1200, *((MANY * 37) % 1000)[2:].tolist()], pa.int64()),
        "y": (MANY * 91) % 1000,
    }
)


def _released(open_on: Callable[[pa.Table], Engine]) -> list[Mapping[str, pa.Table]]:
    request = FormRequest(
        dataset="trips", schema=SCHEMA, form=FORM, unit=SCHEMA.unit, price=price(epsilon=4)
    )
    methods: dict[str, Any] = {
        "paths": synthesize.prepare(request, cells=8, rows=20),
        **{kind: KINDS[kind].maker(request) for kind in ("trips", "visits", "lengths")},
    }
    engine = open_on(ROWS)
    data = {"trips": Dataset("trips", engine, engine.table, SCHEMA, SCHEMA.unit)}
    return [
        KindPlan(kind, request, method, "publish").run(data, SeededEntropy(7)).tables
        for kind, method in methods.items()
    ]


def test_paths_are_the_same_from_every_engine(open_engine: Callable[[pa.Table], Engine]) -> None:
    opened: list[Engine] = []

    def here(table: pa.Table) -> Engine:
        opened.append(open_duckdb(table))
        return opened[-1]

    expected = _released(here)
    for engine in opened:
        engine.close()
    found = _released(open_engine)
    for one, other in zip(expected, found, strict=True):
        assert dict(other) == dict(one)
        assert all(table.num_rows for table in one.values())
