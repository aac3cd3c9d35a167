"""Files that are not UTF-8 with commas: what is detected, what is declared, what is refused."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sfumato.data.engines.base import everything
from sfumato.data.engines.sources import missing_columns, open_duckdb
from sfumato.data.files import csv as csv_shape
from sfumato.data.schema.column import Kind
from sfumato.data.schema.layout import FileLayout
from sfumato.errors import CallerError, SourceError

if TYPE_CHECKING:
    from pathlib import Path

TEXT = 'Größe,Ort\n1,"Köln, Süd"\n2,Zürich\n'
ROWS = [{"Größe": "1", "Ort": "Köln, Süd"}, {"Größe": "2", "Ort": "Zürich"}]
KINDS = {"Größe": Kind.TEXT, "Ort": Kind.TEXT}


def found(path: Path, **options: Any) -> tuple[list[dict[str, Any]], FileLayout]:
    engine = open_duckdb(path, **options)
    try:
        return engine.run(everything(engine.table)).to_pylist(), engine.layout
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("codec", "said"),
    [
        ("utf-8", None),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-32", "utf-32"),
        ("windows-1252", "windows-1252"),
        ("latin-1", "windows-1252"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.txt"])
def test_of_an_unknown_file_the_encoding_is_found(
    tmp_path: Path, codec: str, said: str | None, name: str
) -> None:
    data = TEXT.encode(codec)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert found(tmp_path / name) == (ROWS, FileLayout(said))


def test_bytes_that_windows_has_no_letter_for_are_latin_1(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\n\x81,\xe9\n")
    rows, layout = found(tmp_path / "t.csv")
    assert (rows, layout.encoding) == ([{"a": "\x81", "b": "é"}], "iso-8859-1")


def test_what_is_found_late_in_a_file_holds_for_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_shape, "READ_BYTES", 64)
    text = "a,b\n" + "1,x\n" * 1000 + "2,é\n"
    (tmp_path / "t.csv").write_bytes(text.encode("cp1252"))
    rows, _ = found(tmp_path / "t.csv")
    assert len(rows) == 1001
    assert rows[-1] == {"a": "2", "b": "é"}


@pytest.mark.parametrize(
    "codec", ["windows-1252", "iso-8859-15", "cp850", "utf-16-le", "shift_jis", "gb18030", "cp037"]
)
@pytest.mark.parametrize("size", [64, 8 << 20])
def test_declared_encodings_are_read_in_blocks_of_any_size(
    tmp_path: Path, codec: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_shape, "READ_BYTES", size)
    text = 'a;b\n1;"x;""y"\n' + "".join(f"{n};Text {n}\n" for n in range(50))
    (tmp_path / "t.csv").write_bytes(text.encode(codec))
    layout = FileLayout(codec, ";")
    rows, kept = found(tmp_path / "t.csv", layout=layout, kinds={"a": Kind.INTEGER})
    assert rows[0] == {"a": 1, "b": 'x;"y'}
    assert rows[-1] == {"a": 49, "b": "Text 49"}
    assert kept == layout


def test_with_a_schema_nothing_is_guessed_and_the_line_is_shown(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(TEXT.encode("cp1252"))
    with pytest.raises(SourceError, match=r'file\.encoding = "windows-1252"') as refusal:
        found(tmp_path / "t.csv", kinds={"Ort": Kind.TEXT})
    assert refusal.value.code == "not_utf8"
    assert "offset 2 (line 1)" in refusal.value.message
    assert found(tmp_path / "t.csv", kinds=KINDS, layout=FileLayout("cp1252"))[0] == ROWS


def test_a_mark_wins_over_what_is_declared(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(TEXT.encode("utf-16"))
    rows, layout = found(tmp_path / "t.csv", kinds=KINDS, layout=FileLayout("cp1252"))
    assert (rows, layout.encoding) == (ROWS, "utf-16")


def test_utf_8_that_is_declared_as_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(TEXT.encode())
    with pytest.raises(SourceError, match="is UTF-8, but its schema declares") as refusal:
        found(tmp_path / "t.csv", declared=("Ort",), layout=FileLayout("cp1252"))
    assert refusal.value.code == "encoding_wrong"


@pytest.mark.parametrize(
    ("codec", "data", "place"),
    [
        ("cp1252", b"a,b\n1,2\n3,\x81\n", "offset 10 (line 3)"),
        ("utf-16-le", "a,b\n1,2\n".encode("utf-16-le") + b"\x00\xd8x\x00", "offset 16 (line 3)"),
        ("shift_jis", b"a,b\n1,\x81\n", "offset 6 (line 2)"),
    ],
)
def test_bad_bytes_are_refused_by_place_or_replaced(
    tmp_path: Path, codec: str, data: bytes, place: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(SourceError) as refusal:
        found(path, declared=("a",), layout=FileLayout(codec))
    assert refusal.value.code == "encoding_wrong"
    assert place in refusal.value.message
    if codec == "cp1252":  # of UTF-16 the last row is cut off, and Shift-JIS is not for others
        rows, _ = found(path, declared=("a",), layout=FileLayout(codec), strict=False)
        assert rows[-1]["b"] == "\N{REPLACEMENT CHARACTER}"


def test_a_cell_that_is_no_text_fails_nobody_who_is_not_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,\xff\xfe\n2,\0\n3,\xc3\n4,x\n")
    kinds = {"a": Kind.INTEGER, "b": Kind.TEXT}
    rows, _ = found(path, kinds=kinds, strict=False)
    assert [row["b"] for row in rows] == ["\ufffd\ufffd", "\ufffd", "\ufffd", "x"]
    with pytest.raises(SourceError):
        found(path, kinds=kinds)


@pytest.mark.parametrize(
    ("name", "text", "layout"),
    [
        ("t.tsv", "a\tb;c\n1\t2;3\n", FileLayout()),
        ("t.tsv.gz", "a\tb;c\n1\t2;3\n", FileLayout(separator=";")),
        ("t.csv", "a|b;c\n1|2;3\n", FileLayout(separator="|")),
        ("t.txt", "a~b;c\n1~2;3\n", FileLayout(separator="~")),
        ("t.csv", "a b;c\n1 2;3\n", FileLayout(separator=" ")),
    ],
)
def test_separators_that_are_declared_or_named(
    tmp_path: Path, name: str, text: str, layout: FileLayout
) -> None:
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    rows, kept = found(tmp_path / name, layout=layout, kinds={"a": Kind.INTEGER})
    assert rows == [{"a": 1, "b;c": "2;3"}]
    assert kept.separator == (None if ".tsv" in name else layout.separator)


def test_a_bar_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a|b\n1|2,5\n3|4,5\n")
    rows, layout = found(tmp_path / "t.csv")
    assert rows == [{"a": "1", "b": "2,5"}, {"a": "3", "b": "4,5"}]
    assert layout == FileLayout(separator="|")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.text(st.sampled_from(list("ab,;\t|1")), max_size=8), max_size=6))
def test_F_no_row_decides_on_the_separator_where_columns_are_declared(
    tmp_path: Path, rows: list[str]
) -> None:
    """What is read of the header is the same whatever the rows are, all of one person's even."""
    path = tmp_path / "t.csv"
    path.write_text("a;b,c;d\n" + "\n".join(rows) + "\n", encoding="utf-8")
    assert missing_columns(str(path), ("a", "b,c")) == []
    assert missing_columns(str(path), ("a;b",)) == []
    assert missing_columns(str(path), ("x",)) == ["x"]


def test_rows_cannot_outvote_the_declared_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a;b,c\n" + b"1;2,3\n" * 200)
    kinds = {"a;b": Kind.TEXT, "c": Kind.INTEGER}
    rows, _ = found(tmp_path / "t.csv", kinds=kinds)
    assert rows[0] == {"a;b": "1;2", "c": 3}


def test_a_fault_in_another_encoding_is_told_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("a,b\n1,2\n3\n".encode("utf-16"))
    with pytest.raises(CallerError, match="Line 3 has 1 cells"):
        found(tmp_path / "t.csv")
