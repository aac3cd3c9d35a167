"""A question starts quickly: what it does not need is not loaded."""

from __future__ import annotations

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
OTHERS = ("sfumato.publish.kinds", "sfumato.anonymize.search", "sfumato.demo")


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


@pytest.mark.usefixtures("vault")
def test_a_question_loads_no_chart_no_page_and_no_other_method() -> None:
    found = loaded("query", "SELECT COUNT(*) AS n FROM people", "--vault", "clinic", "--json")
    assert found.isdisjoint({*HEAVY, *OTHERS})
    assert "rich.console" not in found


@pytest.mark.parametrize("arguments", [(), ("publish", "-h"), ("--version",)])
def test_help_loads_neither_numbers_nor_tables(arguments: tuple[str, ...]) -> None:
    found = loaded(*arguments)
    assert found.isdisjoint({*HEAVY, "numpy", "pyarrow", "duckdb", "sqlalchemy", "rich", "sqlglot"})
