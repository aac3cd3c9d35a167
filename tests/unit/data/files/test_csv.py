"""CSV: what is read, and which damage is refused where."""

from __future__ import annotations

import gzip
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sfumato.data.files import csv
from sfumato.data.files import csv as csv_shape
from sfumato.data.files.csv import CsvFile
from sfumato.data.files.writers import header_line, lines
from sfumato.data.schema.column import Kind
from sfumato.errors import CallerError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

READABLE: dict[str, tuple[bytes, list[dict[str, str | None]]]] = {
    "plain": (b"a,b\n1,x\n2,y\n", [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]),
    "no last line end": (b"a,b\n1,x", [{"a": "1", "b": "x"}]),
    "windows line ends": (b"a,b\r\n1,x\r\n", [{"a": "1", "b": "x"}]),
    "mixed line ends": (b"a,b\r\n1,x\n2,y\r\n", [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]),
    "semicolon": (b"a;b\n1,5;x\n", [{"a": "1,5", "b": "x"}]),
    "tab": (b"a\tb\n1\tx\n", [{"a": "1", "b": "x"}]),
    "separator by agreement": (
        b"a;b,c\n1;2\n3;4\n",
        [{"a": "1", "b,c": "2"}, {"a": "3", "b,c": "4"}],
    ),
    "byte order mark": (b"\xef\xbb\xbfa,b\n1,x\n", [{"a": "1", "b": "x"}]),
    "missing and empty": (b'a,b\n,""\n', [{"a": None, "b": ""}]),
    "quotes": (b'a,b\n"x, ""y""\nz",1\n', [{"a": 'x, "y"\nz', "b": "1"}]),
    "carriage return in quotes": (b'a,b\n"x\ry",1\n', [{"a": "x\ry", "b": "1"}]),
    "header only": (b"a,b\n", []),
    "header only without line end": (b"a,b", []),
    "one column with missing cells": (b'a\n1\n\n""\n', [{"a": "1"}, {"a": None}, {"a": ""}]),
    "blank lines at the end": (b"a,b\n1,x\n\n\r\n", [{"a": "1", "b": "x"}]),
    "quoted header": (b'"a, b",c\n1,2\n', [{"a, b": "1", "c": "2"}]),
    "odd names": (b'select,"""",;--\n1,2,3\n', [{"select": "1", '"': "2", ";--": "3"}]),
    "spaces are kept": (b"a, b\n 1 , x\n", [{"a": " 1 ", " b": " x"}]),
}

REFUSED: dict[str, tuple[bytes, str, str]] = {
    "no bytes": (b"", "table_malformed", "has no header"),
    "blank header": (b"\n1,2\n", "table_malformed", "has no header"),
    "only a mark": (b"\xef\xbb\xbf", "table_malformed", "has no header"),
    "same name": (b"a,b,a\n", "name_taken", "Columns 1 ("),
    "same but for case": (b"a,A\n", "name_taken", "Columns 1 ('a') and 2 ('A')"),
    "same but for space": (b"a,b,a \n", "name_taken", "Columns 1 ("),
    "same but for form": ("é,e\u0301\n".encode(), "name_taken", "Columns 1 ("),
    "empty name": (b"a,,b\n", "name_invalid", "Column 2 has no name"),
    "control in a name": (b"a,b\x07\n", "name_invalid", "Column 2"),
    "direction in a name": ("a,b\u202e\n".encode(), "name_invalid", "Column 2"),
    "quote inside a name": (b'a,"b"c\n', "table_malformed", "Line 1"),
    "utf-16 without a mark": (
        "a,b\n1,2\n".encode("utf-16-le"),
        "table_malformed",
        "offset 1 (line 1)",
    ),
    "nul": (b"a,b\n1,\0\n", "table_malformed", "offset 6 (line 2)"),
    "short row": (b"a,b\n1,2\n3\n", "table_malformed", "Line 3 has 1 cells but the header has 2"),
    "long row": (b"a,b\n1,2,3\n", "table_malformed", "Line 2 has 3 cells but the header has 2"),
    "line numbers count lines in quotes": (b'a,b\n"1\n",2\n3\n', "table_malformed", "Line 4 "),
    "blank line inside": (b"a,b\n1,2\n\n3,4\n", "table_malformed", "Line 3 is blank"),
    "unclosed quote": (b'a,b\n1,"2\n3,4\n', "table_malformed", "Line 2 "),
    "quote in the middle": (b'a,b\n1,2"3"\n', "table_malformed", "Line 2 "),
    "text after a quote": (b'a,b\n1,2\n"3"x,4\n', "table_malformed", "Line 3 "),
    "old mac line ends": (b"a,b\r1,2\r3,4\r", "table_malformed", "Line 1 "),
    "one stray carriage return": (b"a,b\n1,2\r3\n", "table_malformed", "Line 2 "),
    "spreadsheet": (b"PK\x03\x04\0\0", "file_malformed", "spreadsheet"),
    "pdf": (b"%PDF-1.7\n", "file_malformed", "PDF"),
    "parquet": (b"PAR1\0\0", "file_malformed", "Parquet"),
    "gzip": (gzip.compress(b"a\n"), "file_malformed", "Name it .csv.gz"),
    "too many columns": (b"a," * 10_000 + b"a\n", "problem_too_large", "10,001 columns"),
}


@pytest.mark.parametrize("case", READABLE)
def test_readable(read_csv: Any, case: str) -> None:
    data, expected = READABLE[case]
    assert read_csv(data) == expected
    assert read_csv(gzip.compress(data), name="t.csv.gz") == expected


@pytest.mark.parametrize("case", REFUSED)
def test_refused(read_csv: Any, case: str) -> None:
    data, code, words = REFUSED[case]
    with pytest.raises(CallerError, match=re.escape(words)) as refusal:
        read_csv(data)
    assert refusal.value.code == code
    assert "\n" not in str(refusal.value)
    assert refusal.value.__context__ is None


def test_refusals_quote_no_cell(read_csv: Any) -> None:
    for bad in (
        b'x,canary\n1,canary"\n',
        b"x,y\ncanary\n",
        b'x,y\n1,"canary',
        b"x,y\ncanary\xff,\n",
    ):
        with pytest.raises(CallerError) as refusal:
            read_csv(bad, declared=("x",))
        assert "canary" not in str(refusal.value)


def test_small_blocks_change_nothing(read_csv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"a,b\n" + b"".join(b'%d,"x\n""%d"\n' % (n, n) for n in range(50))
    whole = read_csv(data)
    assert whole[49] == {"a": "49", "b": 'x\n"49'}
    for size in (13, 16, 17, 40, 100):
        monkeypatch.setattr(csv_shape, "READ_BYTES", size)
        assert read_csv(data) == whole


def test_long_row_is_refused_without_reading_on() -> None:
    class Endless:
        taken = 0

        def read(self, size: int) -> bytes:
            self.taken += size
            return b"x" * size

    stream = Endless()
    with pytest.raises(CallerError) as refusal:
        csv_shape.Records(stream).header()  # type: ignore[arg-type]
    assert refusal.value.code == "table_malformed"
    assert stream.taken <= 2 * csv_shape.READ_BYTES


def test_long_row_in_the_middle(read_csv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_shape, "READ_BYTES", 64)
    with pytest.raises(SourceError, match=r"^Line 3 starts a row longer") as refusal:
        read_csv(b"a,b\n1,2\n3," + b"4" * 200 + b"\n")
    assert refusal.value.code == "table_malformed"


def test_gzip_bomb(read_csv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "EXPANSION_FREE", 1 << 20)
    bomb = gzip.compress(b"a,b\n" + b"1,2\n" * 4_000_000)
    assert len(bomb) < 16_000_000 / csv.MOST_EXPANSION
    with pytest.raises(CallerError) as refusal:
        read_csv(bomb, name="t.csv.gz")
    assert refusal.value.code == "file_too_large"


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b[:20] + b"\0\0\0\0" + b[24:]])
def test_damaged_gzip(read_csv: Any, damage: Callable[[bytes], bytes]) -> None:
    whole = gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (n, n * n) for n in range(1000)))
    with pytest.raises(CallerError) as refusal:
        read_csv(damage(whole), name="t.csv.gz")
    assert refusal.value.code == "file_malformed"


def test_changed_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a\n1\n")
    with closing(CsvFile(path)) as file:
        path.write_bytes(b"a\n1\n2\n")
        with pytest.raises(CallerError) as refusal:
            list(file.read({}))
    assert refusal.value.code == "source_changed"


def test_unknown_column_is_named(read_csv: Any) -> None:
    with pytest.raises(SourceError, match=r"no column 'c'. It has 'a', 'b'") as refusal:
        read_csv(b"a,b\n1,2\n", kinds={"c": Kind.TEXT})
    assert refusal.value.code == "column_unknown"


words = st.text(st.sampled_from(list("aé🎈 '=-+@\",;\t\r\n")), max_size=6)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.none() | words, st.none() | words), max_size=8))
def test_what_is_written_is_read(
    tmp_path: Path, cells: list[tuple[str | None, str | None]]
) -> None:
    batch = pa.record_batch(
        [
            pa.array([a for a, _ in cells], pa.string()),
            pa.array([b for _, b in cells], pa.string()),
        ],
        names=["a", "b,"],
    )
    path = tmp_path / "t.csv"
    path.write_bytes(header_line(batch.schema.names) + lines(batch))
    with closing(CsvFile(path)) as file:
        read = pa.Table.from_batches(file.read({}), batch.schema)

    def disarmed(cell: str | None) -> str | None:
        return f"'{cell}" if cell and cell.lstrip("'")[:1] in tuple("=+-@\t\r") else cell

    assert read.to_pydict() == {
        "a": [disarmed(a) for a, _ in cells],
        "b,": [disarmed(b) for _, b in cells],
    }
    with closing(CsvFile(path, ours=True)) as file:
        assert pa.Table.from_batches(file.read({}), batch.schema) == pa.table(batch)
