"""Naive Bayes, trees and forests are the same from every engine, given the same noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fixtures.class_learning import STAGE, planned, spread, table

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.unit import Entity
from sfumato.methods.method import Dataset, SaltedData
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from sfumato.data.engines.base import Engine
    from sfumato.methods.learn.request import Learning

UNIT = Entity("person", 2)
# Six people have more rows than count; some cells are missing, outside, or not declared.
ROWS = table([(one % 40 if one % 5 else one % 6, *row[1:]) for one, row in enumerate(spread(120))])
PLANS = [
    planned("naive-bayes", unit=UNIT, target=STAGE, most=2),
    planned("tree", unit=UNIT, target=STAGE, depth=2, bins=4),
    planned("tree", unit=UNIT, growth="stump", bins=8),
    planned("tree", unit=UNIT, target=STAGE, growth="random", depth=3),
    planned("forest", unit=UNIT, trees=3, depth=3),
    planned("naive-bayes", most=5),
]


def learnt(engine: Engine, plan: Learning) -> dict[str, pa.Table]:
    data = Dataset("people", engine, engine.table, plan.request.schema, plan.request.unit)
    return dict(plan.method.release(SaltedData(data, "salt"), SeededEntropy(7)))


def test_models_of_classes_are_the_same_from_every_engine(
    open_engine: Callable[[pa.Table], Engine],
) -> None:
    engine, here = open_engine(ROWS), open_duckdb(ROWS)
    expected = [learnt(here, plan) for plan in PLANS]
    here.close()
    found = [learnt(engine, plan) for plan in PLANS]
    for one, other in zip(expected, found, strict=True):
        assert one.keys() == other.keys()
        assert all(table.equals(other[name]) for name, table in one.items())
