"""A question starts quickly: what it does not need is not loaded."""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.cli.main import run

SCHEMA = """
table = "people"
unit = "row"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
nullable = false
"""
TOLD = """
import sys
from sfumato.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0
print(*sorted(sys.modules), sep="\\n", file=sys.stderr)
"""
HEAVY = ("scipy", "vl_convert", "jinja2", "psycopg", "pyspark", "polars", "matplotlib", "pandas")
OTHERS = (
    *(
        "sfumato.methods.publish.publication",
        "sfumato.anonymize.search",
        "sfumato.demo",
        "sfumato.data.inspection",
    ),
    *("sfumato.report.bars", "sfumato.vault.registration", "sfumato.cli.anonymize"),
    *("pydantic", "tomlkit"),
)
TOOLS = "import numpy, pyarrow.compute, duckdb, sqlalchemy.dialects.sqlite, sqlglot, typer"


def loaded(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", TOLD, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return set(done.stderr.split())


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age\n31\n44\n52\n")
    Path("people.toml").write_text(SCHEMA)
    assert run(["init", "clinic"]) == 0
    words = "add people people.csv --schema people.toml --epsilon 3 --vault clinic"
    assert run(shlex.split(words)) == 0


def seconds(code: str, *arguments: str) -> float:
    """The least processor time of a few runs."""
    return min(_seconds(code, *arguments) for _ in range(3))


def _seconds(code: str, *arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.usefixtures("vault")
def test_a_question_takes_little_longer_than_loading_its_tools() -> None:
    # Most of the first time may go into compiling, which is done once: tests/conftest.py.
    asked = ("query", "SELECT COUNT(*) AS n FROM people", "--vault", "clinic")
    command = "from sfumato.cli import main; main()"
    assert seconds(command, *asked) < 2 * seconds(TOOLS)


@pytest.mark.usefixtures("vault")
def test_a_question_says_nothing_about_its_quick_end() -> None:
    command = "from sfumato.cli import main; main()"
    words = ("query", "SELECT COUNT(*) AS n FROM people", "--vault", "clinic", "--json")
    ended = subprocess.run([sys.executable, "-c", command, *words], capture_output=True, check=True)
    assert ended.stdout.startswith(b'{"columns"')
    assert ended.stdout.endswith(b"}\n")
    assert ended.stderr == b""


@pytest.mark.usefixtures("vault")
def test_a_path_that_may_not_be_read_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.access", lambda _path, mode: mode == os.F_OK)
    assert run(["query", "SELECT COUNT(*) AS n FROM people", "--vault", "clinic"]) == 2
    assert "'--vault': path 'clinic' is not readable." in capsys.readouterr().err


@pytest.mark.usefixtures("vault")
def test_a_question_loads_no_chart_no_page_and_no_other_method() -> None:
    found = loaded("query", "SELECT COUNT(*) AS n FROM people", "--vault", "clinic", "--json")
    assert found.isdisjoint({*HEAVY, *OTHERS})
    assert "rich.console" not in found


@pytest.mark.parametrize("arguments", [(), ("publish", "-h"), ("--version",)])
def test_help_loads_neither_numbers_nor_tables(arguments: tuple[str, ...]) -> None:
    found = loaded(*arguments)
    assert found.isdisjoint({*HEAVY, "numpy", "pyarrow", "duckdb", "sqlalchemy", "rich", "sqlglot"})
