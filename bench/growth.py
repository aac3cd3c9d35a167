"""How time and memory grow with rows: every door, on DuckDB and on Spark, by the command itself.

The rows are the demo's county. By default a tenth of a million and a million of them;
`SFUMATO_BENCH_ROWS=100000000 make bench` goes as far as that, on Spark to ten million.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench._county import county, schema_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SMALLEST, MOST_ON_SPARK = 10**5, 10**7
MOST = int(os.environ.get("SFUMATO_BENCH_ROWS", 10**6))

SOURCES = {"DuckDB": "{}", "Spark": "spark+parquet://{}"}
_MEANS = "SELECT education, COUNT(*), AVG(salary) FROM {} GROUP BY education"
DOORS = {
    "question": ["query", _MEANS.format("people"), "--epsilon", "1"],
    "question, 2 rows a household": ["query", _MEANS.format("households"), "--epsilon", "1"],
    "publication": [
        "publish", "marginals", "people", "--columns", "sex,education,occupation,disease",
        "--epsilon", "1", "-o", "{folder}/marginals",
    ],
    "anonymization": [
        "anonymize", "{source}", "--schema", "{schema}", "--k", "5", "--suppress", "2%",
        "--no-advice", "-o", "{folder}/safe.parquet",
    ],
    "inspection": ["inspect", "{source}"],
}  # fmt: skip
UNITS = {"people": [], "households": ["--unit", "household", "--max-rows", "2"]}
_IN_A_VAULT = ("query", "publish")


def rows() -> list[dict[str, object]]:
    """Seconds and peak memory of each door, size by size, and the slope of the last tenfold."""
    found: list[dict[str, object]] = []
    for engine, pattern in SOURCES.items():
        most = MOST if engine == "DuckDB" else min(MOST, MOST_ON_SPARK)
        sizes = [SMALLEST * 10**power for power in range(round(math.log10(most / SMALLEST)) + 1)]
        for door in DOORS:
            found += _grown(f"{door}, {engine}", door, pattern, sizes)
    return found


def _grown(name: str, door: str, pattern: str, sizes: Sequence[int]) -> Iterator[dict[str, object]]:
    taken: list[float] = []
    for size in sizes:
        seconds, peak = _cell(door, pattern.format(county(size)))
        taken.append(seconds)
        yield {
            "name": f"{name}, {size:,} rows",
            "unit": "s",
            "value": seconds,
            "peer": "peak memory of our process",
            "peer_value": f"{peak / 1e6:,.0f} MB",
        }
    if len(taken) > 1:
        yield {
            "name": f"{name}, slope of the last tenfold",
            "unit": "",
            "value": math.log10(taken[-1] / taken[-2]),
            "wanted": "at most 1.1",
        }


def _cell(door: str, source: str) -> tuple[float, int]:
    """Seconds and bytes of one command, started for it alone."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        schema = schema_file(folder)
        command = [part.format(folder=folder, source=source, schema=schema) for part in DOORS[door]]
        if command[0] in _IN_A_VAULT:
            _vault(folder, source, schema, "households" if "household" in door else "people")
            command += ["--vault", str(folder / "vault")]
        started = time.perf_counter()
        peak = _run(command)
        return time.perf_counter() - started, peak


def _vault(folder: Path, source: str, schema: Path, dataset: str) -> None:
    vault = str(folder / "vault")
    _run(["init", vault])
    by = ["--schema", str(schema), "--epsilon", "3", "--vault", vault]
    _run(["add", dataset, source, *UNITS[dataset], *by])


def _run(words: Sequence[str]) -> int:
    """Run the command and tell the most memory that its process held, a JVM beside it left out.

    What the system tells of an ended process counts the memory of whoever started it.
    """
    command = [sys.executable, "-c", "from sfumato.cli import main; main()", *words]
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        peak = 0
        while child.poll() is None:
            peak = max(peak, _peak(child.pid))
            time.sleep(0.02)
        if child.returncode:
            said.seek(0)
            raise RuntimeError(f"{words}: {said.read().decode()}")
    return peak


def _peak(process: int) -> int:
    """The most bytes that a process has held so far; 0 where it has just ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except ProcessLookupError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) * 1024 if lines else 0
