"""Sketches of many reports in Parquet files, by DuckDB and by Spark: seconds, and peak memory.

Ten million reports of each oracle by default; `SFUMATO_BENCH_ROWS=100000000` goes as far as that,
and `SFUMATO_BENCH_ENGINES=DuckDB` leaves Spark out. One file of a million real reports is written
and named as often as needed: sums do not care, and writing would take longer than summing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet as pq

from sfumato.methods import local

MOST = int(os.environ.get("SFUMATO_BENCH_ROWS", 10**7))
EACH = 10**6
SOURCES = {"DuckDB": "{}", "Spark": "spark+parquet://{}"}
ENGINES = os.environ.get("SFUMATO_BENCH_ENGINES", ",".join(SOURCES)).split(",")
ORACLES = {"k-ary": 1024, "oue": 32, "hadamard": 1024}
ONE = """
import json, resource, sys, time
from sfumato import local
told, source = json.loads(sys.argv[1]), sys.argv[2]
oracle = local.from_json(told)
began = time.perf_counter()
sketch = oracle.sketch(source)
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"n": sketch.n, "seconds": seconds, "peak": peak}))
"""


def rows() -> list[dict[str, object]]:
    """Each oracle on each engine, at a tenth and at all reports: memory stays as it is."""
    found = []
    with TemporaryDirectory() as place:
        for name, size in ORACLES.items():
            oracle = local.oracle(name, size, epsilon=1)
            first = Path(place) / f"{name}.parquet"
            values = np.random.default_rng(1).integers(0, size, EACH)
            pq.write_table(oracle.randomize(values).to_arrow(), first)
            for engine in ENGINES:
                for reports in (MOST // 10, MOST):
                    folder = Path(place) / f"{name}-{reports}"
                    _named(first, folder, reports // EACH)
                    row = _row(name, engine, reports, oracle.to_json(), folder)
                    print(row["name"], row["value"], row["peer_value"], file=sys.stderr, flush=True)
                    found.append(row)
    return found


def _named(first: Path, folder: Path, times: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(max(times, 1)):
        copy = folder / f"part-{number:04}.parquet"
        if not copy.exists():
            shutil.copy(first, copy)


def _row(
    name: str, engine: str, reports: int, told: dict[str, object], folder: Path
) -> dict[str, object]:
    source = SOURCES[engine].format(folder)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", ONE, json.dumps(told), source],
        stdout=subprocess.PIPE,
        check=True,
    )
    whole = time.perf_counter() - began
    taken = json.loads(done.stdout.splitlines()[-1])
    assert taken["n"] == max(reports // EACH, 1) * EACH
    return {
        "name": f"local: sketch of {taken['n']:,} reports of {name}, {engine}",
        "unit": "s",
        "value": taken["seconds"],
        "peer": "with its start; peak of our process",
        "peer_value": f"{whole:.1f} s, {taken['peak'] / 1e6:,.0f} MB",
        "wanted": "memory flat",
    }
