"""Files of SPSS, Stata and SAS: labels, missing codes, days; damage is told in words."""

from __future__ import annotations

import random
import sys
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyreadstat
import pytest

from sfumato.data.engines.base import everything
from sfumato.data.engines.sources import missing_columns, open_duckdb
from sfumato.data.files import readstat_process, statistics
from sfumato.data.schema.column import Kind
from sfumato.data.schema.layout import FileLayout
from sfumato.errors import CallerError, SourceError

if TYPE_CHECKING:
    from pathlib import Path

FRAME = pd.DataFrame(
    {
        "n": [1.0, 2.0, None],
        "real": [0.5, 1.0, 2.0],
        "sex": [1.0, 2.0, 1.0],
        "smokes": [1.0, 2.0, 9.0],
        "name": ["a", "ä", ""],
        "born": [date(2020, 2, 29), date(1850, 2, 3), None],
        "seen": [datetime.fromisoformat("2020-01-01T03:00:00"), None, None],
    }
)
LABELS: dict[str, dict[Any, str]] = {"sex": {1: "male", 2: "female"}, "smokes": {1: "yes", 2: "no"}}


def saved(folder: Path, ending: str) -> Path:
    path = folder / f"t{ending}"
    if ending in (".sav", ".zsav"):
        pyreadstat.write_sav(
            FRAME,
            path,
            variable_value_labels=LABELS,
            missing_ranges={"smokes": [9]},
            compress=ending == ".zsav",
        )
    elif ending == ".dta":
        pyreadstat.write_dta(FRAME, path, variable_value_labels=LABELS)
    else:
        pyreadstat.write_xport(FRAME, path)
    return path


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    engine = open_duckdb(path, **options)
    try:
        rows: list[dict[str, Any]] = engine.run(everything(engine.table)).to_pylist()
        return rows
    finally:
        engine.close()


@pytest.mark.parametrize("ending", [".sav", ".zsav", ".dta", ".xpt"])
def test_what_each_program_writes_is_read(tmp_path: Path, ending: str) -> None:
    first, second, third = read(saved(tmp_path, ending))
    labelled = ending != ".xpt"  # SAS keeps labels in another file
    assert [row["n"] for row in (first, second, third)] == [1, 2, None]
    assert first["real"] == 0.5
    assert first["sex"] == ("male" if labelled else 1)
    assert [row["name"] for row in (first, second, third)] == ["a", "ä", None]
    assert [row["born"] for row in (first, second)] == [date(2020, 2, 29), date(1850, 2, 3)]
    assert first["seen"] == "2020-01-01 03:00:00"


def test_a_missing_code_is_missing(tmp_path: Path) -> None:
    assert [row["smokes"] for row in read(saved(tmp_path, ".sav"))] == ["yes", "no", None]


def test_where_a_value_has_no_label_the_codes_are_read(tmp_path: Path) -> None:
    assert [row["smokes"] for row in read(saved(tmp_path, ".dta"))] == [1, 2, 9]


def test_the_declared_kind_decides_between_codes_and_labels(tmp_path: Path) -> None:
    """Whatever values others have: in a vault one person's must not turn labels into codes."""
    path = saved(tmp_path, ".dta")
    kinds = {"smokes": Kind.TEXT, "sex": Kind.INTEGER, "seen": Kind.DATE}
    rows = read(path, kinds=kinds, strict=False)
    assert [row["smokes"] for row in rows] == ["yes", "no", "9"]
    assert [row["sex"] for row in rows] == [1, 2, 1]
    assert rows[0]["seen"] == date(2020, 1, 1)
    assert missing_columns(str(path), ["n", "x"]) == ["x"]


def test_a_day_beyond_the_calendar_is_refused_by_place_or_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.dta"
    frame = pd.DataFrame({"born": [0.0, 1e9]})
    pyreadstat.write_dta(frame, path, variable_format={"born": "%td"})
    with pytest.raises(SourceError, match="Column 'born', data row 2"):
        read(path, kinds={"born": Kind.DATE})
    rows = read(path, kinds={"born": Kind.DATE}, strict=False)
    assert [row["born"] for row in rows] == [date(1960, 1, 1), None]


@pytest.mark.parametrize(
    ("family", "form", "number", "at"),
    [
        (".sav", "DATE11", 13797216000.0, date(2020, 1, 1)),
        (".sav", "EDATE10", 13797216000.0, date(2020, 1, 1)),
        (".sav", "DATETIME20", 13797226800.0, None),
        (".sav", "F8.2", 5.0, 5.0),
        (".sav", "MOYR6", 5.0, 5.0),
        (".dta", "%td", 21915.0, date(2020, 1, 1)),
        (".dta", "%tdDD/NN/CCYY", 21915.0, date(2020, 1, 1)),
        (".dta", "%10.0g", 21915.0, 21915.0),
        (".xpt", "DATE9.", 21915.0, date(2020, 1, 1)),
        (".xpt", "DDMMYYP10.", 21915.0, date(2020, 1, 1)),
        (".xpt", "BEST12.", 21915.0, 21915.0),
    ],
)
def test_formats_of_days(family: str, form: str, number: float, at: object) -> None:
    [cell] = statistics._with_dates([number], form, family)
    if isinstance(cell, datetime):
        cell = cell.date() if not cell.time().hour else None
    assert cell == at


@pytest.mark.parametrize("ending", [".sav", ".zsav", ".dta", ".xpt", ".sas7bdat"])
def test_other_files_are_refused_in_words(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t{ending}"
    for data in (b"", b"a,b\n1,2\n", b"PK\x03\x04" * 100):
        path.write_bytes(data)
        with pytest.raises(SourceError, match="Cannot read") as refusal:
            read(path)
        assert refusal.value.code == "file_malformed"
        assert refusal.value.__context__ is None


@pytest.mark.parametrize("ending", [".sav", ".zsav", ".dta", ".xpt"])
def test_damage_anywhere_is_read_or_refused_in_words(tmp_path: Path, ending: str) -> None:
    path = saved(tmp_path, ending)
    whole, dice = path.read_bytes(), random.Random(3)
    for _ in range(5):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 6)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data[: dice.choice([len(data), dice.randrange(len(data))])])
        try:
            assert read(path) is not None
        except CallerError as refusal:
            assert refusal.__context__ is None  # noqa: PT017  # either outcome is right


def test_a_reader_that_dies_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library ends its process at some damaged files; ours must live on."""
    program = tmp_path / "dies.py"
    program.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr(readstat_process, "__file__", str(program))
    with pytest.raises(SourceError) as refusal:
        read(saved(tmp_path, ".sav"))
    assert refusal.value.code == "file_malformed"


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "EXPANSION_FREE", 1 << 10)
    monkeypatch.setattr(statistics, "MOST_EXPANSION", 50)
    path = tmp_path / "t.zsav"
    pyreadstat.write_sav(pd.DataFrame({"a": ["x" * 1000] * 20_000}), path, compress=True)
    with pytest.raises(SourceError) as refusal:
        read(path)
    assert refusal.value.code == "file_too_large"


def test_without_the_extra_the_command_to_install_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, ".sav")
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(SourceError, match=r"pip install 'sfumato\[statistics\]'") as refusal:
        read(path)
    assert refusal.value.code == "package_missing"


def test_a_declared_encoding_is_used(tmp_path: Path) -> None:
    path = tmp_path / "t.dta"
    pyreadstat.write_dta(FRAME[["n", "name"]], path, version=12)
    path.write_bytes(path.read_bytes().replace("ä".encode(), b"\x84 "))
    rows = read(path, layout=FileLayout("cp850"))
    assert rows[1]["name"].strip() == "ä"
