"""How time and memory grow with rows: every door, on DuckDB and on Spark, by the command itself.

The rows are the demo's county. By default a tenth of a million and a million of them. The
environment says otherwise: `SFUMATO_BENCH_ROWS=100000000` goes as far as that, on Spark to ten
million; `SFUMATO_BENCH_LEAST_ROWS` says where to begin, `SFUMATO_BENCH_ENGINES=DuckDB` with what.
Each figure is told as soon as it is there.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench._county import county, schema_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_ON_SPARK = 10**7
LEAST = int(os.environ.get("SFUMATO_BENCH_LEAST_ROWS", 10**5))
MOST = int(os.environ.get("SFUMATO_BENCH_ROWS", 10**6))

SOURCES = {"DuckDB": "{}", "Spark": "spark+parquet://{}"}
ENGINES = os.environ.get("SFUMATO_BENCH_ENGINES", ",".join(SOURCES)).split(",")
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


class Cell(NamedTuple):
    """What one command took: seconds by the clock and of processors, and bytes."""

    seconds: float
    processor: float
    peak: int


def rows() -> list[dict[str, object]]:
    """Seconds and peak memory of each door, size by size, and the slope of the last tenfold."""
    found: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as place:
        for engine in ENGINES:
            most = MOST if engine == "DuckDB" else min(MOST, MOST_ON_SPARK)
            sizes = [size for power in range(12) if LEAST <= (size := 10**power) <= most]
            for door in DOORS:
                for row in _grown(f"{door}, {engine}", door, engine, sizes, Path(place)):
                    told = (row["name"], f"{row['value']:.4g}", row["unit"], row["peer_value"])
                    print(*told, file=sys.stderr, flush=True)
                    found.append(row)
    return found


def _grown(
    name: str, door: str, engine: str, sizes: Sequence[int], place: Path
) -> Iterator[dict[str, object]]:
    taken: list[Cell] = []
    for size in sizes:
        cell = _cell(door, engine, size, place)
        taken.append(cell)
        yield {
            "name": f"{name}, {size:,} rows",
            "unit": "s",
            "value": cell.seconds,
            "peer": "of processors, peak of our process",
            "peer_value": f"{cell.processor:,.1f} s, {cell.peak / 1e6:,.0f} MB",
        }
    if len(taken) > 1:
        yield {
            "name": f"{name}, slope of the last tenfold",
            "unit": "",
            "value": math.log10(taken[-1].seconds / taken[-2].seconds),
            "peer": "of processor seconds",
            "peer_value": f"{math.log10(taken[-1].processor / taken[-2].processor):.2f}",
            "wanted": "at most 1.1",
        }


def _cell(door: str, engine: str, size: int, place: Path) -> Cell:
    """What one command takes that was started for it alone."""
    source = SOURCES[engine].format(county(size))
    schema = schema_file(place)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        command = [part.format(folder=folder, source=source, schema=schema) for part in DOORS[door]]
        if command[0] in _IN_A_VAULT:
            dataset = "households" if "household" in door else "people"
            vault = place / f"{engine}-{size}-{dataset}"
            if not vault.exists():
                _fill(vault, source, schema, dataset)
            command += ["--vault", str(vault)]
        return _run(command)


def _fill(vault: Path, source: str, schema: Path, dataset: str) -> None:
    _run(["init", str(vault)])
    by = ["--schema", str(schema), "--epsilon", "3", "--vault", str(vault)]
    _run(["add", dataset, source, *UNITS[dataset], *by])


def _run(words: Sequence[str]) -> Cell:
    """Run the command and tell what it took; the memory of a JVM beside its process is left out.

    It is looked at while it runs: what the system tells of an ended process counts the memory of
    whoever started it, and no time of processes that it did not wait for.
    """
    command = [sys.executable, "-c", "from sfumato.cli import main; main()", *words]
    with tempfile.TemporaryFile() as said:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        peak, ended, processor = 0, 0, 0.0
        while not ended:
            peak = max(peak, _peak(child.pid))
            processor = max(processor, _processor(child.pid))
            time.sleep(0.02)
            ended, status, used = os.wait4(child.pid, os.WNOHANG)
        seconds = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            raise RuntimeError(f"{words}: {said.read().decode()}")
    return Cell(seconds, max(processor, used.ru_utime + used.ru_stime), peak)


def _processor(process: int) -> float:
    """The processor seconds of a process and of those that it started, as long as they run."""
    place = Path(f"/proc/{process}")
    try:
        used = (place / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
        started = (place / f"task/{process}/children").read_text(encoding="ascii").split()
    except (ProcessLookupError, FileNotFoundError):
        return 0.0
    mine = sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
    return mine + sum(_processor(int(child)) for child in started)


def _peak(process: int) -> int:
    """The most bytes that a process has held so far; 0 where it has just ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except (ProcessLookupError, FileNotFoundError):
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) * 1024 if lines else 0
