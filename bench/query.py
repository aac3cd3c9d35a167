"""Private answers to SQL on 10 million rows, durable ledger on, beside the same plain aggregates.

Other tools answer the same questions about the same table; what they cannot ask is said.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench._peers import PEERS, ROOT, asked
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sfumato.vault.vault import Vault

ROWS, PEOPLE, CITIES, TIMES = 10_000_000, 1_000_000, 50, 3
_SCHEMA = """table = "visits"
[columns.person]
role = "identifier"
kind = "integer"
nullable = false
[columns.city]
role = "quasi"
kind = "text"
values = [{cities}]
nullable = false
[columns.age]
role = "quasi"
kind = "integer"
bounds = [18, 90]
nullable = false
[columns.spend]
role = "other"
kind = "real"
bounds = [0.0, 1000.0]
step = 0.01
nullable = false
"""
_MONEY = "SELECT city, SUM(spend), AVG(spend) FROM {} GROUP BY city"
QUESTIONS = {
    "W1 count by city": ("rows", "SELECT city, COUNT(*) FROM {} GROUP BY city"),
    "W2a sum and mean by city, 10 rows a person": ("ten", _MONEY),
    "W2b the same, 10 rows and 3 cities a person": ("three", _MONEY),
    "W3 median of age by city": ("rows", "SELECT city, MEDIAN(age) FROM {} GROUP BY city"),
    "W4 total count": ("rows", "SELECT COUNT(*) FROM {}"),
}
_LATER = 0.15
"""Seconds that a private answer may take beyond the plain one, where each row is a person."""

_WANTED = {(peer, False): "at least 10 x" for peer in PEERS.values()} | {
    (PEERS["opendp"], True): "at least 4 x",
    (PEERS["opendp"], False): "at least 3 x",
}
"""By peer, and whether each row is a person."""

_PEAK = 2.5
"""GB that all of our questions together may need."""


def rows() -> list[dict[str, object]]:
    """Each question, the best of three, beside plain DuckDB and beside every peer."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.parquet"
        _generate(path)
        _register(Path(folder), path)
        child = [sys.executable, "-m", "bench.query", folder]
        done = subprocess.run(child, cwd=ROOT, stdout=subprocess.PIPE, check=True)
        ours = json.loads(done.stdout)
        peak = ours.pop("peak")
        found = list(_beside_duckdb(ours, path))
        found.append(_row("peak memory of all", peak, "GB", wanted=f"at most {_PEAK} GB"))
        for peer, shown in PEERS.items():
            found += _beside_peer(ours, asked(peer, path), shown)
    return found


def _beside_duckdb(ours: Mapping[str, float], path: Path) -> Iterator[dict[str, object]]:
    direct = duckdb.connect()
    for name, (dataset, sql) in QUESTIONS.items():
        plain = _best(partial(_run, direct, sql.format(f"'{path}'")))
        wanted = f"at most {plain + _LATER:.2f} s" if dataset == "rows" else None
        yield _row(name, ours[name], "s", "DuckDB, not private", plain, wanted)


def _beside_peer(
    ours: Mapping[str, float], theirs: Mapping[str, float | str], peer: str
) -> Iterator[dict[str, object]]:
    for name, (dataset, _) in QUESTIONS.items():
        found = theirs.get(name.split()[0], theirs[""])
        yield _row(name, ours[name], "s", peer, found, _WANTED.get((peer, dataset == "rows")))


def _row(
    name: str,
    value: float,
    unit: str,
    peer: str | None = None,
    peer_value: float | str | None = None,
    wanted: str | None = None,
) -> dict[str, object]:
    return {
        "name": f"query: {name}",
        "value": value,
        "unit": unit,
        "peer": peer,
        "peer_value": peer_value,
        "wanted": wanted,
    }


def ask_all(folder: Path) -> None:
    """Ask every question and print its best time, and how much memory all of them took."""
    found = {}
    with open_vault(folder / "vault") as vault:
        for name, (dataset, sql) in QUESTIONS.items():
            # An equal question would be answered from what is stored.
            costs = iter([Fraction(1, 10 + time) for time in range(TIMES)])
            found[name] = _best(partial(_ask, vault, sql.format(dataset), costs))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(json.dumps({**found, "peak": peak}))


def _ask(vault: Vault, sql: str, costs: Iterator[Fraction]) -> None:
    vault.query(sql, epsilon=next(costs))


def _run(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    connection.sql(sql).to_arrow_table()


def _best(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(TIMES):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def _generate(path: Path) -> None:
    """Visits of skewed people: about a fifth of them have more than ten rows."""
    draw = np.random.default_rng(1)
    names = pa.array([f"city{number:02d}" for number in range(CITIES)])
    cities = pa.array(draw.integers(0, CITIES, ROWS).astype(np.int32))
    table = pa.table(
        {
            "person": (PEOPLE * draw.random(ROWS) ** 3).astype(np.int64),
            "city": pa.DictionaryArray.from_arrays(cities, names).cast(pa.string()),
            "age": draw.integers(18, 91, ROWS),
            "spend": np.round(np.exp(draw.normal(3.5, 1.0, ROWS)), 2),
        }
    )
    parquet.write_table(table, path, row_group_size=1 << 18)


def _register(folder: Path, path: Path) -> None:
    schema = folder / "visits.toml"
    cities = ", ".join(f'"city{number:02d}"' for number in range(CITIES))
    schema.write_text(_SCHEMA.format(cities=cities), encoding="utf-8")
    vault = folder / "vault"
    create(vault)
    units: dict[str, tuple[str, int | None, int | None]] = {
        "rows": ("row", None, None),
        "ten": ("person", 10, None),
        "three": ("person", 10, 3),
    }
    for name, (unit, max_rows, max_groups) in units.items():
        Registration(
            name=name,
            source=str(path),
            schema=schema,
            unit=unit,
            max_rows=max_rows,
            max_groups=max_groups,
            epsilon=10 if name == "rows" else None,
            population="people",
        ).add_to(vault)


if __name__ == "__main__":
    ask_all(Path(sys.argv[1]))
