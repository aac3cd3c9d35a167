"""Private answers to SQL on 10 million rows, durable ledger on, beside the same plain aggregates.

OpenDP on Polars would be the peer, but opendp 0.16 refuses the locked polars 2.1: it reads plans of
polars 1.36.1 only. Tumult Analytics, SmartNoise SQL and PipelineDP are not in the lock.
"""

from __future__ import annotations

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

from sfumato.vault.registration import Registration, create
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def rows() -> list[dict[str, object]]:
    """Each question in turn, the best of three, and the plain aggregate in DuckDB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.parquet"
        _generate(path)
        _register(Path(folder), path)
        found = []
        direct = duckdb.connect()
        with open_vault(Path(folder) / "vault") as vault:
            for name, (dataset, sql) in QUESTIONS.items():
                # An equal question would be answered from what is stored.
                costs = iter([Fraction(1, 10 + time) for time in range(TIMES)])
                words = sql.format(dataset)
                ours = _best(partial(_ask, vault, words, costs))
                plain = sql.format(f"'{path}'")
                theirs = _best(partial(_run, direct, plain))
                wanted = f"at most {theirs + _LATER:.2f} s" if dataset == "rows" else None
                found.append(
                    {
                        "name": f"query: {name}",
                        "unit": "s",
                        "value": ours,
                        "peer": "DuckDB, not private",
                        "peer_value": theirs,
                        "wanted": wanted,
                    }
                )
    return found


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
