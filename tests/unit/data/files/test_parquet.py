"""Parquet: what is read where it lies, and which damage is refused."""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from sqlglot import exp

from sfumato.data.engines.base import everything
from sfumato.data.files.parquet import parquet_files
from sfumato.data.schema.column import Kind
from sfumato.errors import CallerError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sfumato.data.engines.duckdb import DuckDB

MIDNIGHT = dt.datetime.fromisoformat("2024-02-29")
TABLE = pa.table({"n": pa.array(range(5000), pa.int32()), "t": [f"t{n % 7}" for n in range(5000)]})


def refusal_of(opened: Callable[..., DuckDB], source: Any) -> CallerError:
    with pytest.raises(CallerError) as refusal:
        opened(source)
    assert "\n" not in str(refusal.value)
    assert refusal.value.__context__ is None
    return refusal.value


def test_small_types_widen(opened: Callable[..., DuckDB], tmp_path: Path) -> None:
    parquet.write_table(TABLE, tmp_path / "a.parquet")
    engine = opened(tmp_path / "a.parquet")
    assert engine.columns(engine.table) == {"n": Kind.INTEGER, "t": Kind.TEXT}
    result = engine.run(everything(engine.table))
    assert result.schema.field("n").type == pa.int64()
    assert result.to_pydict() == TABLE.to_pydict()


def test_declared_kinds(opened: Callable[..., DuckDB], tmp_path: Path) -> None:
    table = pa.table({"zip": [53715, None], "n": ["1", "2"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    engine = opened(tmp_path / "a.parquet", kinds={"zip": Kind.TEXT, "n": Kind.INTEGER})
    rows = engine.run(everything(engine.table)).to_pylist()
    assert rows == [{"zip": "53715", "n": 1}, {"zip": None, "n": 2}]


def test_several_files_and_directory(opened: Callable[..., DuckDB], tmp_path: Path) -> None:
    paths = [tmp_path / "b[1]*.parquet", tmp_path / "a?.parquet"]
    for path in paths:
        parquet.write_table(TABLE, path)
    (tmp_path / "else").mkdir()
    for like in ("b1x.parquet", "ab.parquet"):  # what the names would match as patterns
        parquet.write_table(TABLE, tmp_path / "else" / like)
        (tmp_path / like).symlink_to(tmp_path / "else" / like)
    count = exp.select(exp.Count(this=exp.Star()).as_("n"))
    for source, rows in ((paths, 10_000), (tmp_path, 20_000)):
        engine = opened(source)
        assert engine.run(count.from_(engine.table)).to_pylist() == [{"n": rows}]


def test_directory_names_are_no_columns(opened: Callable[..., DuckDB], tmp_path: Path) -> None:
    (tmp_path / "n=7").mkdir()
    parquet.write_table(TABLE, tmp_path / "n=7" / "a.parquet")
    engine = opened(tmp_path / "n=7" / "a.parquet")
    assert engine.run(everything(engine.table)).to_pydict() == TABLE.to_pydict()


def test_differing_files(opened: Callable[..., DuckDB], tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1], "b": [1], "c": [1]}), tmp_path / "1.parquet")
    parquet.write_table(pa.table({"a": ["1"], "c": [1], "d": [1]}), tmp_path / "2.parquet")
    error = refusal_of(opened, tmp_path)
    assert error.code == "schema_differs"
    assert "'b' is missing; 'd' is new; 'a' is string instead of int64" in error.message


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda data: data[:-100], "file_malformed"),
        (lambda data: data[:6], "file_malformed"),
        (lambda _: b"", "file_malformed"),
        (lambda _: b"a,b\n1,2\n" * 10, "file_malformed"),
        (lambda data: data[:-8] + struct.pack("<I", 2**31) + b"PAR1", "file_malformed"),
        (lambda data: data[:-8] + struct.pack("<I", 40) + b"PAR1", "file_malformed"),
        (lambda data: data[:-60] + b"\xff" * 52 + data[-8:], "file_malformed"),
        (lambda data: data[:-4] + b"PARE", "file_malformed"),
        (lambda data: data[:3000] + bytes([data[3000] ^ 1]) + data[3001:], "file_malformed"),
        (lambda data: data[:6] + b"\xff\xff" + data[8:], "file_malformed"),
    ],
)
def test_damage(
    opened: Callable[..., DuckDB], tmp_path: Path, damage: Callable[[bytes], bytes], code: str
) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(TABLE, path, write_page_checksum=True)
    opened(path)
    path.write_bytes(damage(path.read_bytes()))
    assert refusal_of(opened, path).code == code


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_every_page_is_checked(tmp_path: Path, version: str, compression: str) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(
        TABLE,
        path,
        compression=compression,
        data_page_version=version,
        write_page_checksum=True,
        data_page_size=1000,
        row_group_size=2000,
    )
    whole = path.read_bytes()
    parquet_files([path])
    body = len(whole) - 8 - struct.unpack("<I", whole[-8:-4])[0]
    for position in range(100, body, body // 40):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x40]) + whole[position + 1 :])
        with pytest.raises(CallerError) as refusal:
            parquet_files([path])
        assert refusal.value.code == "file_malformed"


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize("groups", [[0], [], [0, 5], [5, 0], [0, 5, 0, 5]])
def test_groups_without_rows_are_whole(
    opened: Callable[..., DuckDB], tmp_path: Path, dictionary: bool, sums: bool, groups: list[int]
) -> None:
    path = tmp_path / "a.parquet"
    how: dict[str, Any] = {"use_dictionary": dictionary, "write_page_checksum": sums}
    with parquet.ParquetWriter(path, TABLE.schema, **how) as writer:
        for rows in groups:
            writer.write_table(TABLE.slice(0, rows))
    engine = opened(path)
    assert engine.run(everything(engine.table)).num_rows == sum(groups)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1, 2]]),
        pa.array([{"x": 1}]),
        pa.array([decimal.Decimal(1)], pa.decimal128(38, 0)),
        pa.array([decimal.Decimal(1)], pa.decimal128(18, 2)),
        pa.array([b"x"]),
        pa.array([MIDNIGHT], pa.timestamp("us", "UTC")),
        pa.array([dt.time(1)]),
    ],
    ids=lambda column: str(column.type),
)
def test_types_without_a_kind(opened: Callable[..., DuckDB], tmp_path: Path, column: Any) -> None:
    table = pa.table({"fine": [1], "strange": column})
    parquet.write_table(table, tmp_path / "a.parquet")
    for source in (tmp_path / "a.parquet", table):
        error = refusal_of(opened, source)
        assert error.code == "column_type_unsupported"
        assert "'strange'" in error.message
        assert "'fine'" not in error.message


def test_int96(opened: Callable[..., DuckDB], tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([MIDNIGHT], pa.timestamp("ns"))})
    parquet.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    error = refusal_of(opened, tmp_path / "a.parquet")
    assert (error.code, "INT96" in error.message) == ("column_type_unsupported", True)


def test_duplicate_names(opened: Callable[..., DuckDB], tmp_path: Path) -> None:
    parquet.write_table(pa.table([[1], [2]], names=["a", "A"]), tmp_path / "a.parquet")
    assert refusal_of(opened, tmp_path / "a.parquet").code == "name_taken"


def test_changed_and_vanished(opened: Callable[..., DuckDB], tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(TABLE, path)
    engine = opened(path)
    stream = engine.stream(everything(engine.table), batch_rows=100)
    stream.read_next_batch()
    parquet.write_table(TABLE.slice(1), path)
    for read in (lambda: engine.run(everything(engine.table)), stream.read_all):
        with pytest.raises(CallerError) as refusal:
            read()
        assert refusal.value.code == "source_changed"
    path.unlink()
    with pytest.raises(CallerError) as refusal:
        engine.columns(engine.table)
    assert refusal.value.code == "source_changed"
