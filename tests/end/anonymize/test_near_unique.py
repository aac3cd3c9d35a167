"""Ten million rows in which hardly a value comes twice, within the memory of a laptop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import duckdb
import pytest

if TYPE_CHECKING:
    from pathlib import Path

ROWS, COLUMNS = 10_000_000, 6
MOST_MEMORY = 6 << 20
"""In kibibytes; a third of them is what DuckDB may take before it spills."""

COLUMN = """
[columns.c{place}]
role = "quasi"
kind = "integer"
hierarchy = {{ widths = [1000, 100000, 10000000, 500000000] }}
"""
RUN = "from sfumato.cli import main; main()"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_columns_that_are_nearly_unique_are_anonymized_end_to_end(tmp_path: Path) -> None:
    source, out, schema = (tmp_path / name for name in ("in.parquet", "out.parquet", "in.toml"))
    drawn = (
        f"(hash(i * {place + 3}) % 1000000000)::BIGINT AS c{place}" for place in range(COLUMNS)
    )
    rows = f"SELECT {', '.join(drawn)} FROM range({ROWS}) AS t(i)"
    duckdb.connect().execute(f"COPY ({rows}) TO '{source}'")
    columns = "".join(COLUMN.format(place=place) for place in range(COLUMNS))
    schema.write_text(f'table = "numbers"\nunit = "row"\n{columns}')
    options = ("--k", "5", "--suppress", "0.05", "-o", out, "--json")
    command = (sys.executable, "-c", RUN, "anonymize", source, "--schema", schema, *options)
    with (tmp_path / "answer.json").open("w") as stream:
        process = subprocess.Popen(command, stdout=stream)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert used.ru_maxrss <= MOST_MEMORY
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["bound"] <= answer["cost"]["loss"]
    quasi = ", ".join(answer["levels"])
    counted = f"SELECT COUNT(*) AS n FROM '{out}' GROUP BY {quasi}"
    query = f"SELECT COUNT(*), MIN(n), SUM(n) FROM ({counted})"
    [(classes, least, released)] = duckdb.connect().execute(query).fetchall()
    assert (classes, released) == (answer["classes"], ROWS - answer["suppressed"])
    assert least >= 5
