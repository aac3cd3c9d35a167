"""A release is saved with a side-car and loaded again; a changed file is refused."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sfumato import __version__
from sfumato.errors import OutputError, SourceError
from sfumato.release.release import Guarantee, Provenance, Release
from sfumato.release.sidecar import sidecar_file

if TYPE_CHECKING:
    from pathlib import Path

TABLE = pa.table(
    {
        "zip": ["5370*", None, ""],
        "n": pa.array([1, 2, None], pa.int64()),
        "mean": pa.array([0.5, None, 2.0]),
        "day": pa.array([date(2020, 2, 29), None, date(1, 1, 1)]),
        "male": pa.array([True, False, None]),
    }
)


def release(**tables: pa.Table) -> Release:
    return Release(
        tables=tables,
        guarantee=Guarantee("k-anonymity", "Everyone hides among at least 5 rows.", {"k": 5}),
        provenance=Provenance("optimal", {"k": 5, "suppress": "0.02"}, "ab" * 32),
        error={"loss": 0.25},
        receipt="7",
    )


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_what_is_saved_is_loaded_again(tmp_path: Path, name: str) -> None:
    saved = release(table=TABLE)
    written = saved.save(tmp_path / name)
    assert written == [tmp_path / name, tmp_path / f"{name}.json"]
    loaded = Release.load(tmp_path / name)
    assert loaded.table.equals(TABLE)
    assert (loaded.guarantee, loaded.provenance) == (saved.guarantee, saved.provenance)
    assert (loaded.error, loaded.receipt) == ({"loss": 0.25}, "7")
    assert loaded.provenance.version == __version__


def test_several_tables_go_into_a_directory(tmp_path: Path) -> None:
    saved = release(quasi=TABLE, sensitive=TABLE.select(["n"]))
    saved.save(tmp_path / "anatomy")
    names = sorted(path.name for path in (tmp_path / "anatomy").iterdir())
    assert names == ["quasi.parquet", "release.json", "sensitive.parquet"]
    loaded = Release.load(tmp_path / "anatomy")
    assert list(loaded.tables) == ["quasi", "sensitive"]
    assert loaded.table.equals(TABLE)


def test_a_name_without_an_ending_is_a_directory(tmp_path: Path) -> None:
    release(counts=TABLE).save(tmp_path / "out")
    assert (tmp_path / "out" / "counts.parquet").is_file()
    assert Release.load(tmp_path / "out").table.equals(TABLE)
    (tmp_path / "taken").write_text("mine")
    for place in ("taken", "no/such", "out.txt"):
        with pytest.raises(OutputError):
            release(quasi=TABLE, other=TABLE).save(tmp_path / place)
    assert (tmp_path / "taken").read_text() == "mine"


def test_names_of_tables_cannot_lead_elsewhere(tmp_path: Path) -> None:
    release(**{"a/../../b": TABLE, "c": TABLE}).save(tmp_path / "out")
    assert {one.name for one in (tmp_path / "out").iterdir()} == {
        *("a%2F..%2F..%2Fb.parquet", "c.parquet", "release.json"),
    }
    assert Release.load(tmp_path / "out").tables.keys() == {"a/../../b", "c"}


def test_the_side_car_is_json_that_people_can_read(tmp_path: Path) -> None:
    release(table=TABLE).save(tmp_path / "out.csv")
    described = json.loads(sidecar_file(tmp_path / "out.csv").read_text())
    assert described["guarantee"]["statement"] == "Everyone hides among at least 5 rows."
    assert described["tables"][0]["columns"]["day"] == "date"


def test_an_existing_file_is_refused_and_left_whole(tmp_path: Path) -> None:
    (tmp_path / "out.csv.json").write_text("precious")
    with pytest.raises(OutputError) as refusal:
        release(table=TABLE).save(tmp_path / "out.csv")
    assert refusal.value.code == "output_exists"
    assert not (tmp_path / "out.csv").exists()
    release(table=TABLE).save(tmp_path / "out.csv", overwrite=True)
    assert Release.load(tmp_path / "out.csv").table.num_rows == 3


def test_a_table_changed_after_release_is_refused(tmp_path: Path) -> None:
    release(table=TABLE).save(tmp_path / "out.csv")
    (tmp_path / "out.csv").write_text("zip,n,mean,day,male\n")
    with pytest.raises(SourceError) as refusal:
        Release.load(tmp_path / "out.csv")
    assert refusal.value.code == "release_changed"


@pytest.mark.parametrize("text", [None, "", "{}", "[1]", '{"tables": 3}'])
def test_a_file_without_a_side_car_is_no_release(tmp_path: Path, text: str | None) -> None:
    (tmp_path / "out.csv").write_text("a\n1\n")
    if text is not None:
        (tmp_path / "out.csv.json").write_text(text)
    with pytest.raises(SourceError) as refusal:
        Release.load(tmp_path / "out.csv")
    assert refusal.value.code == "release_unreadable"


def test_other_libraries_get_the_same_table() -> None:
    frame = release(table=TABLE).to_polars()
    assert frame.to_dicts() == TABLE.to_pylist()
    assert release(table=TABLE).to_pandas().shape == (3, 5)
