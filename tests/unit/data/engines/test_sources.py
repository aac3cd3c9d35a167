"""What is no readable file is refused at once, by name."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet
from sqlglot import exp

from sfumato.data.engines.base import everything
from sfumato.data.engines.sources import open_source
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.duckdb import DuckDB


def refused(source: Any) -> tuple[str, str]:
    with pytest.raises(SourceError) as refusal:
        open_source(source)
    assert "\n" not in str(refusal.value)
    assert refusal.value.__context__ is None
    return refusal.value.code, refusal.value.message


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.parametrize(
    ("make", "code", "words"),
    [
        (lambda _: None, "source_missing", "does not exist"),
        (Path.mkdir, "file_unreadable", "is a directory"),
        (os.mkfifo, "file_unreadable", "is a named pipe"),
        (make_socket, "file_unreadable", "cannot be opened"),
        (lambda path: path.symlink_to("/dev/zero"), "file_unreadable", "is a device"),
        (lambda path: path.symlink_to(path), "source_missing", "is not a usable path"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_no_file(
    tmp_path: Path, name: str, make: Callable[[Path], None], code: str, words: str
) -> None:
    make(tmp_path / name)
    found, message = refused(tmp_path / name)
    assert found == code
    assert words in message
    assert name in message


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("a\0b.csv", "source_missing"),
        ("x" * 5000 + ".csv", "file_unreadable"),
        ("/etc/passwd/t.csv", "source_missing"),
        ("/etc/passwd", "format_unknown"),
        ([], "source_missing"),
        (7, "source_unsupported"),
        ("duckdb:///none.duckdb#t", "source_missing"),
        ("duckdb:///none.duckdb", "address_malformed"),
        ("postgresql://localhost/db", "address_malformed"),
        ("postgresql://localhost/db#", "address_malformed"),
        ("spark://local", "address_malformed"),
    ],
)
def test_no_source(source: object, code: str) -> None:
    assert refused(source)[0] == code


def test_links_are_followed(opened: Callable[..., DuckDB], tmp_path: Path) -> None:
    from pyarrow import parquet, table

    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "t.csv").write_text("a\n1\n")
    parquet.write_table(table({"a": ["1"]}), tmp_path / "real" / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        (tmp_path / name).symlink_to(tmp_path / "real" / name)
        engine = opened(tmp_path / name)
        assert list(engine.columns(engine.table)) == ["a"]


def test_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n")
    path.chmod(0)
    script = (
        "import os, sys\n"
        "from sfumato.data.engines.sources import open_source\n"
        "from sfumato.errors import SourceError\n"
        "if os.getuid() == 0:\n    os.seteuid(65534)\n"
        "try:\n    open_source(sys.argv[1])\n"
        "except SourceError as error:\n    print(error.code)\n"
    )
    for directory in (tmp_path, *list(tmp_path.parents)[:3]):
        directory.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "file_unreadable\n", done.stderr


STRANGE = [
    "a*b", "a?b", "a[b]c", "a[!b]c", "a[b-d]c", "a]b", "[", "**", "a{b,c}*", "a[*]b", "a[[]b",
    "a'b", 'a"b', "a b", "ä%20b", "%41", "a#b", "~x", "$HOME", "-x", "a,b", "a;b", "year=2024",
    "a\\b", "a\nb",
]  # fmt: skip
LOOKING_ALIKE = ["aXb", "abc", "acc", "b", "abd", "aX", "ab*", "ac*", "A", "a*b", "a[*]b", "a[?]b"]


@pytest.mark.parametrize("name", STRANGE)
def test_F_a_name_is_no_pattern(opened: Callable[..., DuckDB], tmp_path: Path, name: str) -> None:
    """Whatever a file or a folder is called, it is read, and nothing that looks like it."""
    for other in LOOKING_ALIKE:
        (tmp_path / other).mkdir()
        for path in (tmp_path / f"{other}.parquet", tmp_path / other / "t.parquet"):
            parquet.write_table(pa.table({"a": ["wrong"]}), path)
    (tmp_path / name).mkdir(exist_ok=True)
    for path in (tmp_path / f"{name}.parquet", tmp_path / name / "t.parquet"):
        parquet.write_table(pa.table({"a": ["right"]}), path)
    for source in (f"{name}.parquet", f"{name}/t.parquet", name):
        engine = opened(str(tmp_path / source))
        rows = engine.run(exp.select("a").from_(engine.table)).to_pylist()
        assert rows == [{"a": "right"}], source


@pytest.mark.parametrize("name", ["a\\*b.parquet", "a\\[b].parquet"])
def test_F_a_name_that_cannot_be_told_from_a_pattern_is_refused(tmp_path: Path, name: str) -> None:
    parquet.write_table(pa.table({"a": ["1"]}), tmp_path / name)
    code, words = refused(str(tmp_path / name))
    assert code == "file_unreadable"
    assert "Rename the file" in words


def test_a_pattern_that_nothing_matches_is_called_one(tmp_path: Path) -> None:
    code, message = refused(str(tmp_path / "t*.parquet"))
    assert code == "source_missing"
    assert "No file matches the pattern" in message


def test_a_table_of_a_duckdb_file_with_odd_names(tmp_path: Path) -> None:
    path = tmp_path / "a#b.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute('CREATE SCHEMA "odd.s"; CREATE TABLE "odd.s"."t#1" AS SELECT 7 AS x')
    with closing(open_source(f'duckdb://{path}#"odd.s"."t#1"')) as engine:
        assert engine.run(everything(engine.table)).to_pylist() == [{"x": 7}]
