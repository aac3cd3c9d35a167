"""A million rows: 20 columns of every kind from Parquet to Parquet, and 50 columns by a tree.

Each is made and synthesized in a process of its own, for its time and memory.
"""

from __future__ import annotations

import os
import resource
import time
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
from tests.fixtures.counts import whole_numbers

import sfumato as sf
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.unit import Rows
from sfumato.methods.synth.synthesis import Synthesis
from sfumato.privacy.accounting.price import price
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

ROWS = 1_000_000
GIBIBYTE = 2**30 / 1e6
"""In megabytes."""

# Each column as an expression of a row's number i and of the mix h of it, and its declaration.
_TEXTS = "['north', 'east', 'south', 'west'][1 + {}]"
COLUMNS: dict[str, tuple[str, str]] = {
    "age": ("18 + h % 73", 'kind = "integer"\nbounds = [18, 90]'),
    "children": ("least(h % 73 // 20, h // 7 % 5)", 'kind = "integer"\nbounds = [0, 4]'),
    "hours": ("if(h % 73 > 47, NULL, 10 + h // 11 % 50)", 'kind = "integer"\nbounds = [0, 80]'),
    "visits": ("h // 13 % 30", 'kind = "integer"\nbounds = [0, 29]'),
    "points": ("(h % 73) * 10 + h // 17 % 100", 'kind = "integer"\nbounds = [0, 999]'),
    "income": ("((h % 73) * 500 + h // 19 % 20000)::double", 'kind = "real"\nbounds = [0, 60000]'),
    "height": (
        "(150 + h // 23 % 500 / 10.0)::double",
        'kind = "real"\nbounds = [140, 210]\nstep = 0.1',
    ),
    "weight": (
        "if(i % 50 = 0, NULL, 40 + h // 23 % 500 / 10.0 + h // 29 % 30)::double",
        'kind = "real"\nbounds = [30, 150]\nstep = 0.5',
    ),
    "born": (
        "date '1934-01-01' + ((90 - h % 73) * 365)::integer + (h // 31 % 365)::integer",
        'kind = "date"\nbounds = ["1930-01-01", "2030-12-31"]',
    ),
    "joined": (
        "date '2015-01-01' + (h // 37 % 3650)::integer",
        'kind = "date"\nbounds = ["2015-01-01", "2024-12-31"]',
    ),
    "left_on": (
        "if(h // 41 % 3 > 0, NULL, date '2020-01-01' + (h // 37 % 1800)::integer)",
        'kind = "date"\nbounds = ["2015-01-01", "2029-12-31"]',
    ),
    "smoker": ("h % 73 > 30 AND h // 43 % 3 = 0", 'kind = "boolean"'),
    "member": ("h // 47 % 2 = 0", 'kind = "boolean"'),
    "insured": ("if(h // 53 % 9 = 0, NULL, h % 73 > 10)", 'kind = "boolean"'),
    "region": (
        _TEXTS.format("h // 59 % 4"),
        'kind = "text"\nvalues = ["north", "east", "south", "west"]',
    ),
    "work": (
        _TEXTS.format("(h // 59 % 4 + (h // 61 % 5 = 0)::integer) % 4"),
        'kind = "text"\nvalues = ["north", "east", "south", "west"]',
    ),
    "grade": (
        "chr((65 + (h % 73) // 15 + h // 67 % 2)::integer)",
        'kind = "text"\nvalues = ["A", "B", "C", "D", "E", "F"]',
    ),
    "channel": (
        "if(h // 71 % 6 = 0, NULL, chr((97 + h // 71 % 6)::integer))",
        'kind = "text"\nvalues = ["a", "b", "c", "d", "e", "f"]',
    ),
    "town": ("'town' || (h // 73 % 40)", 'kind = "text"'),
    "employer": ("'firm' || least(h // 79 % 3000, h // 83 % 60)", 'kind = "text"'),
}
"""The last two have no declared values: what is frequent in them is discovered."""
NULLABLE = ("hours", "weight", "left_on", "insured", "channel")


def rows() -> list[dict[str, object]]:
    """Both, each against its aims."""
    found: list[dict[str, object]] = []
    for name, work, seconds, megabytes in (
        ("20 mixed columns from Parquet to Parquet, auto", mixed, 120, 4 * GIBIBYTE),
        ("50 columns, mst, after encoding", wide, 60, 2000),
    ):
        with get_context("spawn").Pool(1) as pool:
            wall, cpu, peak = pool.apply(work)
        what = f"synthesis: {ROWS:,} rows x {name}"
        found += [
            {"name": what, "unit": "s", "value": wall, "wanted": f"at most {seconds}"},
            {"name": f"{what}: processor", "unit": "s of CPU", "value": cpu},
            {
                "name": f"{what}: peak",
                "unit": "MB",
                "value": peak,
                "wanted": f"at most {megabytes:,.0f}",
            },
        ]
    return found


def mixed(rows: int = ROWS) -> tuple[float, float, float]:
    """Seconds by the clock, of the processor, and megabytes; of fitting, drawing and writing."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        wanted = ", ".join(f"{made} AS {column}" for column, (made, _) in COLUMNS.items())
        mixing = f"SELECT i, (hash(i) >> 20)::bigint AS h FROM range({rows}) t(i)"
        written = f"COPY (SELECT {wanted} FROM ({mixing})) TO '{folder / 'people.parquet'}'"
        duckdb.execute(written)
        declared = "".join(
            f"[columns.{column}]\n{declaration}\n"
            + ("" if column in NULLABLE else "nullable = false\n")
            for column, (_, declaration) in COLUMNS.items()
        )
        schema = folder / "people.toml"
        schema.write_text(f'table = "people"\n{declared}', encoding="utf-8")
        vault = folder / "vault"
        create(vault)
        source = str(folder / "people.parquet")
        Registration(name="people", source=source, schema=schema, epsilon=9, delta=1e-6).add_to(
            vault
        )
        with sf.open(vault) as opened:
            started, before = time.perf_counter(), _processor()
            made = opened.synthesize("people", epsilon=1, delta="1e-9")
            made.save(folder / "twin.parquet")
            return time.perf_counter() - started, _processor() - before, _peak()


def wide(rows: int = ROWS, columns: int = 50) -> tuple[float, float, float]:
    """The same of codes that are at hand: columns of 2 to 40 codes in linked runs."""
    sizes = tuple(2 + 7 * place % 39 for place in range(columns))
    draw = np.random.default_rng(1)
    table = [draw.integers(0, sizes[0], rows, dtype=np.int32)]
    for size in sizes[1:]:
        fresh = draw.integers(0, size, rows, dtype=np.int32)
        table.append(np.where(draw.random(rows) < 0.5, table[-1] % size, fresh).astype(np.int32))
    counts = Frequencies(whole_numbers(*sizes), tuple(table), np.ones(rows, dtype=np.int64))
    synthesis = Synthesis(
        axes=counts.axes, unit=Rows(), price=price(epsilon=1, delta="1e-9"), method="mst"
    )
    started, before = time.perf_counter(), _processor()
    synthesis.release(counts, SystemEntropy())
    return time.perf_counter() - started, _processor() - before, _peak()


def _processor() -> float:
    return sum(os.times()[:2])


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
