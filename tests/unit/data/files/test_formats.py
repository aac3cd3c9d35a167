"""Which Parquet files a path stands for."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from sfumato.data.engines.base import everything
from sfumato.data.engines.sources import files_of, identify, open_source
from sfumato.data.files.formats import parquet_paths, partition_columns
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from sfumato.data.engines.sources import Source

ROWS = pa.table({"who": [1, 2], "age": [30, 40]})


@pytest.fixture(autouse=True)
def _visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("visits/b.parquet", "visits/a.parquet", "visits/old/c.parquet"):
        write(path)
    for path in ("visits/_temporary/d.parquet", "visits/.e.parquet"):
        write(path)


def write(path: str, table: pa.Table = ROWS) -> None:
    Path(path).parent.mkdir(exist_ok=True, parents=True)
    parquet.write_table(table, path)


def rows_in(source: Source) -> int:
    with closing(open_source(source)) as engine:
        return int(engine.run(everything(engine.table)).num_rows)


def test_files_of_folders_and_patterns() -> None:
    for source, names in {
        "visits": ["a", "b", "c"],
        "visits/*.parquet": ["a", "b"],
        "visits/**/*.parquet": ["a", "b", "c"],
        "visits/[ab].parquet": ["a", "b"],
        "visits/a.parquet": ["a"],
    }.items():
        assert sorted(path.stem for path in parquet_paths(Path(source))) == names, source
        assert rows_in(source) == 2 * len(names)
        assert len(files_of(source)) == len(names)
    assert rows_in(["visits/old", "visits/a.parquet"]) == 4


def test_a_link_adds_no_rows() -> None:
    Path("visits/again.parquet").symlink_to(Path("visits/old/c.parquet").resolve())
    assert rows_in("visits") == rows_in("visits/**/*.parquet") == 6


def test_a_folder_that_vanishes_meanwhile_has_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = os.scandir

    def vanished(path: str | Path | int) -> object:
        if not isinstance(path, int) and Path(path).name == "old":
            raise FileNotFoundError(path)
        return listing(path)

    monkeypatch.setattr(os, "scandir", vanished)
    assert [path.stem for path in parquet_paths(Path("visits"))] == ["a", "b"]


def test_what_there_is_stands_for_itself() -> None:
    write("visits/[ab].parquet", ROWS.slice(1))
    assert rows_in("visits/[ab].parquet") == 1


def test_patterns_without_files_and_files_that_differ() -> None:
    write("visits/turned.parquet", ROWS.select(["age", "who"]))
    write("visits/lacking.parquet", ROWS.select(["age"]))
    for source, code, word in (
        ("visits/x*.parquet", "source_missing", "No file matches"),
        ("visits/[at]*.parquet", "schema_differs", "another order"),
        ("visits/[al]*.parquet", "schema_differs", "'who' is missing"),
    ):
        with pytest.raises(SourceError, match=word) as refused:
            open_source(source)
        assert refused.value.code == code


def test_columns_that_folders_name() -> None:
    write("parts/year=2024/a.parquet")
    write("parts/year=2025/a.parquet")
    assert partition_columns(parquet_paths(Path("parts"))) == ["year"]
    with pytest.raises(SourceError, match="'year'") as refused:
        open_source("parts")
    assert refused.value.code == "source_unsupported"
    assert rows_in("parts/year=2024/*.parquet") == 2


def test_one_table_however_its_files_are_named() -> None:
    folder = identify("visits")
    for source in ("visits/*.parquet", "visits/old/c.parquet", "visits/old"):
        assert folder.matches(identify(source)), source
        assert identify(source).matches(folder), source
    assert not identify("visits/a.parquet").matches(identify("visits/b.parquet"))
    before = identify("visits/*.parquet").version
    write("visits/z.parquet")
    assert identify("visits/*.parquet").version != before
