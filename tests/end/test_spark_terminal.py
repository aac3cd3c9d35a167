"""Spark from the command line: what it says about itself never reaches the terminal."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

COMMAND = Path(sys.executable).with_name("sfumato")
ROWS = 3_000

pytestmark = pytest.mark.skipif(
    not shutil.which("java") and not os.environ.get("JAVA_HOME"),
    reason="no Spark: no Java runtime (install a headless Java 17)",
)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    pytest.importorskip("pyspark", reason="no Spark: pyspark is not installed")
    path = tmp_path / "people.parquet"
    numbers = range(ROWS)
    table = {"age": [one % 90 for one in numbers], "sex": ["fm"[one % 2] for one in numbers]}
    parquet.write_table(pa.table(table), path)
    return path


def on_spark(path: Path) -> str:
    return f"spark://local#parquet.`{path}`"


def inspect(source: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), "inspect", str(source), "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def test_spark_prints_what_duckdb_prints(people: Path) -> None:
    spark, duckdb = inspect(on_spark(people)), inspect(people)
    assert (spark.returncode, spark.stderr) == (0, "")
    findings = [json.loads(done.stdout) for done in (spark, duckdb)]
    for found in findings:
        found.pop("source", None)
    assert findings[0] == findings[1]


def test_spark_ends_quietly_at_ctrl_c(people: Path, tmp_path: Path) -> None:
    """Interrupted while the Java machine starts, or reads: no word of either, and no file."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [COMMAND, "inspect", on_spark(people)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)},
    )
    until = time.monotonic() + 120
    # Spark makes a folder a moment before it sees to it that it goes again: this one comes last.
    while not list(scratch.glob("spark-*/userFiles-*")) and time.monotonic() < until:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)
    assert (process.returncode, *said) == (130, "", "sfumato: Interrupted; nothing was written.\n")
    while list(scratch.iterdir()) and time.monotonic() < until:
        time.sleep(0.05)
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_spark_fails_in_one_line(people: Path) -> None:
    whole = people.read_bytes()
    people.write_bytes(whole[: len(whole) // 2])
    done = inspect(on_spark(people))
    assert done.returncode == 1
    assert done.stdout == "" or json.loads(done.stdout)
    assert re.fullmatch(r"sfumato: Spark could not run the query[^\n]*\n", done.stderr)
