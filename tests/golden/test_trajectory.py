"""Twins of paths: what an attacker still gets of Porto's taxis, and a million points in time."""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest

import sfumato as sf
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Points, Schema
from sfumato.data.schema.unit import Entity
from sfumato.methods.trajectory.cells import ReferenceSystems, Squares
from sfumato.methods.trajectory.dpt import DPT
from sfumato.methods.trajectory.generate import TOWN, generated_paths
from sfumato.methods.trajectory.measurement import PathCost
from sfumato.methods.trajectory.one_level import OneLevel
from sfumato.methods.trajectory.utility import utility
from sfumato.privacy.accounting.price import price
from sfumato.privacy.noise.entropy import SystemEntropy

TAXIS = Path(__file__).parents[3] / "shared/data/trajectories/porto_taxi_points.csv.gz"
FIXED: dict[str, Any] = {"most": 48, "every": 60.0, "first_time": 0.0, "last_time": 86_400.0}


def degrees(name: str, low: str, high: str) -> Column:
    return Column(name, Kind.REAL, domain=Bounds(*map(Decimal, (low, high, "0.000001"))))


@pytest.mark.slow
@pytest.mark.skipif(not TAXIS.exists(), reason="the shared data is not here")
def test_four_points_find_taxis_in_the_data_and_nobody_in_the_twin() -> None:
    """In the data 98 % are alone with their points. In the twin no more than of strangers are.

    Strangers are taxis that the twin was not made of: half of all, by the last digit.
    """
    columns = (
        Column("user", Kind.INTEGER, nullable=False),
        Column("trip", Kind.INTEGER, nullable=False),
        Column("time", Kind.TEXT, nullable=False),
        degrees("lon", "-8.70", "-8.53"),
        degrees("lat", "41.10", "41.25"),
    )
    form = Points("trip", "time", "lon", "lat")
    schema = Schema("taxis", columns, Entity("user", 400), form=form)
    real = csv.read_csv(TAXIS)
    real = real.set_column(2, "time", real.column("time").cast(pa.string()))
    mine = np.asarray(real.column("user")) % 2 == 0
    private = sf.protect(sf.read(real.filter(mine), schema=schema), epsilon=2)
    twin: Any = private.synthesize(epsilon=2, every=15, rows=300)
    # Everybody's points on one day, as the twin has them.
    day = pa.array([f"2000-01-01{one[10:]}" for one in real.column("time").to_pylist()])
    real = real.set_column(2, "time", day)
    found = []
    for side in (mine, ~mine):
        asked = _visits(real.filter(side))
        held = _visits(twin.table)
        found.append(
            np.mean([_alone(points, held) for points in asked.values() if len(points) > 3])
        )
    assert found[0] <= found[1] + 0.05
    alone = _visits(real)
    before = np.mean([_alone(one, alone) for one in alone.values() if len(one) > 3])
    assert before == pytest.approx(0.98, abs=0.04)


def _visits(table: pa.Table) -> dict[int, list[tuple[int, int, int]]]:
    """Cells of 0.005 degrees and a quarter of an hour in which each was."""
    found: dict[int, set[tuple[int, int, int]]] = {}
    for row in table.select(["user", "time", "lon", "lat"]).to_pylist():
        clock = int(row["time"][11:13]) * 4 + int(row["time"][14:16]) // 15
        cell = (clock, int(row["lon"] // 0.005), int(row["lat"] // 0.005))
        found.setdefault(row["user"], set()).add(cell)
    return {user: sorted(cells) for user, cells in found.items()}


def _alone(points: list[tuple[int, int, int]], held: dict[int, list[tuple[int, int, int]]]) -> bool:
    known = np.random.default_rng(len(points)).choice(len(points), 4, replace=False)
    wanted = {points[one] for one in known}
    return sum(wanted <= set(cells) for cells in held.values()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_by_speed_is_ahead_of_one_level_on_a_hundred_thousand_paths(epsilon: str) -> None:
    real = generated_paths(100_000)
    cost = PathCost(price(epsilon=epsilon), Entity("trip", 48))
    models: list[Any] = [
        DPT(systems=ReferenceSystems.squares(TOWN, 64), cost=cost, **FIXED),
        OneLevel(grid=Squares.of(TOWN, 16, 16), cost=cost, **FIXED),
    ]
    ours, plain = (
        utility(real, one.learn(real, SystemEntropy()).draw(50_000, SystemEntropy()), TOWN)
        for one in models
    )
    assert ours.ranges < plain.ranges / 2
    assert ours.trips < plain.trips / 2
    assert ours.travelled < plain.travelled / 2
    assert ours.diameter < plain.diameter / 2


@pytest.mark.slow
def test_a_million_points_take_less_than_a_minute_through_the_vault() -> None:
    paths = generated_paths(45_000)
    wide = Bounds(0, 16_000, 1)
    columns = (
        Column("trip", Kind.INTEGER, nullable=False),
        Column("at", Kind.INTEGER, domain=Bounds(0, 86_400)),
        Column("x", Kind.REAL, domain=wide),
        Column("y", Kind.REAL, domain=wide),
    )
    schema = Schema("trips", columns, Entity("trip", 48), form=Points("trip", "at", "x", "y"))
    rows = {"trip": paths.path_of, "at": paths.times.astype(int), "x": paths.x, "y": paths.y}
    assert len(paths.x) > 1_000_000
    private = sf.protect(sf.read(pa.table(rows), schema=schema), epsilon=3)
    begun = time.process_time()
    private.synthesize(epsilon=1)
    assert time.process_time() - begun < 60
