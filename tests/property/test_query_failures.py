"""Ways in which systems like this one failed, at the sizes at which they did, asked in SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.counting.contribution import FULL_WEIGHT
from sfumato.data.engines.base import named
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import QueryError
from sfumato.methods.query.answer.exact_aggregates import EngineQueries, ExactAggregates, all_groups
from sfumato.methods.query.plan.allocation import QueryPrice, allocate
from sfumato.methods.query.plan.planner import plan_question
from sfumato.methods.query.plan.statistics import Total, effect
from sfumato.methods.query.sql.tables import PrivateRows, PublicRows, substitute_tables

if TYPE_CHECKING:
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.unit import Sensitivity, Unit

COLUMNS = (
    Column("x", Kind.REAL, domain=Bounds(Decimal(0), Decimal(1))),
    Column("z", Kind.REAL, domain=Bounds(Decimal(-1000), Decimal(1000))),
    Column("i", Kind.INTEGER, domain=Bounds(-(2**31), 2**31 - 1), nullable=False),
    Column("g", Kind.INTEGER, domain=Bounds(0, 99)),
    Column("s", Kind.TEXT, domain=Values(("a", "b"))),
)


Ask = Callable[[str, pa.Table, "Unit"], dict[Any, tuple[Any, "Sensitivity"]]]
"""The exact statistics of a question, each beside what one person may move in it."""


@pytest.fixture(params=["duckdb", "postgres", "spark"])
def ask(request: pytest.FixtureRequest) -> Iterator[Ask]:
    """Ask an engine about a table, every column of which has its declared kind there."""
    with ExitStack() as stack:
        engine: Engine
        match request.param:
            case "duckdb":
                engine = open_duckdb(pa.table({"nothing": [0]}))
                stack.callback(engine.close)
            case "postgres":
                from sfumato.data.engines.postgres import Postgres

                engine = Postgres(request.getfixturevalue("postgres_url"), named("none"))
                stack.callback(engine.close)
            case _:
                from sfumato.data.engines.spark.engine import Spark

                engine = Spark(request.getfixturevalue("spark_session"), named("none"))
        yield partial(_asked, engine)


def _asked(
    engine: Engine, sql: str, table: pa.Table, unit: Unit
) -> dict[Any, tuple[Any, Sensitivity]]:
    person = (Column("who", Kind.INTEGER, nullable=False),) if isinstance(unit, Entity) else ()
    private = PrivateRows(Schema("t", (*person, *COLUMNS), unit), unit, "people")
    places = PublicRows(Schema("places", COLUMNS[-1:]), {("s",): 3})
    plan = plan_question(sql, {"t": private, "places": places}).plan
    chosen = allocate(plan, QueryPrice(epsilon=Fraction(1)))
    with engine.lend(table) as rows, engine.lend(pa.table({"s": ["a", "a", "a", "b"]})) as lent:
        source = substitute_tables(plan.source, {"t": rows, "places": lent})
        native = engine.traits.hashed
        asked = EngineQueries(plan, chosen.levels, chosen.mechanisms, source, "salt", native)
        exact = ExactAggregates(asked, engine)
    (level,) = chosen.levels
    groups = all_groups(level)
    return {
        one: (
            sum(map(int, exact.values(one, groups))),
            effect(plan, one, grouped=level.grouped).sensitivity,
        )
        for one in chosen.at(level)
    }


def figure(ask: Ask, sql: str, table: pa.Table, unit: Unit) -> tuple[int, Sensitivity]:
    """The one statistic that a question needs."""
    (found,) = ask(sql, table, unit).values()
    return found


def alternating(rows: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Values of the scale of 2^53, which are cut off at 1, beside one unit in the last place."""
    return np.where(np.arange(rows) % 2, 2.0**53, 2.0**-53)


def check_order(ask: Ask, rows: int, orders: int) -> None:
    draw = np.random.default_rng(1)
    values = alternating(rows)
    sql = "SELECT SUM(x) FROM t"
    shuffled = (pa.table({"x": draw.permutation(values)}) for _ in range(orders))
    (found,) = {figure(ask, sql, table, Rows())[0] for table in shuffled}
    for lost in (0, 1):
        without, allowed = figure(ask, sql, pa.table({"x": np.delete(values, lost)}), Rows())
        assert abs(found - without) <= allowed.l1


def test_F1_the_order_of_rows_does_not_move_a_sum(ask: Ask) -> None:
    check_order(ask, 2**12, 10)


@pytest.mark.slow
def test_F1_a_million_rows_in_a_hundred_orders(ask: Ask) -> None:
    check_order(ask, 2**20, 100)


def test_F2_single_precision_and_large_integers_are_summed_exactly(ask: Ask) -> None:
    """Cut to [-1000, 1000] four of the one and seven of the other sign make -3000."""
    single = pa.table({"z": pa.array([1e38] * 4 + [-1e38] * 7, pa.float32())})
    found = ask("SELECT SUM(z) FROM t", single, Rows())
    ((statistic, (total, _)),) = found.items()
    assert isinstance(statistic, Total)
    assert total * statistic.argument.step == -3000
    rows = 2**12
    many = pa.table({"i": pa.array(np.full(rows, 2**31 - 1), pa.int32())})
    assert figure(ask, "SELECT SUM(i) FROM t", many, Rows())[0] == rows * (2**31 - 1)
    # As much as 2^33 rows and more of the largest value would make.
    millionfold = figure(ask, "SELECT SUM(i * 100000000) FROM t", many, Rows())[0]
    assert millionfold == rows * (2**31 - 1) * 10**8 > 2**33 * (2**31 - 1)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf"), -0.0, None, 1e308])
def test_F5_one_odd_row_moves_nothing_beyond_the_declared(ask: Ask, odd: float | None) -> None:
    rows: list[float | None] = [0.25, 0.5, 0.5, 1.0]
    kind = pa.float64()
    sql = (
        "SELECT SUM(x), COUNT(x), AVG(x), STDDEV(x), SUM(LEAST(GREATEST(1 / x, 0), 9)), "
        "COUNT(DISTINCT z) FROM t"
    )

    def asked(values: list[float | None]) -> dict[Any, tuple[Any, Sensitivity]]:
        column = pa.array(values, kind)
        return ask(sql, pa.table({"x": column, "z": column}), Rows())

    before, after = asked(rows), asked([*rows, odd])
    for statistic, (value, allowed) in before.items():
        assert abs(after[statistic][0] - value) <= allowed.l1


def test_F5_no_aggregate_is_free(ask: Ask) -> None:
    """Not even the count of a column that is declared to have no gaps."""
    _, allowed = figure(ask, "SELECT COUNT(i) FROM t", pa.table({"i": [1, 2]}), Rows())
    assert allowed.l1 == 1


@pytest.mark.parametrize("relation", Neighbours)
def test_F7_a_key_that_is_overwritten_takes_its_bound_along(ask: Ask, relation: Neighbours) -> None:
    """A person has one row in each of 100 groups. By a constant key it is one group of 100 rows."""
    unit = Entity("who", 100, 100, relation)
    table = pa.table({"who": [1] * 100 + [2], "g": [*range(100), 7]})
    sql = "SELECT g, COUNT(*) FROM (SELECT who, 7 AS g FROM t) v GROUP BY g"
    found, allowed = figure(ask, sql, table, unit)
    alone, _ = figure(ask, sql, table.slice(100), unit)
    assert allowed.l1 == found - alone == 100 * FULL_WEIGHT
    assert allowed.l2_squared == (100 * FULL_WEIGHT) ** 2
    people = "SELECT g, COUNT(DISTINCT who) FROM t GROUP BY g"
    both = 1 if relation is Neighbours.ADD_REMOVE else 2
    assert figure(ask, people, table, unit)[1].l2_squared == both * 100


@pytest.mark.parametrize("max_rows", [1, 1_000])
def test_F18_a_thousand_rows_joined_to_themselves(ask: Ask, max_rows: int) -> None:
    unit = Entity("who", max_rows)
    table = pa.table({"who": [1] * 1_000 + [2], "g": [5] * 1_001})
    sql = "SELECT COUNT(*) FROM t a JOIN t b ON a.who = b.who"
    found, allowed = figure(ask, sql, table, unit)
    alone, _ = figure(ask, sql, table.slice(1_000), unit)
    assert allowed.l1 == max_rows * FULL_WEIGHT
    assert 0 <= found - alone <= allowed.l1


def test_F18_a_row_joined_to_rows_of_others_is_refused(ask: Ask) -> None:
    with pytest.raises(QueryError) as refusal:
        figure(ask, "SELECT COUNT(*) FROM t a JOIN t b ON a.g = b.g", pa.table({"g": [1]}), Rows())
    assert refusal.value.code == "join_not_allowed"


def test_F18_repeated_keys_of_a_public_table_count_as_declared(ask: Ask) -> None:
    sql = "SELECT COUNT(*) FROM t JOIN places ON t.s = places.s"
    found, allowed = figure(ask, sql, pa.table({"s": ["a", "b"]}), Rows())
    assert found == 4
    assert allowed.l1 == 3


def test_F19_a_condition_that_names_people_and_ties_nobody_is_refused(ask: Ask) -> None:
    """Else one person's row would be copied into everyone's."""
    for tie in ("a.who = b.who", "c.who = c.who", "c.who = 5 AND a.who = b.who"):
        sql = "SELECT COUNT(*) FROM t a JOIN t b ON a.who = b.who JOIN t c ON " + tie
        with pytest.raises(QueryError) as refusal:
            figure(ask, sql, pa.table({"who": [1]}), Entity("who", 1))
        assert refusal.value.code == "join_not_allowed"


def test_F20_what_is_kept_of_a_person_depends_on_nobody_else(ask: Ask) -> None:
    """Of four tables joined 16 rows of a person stay in each, whoever else there is.

    One of the others has few rows, and one has more than may stay.
    """
    sql = (
        "SELECT SUM(a.g * b.g) FROM t a JOIN t b ON a.who = b.who JOIN t c ON b.who = c.who "
        "JOIN t d ON a.who = d.who"
    )
    unit = Entity("who", 2)
    mine = {"who": [1] * 40, "g": list(range(40))}
    others = {"who": [2] * 3 + [3] * 40, "g": [9] * 43}
    both = pa.table({name: mine[name] + others[name] for name in mine})
    (found, allowed), (alone, _), (rest, _) = (
        figure(ask, sql, table, unit) for table in (both, pa.table(mine), pa.table(others))
    )
    assert alone > 0
    assert found == alone + rest
    few = 9 * 9 * 3**4  # all that the one with few rows has
    assert few < rest <= few + allowed.l1
