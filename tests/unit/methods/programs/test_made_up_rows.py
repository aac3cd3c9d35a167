"""Made-up rows: of declared values alone, the same each time, with cells missing where asked."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow.compute as pc

from sfumato.data.engines.kinds import stored_schema
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.methods.programs.made_up_rows import made_up

COLUMNS = (
    Column("age", Kind.INTEGER, Role.QUASI, domain=Bounds(18, 70)),
    Column("city", Kind.TEXT, Role.QUASI, domain=Values(("bonn", "kiel"))),
    Column("day", Kind.DATE, Role.QUASI, domain=Bounds(date(2020, 1, 1), date(2020, 12, 31))),
    Column("cost", Kind.REAL, Role.SENSITIVE, domain=Bounds(Decimal(0), Decimal("99.5"))),
    Column("smoker", Kind.BOOLEAN, Role.SENSITIVE),
    Column("note", Kind.TEXT, Role.OTHER),
    Column("key", Kind.INTEGER, Role.OTHER, nullable=False),
)


def test_rows_are_of_declared_values() -> None:
    rows = made_up(COLUMNS, 300)
    assert rows.schema == stored_schema({one.name: one for one in COLUMNS})
    assert all(rows[name].null_count == 0 for name in rows.column_names)
    assert set(rows["age"].to_pylist()) <= set(range(18, 71))
    assert len(set(rows["age"].to_pylist())) > 40
    assert set(rows["city"].to_pylist()) == {"bonn", "kiel"}
    assert pc.min_max(rows["day"]).as_py()["max"] <= date(2020, 12, 31)
    assert pc.min_max(rows["cost"]).as_py()["max"] <= 99.5
    assert set(rows["smoker"].to_pylist()) == {False, True}
    assert rows.equals(made_up(COLUMNS, 300))


def test_cells_are_missing_where_they_may() -> None:
    rows = made_up(COLUMNS, 70, missing=True)
    assert {name: rows[name].null_count for name in rows.column_names} == {
        **dict.fromkeys(rows.column_names, 10),
        "key": 0,
    }
    assert made_up(COLUMNS, 0).num_rows == 0
