"""Bins and discovered texts are counted alike on every engine."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.data.counting.frequencies import BoundedCounter
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.hierarchy import Widths
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.base import Engine

UNIT = Entity("who", 3)
SCHEMA = Schema(
    "t",
    (
        Column("who", Kind.INTEGER, nullable=False),
        Column("age", Kind.INTEGER, domain=Bounds(-20, 110), hierarchy=Widths((7, 14))),
        Column("odd", Kind.INTEGER, domain=Bounds(-7 * 2**59, 7 * 2**59, 7), nullable=False),
        Column("dose", Kind.REAL, domain=Bounds(Decimal("-0.3"), Decimal("99.7"))),
        Column("day", Kind.DATE, domain=Bounds(date(1999, 12, 30), date(2003, 1, 3), 5)),
        Column("town", Kind.TEXT),
    ),
    UNIT,
)


def people(rows: int = 600) -> pa.Table:
    """Values inside, outside and between all points, and missing ones."""
    draw = np.random.default_rng(7)
    day = [date(1999, 12, 1) + timedelta(days=int(one)) for one in draw.integers(0, 1200, rows)]
    dose = draw.integers(-20, 1100, rows) / 10.0
    dose[::50], dose[1::50], dose[2::50] = np.nan, np.inf, -np.inf
    towns = ["Ulm", "L'Aquila", "other", None, "", "Ulm", "Ulm"]
    return pa.table(
        {
            "who": pa.array(draw.integers(0, 300, rows)),
            "age": pa.array(draw.integers(-40, 130, rows), mask=draw.random(rows) < 0.1),
            "odd": pa.array(draw.integers(-(2**63), 2**63 - 1, rows)),
            "dose": pa.array(dose, mask=draw.random(rows) < 0.1),
            "day": pa.array(day, mask=draw.random(rows) < 0.1),
            "town": pa.array(
                [f"only {place}" if place % 9 == 0 else towns[place % 7] for place in range(rows)]
            ),
        }
    )


def found_and_counted(engine: Engine) -> tuple[dict[str, object], list[list[int]]]:
    plan = Encoding(SCHEMA)
    discovery = plan.paid(price(rho=50, delta="1e-4")).discovery
    assert discovery is not None
    found = discovery.run(engine, engine.table, "salt", SeededEntropy(5))
    encoding = plan.discovered(found)
    counter = BoundedCounter(engine, engine.table, encoding.axes, UNIT, "salt")
    # Few queries: Spark takes seconds for each.
    whole, pair = counter.of([axis.column for axis in encoding.axes]), counter.of(["day", "town"])
    assert np.array_equal(whole.of(["day", "town"]).dense(), pair.dense())
    return dict(found), [*(codes.tolist() for codes in whole.codes), whole.counts.tolist()]


def test_all_engines_agree(open_engine: Callable[[pa.Table], Engine]) -> None:
    table = people()
    usual = open_duckdb(table)
    try:
        found, counts = found_and_counted(usual)
    finally:
        usual.close()
    assert found == {"town": ("", "L'Aquila", "Ulm", "other")}
    assert sum(counts[-1]) > 500
    assert [len(set(codes)) for codes in counts[:-1]] == [20, 42, 53, 39, 6]
    assert found_and_counted(open_engine(table)) == (found, counts)
