"""Every engine bounds alike: the same aggregates to the last unit, and those of the definition."""

from __future__ import annotations

import hashlib
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp
from tests.fixtures.questions import DATASET, argument, declared, plan

from sfumato.data.counting.contribution import FULL_WEIGHT
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.unit import Entity, Rows
from sfumato.methods.query.answer.exact_aggregates import EngineQueries, ExactAggregates, all_groups
from sfumato.methods.query.plan import Function, Measure
from sfumato.methods.query.plan.allocation import QueryPrice, allocate
from sfumato.methods.query.plan.statistics import Rank
from sfumato.methods.query.sql.tables import substitute_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.base import Engine
    from sfumato.methods.query.plan import Plan

    Open = Callable[[pa.Table], Engine]

CITIES = ("A", "B", "C", "D", None)
X, Y = argument("x", -3, 9), argument("y", -(2**50), 2**50)
MEASURES = (
    Measure("rows", Function.COUNT),
    Measure("some", Function.COUNT, X),
    Measure("people", Function.COUNT_PEOPLE),
    Measure("values", Function.COUNT_DISTINCT, X),
    Measure("sum", Function.SUM, X),
    Measure("wide", Function.SUM, Y),
    Measure("spread", Function.STDDEV, Y),
    Measure("median", Function.QUANTILE, X, Fraction(1, 2)),
)
GRANULES = (FULL_WEIGHT, FULL_WEIGHT, 1, 1, FULL_WEIGHT, FULL_WEIGHT)
UNITS = (Rows(), Entity("who", 3), Entity("who", 5, 2))


def visits(people: int, seed: int) -> pa.Table:
    """Rows of people of very different activity, with NULLs everywhere and many equal rows."""
    draw = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), draw.geometric(0.15, people))
    count = len(who)
    missing = [draw.random(count) < 0.1 for _ in range(3)]
    return pa.table(
        {
            "who": pa.array([f"p{number}" if number else None for number in who]),
            "city": pa.array(np.array(CITIES[:4])[draw.integers(4, size=count)], mask=missing[0]),
            "x": pa.array(draw.integers(-6, 12, count), mask=missing[1]),
            "y": pa.array(draw.integers(-(2**51), 2**51, count), mask=missing[2]),
        }
    )


def aggregates(engine: Engine, asked: Plan) -> dict[str, list[Any]]:
    chosen = allocate(asked, QueryPrice(epsilon=Fraction(1)))
    source = substitute_tables(asked.source, {DATASET: engine.table})
    questions = EngineQueries(asked, chosen.levels, chosen.mechanisms, source, "salt")
    exact = ExactAggregates(questions, engine)
    found = {}
    for level in chosen.levels:
        groups = all_groups(level)
        for one in chosen.at(level):
            name = f"{level.positions} {one}"
            if isinstance(one, Rank):
                counted = exact.value_counts(one, groups)
                rows = zip(counted.groups, counted.points, counted.counts, strict=True)
                found[name] = sorted(tuple(map(int, row)) for row in rows if row[2])
            else:
                found[name] = exact.values(one, groups).tolist()
    return found


@pytest.mark.parametrize("unit", UNITS)
def test_engines_agree(open_engine: Open, unit: Rows | Entity) -> None:
    table = visits(40, seed=1)
    asked = plan([declared("city", CITIES)], MEASURES, unit=unit)
    here = open_duckdb(table)
    try:
        expected = aggregates(here, asked)
    finally:
        here.close()
    assert aggregates(open_engine(table), asked) == expected


def test_without_bounds_to_keep_the_aggregates_are_the_plain_ones(duckdb_engine: Open) -> None:
    table = visits(40, seed=2)
    asked = plan([declared("city", CITIES)], MEASURES, unit=Entity("who", 10_000, 100))
    found = list(aggregates(duckdb_engine(table), asked).values())
    rows = [row for row in table.to_pylist() if row["who"] is not None]
    for place, city in enumerate(CITIES):
        mine = [row for row in rows if row["city"] == city]
        xs = [min(max(row["x"], -3), 9) for row in mine if row["x"] is not None]
        ys = [min(max(row["y"], -(2**50)), 2**50) for row in mine if row["y"] is not None]
        plain = [
            len(mine), len(xs), len({row["who"] for row in mine}), len(set(xs)), sum(xs), sum(ys)
        ]  # fmt: skip
        exact = [column[place] for column in found[:6]]
        assert exact == [one * whole for one, whole in zip(plain, GRANULES, strict=True)]


def test_rows_beyond_the_bound_weigh_less(duckdb_engine: Open) -> None:
    """Everybody counts as max_rows rows, but for rounding down, or as the rows that are there."""
    table = visits(60, seed=3)
    of_person: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        if row["who"] is not None:
            of_person.setdefault(row["who"], []).append(row)
    asked = plan([declared("city", CITIES)], MEASURES[:5], unit=Entity("who", 4))
    rows, _, people, _, sums = aggregates(duckdb_engine(table), asked).values()
    weights = {
        who: min(FULL_WEIGHT, 4 * FULL_WEIGHT // len(mine)) for who, mine in of_person.items()
    }
    assert any(weight < FULL_WEIGHT for weight in weights.values())
    for place, city in enumerate(CITIES):
        mine = [row for who in of_person for row in of_person[who] if row["city"] == city]
        assert rows[place] == sum(weights[row["who"]] for row in mine)
        clamped = [(weights[row["who"]], row["x"]) for row in mine if row["x"] is not None]
        assert sums[place] == sum(weight * min(max(x, -3), 9) for weight, x in clamped)
    groups = [{row["city"] for row in mine} for mine in of_person.values()]
    assert sum(people) == sum(min(4, len(mine)) for mine in groups)


def test_groups_beyond_the_bound_are_left_out(duckdb_engine: Open) -> None:
    """Everybody keeps max_groups groups, or all, whole ones, and which ones varies with people."""
    who = [f"p{number}" for number in range(300) for _ in range(4)]
    table = pa.table({"who": who, "city": list(CITIES[:4]) * 300, "x": [1] * 1_200})
    asked = plan([declared("city", CITIES)], [MEASURES[0], MEASURES[4]], unit=Entity("who", 3, 2))
    rows, sums = aggregates(duckdb_engine(table), asked).values()
    assert rows == sums
    assert sum(rows) == 600 * FULL_WEIGHT
    # Each city is kept by 150 of 300 people on average, with standard deviation 8.7.
    assert all(abs(count / FULL_WEIGHT - 150) < 50 for count in rows[:4])


def test_kept_groups_are_the_first_by_hash(open_engine: Open) -> None:
    """The definition in Python; with 90 keys in 62 buckets many share one."""
    cities = (*(f"c{number}" for number in range(90)), None)
    draw = np.random.default_rng(4)
    of_person = {f"p{number}": draw.integers(91, size=60).tolist() for number in range(40)}
    rows = [(who, cities[city]) for who, visited in of_person.items() for city in visited]
    table = pa.table({"who": [who for who, _ in rows], "city": [city for _, city in rows]})

    def place(who: str, city: str | None) -> str:
        text = f"salt:{who}:{'?' if city is None else city}"
        return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()

    kept: Counter[str | None] = Counter()
    for who, visited in of_person.items():
        groups = sorted({cities[city] for city in visited}, key=lambda city: place(who, city))
        kept.update(groups[:3])
    asked = plan([declared("city", cities)], [MEASURES[2]], unit=Entity("who", 80, 3))
    (people,) = aggregates(open_engine(table), asked).values()
    assert people == [kept[city] for city in cities]


def test_an_engines_own_hash_favours_no_value(open_engine: Open) -> None:
    """Of the same five values, NULL among them, each comes first for a fifth of 3,000 people.

    Chi-square with 4 degrees of freedom is above 33.4 with probability below 1e-6. Hashes that are
    only added up or joined by XOR exceed that by far, as then the values keep their distances.
    """
    who = [f"p{number}" for number in range(3_000) for _ in CITIES]
    engine = open_engine(pa.table({"who": who, "city": list(CITIES) * 3_000}))
    hashed = engine.traits.hashed("salt", [exp.column("who"), exp.column("city")])
    place = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column("who")],
        order=exp.Order(expressions=[exp.Ordered(this=hashed, nulls_first=False)]),
    )
    least = exp.cast(exp.Min(this=exp.column("hash")), "BIGINT").as_("least")
    placed = exp.select("city", place.as_("place"), hashed.copy().as_("hash")).from_(engine.table)
    firsts = exp.select("city", exp.Count(this=exp.Star()).as_("people"), least)
    firsts = firsts.from_(placed.subquery("placed")).where("place = 1").group_by("city")
    found = engine.run(firsts)
    people = found["people"].to_pylist()
    assert min(found["least"].to_pylist()) >= 0
    assert sum(people) == 3_000
    assert sum((count - 600) ** 2 / 600 for count in people) < 33.4
