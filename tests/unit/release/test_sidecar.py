"""A side-car speaks for the files it was written for, and only as it was written."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.unit.release.test_writer import NEW, OLD, a_map, one_file, release

from sfumato.errors import SourceError
from sfumato.release.release import Release
from sfumato.release.released_table import described
from sfumato.release.sidecar import holder_file, sidecar_file

if TYPE_CHECKING:
    from pathlib import Path


def test_the_side_car_tells_of_every_file(tmp_path: Path) -> None:
    release(NEW, other=OLD).save(tmp_path / "out")
    told = json.loads((tmp_path / "out" / "release.json").read_text())
    files = {one.name: one.stat().st_size for one in (tmp_path / "out").glob("*.parquet")}
    assert {name: one["bytes"] for name, one in told["files"].items()} == files
    assert holder_file(tmp_path / "out").is_file()
    (tmp_path / "out" / "other.parquet").unlink()
    with pytest.raises(SourceError) as refusal:
        Release.load(tmp_path / "out")
    assert refusal.value.code == "release_unreadable"


def test_a_map_that_was_changed_is_refused(tmp_path: Path) -> None:
    a_map(tmp_path, NEW, overwrite=False)
    (tmp_path / "out.geojson").write_text("{}")
    with pytest.raises(SourceError) as refusal:
        Release.load(tmp_path / "out.geojson")
    assert refusal.value.code == "release_changed"


def test_side_cars_without_files_are_read_as_ever(tmp_path: Path) -> None:
    one_file(tmp_path, NEW, overwrite=False)
    beside = sidecar_file(tmp_path / "out.csv")
    told = json.loads(beside.read_text())
    del told["files"]
    beside.write_text(json.dumps(told))
    assert Release.load(tmp_path / "out.csv").table.equals(NEW)


def test_a_copy_under_another_name_is_the_file_that_is_read(tmp_path: Path) -> None:
    one_file(tmp_path, NEW, overwrite=False)
    for end in ("", ".json"):
        shutil.copy(tmp_path / f"out.csv{end}", tmp_path / f"copy.csv{end}")
    assert Release.load(tmp_path / "copy.csv").table.equals(NEW)
    found = described(tmp_path / "copy.csv")
    assert found is not None
    assert found.table == tmp_path / "copy.csv"
    one_file(tmp_path, OLD, overwrite=True)
    assert Release.load(tmp_path / "copy.csv").table.equals(NEW)
    (tmp_path / "copy.csv").write_text("n\nelse\n")
    with pytest.raises(SourceError) as refusal:
        Release.load(tmp_path / "copy.csv")
    assert refusal.value.code == "release_changed"
    with pytest.raises(SourceError) as refusal:
        described(tmp_path / "copy.csv")
    assert refusal.value.code == "release_changed"


def test_a_side_car_beside_another_table_does_not_speak_for_it(tmp_path: Path) -> None:
    """Though the file that it was written for lies there too, unchanged."""
    one_file(tmp_path, NEW, overwrite=False)
    shutil.copy(tmp_path / "out.csv.json", tmp_path / "raw.csv.json")
    (tmp_path / "raw.csv").write_text("n\nAlice\n")
    with pytest.raises(SourceError) as refusal:
        Release.load(tmp_path / "raw.csv")
    assert refusal.value.code == "release_changed"


@pytest.mark.parametrize(
    "edit",
    [
        {"tables": None},
        {"tables": [None]},
        {"tables": [{}]},
        {"tables": 5},
        {"guarantee": None},
        {"guarantee": "kind"},
        {"guarantee": {"kind": 5, "statement": "", "parameters": {}}},
        {"guarantee": {"kind": "syntactic", "statement": "", "parameters": None}},
        {"guarantee": {"kind": "syntactic", "statement": "", "more": None}},
        {"provenance": None},
        {"provenance": {"method": "m", "parameters": [], "fingerprint": ""}},
        {"error": 5},
        {"receipt": []},
        {"files": 5},
        {"files": {"out.csv": None}},
        {"files": {"": {"sha256": ""}}},
        {"columns": None},
        {"columns": {"n": "no kind"}},
        {"columns": {"n": None}},
        {"file": None},
        {"file": []},
        {"file": ""},
        {"name": None},
        {"name": []},
        {"sha256": None},
        {"sha256": []},
    ],
    ids=str,
)
def test_a_side_car_that_was_edited_is_unreadable(tmp_path: Path, edit: dict[str, object]) -> None:
    one_file(tmp_path, NEW, overwrite=False)
    beside = sidecar_file(tmp_path / "out.csv")
    told = json.loads(beside.read_text())
    (told if edit.keys() <= told.keys() else told["tables"][0]).update(edit)
    beside.write_text(json.dumps(told))
    with pytest.raises(SourceError) as refusal:
        Release.load(tmp_path / "out.csv")
    assert refusal.value.code == "release_unreadable"
    with suppress(SourceError):
        described(tmp_path / "out.csv")


def test_a_side_car_of_somebody_else_makes_no_release(tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("n\nold\n")
    for text in ("[" * 100_000, "5", "[]", '{"tables": []}'):
        (tmp_path / "out.csv.json").write_text(text)
        assert described(tmp_path / "out.csv") is None
    (tmp_path / "out.csv.json").unlink()
    os.mkfifo(tmp_path / "out.csv.json")
    assert described(tmp_path / "out.csv") is None
