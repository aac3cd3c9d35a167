"""A table of thirty people, a large town, and the command line to anonymize them with."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as parquet
import pytest

from sfumato.cli.main import run
from sfumato.demo import town

if TYPE_CHECKING:
    from subprocess import CompletedProcess

COMMAND = Path(sys.executable).with_name("sfumato")
SCHEMA = """\
table = "people"
unit = "row"
[columns.name]
role = "identifier"
kind = "text"
[columns.age]
role = "quasi"
kind = "integer"
hierarchy = { widths = [10, 50] }
[columns.zip]
role = "quasi"
kind = "text"
hierarchy = { mask = "right" }
[columns.disease]
role = "sensitive"
kind = "text"
hierarchy = { tree = ["flu", "cold", "gout"] }
[columns.visits]
role = "other"
kind = "integer"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory, to stand in, with a table of 30 people and its schema."""
    lines = ["name,age,zip,disease,visits"]
    for number in range(29):
        disease = ("flu", "cold", "gout")[number % 3]
        lines.append(f"p{number},{20 + number % 10},5370{number % 2},{disease},{number % 4}")
    lines.append("hermit,93,99999,flu,9")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "people.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Shell:
    """The command line in this directory: inside this process, which starts at once, or outside."""

    schema = SCHEMA

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: object) -> CompletedProcess[str]:
        given = [str(one) for one in arguments]
        code = run(given)
        said = self._capture.readouterr()
        return subprocess.CompletedProcess(given, code, said.out, said.err)

    def process(self, *arguments: object) -> CompletedProcess[str]:
        words = [str(one) for one in (COMMAND, *arguments)]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)

    def anonymize(self, *more: object) -> CompletedProcess[str]:
        return self("anonymize", "people.csv", "--schema", "people.toml", *more, "--json")

    def found(self, done: CompletedProcess[str]) -> dict[str, Any]:
        """The one JSON object of a command that went well."""
        assert (done.returncode, done.stderr) == (0, "")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def refused(self, done: CompletedProcess[str], exit_code: int) -> tuple[str, str]:
        """Code and message of a command that was refused."""
        assert done.returncode == exit_code, done.stderr
        error = json.loads(done.stdout)["error"]
        assert done.stderr == f"sfumato: {error['message']}\n"
        return error["code"], error["message"]

    def records(self, name: str) -> list[dict[str, str]]:
        """The rows of a CSV file here."""
        with Path(name).open(newline="") as stream:
            return list(csv.DictReader(stream))


@pytest.fixture
def shell(home: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    assert home.exists()
    return Shell(capsys)


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A town of 200,000 people."""
    path = tmp_path_factory.mktemp("large") / "town.parquet"
    parquet.write_table(town.table(200_000), path)
    return path
