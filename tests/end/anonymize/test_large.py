"""Ten million people, from file to file, within the memory of a laptop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as parquet
import pytest

from sfumato.demo import town

COMMAND = Path(sys.executable).with_name("sfumato")
PEOPLE = 10_000_000
MOST_MEMORY = 4 << 20
"""In kibibytes."""


@pytest.mark.slow
def test_ten_million_rows_are_anonymized_end_to_end(tmp_path: Path) -> None:
    source, out = tmp_path / "town.parquet", tmp_path / "out.parquet"
    with parquet.ParquetWriter(source, town.SCHEMA, compression="zstd") as writer:
        for batch in town.batches(PEOPLE):
            writer.write_batch(batch)
    schema = Path(town.__file__).with_name("town.toml")
    options = ("--k", "5", "--suppress", "0.05", "-o", out, "--json")
    command = (COMMAND, "anonymize", source, "--schema", schema, *options)
    with (tmp_path / "answer.json").open("w") as stream:
        process = subprocess.Popen(command, stdout=stream)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert used.ru_maxrss <= MOST_MEMORY
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["suppressed"] <= PEOPLE // 20
    quasi = ", ".join(answer["levels"])
    counted = f"SELECT COUNT(*) AS n FROM '{out}' GROUP BY {quasi}"
    query = f"SELECT COUNT(*), MIN(n), SUM(n) FROM ({counted})"
    [(classes, least, released)] = duckdb.connect().execute(query).fetchall()
    assert (classes, released) == (answer["classes"], PEOPLE - answer["suppressed"])
    assert least >= 5
