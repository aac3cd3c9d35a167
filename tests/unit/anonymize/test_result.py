"""A release holds what was decided: its rows are made on demand, the same each time."""

from __future__ import annotations

import errno
import gc
import os
import warnings
import weakref
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import sfumato as sf
from sfumato.anonymize import result as decided_module
from sfumato.anonymize.pipeline import anonymize
from sfumato.data.engines.duckdb import DuckDB
from sfumato.data.schema.schema_file import load
from sfumato.demo import town
from sfumato.errors import LargeReleaseWarning, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot import exp

SCHEMA = load(Path(town.__file__).with_name("town.toml"))
PEOPLE = town.table(300)


@pytest.fixture
def people() -> Iterator[sf.Table]:
    with sf.read(PEOPLE, SCHEMA) as table:
        yield table


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each query of DuckDB brings here."""
    found: list[int] = []
    run = DuckDB.run

    def counted(self: DuckDB, query: exp.Query) -> pa.Table:
        result = run(self, query)
        found.append(result.num_rows)
        return result

    monkeypatch.setattr(DuckDB, "run", counted)
    return found


@pytest.mark.parametrize(
    "asked",
    [
        {"k": 5, "suppress": "0.1", "suppressed": "star"},
        {"k": 5, "algorithm": "mondrian-relaxed"},
        {"k": 5, "algorithm": "permute"},
        {"l": 2, "sensitive": "disease", "algorithm": "anatomy"},
    ],
)
def test_rows_are_the_same_each_time_and_as_they_are_saved(
    people: sf.Table, asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decided_module, "_STAYS", 0)
    release = people.anonymize(**asked)
    table = release.table
    rows, held = table.to_pylist(), weakref.ref(table)
    del table
    assert held() is None  # nobody holds it, and neither does the release
    assert release.table.to_pylist() == rows
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        release.save(tmp_path / name / "out.csv")
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.csv")}
        for name in ("one", "two")
    )
    assert one == two
    assert one


def test_nothing_but_classes_is_brought_here_until_rows_are_asked_for(
    people: sf.Table, brought: list[int]
) -> None:
    release = people.anonymize(k=5)
    classes = release.guarantee.parameters["classes"]
    assert max(brought) <= classes < 100
    assert "300 rows" in repr(release)
    brought.clear()
    repr(release)
    assert brought == []
    assert "290 more" in (release._repr_html_() or "")
    assert brought == [10]
    brought.clear()
    assert release.sample.keys() == release.tables.keys()
    assert brought == []
    assert release.table.num_rows == 300
    assert release.table is release.table


def test_many_rows_are_brought_with_one_warning(
    people: sf.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decided_module, "LARGE", 299)
    monkeypatch.setattr(decided_module, "_STAYS", 0)
    release = people.anonymize(k=5)
    with pytest.warns(LargeReleaseWarning, match=r"300 rows.*\.save\(path\)") as told:
        assert release.table.num_rows == 300
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(release.to_pandas()) == 300


def test_an_engine_stays_open_for_its_releases_and_no_longer() -> None:
    with sf.read(PEOPLE, SCHEMA) as people:
        engine = people.engine
        release = people.anonymize(k=5)
    assert release.table.num_rows == 300
    del release
    gc.collect()
    with pytest.raises(sf.SfumatoError):
        engine.columns(engine.table)


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pa.parquet.write_table(PEOPLE, path)
    with sf.read(path, SCHEMA) as people:
        release = people.anonymize(k=5)
        pa.parquet.write_table(PEOPLE.slice(1), path)
        for use in (lambda: release.table, lambda: release.save(tmp_path / "out.csv")):
            with pytest.raises(SourceError) as refused:
                use()
            assert refused.value.code == "source_changed"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["people.parquet"]


def test_a_changed_table_is_refused_where_the_engine_does_not_notice(
    people: sf.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DuckDB, "traits", replace(DuckDB.traits, keeps_source=False))
    release = people.anonymize(k=5)
    decided = anonymize(people, [sf.KAnonymity(5)])
    before = release.table
    assert isinstance(people.engine, DuckDB)
    people.engine._connection.execute("UPDATE source SET disease = 'flu'")
    assert release.table is before  # it was made before
    for use in (
        lambda: release.save(tmp_path / "a.csv"),
        lambda: decided.write(tmp_path / "b.csv"),
    ):
        with pytest.raises(
            SourceError, match="not those that this release was decided on"
        ) as refused:
            use()
        assert refused.value.code == "source_changed"
    assert list(tmp_path.iterdir()) == []


def test_a_change_that_keeps_size_and_time_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pyarrow.parquet.write_table(PEOPLE, path)
    with sf.read(path, SCHEMA) as table:
        release = table.anonymize(k=2)
        before = path.stat()
        with path.open("r+b") as stream:
            stream.seek(before.st_size // 2)
            stream.write(b"other")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        with pytest.raises(SourceError) as refused:
            release.save(tmp_path / "out.csv")
        assert refused.value.code == "source_changed"


def test_a_full_disk_is_told_by_the_name_that_was_given(
    people: sf.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    release = people.anonymize(k=5)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sfumato.data.files.writers._write_parts", full)
    with pytest.raises(sf.SfumatoError, match=r"^Cannot write 'f': the disk is full") as told:
        release.save("f/")
    assert told.value.code == "disk_full"
    assert list(tmp_path.iterdir()) == []
