"""Bounds, steps and values at the ends of 64 bits: what a question does never hangs on a row.

Whatever is declared, a question is refused from the declarations, before anything is spent, or it
answers: with a row at either end and without it alike.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.data.schema.unit import MOST_ROWS

LOW, HIGH = -(2**63), 2**63 - 1
ENDS = [LOW, LOW + 1, -(2**62) - 1, -(2**62), -(10**18), -1, 0, 1, 2**53, 2**62, HIGH - 1, HIGH]
QUESTIONS = (
    "SELECT MEDIAN(x) FROM t",
    "SELECT QUANTILE(x, 0.999999), MIN(x), MAX(x) FROM t",
    "SELECT x, COUNT(*) AS n FROM t GROUP BY x",
    "SELECT COUNT(DISTINCT x) FROM t",
    "SELECT VARIANCE(x), STDDEV(x) FROM t",
    "SELECT AVG(x) FROM t",
    "SELECT SUM(x) FROM t",
    "SELECT AVG(CAST(x AS DOUBLE)), SUM(CAST(x AS DOUBLE)), MEDIAN(CAST(x AS DOUBLE)) FROM t",
    "SELECT COUNT(*) FROM t WHERE ABS(x) > 5 OR -x > 5",
    "SELECT COUNT(*) FROM t WHERE x * x > 5 AND x - 1 < x + 1",
    "SELECT COUNT(*) FROM t WHERE x DIV -1 > 5 OR x % -1 = 0",
    "SELECT COUNT(*) FROM t WHERE x % -1 = 0",
    "SELECT AVG(x DIV 100) FROM t",
    "SELECT FLOOR(x / 1000000000000000) AS k, COUNT(*) AS n FROM t GROUP BY 1",
    "SELECT x DIV 4611686018427387904 AS k, COUNT(*) AS n FROM t GROUP BY 1",
    "SELECT MEDIAN(s.y) FROM (SELECT p, SUM(x) AS y FROM t GROUP BY p) s",
    "SELECT SUM(LEAST(GREATEST(s.y, 0), 9)) FROM (SELECT p, SUM(x) AS y FROM t GROUP BY p) s",
)
KINDS = ("quantiles", "histogram", "sparse", "tree", "sketch", "marginals", "privtree")
UNITS: tuple[sf.Rows | sf.Entity, ...] = (sf.Rows(), sf.Entity("p", 1), sf.Entity("p", MOST_ROWS))


def declared(step: int, low: int, high: int) -> sf.Bounds:
    """Bounds from low up to high or the last point of the grid below it."""
    return sf.Bounds(low, high - (high - low) % step, None if step == 1 else step)


@st.composite
def grids(draw: st.DrawFn) -> sf.Bounds:
    low, high = sorted(draw(st.tuples(*[st.sampled_from(ENDS) | st.integers(LOW, HIGH)] * 2)))
    # A few points far apart, many, or a step that nothing divides.
    parts = draw(st.sampled_from([1, 2, 3, 15, 1000, 2**40]))
    step = draw(st.sampled_from([1, 2, 3, min(max((high - low) // parts, 1), HIGH)]))
    return declared(step, low, high)


def outcome(rows: list[int], bounds: sf.Bounds, unit: sf.Rows | sf.Entity, ask: str) -> object:
    """The class of what comes of a question or a publication: its types, or its refusal."""
    columns = (
        sf.Column("p", sf.Kind.INTEGER, nullable=False),
        sf.Column("x", sf.Kind.INTEGER, domain=bounds),
    )
    table = pa.table({"p": pa.array(range(len(rows)), pa.int64()), "x": pa.array(rows, pa.int64())})
    private = sf.protect(
        sf.read(table, sf.Schema("t", columns)), unit=unit, epsilon=1, delta=Decimal("1e-3")
    )
    try:
        if ask in KINDS:
            published = private.publish(ask, columns=["x"], epsilon=1, delta=Decimal("1e-6"))
            return [one.schema for one in published.tables.values()]
        return private.query(ask, epsilon=1, delta=Decimal("1e-6")).table.schema
    except sf.SfumatoError as error:
        return error.code


@settings(max_examples=25, deadline=None)
@example(sf.Bounds(LOW, HIGH), HIGH, "SELECT VARIANCE(x), STDDEV(x) FROM t", UNITS[0])
@example(sf.Bounds(LOW, HIGH), LOW, "SELECT MEDIAN(x) FROM t", UNITS[1])
@example(sf.Bounds(LOW, HIGH), LOW, "SELECT COUNT(*) FROM t WHERE x % -1 = 0", UNITS[0])
@example(sf.Bounds(0, HIGH), HIGH, "SELECT MEDIAN(x) FROM t", UNITS[0])
@example(sf.Bounds(0, HIGH - 1), HIGH, "SELECT MEDIAN(x) FROM t", UNITS[2])
@example(sf.Bounds(LOW, HIGH, 3), HIGH, "SELECT COUNT(DISTINCT x) FROM t", UNITS[0])
@example(declared(2**60, LOW, HIGH), HIGH, "SELECT x, COUNT(*) AS n FROM t GROUP BY x", UNITS[0])
@example(declared(2**60, LOW, HIGH), HIGH, "histogram", UNITS[0])
@example(declared(2**60, LOW, HIGH), HIGH, "marginals", UNITS[1])
@example(sf.Bounds(-(2**62), 2**62, 2), HIGH, "quantiles", UNITS[0])
@given(
    grids(),
    st.sampled_from([LOW, LOW + 1, 0, HIGH - 1, HIGH]),
    st.sampled_from([*QUESTIONS, *KINDS]),
    st.sampled_from(UNITS),
)
def test_F21_no_row_decides_whether_a_question_answers(
    bounds: sf.Bounds, extreme: int, ask: str, unit: sf.Rows | sf.Entity
) -> None:
    plain = outcome([0, 1], bounds, unit, ask)
    assert plain != "answer_failed"
    assert outcome([0, 1, extreme], bounds, unit, ask) == plain


def value(bounds: sf.Bounds, rows: list[int], ask: str) -> list[dict[str, Any]]:
    """What a question answers where there is hardly any noise."""
    table = pa.table({"x": pa.array(rows, pa.int64())})
    schema = sf.Schema("t", (sf.Column("x", sf.Kind.INTEGER, domain=bounds, nullable=False),))
    private = sf.protect(sf.read(table, schema), unit=sf.Rows(), epsilon=10)
    found: list[dict[str, Any]] = private.query(ask, epsilon=10).table.to_pylist()
    return found


def test_F21_wide_answers_are_right() -> None:
    """Not only do they not fail: values far apart are what they are."""
    wide = sf.Bounds(LOW, HIGH, 3)
    rows = [LOW + 1] * 400 + [HIGH - 1] * 100
    assert value(declared(1, 0, HIGH - 1), [HIGH - 1] * 500, "SELECT MEDIAN(x) AS m FROM t") == [
        {"m": HIGH - 1}
    ]
    (spread,) = value(wide, rows, "SELECT STDDEV(x) AS s FROM t")
    assert spread["s"] == pytest.approx(2**64 * 0.4, rel=0.05)
    by_key = value(
        declared(2**62, LOW, HIGH), rows, "SELECT x, COUNT(*) AS n FROM t GROUP BY x ORDER BY x"
    )
    assert [one["x"] for one in by_key] == [LOW, -(2**62), 0, 2**62]
    assert [round(one["n"], -2) for one in by_key] == [400, 0, 0, 100]


def test_F21_reals_finer_than_doubles() -> None:
    """A grid of 2e27 points is no grid of doubles: sums are taken on a coarser one."""
    column = sf.Column(
        "x", sf.Kind.REAL, domain=sf.Bounds(Decimal(-(10**14)), Decimal(10**14), Decimal("1e-12"))
    )
    table = sf.read(pa.table({"x": [1e14, -3.0, 1e300]}), sf.Schema("t", (column,)))
    private = sf.protect(table, unit=sf.Rows(), epsilon=10, delta=Decimal("1e-3"))
    for ask in ("SUM(x)", "AVG(x)", "VARIANCE(x)", "MEDIAN(x)", "COUNT(DISTINCT x)"):
        assert private.query(f"SELECT {ask} AS s FROM t", epsilon=1).table.num_rows == 1
    with pytest.raises(sf.SfumatoError, match="points; at most") as refused:
        private.publish("quantiles", columns=["x"], epsilon=1)
    assert refused.value.code == "problem_too_large"
    assert private.remaining["epsilon"] == 5


@pytest.mark.parametrize("bound", [MOST_ROWS + 1, 2**50, 2**70])
def test_F21_bounds_beyond_the_width_of_weights_are_refused(bound: int) -> None:
    with pytest.raises(sf.SfumatoError, match="at most") as refused:
        sf.Entity("p", bound)
    assert refused.value.code == "parameter_out_of_range"


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        ("SELECT AVG(x DIV 100) FROM t", None),
        ("SELECT COUNT(*) FROM t WHERE x DIV -100 = 4 OR x % 7 = 1 OR x % -7 = 1", None),
        ("SELECT COUNT(*) FROM t WHERE x DIV -1 = 4", "overflow_possible"),
        ("SELECT COUNT(*) FROM t WHERE x % -1 = 0", "overflow_possible"),
    ],
)
def test_a_quotient_is_refused_only_where_it_may_overflow(ask: str, expected: str | None) -> None:
    told = outcome([LOW, HIGH], sf.Bounds(LOW, HIGH), sf.Rows(), ask)
    assert told == expected if expected else isinstance(told, pa.Schema)
