"""No person moves the bounded aggregates by more than declared: brute force over small tables.

Each example draws a table with many rows per person, NULLs among persons, keys and values, and a
plan with random unit, keys, levels and aggregates. Each of its cases removes one person, or puts
another person in that place. `--runs N` asks for N cases on DuckDB, a tenth of them on PostgreSQL
and an eightieth on Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sfumato.engines.statement import named, render
from sfumato.mechanisms.threshold_keys import ThresholdKeys
from sfumato.privacy.units import Entity, Relation, Rows
from sfumato.query import aggregate
from sfumato.query.bounding import weigh_rows
from sfumato.query.catalogue import Catalogue, Private, Public
from sfumato.query.exact import Exact, Questions
from sfumato.query.finish import placed
from sfumato.query.plan import Function, Measure, Plan
from sfumato.query.planner import question
from sfumato.query.sensitivity import effect
from sfumato.query.split import Cost, split
from sfumato.query.statistic import Rank
from sfumato.query.tally import all_groups
from sfumato.schema.column import Column, Kind
from sfumato.schema.domain import Bounds, Values
from sfumato.schema.schema import Schema
from sfumato.testing.plans import DATASET, argument, declared, observed, plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot import exp

    from sfumato.engines.base import Engine
    from sfumato.query.levels import Level
    from sfumato.query.split import Split
    from sfumato.query.statistic import Statistic

    Row = tuple[str | None, str | None, int | None, int | None, int | None]
    Reader = Callable[["Case", Split, str, list[Row]], Exact]
    Moves = dict[tuple[Any, ...], int]

CITIES, YEARS = ("A", "B", "C"), (1990, 1991)
NEIGHBOURS = 8
PEOPLE = tuple("pqrstuvw")
COLUMNS = ("who", "city", "year", "x", "y")
PRICE = Cost(epsilon=Fraction(1), delta=Fraction(1, 10))


def as_table(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS)
    kinds = (pa.string(), pa.string(), pa.int64(), pa.int64(), pa.int64())
    return pa.table(
        {
            name: pa.array(list(values), kind)
            for name, values, kind in zip(COLUMNS, columns, kinds, strict=True)
        }
    )


rows = st.tuples(
    st.sampled_from((*"pppppqqqrrst", *PEOPLE, None)),
    st.sampled_from((*CITIES, "elsewhere", None)),
    st.sampled_from((*YEARS, 1800, None)),
    st.one_of(st.none(), st.integers(-9, 9)),
    st.one_of(st.none(), st.integers(0, 2**40)),
)
x = argument("x", -5, 7)
y = argument("y", 2**33, 2**39, step=Fraction(1, 100), kind=Kind.REAL)
MEASURES = (
    Measure("rows", Function.COUNT),
    Measure("some", Function.COUNT, x),
    Measure("people", Function.COUNT_PEOPLE),
    Measure("values", Function.COUNT_DISTINCT, x),
    Measure("sum", Function.SUM, x),
    Measure("wide", Function.SUM, y),
    Measure("mean", Function.AVERAGE, x),
    Measure("far", Function.VARIANCE, y),
    Measure("spread", Function.STDDEV, x),
    Measure("median", Function.QUANTILE, x, Fraction(1, 2)),
    Measure("tenth", Function.QUANTILE, x, Fraction(1, 10)),
)


@dataclass(frozen=True)
class Case:
    """A plan, a table, and tables that differ from it in one person."""

    plan: Plan
    table: list[Row]
    neighbours: list[list[Row]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    relation = draw(st.sampled_from(Relation))
    by_person = draw(st.integers(0, 3)) > 0
    max_rows = draw(st.integers(1, 6))
    max_groups = draw(st.one_of(st.none(), st.integers(1, 4)))
    unit = Entity("who", max_rows, max_groups, relation) if by_person else Rows(relation=relation)
    city = draw(st.sampled_from((declared("city", (*CITIES, None)), observed("city"))))
    year = declared("year", YEARS, kind=Kind.INTEGER)
    keys = draw(st.sampled_from(((), (city,), (city, year))))
    every = tuple(range(len(keys)))
    levels = draw(st.sampled_from(((every,), (every, ()), (every, every[:1], every[1:], ()))))
    measures = draw(st.lists(st.sampled_from(MEASURES), min_size=1, max_size=3, unique=True))
    table = draw(st.lists(rows, max_size=40))
    asked = plan(keys, measures, unit=unit, levels=levels)
    return Case(asked, table, draw(_neighbours(table, unit)))


@st.composite
def _neighbours(draw: st.DrawFn, table: list[Row], unit: Rows | Entity) -> list[list[Row]]:
    """The table without a person; where people are replaced, another takes that place."""
    replaced = unit.relation is Relation.REPLACE_ONE
    if isinstance(unit, Rows):
        places = range(min(len(table), NEIGHBOURS))
        return [
            [*table[:place], *([draw(rows)] if replaced else []), *table[place + 1 :]]
            for place in places
        ]
    found = []
    for person in PEOPLE * (NEIGHBOURS // len(PEOPLE) if replaced else 1):
        new = draw(st.lists(rows, max_size=9)) if replaced else []
        others = [row for row in table if row[0] != person]
        found.append([*others, *(("z", *row[1:]) for row in new)])
    return found


PLACES = pa.table({"name": ["A", "B", "B", "C", None], "region": ["n", "n", "s", "s", "n"]})


def homes(table: list[Row]) -> pa.Table:
    """A second table about the same people: two homes of some, one of the others."""
    people = sorted({row[0] for row in table if row[0] is not None})
    found = [(who, CITIES[(ord(who) + n) % 3]) for who in people for n in range(1 + ord(who) % 2)]
    who, home = zip(*found, strict=True) if found else ((), ())
    return pa.table({"who": pa.array(who, pa.string()), "home": pa.array(home, pa.string())})


def catalogue(unit: Rows | Entity) -> Catalogue:
    def text(name: str, *values: str, nullable: bool = True) -> Column:
        domain = Values(values) if values else None
        return Column(name, Kind.TEXT, domain=domain, nullable=nullable)

    visits = (
        text("who", nullable=not isinstance(unit, Entity)),
        text("city", *CITIES),
        Column("year", Kind.INTEGER, domain=Values(YEARS)),
        Column("x", Kind.INTEGER, domain=Bounds(-5, 7)),
        Column("y", Kind.INTEGER, domain=Bounds(0, 2**39)),
    )
    home = (text("who", nullable=not isinstance(unit, Entity)), text("home", *CITIES))
    places = Schema("places", (text("name"), text("region", "n", "s")))
    return {
        "visits": Private(Schema("visits", visits, unit), unit, "people"),
        "homes": Private(Schema("homes", home, unit), unit, "people"),
        "places": Public(places, {("name",): 2}),
    }


SOURCES = (
    "visits v",
    "(SELECT who, city, year, x + 1 AS x, y FROM visits WHERE x > -2) v",
    "visits v JOIN places p ON v.city = p.name",
    "visits v LEFT JOIN places p ON v.city = p.name",
)
OF_PEOPLE = (
    "visits v JOIN homes h ON v.who = h.who",
    (
        "(SELECT who, city, MIN(year) AS year, LEAST(GREATEST(SUM(x), -9), 9) AS x, MAX(y) AS y "
        "FROM visits GROUP BY who, city) v"
    ),
    "(SELECT DISTINCT who, city, year, x, y FROM visits) v",
)
WHERES = ("", " WHERE v.x > 0", " WHERE v.city IS NOT NULL OR v.y < 1000", " WHERE v.x % 2 = 0")
GROUPS = (
    "",
    " GROUP BY v.city",
    " GROUP BY v.city, v.year",
    " GROUP BY ROLLUP (v.city, v.year)",
    " GROUP BY CUBE (v.city, v.year)",
    " GROUP BY CASE WHEN v.x > 2 THEN 'high' WHEN v.x > 0 THEN 'low' END",
)
AGGREGATES = (
    "COUNT(*)", "COUNT(v.x)", "COUNT(DISTINCT v.x)", "SUM(v.x)", "AVG(v.x * 2 - 1)", "SUM(v.y)",
    "VARIANCE(v.x)", "MEDIAN(v.x)", "MAX(v.x)", "SUM(CASE WHEN v.city = 'A' THEN v.x END)",
    "COUNT(DISTINCT v.who)",
)  # fmt: skip


@st.composite
def spoken(draw: st.DrawFn) -> Case:
    """A question in SQL: subqueries, joins, filters, groups and aggregates of any kind."""
    relation = draw(st.sampled_from(Relation))
    by_person = draw(st.booleans())
    max_rows, max_groups = draw(st.integers(1, 6)), draw(st.one_of(st.none(), st.integers(1, 4)))
    unit = Entity("who", max_rows, max_groups, relation) if by_person else Rows(relation=relation)
    source = draw(st.sampled_from(SOURCES + OF_PEOPLE if by_person else SOURCES))
    aggregates = AGGREGATES if by_person else AGGREGATES[:-1]
    wanted = draw(st.lists(st.sampled_from(aggregates), min_size=1, max_size=3, unique=True))
    words = f"SELECT {', '.join(wanted)} FROM {source}"
    words += draw(st.sampled_from(WHERES)) + draw(st.sampled_from(GROUPS))
    table = draw(st.lists(rows, max_size=40))
    asked = question(words, catalogue(unit)).plan
    return Case(asked, table, draw(_neighbours(table, unit)))


def moves(exact: Exact, chosen: Split) -> dict[tuple[int, Statistic], Moves]:
    """Every exact aggregate, by level and statistic, then by group."""
    found: dict[tuple[int, Statistic], Moves] = {}
    for level in chosen.levels:
        groups = all_groups(level) if level.declared else exact.found(chosen.carrier, level)[0]
        names = [
            exact.axes[position].decode(codes).to_pylist()
            for position, codes in zip(level.positions, groups.codes, strict=True)
        ]
        labels = list(zip(*names, strict=True)) if names else [()] * groups.count
        for one in chosen.at(level):
            if isinstance(one, Rank):
                found[level.number, one] = scores(one, exact.counted(one, groups), labels)
            else:
                values = exact.values(one, groups).tolist()
                found[level.number, one] = dict(zip(labels, values, strict=True))
    return found


def scores(one: Rank, counted: Any, labels: list[tuple[Any, ...]]) -> Moves:
    """The score of every point in every group, in parts of the rank's denominator."""
    size = one.argument.high - one.argument.low + 1
    parts, share = one.quantile.denominator, one.quantile.numerator
    found: Moves = {}
    for place, label in enumerate(labels):
        mine = counted.groups == place
        histogram = np.bincount(counted.points[mine], counted.counts[mine], size).astype(int)
        up_to = np.cumsum(histogram)
        below, total = up_to - histogram, int(histogram.sum())
        short = np.maximum(parts * below - share * total, share * total - parts * up_to)
        for point, score in enumerate(-np.maximum(0, short)):
            found[*label, "point", point] = int(score)
    return found


def check(case: Case, read: Reader, salt: str) -> None:
    """Compare what was declared with what each person moved."""
    chosen = split(case.plan, PRICE)
    one = moves(read(case, chosen, salt, case.table), chosen)
    for neighbour in case.neighbours:
        other = moves(read(case, chosen, salt, neighbour), chosen)
        for slot in chosen.mechanisms:
            _check_slot(case.plan, chosen, slot, one[slot], other[slot])


def _check_slot(asked: Plan, chosen: Split, slot: Any, one: Moves, other: Moves) -> None:
    number, statistic = slot
    level, mechanism = chosen.levels[number], chosen.mechanisms[slot]
    labels = one.keys() | other.keys()
    change = {label: one.get(label, 0) - other.get(label, 0) for label in labels}
    allowed = effect(asked, statistic, grouped=level.grouped).sensitivity
    if isinstance(statistic, Rank):
        _check_scores(change, allowed.l1 / 2 * statistic.quantile.denominator, level)
        return
    assert sum(abs(moved) for moved in change.values()) <= allowed.l1
    assert sum(moved**2 for moved in change.values()) <= allowed.l2_squared
    if isinstance(mechanism, ThresholdKeys):
        people = 1 if asked.unit.relation is Relation.ADD_REMOVE else 2
        changed = [moved for moved in change.values() if moved]
        assert len(changed) <= people * mechanism.max_groups
        assert all(abs(moved) <= mechanism.max_count for moved in changed)


def _check_scores(change: Moves, allowed: Fraction, level: Level) -> None:
    """The choices of all groups lose what the largest moves of their scores add up to."""
    largest: dict[tuple[Any, ...], int] = {}
    for label, moved in change.items():
        group = label[: len(level.keys)]
        largest[group] = max(largest.get(group, 0), abs(moved))
    assert sum(largest.values()) <= allowed


@pytest.fixture
def runs(request: pytest.FixtureRequest) -> int:
    """How many cases to try on DuckDB."""
    return int(request.config.getoption("--runs", 2_000))


def brute_force(
    read: Reader, cases_wanted: int, drawn: st.SearchStrategy[Case] | None = None
) -> None:
    """Draw examples until so many neighbours were compared."""
    compared = 0

    @settings(
        max_examples=max(1, cases_wanted // 2),
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases() if drawn is None else drawn, st.integers(0, 9))
    def holds(case: Case, salt: int) -> None:
        nonlocal compared
        if compared < cases_wanted:
            check(case, read, str(salt))
            compared += len(case.neighbours)

    holds()
    assert compared >= cases_wanted


class InMemory:
    """DuckDB with one table, and the words of each query kept, so that many tables pass quickly."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.register("places", PLACES)
        self._questions: tuple[Case, Questions] | None = None
        self._words: dict[int, str] = {}

    def read(self, case: Case, chosen: Split, salt: str, table: list[Row]) -> Exact:
        if self._questions is None or self._questions[0] is not case:
            asked = Questions(case.plan, chosen.levels, chosen.mechanisms, case.plan.source, salt)
            self._questions = (case, asked)
            self._words = {
                id(one.query): render(one.query, "duckdb") for one in asked.asked.values()
            }
        for name, rows_of in (("visits", as_table(table)), ("homes", homes(table))):
            self._connection.register(name, rows_of)
        return Exact(self._questions[1], self)  # type: ignore[arg-type]  # it reads only

    def run(self, query: exp.Query) -> pa.Table:
        return self._connection.sql(self._words[id(query)]).to_arrow_table()


def lending(engine: Engine) -> Reader:
    """Read through an engine of ours."""

    def read(case: Case, chosen: Split, salt: str, table: list[Row]) -> Exact:
        with engine.lend(as_table(table)) as lent:
            source = placed(case.plan.source, {DATASET: lent})
            return Exact(
                Questions(case.plan, chosen.levels, chosen.mechanisms, source, salt), engine
            )

    return read


def test_on_duckdb(runs: int) -> None:
    brute_force(InMemory().read, runs // 2)


def test_questions_in_sql_on_duckdb(runs: int) -> None:
    brute_force(InMemory().read, runs // 2, spoken())


def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of busy people at full weight: some person moves more than declared."""

    def unbounded(rows: exp.Query, unit: Entity) -> exp.Query:
        return weigh_rows(rows, replace(unit, max_rows=1_000))

    monkeypatch.setattr(aggregate, "weigh_rows", unbounded)
    with pytest.raises(AssertionError):
        brute_force(InMemory().read, 100)


def test_on_postgres(postgres_url: str, runs: int) -> None:
    from sfumato.engines.postgres import Postgres

    engine = Postgres(postgres_url, named("none"))
    try:
        brute_force(lending(engine), runs // 10)
    finally:
        engine.close()


def test_on_spark(spark_session: Any, runs: int) -> None:
    from sfumato.engines.spark import Spark

    brute_force(lending(Spark(spark_session, named("none"))), runs // 80)
