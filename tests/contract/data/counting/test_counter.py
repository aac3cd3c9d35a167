"""Every table that a counter gives is a marginal of one bounded table, on every engine."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.counting.axes import declared
from sfumato.data.counting.frequencies import BoundedCounter
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.unit import Entity, Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.unit import Unit

    Open = Callable[[pa.Table], Engine]

COLUMNS = [
    Column("city", Kind.TEXT, domain=Values(("a", "b'c", ""))),
    Column("age", Kind.INTEGER, domain=Bounds(0, 4), nullable=False),
    Column("dose", Kind.REAL, domain=Values((Decimal(0), Decimal("0.1"), Decimal("2.5")))),
    Column("born", Kind.DATE, domain=Values((date(2000, 1, 1), date(2000, 2, 29)))),
    Column("male", Kind.BOOLEAN, nullable=False),
]
NAMES = [column.name for column in COLUMNS]


def people(rows: int, seed: int) -> pa.Table:
    """Rows of few people, of whom some values are missing and some are not declared."""
    draw = np.random.default_rng(seed)

    def of(*values: object) -> list[object]:
        return [values[place] for place in draw.integers(len(values), size=rows)]

    return pa.table(
        {
            "who": pa.array(of("x", "y", "z", "x", None), pa.string()),
            "city": pa.array(of("a", "b'c", "", None, "elsewhere"), pa.string()),
            "age": pa.array(of(0, 1, 2, 9, None), pa.int64()),
            "dose": pa.array(of(0.0, -0.0, 0.1, 2.5, float("nan"), None, 7.0), pa.float64()),
            "born": pa.array(of(date(2000, 1, 1), date(2000, 2, 29), None, date(1999, 1, 1))),
            "male": pa.array(of(True, False, True, None), pa.bool_()),
        }
    )


@pytest.mark.parametrize(
    "unit",
    [Rows(), Entity("who", 20), Entity("who", 30, 12)],
    ids=["rows", "people", "people and groups"],
)
def test_tables_are_marginals_of_one_table(open_engine: Open, unit: Unit) -> None:
    engine = open_engine(people(400, seed=5))
    axes = tuple(declared(column) for column in COLUMNS)
    counter = BoundedCounter(engine, engine.table, axes, unit, "a secret")
    joint = counter.of(NAMES)
    assert 0 < joint.total < 400
    pairs = list(combinations(NAMES, 2))
    if engine.dialect == "spark":  # which takes its time for each
        pairs = pairs[::3]
    for columns in [*pairs, ("male", "city"), ("dose",), ()]:
        found, expected = counter.of(columns), joint.marginal(columns)
        assert found.columns == tuple(columns)
        assert found.total == expected.total == joint.total
        if columns:
            np.testing.assert_array_equal(found.dense(), expected.dense())
