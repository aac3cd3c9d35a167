"""The error channel: rows on which an expression would fail are told by nothing but noise.

Bad input 34 and 37: division by zero, bad casts, logarithms and overflow on some rows.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.privacy.ledger.receipt import Receipt, Stage
from sfumato.release.codec import to_bytes
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.data.engines.base import Engine

PROVOKING = (
    "1 / x > 0",
    "x / (x - 7) > 0",
    "x % x >= 0",
    "100 DIV x > 1",
    "LN(x) > 0",
    "LN(-1 * x) > 0",
    "LOG(10, x) > 0",
    "LN(y) > 0",
    "SQRT(x) > 1",
    "SQRT(y) > 1",
    "EXP(y) > 1",
    "POWER(x, 3) > 1",
    "CAST(name AS INTEGER) > 0",
    "CAST(name AS DOUBLE) > 0",
    "CAST(SUBSTRING(name, 1, 2) AS INTEGER) > 0",
    "TRY_CAST(name AS INTEGER) > 0",
    "CAST(y AS INTEGER) > 0",
    "x * x * x > 10",
    "x + 9000000000000000000 > 0",
    "ABS(x) - 9000000000000000000 < 0",
    "SUBSTRING(name, 1, 3) = 'ali'",
    "name LIKE '%a_%'",
    "LENGTH(name) > 3",
    "DATE_TRUNC('month', d) > DATE '2000-01-01'",
    "EXTRACT(YEAR FROM d) > 2000",
    "ROUND(y, 2) > 1",
    "FLOOR(y / x) > 0",
    "COALESCE(1 / NULLIF(x, 0), 5) > 1",
    "CASE WHEN x = 0 THEN 1 / x ELSE 0 END > 0",
    "GREATEST(x, 1 / x) > 0",
    "UPPER(name) || CAST(x AS TEXT) = 'A0'",
)
PLAIN = [
    ("a", 1, 2.0, "12", dt.date(2020, 5, 17)),
    ("a", 9, 0.5, "x", dt.date(1999, 1, 1)),
    ("b", -4, 3.5, "2001-02-03", dt.date(2024, 2, 29)),
]
EVIL = [
    ("a", 0, math.nan, "alice", dt.date(9999, 12, 31)),
    ("b", 2**63 - 1, math.inf, "9" * 40, dt.date(1, 1, 1)),
    ("b", -(2**63), -math.inf, "", dt.date(2020, 1, 1)),
    ("a", 7, -1.0, "2023-02-29", None),
    ("a", None, None, "\\", dt.date(2020, 1, 1)),
]
SCHEMA = sf.Schema(
    "t",
    (
        sf.Column("g", sf.Kind.TEXT, domain=sf.Values(("a", "b")), nullable=False),
        sf.Column("keep", sf.Kind.BOOLEAN, nullable=False),
        sf.Column("x", sf.Kind.INTEGER, domain=sf.Bounds(-(10**6), 10**6)),
        sf.Column("y", sf.Kind.REAL, domain=sf.Bounds(Decimal(-1000), Decimal(1000))),
        sf.Column("name", sf.Kind.TEXT),
        sf.Column("d", sf.Kind.DATE),
    ),
)
TYPES = [pa.string(), pa.bool_(), pa.int64(), pa.float64(), pa.string(), pa.date32()]


def table(*, evil: bool, keep: bool) -> pa.Table:
    rows = [(group, True, *rest) for group, *rest in PLAIN * 20]
    rows += [(group, keep, *rest) for group, *rest in EVIL] if evil else []
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, TYPES, strict=True)]
    return pa.table(dict(zip((one.name for one in SCHEMA.columns), arrays, strict=True)))


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    def entropy(receipt: Receipt) -> SeededEntropy:
        receipt.advance(Stage.DRAWN, {Stage.RESERVED})
        return SeededEntropy(3)

    monkeypatch.setattr(Receipt, "entropy", entropy)


def ask(engine: Engine, conditions: Sequence[str]) -> sf.Answer:
    held = sf.Table(engine, SCHEMA, ("declared",) * len(SCHEMA.columns))
    counts = ", ".join(
        f"COUNT(CASE WHEN {one} THEN 1 END) AS n{place}" for place, one in enumerate(conditions)
    )
    private = sf.protect(held, epsilon=1)
    return private.query(f"SELECT g, {counts} FROM t WHERE keep GROUP BY g", epsilon=1)


def without_receipt(answer: sf.Answer) -> bytes:
    return to_bytes(replace(answer, receipt=None))


def shape(answer: sf.Answer) -> Any:
    """All that may be told of an answer besides its noisy figures."""
    bars = {
        column: {name: one for name, one in of.items() if name not in ("too_noisy", "less_noise")}
        for column, of in (answer.error or {}).items()
    }  # which figures are small follows from the figures
    return answer.table.schema, answer.table["g"].to_pylist(), bars, answer.remaining


def check(open_on: Callable[[pa.Table], Engine], at_once: int) -> None:
    plain = open_on(table(evil=False, keep=True))
    outside = open_on(table(evil=True, keep=False))
    inside = open_on(table(evil=True, keep=True))
    for first in range(0, len(PROVOKING), at_once):
        conditions = PROVOKING[first : first + at_once]
        expected = ask(plain, conditions)
        assert without_receipt(ask(outside, conditions)) == without_receipt(expected), conditions
        assert shape(ask(inside, conditions)) == shape(expected), conditions


def test_there_are_enough_provocations() -> None:
    assert len(set(PROVOKING)) >= 30


def test_F11_duckdb(duckdb_engine: Callable[[pa.Table], Engine]) -> None:
    check(duckdb_engine, 4)


def test_F11_postgres(postgres_engine: Callable[[pa.Table], Engine]) -> None:
    check(postgres_engine, 4)


def test_F11_spark(spark_engine: Callable[[pa.Table], Engine]) -> None:
    check(spark_engine, len(PROVOKING))  # a question to Spark takes seconds, whatever it asks
