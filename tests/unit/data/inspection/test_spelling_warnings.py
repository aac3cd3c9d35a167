"""Cells that reading would change stay text, and what looks like a date or number is said."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import xlsxwriter  # type: ignore[import-untyped]  # ships no types

from sfumato.cli.main import run
from sfumato.data.schema.column import Kind
from sfumato.data.schema.hierarchy import Mask, Widths
from sfumato.release.open_table import read

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.inspection.guesses import Guess


def inspected(folder: Path, cells: list[str], name: str = "x") -> Guess:
    path = folder / "t.csv"
    path.write_text("\n".join([f"{name};row", *(f'"{cell}";a' for cell in cells)]) + "\n")
    with closing(read(path)) as table:
        return table.inspect().guesses[0]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["06.1990", "06.1987", "12.2001"], "a month and a year"),
        (["6.1990", "12.2001"], "a month and a year"),
        (["1990.06", "2001.12"], "a month and a year"),
        (["01.5", "22.75"], "1 cell begins with a zero"),
        (["01,5", "02,75"], "2 cells begin with a zero"),
        (["92233720368547758071", "19007199254740993"], "more digits than a number can hold"),
        (["9007199254740993", "1.5"], "more digits than a number can hold"),
        (["123456789012345.123", "1.1"], "more digits than a number can hold"),
        (["123456789012345,123", "1,1"], "more digits than a number can hold"),
    ],
)
def test_what_a_number_would_lose_stays_text(tmp_path: Path, cells: list[str], said: str) -> None:
    found = inspected(tmp_path, cells)
    assert (found.column.kind, found.column.spelling) == (Kind.TEXT, None)
    (warning,) = found.warnings
    assert said in warning
    assert 'write kind = "real"' in warning


@pytest.mark.parametrize(
    "cells",
    [
        ["0.30000000000000004", "0.1"],
        ["0.10000000000000001", "0.25"],
        ["0.5", "-0.25", "1e5"],
        ["1234567890123456.5", "2.5"],
        ["1.50", "2.5", "3.000"],
        ["13.1990", "1.25"],
    ],
)
def test_what_a_number_holds_is_one(tmp_path: Path, cells: list[str]) -> None:
    found = inspected(tmp_path, cells)
    assert (found.column.kind, found.warnings) == (Kind.REAL, ())


@pytest.mark.parametrize("cells", [["1.10", "1.1", "1.2"], ["1,10", "1,1", "1,2"]])
def test_texts_are_never_made_one_silently(tmp_path: Path, cells: list[str]) -> None:
    found = inspected(tmp_path, cells)
    assert found.column.kind is Kind.REAL
    assert 'write kind = "text"' in found.warnings[-1]
    assert "1 text becomes the same number" in found.warnings[-1]


LOOKS = {
    "the name of a month": [
        ["8 Oct 1956", "12 Dec 2001"],
        ["04-SEP-1987", "05-MAY-1988"],
        ["10. März 1949", "1. Mai 1950"],
        ["Jun 15, 1954", "September 3, 2001"],
    ],
    "months": [["05/1940", "12/2001"], ["1940-05", "2001-12"]],
    "dates": [
        [" 17.02.1971", "18.02.1971"],
        ["22.04.1980", "1980-04-22"],
        ["1944-02-26 18:30:00 CET", "1944-02-27 18:30:00 CET"],
    ],
    "numbers": [
        [" 363 ", "17"],
        [",85", "1,27"],
        ["\u221226,85", "3,50"],
        ["723,-", "89,-"],
        ["<0,5", "0,7"],
    ],
    "numbers with a unit": [["26.5 kg", "97.0 kg"], ["5 km", "7 km"]],
}


@pytest.mark.parametrize(
    ("what", "cells"), [(what, cells) for what, several in LOOKS.items() for cells in several]
)
def test_what_looks_like_a_date_or_number_is_said_and_not_masked(
    tmp_path: Path, what: str, cells: list[str]
) -> None:
    found = inspected(tmp_path, cells * 2, "birthday")
    assert found.column.kind is Kind.TEXT
    assert not isinstance(found.column.hierarchy, Mask)
    (warning,) = found.warnings
    assert f"4 of 4 cells look like {what}" in warning or f"with {what}" in warning
    assert not any(cell.strip() in warning for cell in cells)


def test_eight_digits_that_are_days_are_said(tmp_path: Path) -> None:
    found = inspected(tmp_path, ["19570507", "20011231"] * 2, "birthday")
    assert found.column.kind is Kind.TEXT
    assert 'kind = "date", format = "%Y%m%d"' in found.warnings[0]
    assert 'kind = "integer"' in found.warnings[0]


@pytest.mark.parametrize("cells", [["19570507", "20011331"], ["12345678", "19570507"]])
def test_eight_digits_that_are_no_days_are_numbers(tmp_path: Path, cells: list[str]) -> None:
    found = inspected(tmp_path, cells, "age")
    assert (found.column.kind, found.warnings) == (Kind.INTEGER, ())
    assert isinstance(found.column.hierarchy, Widths)


def _anonymized(table: Path) -> str:
    schema, out = table.with_suffix(".toml"), table.with_name(f"out{table.suffix}")
    wanted = ["anonymize", str(table), "--schema", str(schema), "--k", "2", "-o", str(out)]
    assert run([*wanted, "--overwrite"]) == 0
    return schema.read_text()


def test_what_was_written_is_enough_to_anonymize_and_so_is_the_advice(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    days = [f"{1 + n % 12:02}/{1 + n % 11:02}/19{50 + n % 40}" for n in range(120)]
    table.write_text("\n".join(["birthday;when", *(f"{day};8 Oct 1956" for day in days)]) + "\n")
    assert run(["inspect", str(table), "--write", str(tmp_path / "t.toml")]) == 0
    text = _anonymized(table)
    assert 'hierarchy = { tree = "*" }' in text
    assert 'once they are dates: hierarchy = { dates = "all" }' in text
    followed = text.replace('kind = "text"', 'kind = "date"\nformat = "%d/%m/%Y"', 1)
    (tmp_path / "t.toml").write_text(followed)
    _anonymized(table)
    coarser = followed.replace('\nhierarchy = { tree = "*" }', '\nhierarchy = { dates = "all" }', 1)
    (tmp_path / "t.toml").write_text(coarser)
    _anonymized(table)


def test_times_of_a_sheet_can_be_released_as_proposed(tmp_path: Path) -> None:
    made = xlsxwriter.Workbook(tmp_path / "t.xlsx")
    sheet, form = made.add_worksheet(), made.add_format({"num_format": "dd/mm/yyyy hh:mm"})
    sheet.write_row(0, 0, ["birthday", "sex"])
    for row in range(1, 61):
        moment = datetime(1976, 12, 24, 18, 5) + timedelta(hours=row % 55)  # noqa: DTZ001
        sheet.write_datetime(row, 0, moment, form)
        sheet.write(row, 1, "fm"[row % 2])
    made.close()
    assert run(["inspect", str(tmp_path / "t.xlsx"), "--write", str(tmp_path / "t.toml")]) == 0
    _anonymized(tmp_path / "t.xlsx")
