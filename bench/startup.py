"""The start of a command: its processor time, beside that of importing its packages."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.vault.creation import create

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = 10
_COMMAND = str(Path(sys.executable).with_name("sfumato"))
_IMPORTS = [sys.executable, "-c", "import numpy, pyarrow, duckdb, sqlglot, typer"]
_SCHEMA = """table = "people"
[columns.sex]
role = "quasi"
kind = "text"
values = ["F", "M"]
nullable = false
"""


def rows() -> Iterator[dict[str, object]]:
    """The rows of the table: a query, and two pages of help."""
    with tempfile.TemporaryDirectory() as folder:
        _make_vault(Path(folder))
        queries, imports = [], []
        for number in range(RUNS):
            sql = f"SELECT sex, COUNT(*) FROM people WHERE sex <> '{number}' GROUP BY sex"
            call = [_COMMAND, "query", sql, "--epsilon", "0.01", "--vault", f"{folder}/vault"]
            # Side by side, so that the load of the machine is alike for both.
            queries.append(_cpu_seconds(call))
            imports.append(_cpu_seconds(_IMPORTS))
    ours, theirs = statistics.median(queries), statistics.median(imports)
    yield {
        "name": "start: a fresh query of 200 rows",
        "value": ours,
        "unit": "s CPU",
        "peer": "importing its packages",
        "peer_value": theirs,
        "wanted": "0.67 x",
    }
    for words in (["--help"], ["query", "--help"]):
        times = [_cpu_seconds([_COMMAND, *words]) for _ in range(RUNS)]
        yield {
            "name": f"start: sfumato {' '.join(words)}",
            "value": statistics.median(times),
            "unit": "s CPU",
            "wanted": "0.15 s",
        }


def _make_vault(folder: Path) -> None:
    """Make a vault with a data set of 200 rows."""
    (folder / "people.csv").write_text("sex\n" + "F\nM\n" * 100, encoding="utf-8")
    (folder / "people.toml").write_text(_SCHEMA, encoding="utf-8")
    create(folder / "vault")
    source, schema = str(folder / "people.csv"), str(folder / "people.toml")
    vault = ["--vault", str(folder / "vault")]
    _cpu_seconds([_COMMAND, "add", "people", source, "--schema", schema, "--epsilon", "10", *vault])


def _cpu_seconds(command: list[str]) -> float:
    """User and system time of a process and its children."""
    before = os.times()
    subprocess.run(command, check=True, capture_output=True)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


if __name__ == "__main__":
    for row in rows():
        print(row)
