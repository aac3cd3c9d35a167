"""Published counts of paths: what they hold, by which groups, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Points, Schema
from sfumato.errors import ParameterError

WIDE = Bounds(0, 4, 1)
COLUMNS = (
    Column("who", Kind.INTEGER, nullable=False),
    Column("trip", Kind.INTEGER, nullable=False),
    Column("at", Kind.INTEGER, domain=Bounds(0, 1000)),
    Column("x", Kind.REAL, domain=WIDE),
    Column("y", Kind.REAL, domain=WIDE),
)
SCHEMA = Schema("trips", COLUMNS, sf.Entity("who", 8), form=Points("trip", "at", "x", "y"))
# 40 people go from the south-west to the north-east by three points, one of whom stays there.
WHO = np.repeat(np.arange(40), 3)
ROWS = pa.table(
    {
        "who": WHO,
        "trip": WHO,
        "at": np.tile([0, 60, 120], 40),
        "x": np.tile([0.5, 2.5, 3.5], 40),
        "y": np.tile([0.5, 0.5, 3.5], 40),
    }
)


def published(kind: Any, **options: Any) -> list[dict[str, Any]]:
    private = sf.protect(sf.read(ROWS, schema=SCHEMA), epsilon=100, max_epsilon=100)
    found: Any = private.publish(kind, epsilon=100, **options)
    rows: list[dict[str, Any]] = found.table.to_pylist()
    return rows


def test_trips_are_told_from_cell_to_cell() -> None:
    rows = published("trips", cells=2)
    assert len(rows) == 16
    [one] = [row for row in rows if row["count"] > 20]
    assert [one["from_x_low"], one["from_y_high"], one["to_x_low"], one["to_y_high"]] == [
        0,
        2,
        2,
        4,
    ]
    assert one["count"] == pytest.approx(40, abs=2)


def test_people_count_once_in_each_cell() -> None:
    rows = published("visits", cells=2)
    assert [round(row["count"], -1) for row in rows] == [40, 40, 0, 40]


def test_of_more_cells_than_the_cap_each_weighs_less() -> None:
    rows = published("visits", cells=2, visits=1)
    assert sum(row["count"] for row in rows) == pytest.approx(40, abs=2)
    assert rows[0]["count"] == pytest.approx(40 / 3, abs=1)


def test_lengths_are_told_in_points() -> None:
    rows = published("lengths")
    assert [(row["points_from"], row["points_to"]) for row in rows] == [(n, n) for n in range(1, 9)]
    assert rows[2]["count"] == pytest.approx(40, abs=2)


def test_the_error_is_known_before() -> None:
    private = sf.protect(sf.read(ROWS, schema=SCHEMA), epsilon=3)
    plans: Any = [private.publish("visits", epsilon=1, visits=cap) for cap in (1, 4)]
    small, large = (one.error["count"]["sd"] for one in plans)
    assert large == pytest.approx(4 * small, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("trips", {"cells": 17}), ("visits", {"visits": 9}), ("visits", {"cells": 0})],
)
def test_what_is_out_of_range_is_refused(kind: str, options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="whole number"):
        published(kind, **options)


def test_rows_as_people_are_refused() -> None:
    schema = Schema("trips", COLUMNS, form=Points("trip", "at", "x", "y"))
    private = sf.protect(sf.read(ROWS, schema=schema), epsilon=1)
    with pytest.raises(ParameterError, match="hides nobody's path"):
        private.publish("lengths", epsilon=1)
