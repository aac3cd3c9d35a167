"""Rows that are not those that were decided on are not handed out, whatever the source says."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymize import result, source_check
from sfumato.anonymize.source_check import Promised
from sfumato.data.engines.duckdb import DuckDB
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.hierarchy import Widths
from sfumato.data.schema.schema import Schema
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PEOPLE = pa.table({"age": [20, 21, 30, 31] * 6, "illness": ["a", "b", "c"] * 8})
SCHEMA = Schema(
    "t",
    (
        Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 99), Widths((10, 50))),
        Column("illness", Kind.TEXT, Role.SENSITIVE),
    ),
)

CHANGES = {
    "fewer": "DELETE FROM source WHERE age = 20",
    "other classes": "UPDATE source SET age = 31 WHERE age < 30",
    "a small class": "UPDATE source SET age = CASE WHEN illness = 'a' THEN 20 ELSE 31 END",
}
WAYS: dict[str, Callable[[sf.Release, Path], object]] = {
    "table": lambda release, _: release.table,
    "file": lambda release, folder: release.save(folder / "out.csv"),
    "folder": lambda release, folder: release.save(f"{folder}/out/"),
}


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> Iterator[sf.Table]:
    """A table that looks the same whenever it is looked at, but gives other rows."""
    monkeypatch.setattr(DuckDB, "traits", replace(DuckDB.traits, keeps_source=False))
    for module in (source_check, result):
        monkeypatch.setattr(module, "mark", lambda _: "the same")
    with sf.read(PEOPLE, SCHEMA) as table:
        yield table


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_were_not_decided_on(
    unwatched: sf.Table, way: str, change: str, tmp_path: Path
) -> None:
    release = unwatched.anonymize(k=10)
    assert isinstance(unwatched.engine, DuckDB)
    unwatched.engine._connection.execute(CHANGES[change])
    with pytest.raises(SourceError) as refused:
        WAYS[way](release, tmp_path)
    assert refused.value.code == "source_changed"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_were_decided_on(unwatched: sf.Table, way: str, tmp_path: Path) -> None:
    release = unwatched.anonymize(k=10)
    WAYS[way](release, tmp_path)
    assert release.table.num_rows == PEOPLE.num_rows
    assert bool(list(tmp_path.iterdir())) == (way != "table")


@pytest.mark.parametrize("way", WAYS)
def test_starred_rows_are_no_class(unwatched: sf.Table, way: str, tmp_path: Path) -> None:
    del unwatched
    alone = pa.table({"age": [*[20] * 12, 77], "illness": ["a"] * 13})
    with sf.read(alone, SCHEMA) as table:
        starred = table.anonymize(k=10, suppress=0.1, suppressed="star")
        WAYS[way](starred, tmp_path)
        assert starred.table.num_rows == 13


def test_a_table_that_was_written() -> None:
    promised = Promised("t", 24, 0, ("age",), 4, 6)
    with closing(open_source(PEOPLE)) as engine:
        promised.check_table(engine, engine.table)
        for wrong in (
            replace(promised, rows=23),
            replace(promised, classes=3),
            replace(promised, k=7),
        ):
            with pytest.raises(SourceError):
                wrong.check_table(engine, engine.table)
