"""F5, F6: every allowed expression means the same on every engine, and keeps what is claimed.

One table holds every awkward value of every kind beside every other; each expression is planned,
run on the engine, and compared with DuckDB, with its own claims, and with itself among other rows.
"""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one
from tests.fixtures.expressions import EXACT, ROUGH, unlisted

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Rows
from sfumato.methods.query.expressions import compile_value
from sfumato.methods.query.expressions.typed_values import EPOCH
from sfumato.methods.query.sql.relation import RowScope
from sfumato.methods.query.sql.tables import PrivateRows, declared_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.data.engines.base import Engine
    from sfumato.methods.query.expressions.typed_values import Typed

    Open = Callable[[pa.Table], Engine]

ROWS = 1_001
DAYS = "1970-01-01 2020-02-29 1999-12-31 2024-12-30 0001-01-01 9999-12-31 2021-01-03 1960-06-05"
TEXTS = (
    "12 -5 +5 1e5 0x1F 1_000 abc 5-3 - -0 99999999999999999999 2.5 .5 5. -.5 . .. 1.2.3 NaN inf "
    "999999999999999999 1d 1f 1e400 -- 00012"
)
ODD = "12\n|\t7|5 | 5|Ünï ß|👩‍👧x|a%b_c|٣"
HUGE, TINY = 1.7976931348623157e308, 5e-324
SPECIAL: dict[str, tuple[pa.DataType, list[object]]] = {
    "i": (pa.int64(), [None, -(2**63), 2**63 - 1, 0, 1, -1, 7, -7, 999_999, 2**31, -12]),
    "j": (pa.int64(), [0, None, 1, -1, 3, -(2**63), 2**63 - 1]),
    "x": (
        pa.float64(),
        [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 2.5, -2.5, 3.5, 0.1, HUGE, -HUGE, TINY],
    ),
    "y": (
        pa.float64(),
        [
            0.5,
            1.0,
            math.nan,
            0.0,
            None,
            1e-29,
            -1e-300,
            1e-31,
            math.inf,
            0.3,
            TINY,
            0.7,
            1 / 3,
            2.0,
        ],
    ),
    "u": (
        pa.float64(),
        [math.nan, 1.5, None, math.inf, -1e200, 1e99, -math.inf, 0.0, HUGE, -TINY, -3.25],
    ),
    "t": (pa.string(), [None, "", " ", "  pad  ", *ODD.split("|"), *TEXTS.split()]),
    "s": (pa.string(), ["red", "Green", None, "blue", "unlisted, long"]),
    "d": (pa.date32(), [None, *map(date.fromisoformat, DAYS.split())]),
    "e": (
        pa.date32(),
        [date(1, 1, 1), None, date(9999, 12, 31), date(2020, 2, 29), date(1969, 12, 28)],
    ),
    "b": (pa.bool_(), [True, False, None]),
    "c": (pa.bool_(), [True, True, False, False, None]),
}
COLUMNS = (
    Column("n", Kind.INTEGER, domain=Bounds(0, ROWS), nullable=False),
    Column("i", Kind.INTEGER, domain=Bounds(-1_000_000, 1_000_000)),
    Column("j", Kind.INTEGER, domain=Bounds(-5, 5)),
    Column("x", Kind.REAL, domain=Bounds(Decimal(-1000), Decimal("1000.5"))),
    Column("y", Kind.REAL, domain=Bounds(Decimal(0), Decimal(1))),
    Column("u", Kind.REAL),
    Column("t", Kind.TEXT),
    Column("s", Kind.TEXT, domain=Values(("red", "Green", "blue"))),
    Column("d", Kind.DATE, domain=Bounds(date(1960, 1, 1), date(2030, 12, 31))),
    Column("e", Kind.DATE),
    Column("b", Kind.BOOLEAN),
    Column("c", Kind.BOOLEAN),
)
DECLARED = PrivateRows(Schema("t", COLUMNS), Rows(), "rows")


def special_table() -> pa.Table:
    columns: dict[str, pa.Array] = {"n": pa.array(range(ROWS), pa.int64())}
    for name, (data_type, values) in SPECIAL.items():
        columns[name] = pa.array([values[row % len(values)] for row in range(ROWS)], data_type)
    return pa.table(columns)


SCOPE = RowScope((("t", declared_table("t", DECLARED, "r0")),))


def compiled(sql: str) -> Typed:
    """An expression over the table, planned."""
    return compile_value(parse_one(sql), SCOPE)


def run(engine: Engine, expressions: Sequence[str]) -> dict[str, list[Any]]:
    """All expressions over all rows, in one query."""
    table = engine.table
    table.set("alias", exp.TableAlias(this=exp.to_identifier("r0", quoted=True)))
    query = exp.select(exp.column("n", table="r0", quoted=True)).from_(table)
    for place, sql in enumerate(expressions):
        query.select(exp.alias_(compiled(sql).sql, f"v{place}", quoted=True), copy=False)
    result = engine.run(query).sort_by("n")
    return {sql: result[f"v{place}"].to_pylist() for place, sql in enumerate(expressions)}


@pytest.fixture(scope="module")
def reference() -> dict[str, list[Any]]:
    """What DuckDB says."""
    engine = open_duckdb(special_table())
    values = run(engine, EXACT + ROUGH)
    engine.close()
    return values


def bits(value: object) -> object:
    """A value that equals another only if they are the same to the last bit."""
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def test_every_engine_gives_the_same_values(
    open_engine: Open, reference: dict[str, list[Any]]
) -> None:
    found = run(open_engine(special_table()), EXACT)
    different = {
        sql: [pair for pair in zip(values, reference[sql], strict=True) if pair[0] != pair[1]][:3]
        for sql, values in found.items()
        if list(map(bits, values)) != list(map(bits, reference[sql]))
    }
    assert different == {}


def test_transcendental_functions_agree_to_four_units_in_the_last_place(
    open_engine: Open, reference: dict[str, list[Any]]
) -> None:
    for sql, values in run(open_engine(special_table()), ROUGH).items():
        for value, other in zip(values, reference[sql], strict=True):
            assert (value is None) == (other is None), sql
            assert value is None or abs(value - other) <= 4 * math.ulp(other), sql


def test_f5_claims_of_range_and_nullability_hold(reference: dict[str, list[Any]]) -> None:
    for sql, values in reference.items():
        value = compiled(sql)
        present = [_number(one) for one in values if one is not None]
        assert value.nullable or len(present) == len(values), f"{sql} is NULL"
        assert not any(isinstance(one, float) and not math.isfinite(one) for one in present), sql
        numbers = [Fraction(one) for one in present if isinstance(one, int | float)]
        if value.low is not None:
            assert min(numbers, default=value.low) >= value.low, sql
        if value.high is not None:
            assert max(numbers, default=value.high) <= value.high, sql
        if value.kind is Kind.REAL:
            assert all(one == 0 or abs(one) >= value.least for one in numbers), sql
        elif value.low is not None and value.direct is None:
            step = value.step or 1
            assert all((one - value.low) % step == 0 for one in numbers), sql


def _number(value: object) -> object:
    return (value - EPOCH).days if isinstance(value, date) else value


def test_f6_a_row_means_the_same_among_any_other_rows(
    open_quick_engine: Open, reference: dict[str, list[Any]]
) -> None:
    draw = np.random.default_rng(7)
    table = special_table()
    kept = np.sort(draw.choice(ROWS, 400, replace=False))
    shuffled = draw.permutation(kept)
    pieces = [table.take(shuffled[start : start + 37]) for start in range(0, len(shuffled), 37)]
    found = run(open_quick_engine(pa.concat_tables(pieces)), EXACT)
    for sql, values in found.items():
        wanted = [reference[sql][row] for row in kept]
        assert list(map(bits, values)) == list(map(bits, wanted)), sql


def test_the_list_of_expressions_reaches_every_rule() -> None:
    assert unlisted() == {"DayOfMonth", "DayOfYear", "TimestampTrunc"}  # other names of some


@pytest.mark.parametrize(
    ("sql", "row", "wanted"),
    [
        ("7 / 2", 0, 3.5),
        ("(0 - 7) DIV 2", 0, -3),
        ("(0 - 7) % 2", 0, -1),
        ("1 / 0", 0, None),
        ("1 DIV 0", 0, None),
        ("1 % 0", 0, None),
        ("LN(0)", 0, None),
        ("SQRT(-1)", 0, None),
        ("CAST(2.5 AS BIGINT)", 0, 3),
        ("ROUND(-2.5)", 0, -2),
        ("LEAST(NULLIF(1, 1), 5)", 0, None),
        ("CAST('12x' AS BIGINT)", 0, None),
        ("CAST('-12' AS BIGINT)", 0, -12),
        ("CAST('2.50' AS DOUBLE)", 0, 2.5),
        ("UPPER('straße é')", 0, "STRAßE é"),
        ("DATE_TRUNC('week', DATE '2024-01-03')", 0, date(2024, 1, 1)),
        ("ISODOW(DATE '2024-01-07')", 0, 7),
        ("i", 1, -1_000_000),
        ("x", 1, None),
        ("x", 2, 1000.5),
    ],
)
def test_meaning(open_quick_engine: Open, sql: str, row: int, wanted: object) -> None:
    found = run(open_quick_engine(special_table().slice(0, 3)), [sql])[sql][row]
    assert found == wanted
