"""A twin of paths beside its original, by the owner's command: figures and maps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest

import sfumato as sf
from sfumato.attack.evaluation.page import summary
from sfumato.methods.trajectory.generate import generated_paths

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """table = "trips"
unit = { column = "trip", max_rows = 48 }
form = { points = { path = "trip", time = "at", at = ["x", "y"] } }
columns.trip = { kind = "integer", nullable = false }
columns.at = { kind = "integer", bounds = [0, 90000] }
columns.x = { kind = "real", bounds = [0, 16000], step = 1 }
columns.y = { kind = "real", bounds = [0, 16000], step = 1 }
"""
FIGURES = ("ranges", "trips", "travelled", "diameter", "patterns")


def rows(first: int, *, scale: float = 1.0) -> pa.Table:
    paths = generated_paths(100, first=first)
    return pa.table(
        {
            "trip": paths.path_of,
            "at": paths.times.astype(np.int64),
            "x": np.round(paths.x * scale),
            "y": np.round(paths.y * scale),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("paths")
    (here / "trips.toml").write_text(SCHEMA)
    csv.write_csv(rows(0), here / "trips.csv")
    return here


def evaluated(folder: Path, twin: pa.Table) -> Any:
    return sf.evaluate(twin, str(folder / "trips.csv"), schema=str(folder / "trips.toml"))


def test_the_same_paths_are_off_by_nothing(folder: Path) -> None:
    found = evaluated(folder, rows(0)).json()["paths"]
    assert [found[name] for name in FIGURES] == pytest.approx([0, 0, 0, 0, 1])
    assert (found["original"], found["synthetic"]) == (100, 100)


def test_what_paths_are_good_for_is_said_first(folder: Path) -> None:
    found = evaluated(folder, rows(0))
    assert summary(found)[0].startswith("The share of trajectories through a rectangle")
    assert summary(found)[1].startswith("Trips")
    assert next(iter(found._card().facts)) == "paths, ranges"


def test_paths_of_half_the_town_are_further_off_than_those_of_strangers(folder: Path) -> None:
    near, far = (
        evaluated(folder, one).json()["paths"] for one in (rows(300), rows(300, scale=0.5))
    )
    assert all(near[name] < far[name] for name in FIGURES[:4])
    assert near["patterns"] > far["patterns"]


def test_the_page_has_both_maps_and_is_the_owners(folder: Path) -> None:
    found = evaluated(folder, rows(300))
    found.report(folder / "page.html")
    page = (folder / "page.html").read_text()
    assert "Trajectories: original and synthetic" in page
    assert "For the owner" in page
    assert "Where points lie in either table" in page
    json.dumps(found.json())


def test_a_twin_without_times_is_compared_by_rows_alone(folder: Path) -> None:
    assert "paths" not in evaluated(folder, rows(0).drop(["at"])).json()
