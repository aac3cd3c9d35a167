"""`sfumato locate`: places moved at random, what they cost together, and what is refused."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.csv as csv
import pytest

from sfumato.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

BOX = "-8.7,41.1,-8.5,41.3"


@pytest.fixture
def places(tmp_path: Path) -> Path:
    rows = "\n".join("-8.61,41.15,home" for _ in range(200))
    (tmp_path / "places.csv").write_text(f"lon,lat,what\n{rows}\n")
    return tmp_path


def told(places: Path, capsys: pytest.CaptureFixture[str], *more: str, code: int = 0) -> str:
    asked = ["locate", str(places / "places.csv"), "--at", "lon,lat", "--box", BOX]
    asked += ["--epsilon-per-metre", "0.01", "-o", str(places / "told.csv"), *more]
    assert run(asked) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def test_places_are_moved_by_as_much_as_is_said(
    places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = json.loads(told(places, capsys, "--json"))
    moved = csv.read_csv(places / "told.csv")
    assert moved.column_names == ["lon", "lat"]  # nothing else leaves
    east = (np.asarray(moved.column("lon")) + 8.61) * 111_320 * np.cos(np.radians(41.15))
    north = (np.asarray(moved.column("lat")) - 41.15) * 111_000
    far = np.hypot(east, north)
    # Planar Laplace at 0.01: mean 200 m, of 200 places within 75 with a chance far above 1 - 1e-6.
    assert 125 < far.mean() < 275
    assert (far < said["radius95"] * 1.02).mean() > 0.85
    # 4.744 / 0.01 by the noise, and half the diagonal of a cell, of which the map has 1,024 a side.
    half_diagonal = 0.2 * 110_574 / 1024 / np.sqrt(2)
    assert said["radius95"] == pytest.approx(474.386 + half_diagonal, rel=1e-4)


def test_the_meter_adds_up(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = told(places, capsys)
    assert "All 200 locations together cost epsilon 2 for each metre" in said
    assert "epsilon 1 for 0.5 metres" in said
    assert "outside" not in said
    beside = json.loads((places / "told.csv.json").read_text())
    assert "The trajectory that they form is not private." in json.dumps(beside)


def test_places_beyond_the_map_are_told_within_it(
    places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(places, capsys, "--box", "-8.60,41.1,-8.5,41.3")
    assert "200 of 200 locations are outside the map" in " ".join(said.split())
    assert "outside" not in (places / "told.csv.json").read_text()
    east = np.asarray(csv.read_csv(places / "told.csv").column("lon"))
    assert east.min() >= -8.6


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--at", "lon,north"], "no column 'north'"),
        (["--at", "lon"], "two columns"),
        (["--at", "lon,what"], "two numbers"),
        (["--box", "1,2,3"], "four numbers"),
        (["--box", "-8.5,41.1,-8.7,41.3"], "four numbers"),
        (["--box", "0,0,1000,1000"], "four numbers"),
        (["--epsilon-per-metre", "0"], "epsilon"),
        (["--epsilon-per-metre", "much"], "epsilon"),
        (["--epsilon-per-metre", "15"], "the epsilon for each metre must be from"),
        (["--epsilon-per-metre", "100"], "the epsilon for each metre must be from"),
        (["--epsilon-per-metre", "0.0000001"], "the epsilon for each metre must be from"),
        (["--unit", "miles"], "unit"),
    ],
)
def test_what_cannot_be_is_refused(
    places: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    assert said in told(places, capsys, *more, code=2)
    assert not (places / "told.csv").exists()


def test_no_place_gives_nothing_away(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (places / "places.csv").write_text("lon,lat\n")
    said = told(places, capsys)
    assert "nothing was revealed" in said
    assert "inf" not in said + (places / "told.csv.json").read_text().replace("information", "")


@pytest.mark.parametrize("place", [0, 1])
def test_the_epsilons_that_a_refusal_names_are_taken(
    places: Path, capsys: pytest.CaptureFixture[str], place: int
) -> None:
    refusal = told(places, capsys, "--epsilon-per-metre", "15", code=2)
    named = re.findall(r"must be\s+from\s+(\S+)\s+to\s+([\d.e-]+),", refusal)[0][place]
    assert "true ones" in told(places, capsys, "--epsilon-per-metre", named)


def test_metres_are_taken_as_they_are(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (places / "places.csv").write_text("lon,lat\n" + "500,500\n" * 50)
    told(places, capsys, "--unit", "metres", "--box", "0,0,1000,1000")
    far = np.asarray(csv.read_csv(places / "told.csv").column("lon"))
    assert far.std() > 10
    assert 0 <= far.min() <= far.max() <= 1000
