"""What a question becomes: keys, levels, measures, arguments, units; and what it never looks at."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

from sfumato.data.counting.axes import Grid, Listed
from sfumato.data.counting.contribution import PERSON
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity, Rows
from sfumato.errors import QueryError
from sfumato.methods.query.plan import NOISY, Function, canonical
from sfumato.methods.query.plan.planner import plan_question
from sfumato.methods.query.sql.tables import PrivateRows

if TYPE_CHECKING:
    from sfumato.methods.query.plan import Argument, Plan
    from sfumato.methods.query.sql.tables import Catalogue


def plan(sql: str, catalogue: Catalogue) -> Plan:
    return plan_question(sql, catalogue).plan


def argument(sql: str, catalogue: Catalogue) -> Argument:
    found = plan(f"SELECT {sql} FROM people", catalogue).measures[0].argument
    assert found is not None
    return found


def axis(key: str, catalogue: Catalogue) -> list[object] | Bounds | None:
    (found,) = plan(f"SELECT COUNT(*) FROM people GROUP BY {key}", catalogue).keys
    if isinstance(found.axis, Listed):
        values: list[object] = found.axis.values.to_pylist()
        return values
    return found.axis.bounds if isinstance(found.axis, Grid) else None


def test_a_simple_question(catalogue: Catalogue) -> None:
    found = plan("SELECT city, COUNT(*) AS n FROM people WHERE age > 30 GROUP BY city", catalogue)
    assert found.datasets == ("people",)
    assert found.public == ()
    assert found.unit == Entity("id", 10, 3)
    assert found.multiplicity == 1
    assert found.columns == ("city", "n")
    assert found.levels == ((0,),)
    assert [(key.name, key.kind) for key in found.keys] == [("city", Kind.TEXT)]
    assert [(one.name, one.function, one.argument) for one in found.measures] == [
        ("n", Function.COUNT, None)
    ]
    assert found.source.named_selects == [PERSON, found.keys[0].column]
    assert {table.name for table in found.finish.find_all(exp.Table)} == {NOISY}


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("city", ["A", "B", "C", None]),
        ("UPPER(city)", ["A", "B", "C", None]),
        ("smoker", [False, True]),
        ("age > 30", [False, True, None]),
        ("CASE WHEN age < 18 THEN 'young' ELSE 'old' END", ["young", "old"]),
        ("CASE WHEN age < 18 THEN 1 WHEN age < 65 THEN 2 END", [1, 2, None]),
        ("COALESCE(city, '?')", ["A", "B", "C", "?"]),
        ("age", Bounds(0, 110)),
        ("FLOOR(age / 10) * 10", Bounds(0, 110, 10)),
        ("age DIV 20", Bounds(0, 5, 1)),
        ("YEAR(born)", Bounds(1990, 2020, 1)),
        ("WIDTH_BUCKET(spend, 0, 100, 4)", Bounds(0, 5, 1)),
        ("born", Bounds(date(1990, 1, 1), date(2020, 12, 31))),
        ("grade", Bounds(0, 9)),
        ("name", None),
        ("city || name", None),
        ("id", None),
        ("wide", None),
    ],
)
def test_keys_are_declared_where_they_follow_from_declarations(
    key: str, wanted: object, catalogue: Catalogue
) -> None:
    assert axis(key, catalogue) == wanted


def test_beginnings_of_months_are_listed(catalogue: Catalogue) -> None:
    found = axis("DATE_TRUNC('month', born)", catalogue)
    assert isinstance(found, list)
    assert found[:2] + found[-2:] == [
        date(1990, 1, 1), date(1990, 2, 1), date(2020, 12, 1), None,
    ]  # fmt: skip
    assert len(found) == 31 * 12 + 1


@pytest.mark.parametrize(
    ("sql", "low", "high", "step"),
    [
        ("SUM(age)", 0, 110, 1),
        ("SUM(age - 100)", -100, 10, 1),
        ("SUM(2 * age + 1)", 1, 221, 1),
        ("SUM(CASE WHEN smoker THEN age ELSE 0 END)", 0, 110, 1),
        ("SUM(ABS(age - 50))", 0, 60, 1),
        ("SUM(age % 7)", 0, 6, 1),
        ("SUM(smoker)", 0, 1, 1),
        ("SUM(LEAST(GREATEST(wide, -3), 5))", -3, 5, 1),
        ("AVG(YEAR(born))", 1990, 2020, 1),
        ("MAX(born - DATE '2000-01-01')", -3652, 7670, 1),
        ("AVG(grade)", 1, 10, Fraction(1, 2)),
        ("MIN(born)", 7305, 18627, 1),
        ("COUNT(name)", 1, 1, 1),
        ("SUM(LENGTH(city))", 0, 1, 1),
    ],
)
def test_bounds_follow_from_declared_ones(
    sql: str, low: int, high: int, step: Fraction, catalogue: Catalogue
) -> None:
    found = argument(sql, catalogue)
    assert (found.low, found.high, found.step) == (low, high, step)


def test_a_continuum_is_cut_into_a_public_power_of_two(catalogue: Catalogue) -> None:
    found = argument("SUM(spend)", catalogue)
    assert found.step.numerator == 1
    assert found.step.denominator.bit_count() == 1
    assert 2**29 < found.high - found.low <= 2**30
    assert found.high * found.step == Fraction(201, 2)
    assert argument("VARIANCE(spend)", catalogue).high <= 2**16
    assert argument("MEDIAN(spend)", catalogue).high <= 2**14


def test_f7_bounds_belong_to_a_version_of_a_column(catalogue: Catalogue) -> None:
    """A name that is redefined takes its new bounds, and groups by its new values."""
    sql = "FROM (SELECT id, age * 100 AS age, 'same' AS city FROM people) t GROUP BY city"
    found = plan(f"SELECT city, SUM(age) {sql}", catalogue)
    (measure,) = found.measures
    assert measure.argument is not None
    assert (measure.argument.low, measure.argument.high) == (0, 11_000)
    (key,) = found.keys
    assert isinstance(key.axis, Listed)
    assert key.axis.values.to_pylist() == ["same"]
    assert found.unit == Entity("id", 10, 3)


def test_f7_what_one_person_adds_is_bounded_after_every_rewriting(catalogue: Catalogue) -> None:
    """The source still holds all rows of a person: nothing was truncated before the aggregate."""
    sql = "SELECT city, COUNT(*) FROM (SELECT id, 'x' AS city FROM people) t GROUP BY city"
    assert PERSON in plan(sql, catalogue).source.named_selects


@pytest.mark.parametrize(
    ("join", "rows"),
    [
        ("JOIN places USING (city)", 1),
        ("JOIN pairs USING (city)", 2),
        ("JOIN pairs b ON b.city = solo.city AND b.region = 'N'", 2),
        ("JOIN pairs a ON a.city = solo.city JOIN pairs b ON b.city = solo.city", 4),
        ("LEFT JOIN pairs b ON solo.city = b.city AND solo.name = b.region", 1),
        ("JOIN (SELECT DISTINCT city FROM heaps) h ON h.city = solo.city", 1),
        ("JOIN (SELECT city, MAX(size) m FROM heaps GROUP BY city) h ON h.city = solo.city", 1),
    ],
)
def test_f18_public_joins_multiply_rows_as_declared(
    join: str, rows: int, catalogue: Catalogue
) -> None:
    assert plan(f"SELECT COUNT(*) FROM solo {join}", catalogue).multiplicity == rows


def test_f18_a_private_table_may_stand_second(catalogue: Catalogue) -> None:
    assert plan("SELECT COUNT(*) FROM pairs JOIN solo USING (city)", catalogue).multiplicity == 2


def test_f18_private_joins_charge_both_and_take_the_wider_bound(catalogue: Catalogue) -> None:
    found = plan("SELECT COUNT(*) FROM people p JOIN visits v ON v.patient = p.id", catalogue)
    assert found.datasets == ("people", "visits")
    assert found.unit == Entity("id", 10, 5)
    assert found.multiplicity == 1


def test_a_semi_join_adds_no_rows(catalogue: Catalogue) -> None:
    sql = "SELECT COUNT(*) FROM visits WHERE patient IN (SELECT id FROM people WHERE age > 60)"
    found = plan(sql, catalogue)
    assert found.datasets == ("people", "visits")
    assert found.unit == Entity("patient", 5)


def test_f9_every_missing_declaration_is_refused(catalogue: Catalogue) -> None:
    entry = catalogue["people"]
    assert isinstance(entry, PrivateRows)
    for name in ("age", "spend", "grade"):
        bare = tuple(
            replace(column, domain=None) if column.name == name else column
            for column in entry.schema.columns
        )
        world = {"people": replace(entry, schema=Schema("people", bare, entry.unit))}
        for function in ("SUM", "AVG", "VARIANCE", "STDDEV", "MEDIAN", "MIN", "MAX"):
            with pytest.raises(QueryError) as refusal:
                plan_question(f"SELECT {function}({name}) FROM people", world)
            assert refusal.value.code == "bounds_missing"


def test_f14_planning_has_no_way_to_data(catalogue: Catalogue) -> None:
    """A plan is a function of words and declarations: it is the same each time."""
    sql = "SELECT city, AVG(spend) FROM people p JOIN places c USING (city) GROUP BY city"
    first = canonical(plan(sql, catalogue))
    assert canonical(plan(sql, dict(catalogue))) == first
    assert canonical(plan(sql.lower(), catalogue)) == first
    assert canonical(plan(sql.replace("AVG", "SUM"), catalogue)) != first


@pytest.mark.parametrize(
    ("group", "levels"),
    [
        ("city, smoker", ((0, 1),)),
        ("ROLLUP(city, smoker)", ((0, 1), (0,), ())),
        ("CUBE(city, smoker)", ((0, 1), (1,), (0,), ())),
        ("GROUPING SETS ((city, smoker), (smoker), ())", ((0, 1), (1,), ())),
        ("city, ROLLUP(smoker)", ((0, 1), (0,))),
        ("city, city", ((0,),)),
    ],
)
def test_levels(group: str, levels: object, catalogue: Catalogue) -> None:
    found = plan(f"SELECT COUNT(*) FROM people GROUP BY {group}", catalogue)
    assert found.levels == levels


def test_equal_aggregates_are_measured_once(catalogue: Catalogue) -> None:
    sql = "SELECT SUM(age) / COUNT(*) AS m, COUNT(*) AS n, SUM(age) FROM people HAVING COUNT(*) > 5"
    found = plan(sql, catalogue)
    assert [one.function for one in found.measures] == [Function.SUM, Function.COUNT]
    assert found.columns == ("m", "n", "sum")


def test_min_and_max_say_that_they_are_quantiles(catalogue: Catalogue) -> None:
    measures = plan("SELECT MIN(age), MAX(age), QUANTILE(age, 0.9) FROM people", catalogue).measures
    assert [one.quantile for one in measures] == [0, 1, Fraction(9, 10)]
    assert [one.note is None for one in measures] == [False, False, True]


def test_people_are_counted_by_their_unit(catalogue: Catalogue) -> None:
    sql = "SELECT COUNT(DISTINCT id), COUNT(DISTINCT name), COUNT(DISTINCT age) FROM people"
    functions = [one.function for one in plan(sql, catalogue).measures]
    assert functions == [Function.COUNT_PEOPLE, *[Function.COUNT_DISTINCT] * 2]


def test_bigquery_clause(catalogue: Catalogue) -> None:
    found = plan_question(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5, delta = 1e-6, "
        "max_groups_contributed = 2, privacy_unit_column = id) city, COUNT(*) FROM people "
        "GROUP BY city",
        catalogue,
    )
    assert (found.epsilon, found.delta) == (Fraction(1, 2), Fraction(1, 10**6))
    assert found.plan.unit == Entity("id", 10, 2)


def test_rows_of_their_own_have_no_person(catalogue: Catalogue) -> None:
    found = plan("SELECT city, SUM(age) FROM solo GROUP BY city", catalogue)
    assert found.unit == Rows()
    assert PERSON not in found.source.named_selects
