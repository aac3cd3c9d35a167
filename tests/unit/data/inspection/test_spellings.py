"""How cells are written is recognised where it is certain, and said where it is not."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sfumato.cli.main import run
from sfumato.data.schema.column import Kind
from sfumato.data.schema.hierarchy import Calendar, Mask, Widths
from sfumato.data.schema.schema_file import load
from sfumato.release.open_table import read, save_schema

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.inspection.guesses import Guess


def inspected(folder: Path, cells: list[str], name: str = "x") -> Guess:
    path = folder / "t.csv"
    path.write_text("\n".join([f"{name};row", *(f"{cell};a" for cell in cells)]) + "\n")
    with closing(read(path)) as table:
        return table.inspect().guesses[0]


CERTAIN: list[tuple[list[str], Kind, dict[str, Any]]] = [
    (["24.12.1976", "01.02.2003"], Kind.DATE, {"format": "%d.%m.%Y"}),
    (["12/24/1976", "01/02/2003"], Kind.DATE, {"format": "%m/%d/%Y"}),
    (["24/12/1976", "01/02/2003"], Kind.DATE, {"format": "%d/%m/%Y"}),
    (["24/12/1976", "1/2/2003"], Kind.DATE, {"format": "%-d/%-m/%Y"}),
    (["1976/12/24", "2003/01/02"], Kind.DATE, {"format": "%Y/%m/%d"}),
    (["1976-12-24", "2003-01-02"], Kind.DATE, {}),
    (["24.12.1976 18:05", "", "01.02.2003 07:00"], Kind.DATE, {"format": "%d.%m.%Y %H:%M"}),
    (["24.12.1976 18:05", "01.02.2003"], Kind.DATE, {"format": "%d.%m.%Y %H:%M"}),
    (["2024-05-01T12:30:00Z", "2024-05-01T12:30:00+02:00"], Kind.DATE,
     {"format": "%Y-%m-%dT%H:%M:%S%z"}),
    (["12/24/1976 6:05 PM"] * 3, Kind.DATE, {"format": "%m/%d/%Y %I:%M %p"}),
    (["1,83", "1,7"], Kind.REAL, {"decimal": ","}),
    (["1,83", "", "1,70"], Kind.REAL, {"decimal": ",", "places": 2}),
    (["0,125", "0,250"], Kind.REAL, {"decimal": ",", "places": 3}),
    (["1.591,09", "3,5"], Kind.REAL, {"decimal": ",", "thousands": "."}),
    (['"1,591.09"', "3.5"], Kind.REAL, {"thousands": ","}),
    (["1.234.567", "1.591"], Kind.INTEGER, {"thousands": "."}),
    (["1 234 567", "12"], Kind.INTEGER, {"thousands": " "}),
    (["1'234", "12"], Kind.INTEGER, {"thousands": "'"}),
    (["9,2 %", "10,5 %"], Kind.REAL, {"decimal": ",", "percent": "# %", "places": 1}),
    (["9%", "10%"], Kind.INTEGER, {"percent": True}),
    (["1.591,09 €", "-5,00 €"], Kind.REAL,
     {"decimal": ",", "thousands": ".", "currency": "€", "places": 2}),
    (['"$1,591.09"', "-$5.00"], Kind.REAL, {"thousands": ",", "currency": "$#", "places": 2}),
    (["CHF 5.50", "CHF 7.25"], Kind.REAL, {"currency": "CHF #", "places": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "kind", "keys"), CERTAIN)
def test_what_is_certain_is_taken(
    tmp_path: Path, cells: list[str], kind: Kind, keys: dict[str, Any]
) -> None:
    found = inspected(tmp_path, cells)
    spelling = found.column.spelling
    assert found.column.kind is kind
    assert ({} if spelling is None else spelling.keys) == keys
    assert found.warnings == ()
    assert spelling is None or spelling.describe(kind) in found.reason


UNSURE: list[tuple[list[str], Kind, list[str]]] = [
    (["01/02/2003", "03/04/2005"], Kind.TEXT,
     ['kind = "date", format = "%d/%m/%Y"', 'kind = "date", format = "%m/%d/%Y"']),
    (["24.12.76", "01.02.03"], Kind.TEXT, ['format = "%d.%m.%y", pivot = 30']),
    (["24.12.1976"] * 9 + ["k.A."], Kind.TEXT,
     ["9 of 10 cells", "the other 1", 'kind = "date", format = "%d.%m.%Y"']),
    (["24.12.1976"] * 9 + ["31.02.1976"], Kind.TEXT, ["9 of 10 cells"]),
    (["1976-12-24"] * 9 + ["-"], Kind.TEXT, ["9 of 10 cells", 'write kind = "date"']),
    (["17", "18", "19"] * 3 + ["N/A"], Kind.TEXT, ["9 of 10 cells", 'write kind = "integer"']),
    (["1,5"] * 9 + ["unbekannt"], Kind.TEXT, ['kind = "real", decimal = ","']),
    (["1,591", "2,000"], Kind.TEXT,
     ['kind = "integer", thousands = ","', 'kind = "real", decimal = ","']),
    (["1.591", "2.000"], Kind.REAL, ['kind = "integer", thousands = "."']),
    (["1.591 €", "2.000 €"], Kind.TEXT, ['thousands = "."', 'kind = "real", currency = "€"']),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "kind", "said"), UNSURE)
def test_what_is_not_certain_is_said_with_what_to_write(
    tmp_path: Path, cells: list[str], kind: Kind, said: list[str]
) -> None:
    found = inspected(tmp_path, [f'"{cell}"' for cell in cells])
    assert found.column.kind is kind
    assert found.column.spelling is None
    (warning,) = found.warnings
    assert all(words in warning for words in said)
    assert not any(cell in warning for cell in ("k.A.", "N/A", "unbekannt"))


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("x", ["24.12.1976"] * 8 + ["k.A.", "?"]),
        ("x", ["a1", "b2"]),
        ("x", ["1.2.3", "4.5.6"]),
        ("x", ["999-99-9999", "123-45-6789"]),
        ("x", ["012 345", "123 456"]),
        ("postcode", ["100 115", "200 095"]),
        ("telefon", ["12 345 678", "22 345 678"]),
        ("x", ["12:30", "13:45"]),
        ("x", ["01067", "10115"]),
        ("x", ["", ""]),
        ("x", ["12-34-56", "55-66-77"]),
        ("x", ["5a", "7b", "12"]),
    ],
)
def test_other_text_is_left_alone(tmp_path: Path, name: str, cells: list[str]) -> None:
    found = inspected(tmp_path, cells, name)
    assert (found.column.kind, found.column.spelling, found.warnings) == (Kind.TEXT, None, ())


@pytest.mark.parametrize("last", ["", "k.A.      "])
def test_no_mask_is_proposed_for_dates(tmp_path: Path, last: str) -> None:
    days = [f"{day:02}.{month:02}.1976" for day in range(1, 29) for month in range(1, 13)]
    found = inspected(tmp_path, [*days, last], "birthday")
    assert not isinstance(found.column.hierarchy, Mask)
    assert (found.column.hierarchy == Calendar()) is (last == "")


def test_numbers_that_are_quasi_identifiers_get_widths(tmp_path: Path) -> None:
    found = inspected(tmp_path, [f"{n},5" for n in range(100)], "alter")
    assert isinstance(found.column.hierarchy, Widths)


def test_a_source_with_types_keeps_its_text_and_says_so() -> None:
    days = pa.table({"birthday": ["24.12.1976", "01.02.1980"] * 3, "n": ["1", "2"] * 3})
    with closing(read(days)) as table:
        day, number = table.inspect().guesses
    assert day.column.kind is Kind.TEXT
    assert not isinstance(day.column.hierarchy, Mask)
    assert 'write kind = "date", format = "%d.%m.%Y"' in day.warnings[0]
    assert number.warnings == ()


@pytest.mark.parametrize(
    "source",
    [
        pa.table({"a": [1, 2], "b": pa.array([None, None], pa.string())}),
        pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())}),
        [{"a": 1, "b": None}, {"a": 2, "b": None}],
    ],
)
def test_a_text_column_of_a_typed_source_may_be_empty(source: Any) -> None:
    with closing(read(source)) as table:
        assert table.schema.column("b").kind is Kind.TEXT
        assert table.warnings == {}


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("born;pay\n24.12.1976;1.591,09 €\n01.02.1980;5,00 €\n")
    with closing(read(tmp_path / "t.csv")) as table:
        save_schema(table, tmp_path / "t.toml")
        schema = load(tmp_path / "t.toml")
        assert schema == table.schema
    with closing(read(tmp_path / "t.csv", schema)) as table:
        assert table.warnings == {}


def test_rare_shapes_count_too(tmp_path: Path) -> None:
    junk = ["x" * length for length in range(1, 701)]
    found = inspected(tmp_path, ["24.12.1976"] * 9_000 + junk)
    assert "9,000 of 9,700 cells" in found.warnings[0]


def test_the_command_tells_it_on_the_terminal_and_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "t.csv").write_text("born;seen\n24.12.1976;01/02/2003\n01.02.1980;03/04/2005\n")
    assert run(["inspect", str(tmp_path / "t.csv"), "--write", str(tmp_path / "t.toml")]) == 0
    shown = capsys.readouterr().out
    assert "dates written 24.12.1976" in shown
    assert "seen: taken as text, because its cells can be read in two ways" in shown
    assert 'format = "%m/%d/%Y"' in (tmp_path / "t.toml").read_text()
    assert run(["inspect", str(tmp_path / "t.csv"), "--json"]) == 0
    born, seen = json.loads(capsys.readouterr().out)["columns"]
    assert (born["written"], born["warnings"]) == ({"format": "%d.%m.%Y"}, [])
    assert seen["written"] == {}
    assert len(seen["warnings"]) == 1


def test_a_release_with_stars_is_inspected_like_any_table(tmp_path: Path) -> None:
    cells = ["*"] * 90 + ["10115"] * 7 + ["20095", "30159", "04109"]
    assert inspected(tmp_path, cells, "plz").column.kind is Kind.TEXT
