"""Excel to Excel: what stays as it was keeps its type, its sheet, and its way back."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
import xlsxwriter  # type: ignore[import-untyped]  # ships no types
from python_calamine import CalamineWorkbook

import sfumato as sf
from sfumato.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("age", "height", "born", "smoker", "ill")
SCHEMA = """table = "people"
unit = "row"
[columns.age]
kind = "integer"
role = "quasi"
hierarchy = { widths = [10] }
[columns.height]
kind = "real"
role = "quasi"
hierarchy = { widths = [5] }
[columns.born]
kind = "date"
role = "quasi"
hierarchy = { dates = ["year"] }
[columns.smoker]
kind = "boolean"
role = "quasi"
hierarchy = { tree = [true, false] }
[columns.ill]
kind = "text"
role = "sensitive"
"""
SPELLED = SCHEMA.replace('kind = "real"\n', 'kind = "real"\ndecimal = ","\nplaces = 2\n').replace(
    'kind = "date"\n', 'kind = "date"\nformat = "%d.%m.%Y"\n'
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def workbook(path: Path, *, height: float = 1.5, ages: tuple[int, int] = (30, 30)) -> None:
    book = xlsxwriter.Workbook(path)
    sheet, day = book.add_worksheet("Patienten"), book.add_format({"num_format": 14})
    sheet.write_row(0, 0, NAMES)
    for row in range(1, 41):
        sheet.write_number(row, 0, ages[row % 2])
        sheet.write_number(row, 1, height)
        sheet.write_datetime(row, 2, date(1990, 1, 2 + row % 4 // 2), day)
        sheet.write_boolean(row, 3, row % 4 > 1)
        sheet.write_string(row, 4, "flu" if row % 3 else "asthma")
    book.close()


def cells(path: Path) -> tuple[list[str], list[list[Any]]]:
    book = CalamineWorkbook.from_path(str(path))
    return book.sheet_names, book.get_sheet_by_index(0).to_python()


@pytest.mark.parametrize("schema", [SCHEMA, SPELLED], ids=["plain", "spelled"])
@pytest.mark.parametrize("height", [1.5, 2.0])
def test_a_column_of_plain_values_stays_typed(
    home: Path, schema: str, height: float, capsys: pytest.CaptureFixture[str]
) -> None:
    workbook(home / "in.xlsx", height=height)
    (home / "s.toml").write_text(schema)
    options = ("--schema", "s.toml", "--k", "5")
    assert run(["anonymize", "in.xlsx", *options, "-o", "out.xlsx"]) == 0
    names, (header, *rows) = cells(home / "out.xlsx")
    assert names == ["Patienten"]
    assert header == list(NAMES)
    assert sorted(map(str, rows)) == sorted(map(str, cells(home / "in.xlsx")[1][1:]))
    assert run(["anonymize", "in.xlsx", *options, "-o", "out.csv"]) == 0
    capsys.readouterr()
    figures = []
    for name in ("out.csv", "out.xlsx"):
        asked = ["measure", name, "--schema", "s.toml", "--original", "in.xlsx", "--json"]
        assert run(asked) == 0
        figures.append(capsys.readouterr().out.replace(name, ""))
    assert figures[0] == figures[1]
    question = "SELECT COUNT(*) AS n FROM people WHERE born = DATE '1990-01-02' AND age = 30"
    assert run(["worlds", "out.xlsx", question, "--schema", "s.toml"]) == 0
    assert "20" in capsys.readouterr().out
    assert run(["inspect", "out.xlsx"]) == 0
    told = json.loads((home / "out.xlsx.json").read_text())["tables"][0]["columns"]
    assert told == dict(zip(NAMES, ("integer", "real", "date", "boolean", "text"), strict=True))
    loaded = sf.Release.load("out.xlsx").table
    assert set(loaded["born"].to_pylist()) == {date(1990, 1, 2), date(1990, 1, 3)}


def test_the_same_through_python(home: Path) -> None:
    workbook(home / "in.xlsx")
    (home / "s.toml").write_text(SCHEMA)
    sf.read("in.xlsx", schema="s.toml").anonymize(sf.KAnonymity(5)).save("out.xlsx")
    names, (_, *rows) = cells(home / "out.xlsx")
    assert names == ["Patienten"]
    assert {tuple(row[:4]) for row in rows} == {
        (30.0, 1.5, date(1990, 1, 2 + n), bool(n)) for n in (0, 1)
    }


def test_a_column_with_a_range_in_it_stays_text(home: Path) -> None:
    workbook(home / "in.xlsx", ages=(30, 31))
    (home / "s.toml").write_text(SCHEMA)
    options = ("--schema", "s.toml", "--k", "20")
    assert run(["anonymize", "in.xlsx", *options, "-o", "out.xlsx"]) == 0
    _, (_, *rows) = cells(home / "out.xlsx")
    assert {row[0] for row in rows} == {"30-39"}
    assert {row[1] for row in rows} == {1.5}
