"""Paths through the vault: read bounded, charged once, written in the form of the data set."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Points, Schema
from sfumato.data.schema.unit import Entity
from sfumato.errors import ParameterError
from sfumato.methods.method import Dataset
from sfumato.methods.publish.request import FormRows
from sfumato.methods.trajectory.cells import Box, ReferenceSystems
from sfumato.methods.trajectory.generate import generated_paths
from sfumato.methods.trajectory.paths import parse_times, read_paths

FORM = Points("trip", "at", "x", "y")


def schema(unit: Any = None, at: Kind = Kind.INTEGER, form: Points | None = FORM) -> Schema:
    wide = Bounds(0, 16_000)
    columns = [
        Column("taxi", Kind.TEXT, nullable=False),
        Column("trip", Kind.INTEGER, nullable=False),
        Column("at", at, domain=Bounds(0, 86_400) if at is Kind.INTEGER else None),
        Column("x", Kind.REAL, domain=Bounds(wide.low, wide.high, 1)),
        Column("y", Kind.REAL, domain=Bounds(wide.low, wide.high, 1)),
    ]
    named = {one.name: one for one in columns}
    return Schema("trips", tuple(named.values()), unit or Entity("trip", 48), form=form)


def table(count: int = 300, at: Any = None) -> pa.Table:
    paths = generated_paths(count)
    times = paths.times.astype(np.int64)
    return pa.table(
        {
            "taxi": [f"t{one % 40}" for one in paths.path_of],
            "trip": paths.path_of,
            "at": times if at is None else at(times),
            "x": paths.x,
            "y": paths.y,
        }
    )


def test_a_twin_has_the_form_of_the_data_and_costs_its_price_once() -> None:
    private = sf.protect(sf.read(table(), schema=schema()), epsilon=3)
    twin: Any = private.synthesize(epsilon=1, rows=200)
    assert twin.table.column_names == ["trip", "at", "x", "y"]
    assert len(twin.table.column("trip").unique()) == 200
    assert twin.table.schema.field("trip").type == pa.int64()
    assert twin.remaining["epsilon"] == 2
    again: Any = private.synthesize(epsilon=1, rows=200, form="paths")
    assert again.table.equals(twin.table)
    assert again.remaining["epsilon"] == 2
    assert twin.maps[0] == ("x", "y")
    assert twin.maps[1]["visits"].column("count").to_numpy().sum() == twin.table.num_rows


def test_moments_that_are_texts_come_back_as_moments() -> None:
    def written(times: Any) -> Any:
        start = np.datetime64("2013-07-01T00:00:00", "s")
        return [str(start + np.timedelta64(int(one), "s")) for one in times]

    by_taxi = schema(Entity("taxi", 200), Kind.TEXT)
    private = sf.protect(sf.read(table(at=written), schema=by_taxi), epsilon=3)
    twin: Any = private.synthesize(epsilon=1, method="adatrace", rows=20)
    assert twin.table.column("at")[0].as_py().startswith("2000-01-0")
    assert twin.table.column_names[0] == "taxi"


@pytest.mark.parametrize("method", ["dpt", "adatrace", "one-level"])
def test_every_point_of_a_twin_fits_the_schema(method: str) -> None:
    """Paths begin within 20 minutes and go on for longer; places lie on a grid of their own."""
    declared = schema()
    grids = {"at": Bounds(1, 1201, 30), "x": Bounds(5, 15_985, 20), "y": Bounds(0, 16_000, 1000)}
    columns = tuple(
        Column(one.name, one.kind, domain=grids[one.name]) if one.name in grids else one
        for one in declared.columns
    )
    narrow = Schema("trips", columns, declared.unit, form=FORM)
    rows = table(100, at=lambda times: times % 1200)
    private = sf.protect(sf.read(rows, schema=narrow), epsilon=9)
    twin: Any = private.synthesize(epsilon=8, rows=200, method=method)
    for name, grid in grids.items():
        found = twin.table.column(name).to_numpy()
        assert grid.low <= found.min() <= found.max() <= grid.high
        assert not ((found - grid.low) % grid.step).any()


def read(engine: Any, unit: Entity) -> Any:
    data = Dataset("trips", engine, engine.table, schema(unit), unit)
    return read_paths(FormRows(data, "s"), FORM)


def test_no_more_rows_of_a_person_are_read_than_the_unit_allows() -> None:
    rows, unit = table(), Entity("taxi", 30)
    engine = open_source(rows)
    kept = read(engine, unit)
    counts = np.bincount(kept.owners, weights=kept.lengths)
    assert counts.max() == 30
    assert (np.diff(kept.times)[kept.steps] >= 0).all()
    less = rows.filter(pa.compute.not_equal(rows.column("taxi"), "t3"))
    other = open_source(less)
    without = read(other, unit)
    assert set(without.x) <= set(kept.x)  # whoever leaves changes nobody else's rows
    assert len(kept.x) - len(without.x) == 30


def test_times_that_cannot_be_read_are_missing() -> None:
    texts = ["2013-07-01T00:00:58", "2013-07-01 00:00:58.25", "2013-07-01", "soon", None]
    found = parse_times(pa.chunked_array([texts]))
    assert found[0] == found[1] == found[2] + 58
    assert np.isnan(found[3:]).all()


@pytest.mark.parametrize(
    ("unit", "form", "asked", "code"),
    [
        ("row", FORM, {}, "unit_unsupported"),
        (None, None, {"form": "paths"}, "form_invalid"),
        (None, FORM, {"form": "maps"}, "choice_unknown"),
        (None, FORM, {"columns": ["x"]}, "option_unknown"),
        (None, FORM, {"speed": 3}, "option_unknown"),
        (None, FORM, {"cells": 1}, "parameter_out_of_range"),
        (None, FORM, {"cells": "x"}, "parameter_out_of_range"),
        (None, FORM, {"hexagons": 7}, "parameter_out_of_range"),
        (None, FORM, {"method": "mst"}, "choice_unknown"),
    ],
)
def test_what_cannot_be_is_refused_before_the_charge(
    unit: Any, form: Any, asked: dict[str, Any], code: str
) -> None:
    declared = schema(sf.Rows() if unit == "row" else None, form=form)
    private = sf.protect(sf.read(table(20), schema=declared), epsilon=3)
    with pytest.raises(ParameterError) as refused:
        private.synthesize(epsilon=1, **asked)
    assert refused.value.code == code


def test_places_without_bounds_are_refused() -> None:
    declared = schema()
    columns = tuple(Column("x", Kind.REAL) if one.name == "x" else one for one in declared.columns)
    bare = Schema("trips", columns, declared.unit, form=FORM)
    private = sf.protect(sf.read(table(20), schema=bare), epsilon=3)
    with pytest.raises(ParameterError, match="bounds"):
        private.synthesize(epsilon=1)


def test_without_h3_hexagons_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h3.api", None)
    with pytest.raises(ParameterError, match="pip install"):
        ReferenceSystems.hexagons(Box(0, 0, 1, 1), 5)


def test_a_twin_by_hexagons_stays_within_the_bounds() -> None:
    pytest.importorskip("h3")
    paths = generated_paths(200)
    columns = {"trip": paths.path_of, "at": paths.times.astype(np.int64),
               "lon": -8.7 + paths.x / 1e5, "lat": 41.1 + paths.y / 1e5}  # fmt: skip
    ends = {"lon": ("-8.70", "-8.53"), "lat": ("41.10", "41.27")}
    box = {name: Bounds(*map(Decimal, one)) for name, one in ends.items()}
    named = schema().columns[1:3]
    declared = Schema(
        "trips",
        (*named, *(Column(name, Kind.REAL, domain=one) for name, one in box.items())),
        Entity("trip", 48),
        form=Points("trip", "at", "lon", "lat"),
    )
    private = sf.protect(sf.read(pa.table(columns), schema=declared), epsilon=3)
    twin: Any = private.synthesize(epsilon=3, rows=100, hexagons=8)
    assert len(twin.table.column("trip").unique()) == 100
    for name, one in box.items():
        told = twin.table.column(name).to_numpy()
        assert told.min() >= float(one.low)  # type: ignore[arg-type]
        assert told.max() <= float(one.high)  # type: ignore[arg-type]
