"""Excel: what is read of a sheet, and which files are refused."""

from __future__ import annotations

import io
import random
import re
import struct
import sys
import zipfile
from contextlib import closing
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import xlsxwriter  # type: ignore[import-untyped]  # ships no types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sfumato.data.engines.base import everything
from sfumato.data.engines.sources import missing_columns, open_duckdb
from sfumato.data.files import excel as zip_check
from sfumato.data.files.writers import write_file
from sfumato.data.schema.column import Kind
from sfumato.data.schema.layout import FileLayout
from sfumato.errors import CallerError, OutputError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Rows = list[list[Any]]
MOMENT = datetime.fromisoformat("2024-01-02T03:04:00")


def book(
    path: Path, rows: Rows, *, sheet: str = "S", merged: tuple[str, str] | None = None
) -> Path:
    """Write a workbook as Excel does, with an empty sheet before."""
    made = xlsxwriter.Workbook(path)
    made.add_worksheet("Empty")
    _fill(made, made.add_worksheet(sheet), rows)
    if merged is not None:
        made.get_worksheet_by_name(sheet).merge_range(*merged)
    made.close()
    return path


def _fill(made: Any, sheet: Any, rows: Rows) -> None:
    day = made.add_format({"num_format": "dd/mm/yyyy"})
    moment = made.add_format({"num_format": "dd/mm/yyyy hh:mm"})
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            if isinstance(cell, datetime):
                sheet.write_datetime(row, column, cell, moment)
            elif isinstance(cell, date):
                sheet.write_datetime(row, column, datetime.combine(cell, time()), day)
            elif isinstance(cell, str) and cell.startswith("=") and cell != "=":
                sheet.write_formula(row, column, cell, None, 7)
            elif cell is not None:
                sheet.write(row, column, cell)


def read(path: Path, **options: Any) -> tuple[list[dict[str, Any]], FileLayout]:
    engine = open_duckdb(path, **options)
    try:
        return engine.run(everything(engine.table)).to_pylist(), engine.layout
    finally:
        engine.close()


def test_cells_are_what_they_are_typed_as(tmp_path: Path) -> None:
    path = book(
        tmp_path / "t.xlsx",
        [
            ["n", "share", "born", "yes", "name", "mixed", "seen", "sum"],
            [1, 0.5, date(1976, 12, 24), True, "Müller", 1, MOMENT, "=1+6"],
            [2, None, date(2000, 2, 29), False, None, "k.A.", date(2024, 1, 3), None],
        ],
    )
    rows, layout = read(path)
    assert rows == [
        {
            "n": 1, "share": 0.5, "born": date(1976, 12, 24), "yes": True, "name": "Müller",
            "mixed": "1", "seen": "2024-01-02 03:04:00", "sum": 7,
        },
        {
            "n": 2, "share": None, "born": date(2000, 2, 29), "yes": False, "name": None,
            "mixed": "k.A.", "seen": "2024-01-03 00:00:00", "sum": None,
        },
    ]  # fmt: skip
    assert layout == FileLayout(sheet="S")  # there are two


def test_declared_kinds_are_read_cell_by_cell(tmp_path: Path) -> None:
    path = book(
        tmp_path / "t.xlsx",
        [["n", "day", "code"], [1, date(2024, 1, 2), 7], ["2", "2024-01-03", "08"]],
    )
    kinds = {"n": Kind.INTEGER, "day": Kind.DATE, "code": Kind.TEXT}
    rows, _ = read(path, kinds=kinds)
    assert rows == [
        {"n": 1, "day": date(2024, 1, 2), "code": "7"},
        {"n": 2, "day": date(2024, 1, 3), "code": "08"},
    ]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.dates(date(1901, 1, 1), date(2100, 1, 1)),
    st.sampled_from(["1", "x", "2024-01-01", "true", "1.5"]),
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cell=VALUES, others=st.lists(VALUES, max_size=4), kind=st.sampled_from(list(Kind)))
def test_F6_a_cell_is_read_the_same_whatever_stands_beside_it(
    tmp_path: Path, cell: Any, others: list[Any], kind: Kind
) -> None:
    """One person's odd cell must change nobody else's."""

    def first(*cells: Any) -> Any:
        path = book(tmp_path / "t.xlsx", [["a", "b"], *([one, 0] for one in cells)])
        rows, _ = read(path, kinds={"a": kind}, strict=False)
        return rows[0]["a"]

    assert first(cell, *others) == first(cell)


def test_a_cell_that_does_not_fit_is_refused_by_place_or_missing(tmp_path: Path) -> None:
    path = book(tmp_path / "t.xlsx", [["n"], [1], [2.5], [True], ["x"]])
    with pytest.raises(SourceError, match="Column 'n', data row 2") as refusal:
        read(path, kinds={"n": Kind.INTEGER})
    assert refusal.value.code == "cell_malformed"
    rows, _ = read(path, kinds={"n": Kind.INTEGER}, strict=False)
    assert [row["n"] for row in rows] == [1, None, None, None]


def test_a_title_and_groups_above_the_header_are_passed_over(tmp_path: Path) -> None:
    rows: Rows = [["Patients 2024"], [], [None, "about", None], ["id", "age", "zip"], [1, 30, "x"]]
    path = book(tmp_path / "t.xlsx", rows, merged=("B3:C3", "about"))
    read_rows, layout = read(path)
    assert read_rows == [{"id": 1, "age": 30, "zip": "x"}]
    assert layout.header_row == 4
    assert read(path, kinds={"age": Kind.INTEGER}, layout=layout)[0] == read_rows
    assert missing_columns(str(path), ["id", "zip"], layout) == []


def test_names_are_one_line(tmp_path: Path) -> None:
    rows, _ = read(book(tmp_path / "t.xlsx", [["height\n(cm)", 2024], [1, 2]]))
    assert rows == [{"height (cm)": 1, "2024": 2}]


def test_what_is_empty_at_the_end_is_no_row(tmp_path: Path) -> None:
    path = book(tmp_path / "t.xlsx", [["a", "b"], [1, 2], ["", ""], [None, ""]])
    assert read(path)[0] == [{"a": 1, "b": 2}]


@pytest.mark.parametrize(
    ("rows", "code", "words"),
    [
        ([["a", "b"], [1, 2], [None, None], [3, 4]], "table_malformed", "row 3 is empty"),
        ([["a", None], [1, 2]], "table_malformed", "column B has cells but no name in row 1"),
        ([["a", "a"], [1, 2]], "name_taken", "Columns 1"),
        ([], "table_malformed", "no sheet with anything in it"),
    ],
)
def test_tables_with_faults_are_refused(tmp_path: Path, rows: Rows, code: str, words: str) -> None:
    with pytest.raises(CallerError, match=re.escape(words)) as refusal:
        read(book(tmp_path / "t.xlsx", rows))
    assert refusal.value.code == code


def test_where_columns_are_declared_no_row_can_fail_a_reading(tmp_path: Path) -> None:
    rows: Rows = [["a", None], [1, "stray"], [None, None], ["x", 4]]
    path = book(tmp_path / "t.xlsx", rows)
    read_rows, _ = read(path, kinds={"a": Kind.INTEGER}, strict=False)
    assert [row["a"] for row in read_rows] == [1, None]


def test_a_sheet_is_named(tmp_path: Path) -> None:
    path = book(tmp_path / "t.xlsx", [["a"], [1]], sheet="Tabelle1")
    assert read(path, layout=FileLayout(sheet="Tabelle1"))[0] == [{"a": 1}]
    with pytest.raises(SourceError, match="no sheet 'x'") as refusal:
        read(path, layout=FileLayout(sheet="x"))
    assert refusal.value.code == "table_malformed"
    with pytest.raises(SourceError, match="has no row 9") as refusal:
        read(path, layout=FileLayout(header_row=9))
    assert refusal.value.code == "table_malformed"


def _repacked(path: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """The same workbook with other members."""
    made = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    path.write_bytes(made.getvalue())
    return path


def _in_sheet(old: bytes, new: bytes) -> Callable[[str, bytes], bytes]:
    def change(name: str, data: bytes) -> bytes:
        return data.replace(old, new) if "sheet2" in name else data

    return change


HOSTILE = {
    "far cell": _in_sheet(b'r="A2"', b'r="XFD1048576"'),
    "far cell in single quotes": _in_sheet(b'r="A2"', b"r='XFD1048576'"),
    "far cell by entities": _in_sheet(b'r="A2"', b'r="XF&#68;1048576"'),
    "far cell in a prefix": _in_sheet(b'<c r="A2"', b'<c xmlns:x="y" r="XFD1048576"'),
    "wide row without places": _in_sheet(
        b"</sheetData>",
        b"<row>" + b"<c/>" * 16_384 + b"</row>" + b"<row/>" * 2000 + b"</sheetData>",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_cells_far_away_are_no_bomb(tmp_path: Path, case: str) -> None:
    path = _repacked(book(tmp_path / "t.xlsx", [["a"], [1]]), HOSTILE[case])
    with pytest.raises(SourceError) as refusal:
        read(path)
    assert refusal.value.code == "file_too_large"


def test_a_bomb_is_refused_whatever_it_says_of_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zip_check, "EXPANSION_FREE", 1 << 20)
    path = tmp_path / "t.xlsx"
    book(path, [["a"], [1]])
    size = 1 << 25
    _repacked(path, lambda name, data: data + b" " * size if "sheet2" in name else data)
    data = path.read_bytes()
    for honest in (True, False):
        if not honest:  # the archive's own directory lies
            real = next(i for i in zipfile.ZipFile(path).infolist() if "sheet2" in i.filename)
            data = data.replace(struct.pack("<I", real.file_size), struct.pack("<I", 10))
        path.write_bytes(data)
        with pytest.raises(SourceError) as refusal:
            read(path)
        assert refusal.value.code == "file_too_large"


def test_entities_are_refused(tmp_path: Path) -> None:
    entities = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><worksheet'
    path = _repacked(book(tmp_path / "t.xlsx", [["a"], [1]]), _in_sheet(b"<worksheet", entities))
    with pytest.raises(SourceError) as refusal:
        read(path)
    assert refusal.value.code == "file_malformed"


@pytest.mark.parametrize(
    ("name", "data", "code", "words"),
    [
        ("t.xlsx", b"\xd0\xcf\x11\xe0" + bytes(600), "file_malformed", "old .xls"),
        (
            "t.xlsx",
            b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le"),
            "excel_locked",
            "without a password",
        ),
        ("t.xlsx", b"a,b\n1,2\n", "file_malformed", "does not start like one"),
        ("t.xlsx", b"", "file_malformed", "does not start like one"),
        ("t.xlsx", b"PK\x03\x04" + bytes(50), "file_malformed", "damaged"),
        (
            "t.xls",
            b"\xd0\xcf\x11\xe0",
            "format_unknown",
            "spreadsheet as .xlsx",
        ),
        ("t.csv", b"PK\x03\x04" + bytes(50), "file_malformed", "name it .xlsx"),
    ],
)
def test_other_files_say_what_to_do(
    tmp_path: Path, name: str, data: bytes, code: str, words: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError, match=re.escape(words)) as refusal:
        read(tmp_path / name)
    assert refusal.value.code == code
    assert refusal.value.__context__ is None


def test_damage_anywhere_is_read_or_refused_in_words(tmp_path: Path) -> None:
    """Bytes changed at random, in the package and inside its members: never a traceback."""
    path = book(tmp_path / "t.xlsx", [["a", "b"], *([n, f"text {n}"] for n in range(50))])
    whole, dice = path.read_bytes(), random.Random(5)
    refused: list[bool] = []
    for _ in range(30):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 6)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data[: dice.choice([len(data), dice.randrange(len(data))])])
        refused.append(_refused(path))
    for _ in range(30):
        path.write_bytes(whole)

        def change(_: str, member: bytes) -> bytes:
            if not member or dice.random() < 0.7:
                return member
            at = dice.randrange(len(member))
            return member[:at] + bytes([dice.randrange(256)]) + member[at + dice.randrange(3) :]

        refused.append(_refused(_repacked(path, change)))
    assert set(refused) == {True, False}  # some damage is noticed, some does not matter


def _refused(path: Path) -> bool:
    """Whether a file is refused, without a trace of what the library said; else it has rows."""
    try:
        rows, _ = read(path)
    except CallerError as refusal:
        assert refusal.__context__ is None  # noqa: PT017  # either outcome is right
        return True
    assert isinstance(rows, list)
    return False


def test_without_the_extra_the_command_to_install_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = book(tmp_path / "t.xlsx", [["a"], [1]])
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    with pytest.raises(SourceError, match=r"pip install 'sfumato\[excel\]'") as refusal:
        read(path)
    assert refusal.value.code == "package_missing"
    with pytest.raises(OutputError, match=r"pip install 'sfumato\[excel\]'") as unwritten:
        write_file(pa.table({"a": [1]}).to_reader, tmp_path / "out.xlsx", overwrite=False)
    assert unwritten.value.code == "package_missing"
    assert not (tmp_path / "out.xlsx").exists()


def _two(path: Path, first: Rows, second: Rows) -> Path:
    made = xlsxwriter.Workbook(path)
    for name, rows in (("One", first), ("Two", second)):
        _fill(made, made.add_worksheet(name), rows)
    made.close()
    return path


def test_a_sheet_with_a_title_alone_is_passed_over(tmp_path: Path) -> None:
    path = _two(tmp_path / "t.xlsx", [["Report of 2024"]], [["a", "b"], ["x", "y"]])
    with closing(open_duckdb(path)) as engine:
        assert list(engine.columns(engine.table)) == ["a", "b"]
        assert engine.layout.sheet == "Two"


def test_F11_what_is_declared_chooses_a_sheet_by_no_row(tmp_path: Path) -> None:
    path = _two(tmp_path / "t.xlsx", [["a", "b"]], [["a", "b"], ["x", "y"]])
    with closing(open_duckdb(path, kinds={"a": Kind.TEXT})) as engine:
        assert engine.run(everything(engine.table)).num_rows == 0


def test_a_sheet_with_spaces_alone_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        open_duckdb(book(tmp_path / "t.xlsx", [[" "]]))
    assert caught.value.code == "table_malformed"
