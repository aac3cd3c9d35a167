"""Counting combinations of 4 columns over 10 million rows, and inspecting a table."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from sfumato.data.counting.frequencies import count
from sfumato.data.engines.sources import open_duckdb

ROWS = 10_000_000
FEW, MANY = ["city", "age", "sex", "education"], ["birth", "postcode", "sex", "education"]
ADULT = Path(__file__).parents[2] / "shared" / "data" / "adult" / "adult.csv"


def rows() -> list[dict[str, object]]:
    """Columns with few combinations, and such that most rows are one of their own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        _generate(path)
        found = [
            _beside_duckdb(path, FEW, "few combinations"),
            _beside_duckdb(path, MANY, "8 million combinations"),
        ]
    if ADULT.exists():
        found.append(
            {
                "name": "inspect Adult, 8 quasi-identifiers, end to end",
                "unit": "s",
                "value": _inspect(ADULT),
                "wanted": "under 3",
            }
        )
    return found


def _beside_duckdb(path: Path, columns: list[str], what: str) -> dict[str, object]:
    """Ours and DuckDB's own GROUP BY in turn, the best of five each."""
    engine = open_duckdb(path)
    direct = duckdb.connect()
    names = ", ".join(columns)
    question = f"SELECT {names}, COUNT(*) FROM '{path}' GROUP BY {names}"
    ours, theirs = float("inf"), float("inf")
    for _ in range(5):
        started = time.perf_counter()
        count(engine, engine.table, columns)
        ours = min(ours, time.perf_counter() - started)
        started = time.perf_counter()
        direct.sql(question).to_arrow_table()
        theirs = min(theirs, time.perf_counter() - started)
    engine.close()
    return {
        "name": f"frequencies of 4 columns, 10 million rows, {what}",
        "unit": "s",
        "value": ours,
        "peer": "DuckDB, the same GROUP BY",
        "peer_value": theirs,
        "wanted": "at least 0.83 x",
    }


def _generate(path: Path) -> None:
    duckdb.sql(
        f"""COPY (SELECT 'city ' || (hash(i, 1) % 50) AS city,
        (18 + hash(i, 2) % 73)::BIGINT AS age, hash(i, 3) % 2 = 0 AS sex,
        (hash(i, 4) % 20)::BIGINT AS education,
        DATE '1925-01-01' + (hash(i, 5) % 36500)::INTEGER AS birth,
        'code ' || (hash(i, 6) % 480) AS postcode
        FROM range({ROWS}) AS r(i)) TO '{path}' (FORMAT parquet)"""
    )


def _inspect(path: Path) -> float:
    command = [str(Path(sys.executable).with_name("sfumato")), "inspect", str(path), "--json"]
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        best = min(best, time.perf_counter() - started)
    return best
