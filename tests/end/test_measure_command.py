"""`sfumato measure` and `inspect` against what a release came from: workloads and populations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sfumato.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """\
table = "people"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
hierarchy = { widths = [10, 50] }
[columns.sick]
role = "sensitive"
kind = "boolean"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [f"{20 + number % 12},{'true' if number % 3 else 'false'}" for number in range(24)]
    (tmp_path / "people.csv").write_text("\n".join(["age,sick", *rows]) + "\n")
    (tmp_path / "people.toml").write_text(SCHEMA)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, object]:
    assert run([*arguments, "--json"]) == code
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_a_workload_is_a_file_of_questions(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "anonymize", "people.csv", "--schema", "people.toml", "--k", "4", "-o", "out.csv")
    (home / "asked.sql").write_text(
        "-- everyone\nSELECT COUNT(*) FROM people\n\n"
        "SELECT COUNT(*) FROM people WHERE age = 20 AND sick = true\n"
    )
    measured = ("measure", "out.csv", "--schema", "people.toml", "--workload", "asked.sql")
    found = told(capsys, *measured, "--original", "people.csv")["workload"]
    assert isinstance(found, dict)
    everyone, some = found["errors"]
    assert everyone == 0
    assert found["mean"] == pytest.approx(some / 2)
    assert run([*measured, "--original", "people.csv"]) == 0
    assert "workload mean" in capsys.readouterr().out
    refused = told(capsys, *measured, code=2)["error"]
    assert isinstance(refused, dict)
    assert refused["code"] == "workload_invalid"


def test_a_population_makes_a_match_less_sure(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (home / "people.csv").read_text()
    (home / "everyone.csv").write_text(text + text.partition("\n")[2])
    drawn = ("inspect", "people.csv", "--schema", "people.toml", "--population", "everyone.csv")
    risk = told(capsys, *drawn)["risk"]
    assert isinstance(risk, dict)
    assert risk["prosecutor"]["highest"] == 1 / 2
    assert risk["journalist"]["highest"] == risk["marketer"]["average"] == 1 / 4
