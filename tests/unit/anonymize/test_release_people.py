"""Where the schema names a person, people are counted, however many rows they have."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymize.measure import measure
from sfumato.anonymize.pipeline import anonymize
from sfumato.anonymize.problem import pose
from sfumato.anonymize.search import run
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Tree, Widths
from sfumato.data.schema.schema import Schema
from sfumato.errors import CriterionError, ParameterError, SourceError
from sfumato.release.open_table import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.release.open_table import Table

    Open = Callable[[list[tuple[str, int, str]]], Table]

ILLS = ("flu", "gout", "cold")
COLUMNS = (
    Column("patient", Kind.TEXT, Role.IDENTIFIER, nullable=False),
    Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 7), Widths((2, 4))),
    Column("ill", Kind.TEXT, Role.SENSITIVE, Values(ILLS)),
)
UNIT = sf.Entity("patient", max_rows=9)
SCHEMA = Schema("visits", COLUMNS, UNIT)
ONE_PATIENT = [*(("ann", 3, ill) for ill in ("flu", "flu", "gout", "cold", "flu"))]


def visits(rows: list[tuple[str, int, str]]) -> pa.Table:
    names = [column.name for column in COLUMNS]
    return pa.table(
        {name: list(one) for name, one in zip(names, zip(*rows, strict=True), strict=True)}
    )


@pytest.fixture
def opened() -> Iterator[Open]:
    tables = []

    def open_rows(rows: list[tuple[str, int, str]]) -> Table:
        tables.append(read(visits(rows), SCHEMA))
        return tables[-1]

    yield open_rows
    for table in tables:
        table.close()


@pytest.mark.parametrize("algorithm", ["optimal", "datafly", "mondrian", "k-optimize"])
def test_five_visits_of_one_patient_are_no_crowd(opened: Open, algorithm: str) -> None:
    rows = [*ONE_PATIENT, ("bob", 6, "flu"), ("cyd", 7, "gout")]
    release = opened(rows).anonymize(sf.KAnonymity(3), algorithm=algorithm)
    assert set(release.table["age"].to_pylist()) <= {"*", "0-7", "[3, 7]"}
    assert release.guarantee.statement == (
        "Every class of released rows satisfies 3-anonymity, counting people (patient)."
    )
    assert release.guarantee.parameters["counted"] == "people"


def test_more_people_asked_for_than_there_are(opened: Open) -> None:
    with pytest.raises(CriterionError) as refusal:
        opened(ONE_PATIENT).anonymize(sf.KAnonymity(2), suppress="0.9")
    assert refusal.value.code == "criterion_not_reachable"
    assert "only 1 people" in refusal.value.message


def test_the_limit_is_a_share_of_people_who_lose_a_row(opened: Open) -> None:
    """Ann alone is 1 of 11 people and 5 of 15 rows; she may lose hers, but no two people."""
    rows = [*ONE_PATIENT, *((f"p{number}", 6, "flu") for number in range(10))]
    decided = anonymize(opened(rows), [sf.KAnonymity(3)], suppress="0.1")
    figures = decided.figures
    assert (figures["people"], figures["suppressed_people"]) == (11, 1)
    assert (figures["rows"], figures["suppressed"], figures["released"]) == (15, 5, 10)
    assert decided.release().table.num_rows == 10
    strict = anonymize(opened(rows), [sf.KAnonymity(3)], suppress="0.09").figures
    assert (strict["suppressed_people"], strict["suppressed"]) == (0, 0)


def test_each_person_counts_once_for_each_value(opened: Open) -> None:
    """Six flus of ann and one gout of bob are one person each; a row each would fail folk 2."""
    rows = [*(("ann", 3, "flu") for _ in range(6)), ("bob", 3, "gout")]
    release = opened(rows).anonymize(sf.FolkDiversity(2, "ill"), sf.TCloseness(0, "ill"))
    assert set(release.table["age"].to_pylist()) == {"3"}
    assert release.holder is not None
    assert release.holder["reference"] == {"ill": [["flu", 1], ["gout", 1]]}
    counted = "counting people (patient), each once for each value."
    assert counted in release.guarantee.statement


def test_a_value_that_everybody_has_is_not_hidden_by_a_second_one(opened: Open) -> None:
    """Both have flu and gout: of pairs each value is half, of people it is all."""
    rows = [(name, 3, ill) for name in ("ann", "bob") for ill in ("flu", "gout")]
    with pytest.raises(CriterionError):
        opened(rows).anonymize(sf.FolkDiversity(2, "ill"))


@pytest.mark.parametrize(
    ("algorithm", "criteria"),
    [
        ("meyerson-williams", [sf.KAnonymity(2)]),
        ("aggarwal-suppress", [sf.KAnonymity(2)]),
        ("aggarwal-generalize", [sf.KAnonymity(2)]),
        ("mondrian-relaxed", [sf.EntropyDiversity(2, "ill")]),
        ("permute", [sf.KAnonymity(2)]),
        ("anatomy", [sf.FolkDiversity(2, "ill")]),
    ],
)
def test_what_deals_rows_out_promises_nothing_of_people(
    opened: Open, algorithm: str, criteria: list[Any]
) -> None:
    rows = [("ann", 1, "flu"), ("bob", 2, "gout"), ("cyd", 3, "flu"), ("ann", 3, "gout")]
    with pytest.raises(ParameterError) as refusal:
        opened(rows).anonymize(*criteria, algorithm=algorithm)
    assert refusal.value.code == "criterion_not_supported"
    assert "'patient'" in refusal.value.message


def test_refining_promises_nothing_of_people(opened: Open) -> None:
    rows = [("ann", 1, "flu"), ("bob", 2, "gout"), ("cyd", 7, "flu")]
    with pytest.raises(ParameterError) as refusal:
        opened(rows).anonymize(sf.KAnonymity(2), suppress="0.5", refine=True)
    assert refusal.value.code == "criterion_not_supported"


def test_rows_of_nobody_are_refused(opened: Open) -> None:
    rows: list[Any] = [("ann", 1, "flu"), (None, 2, "gout"), (None, 2, "flu")]
    with pytest.raises(SourceError) as refusal:
        opened(rows).anonymize(sf.KAnonymity(1))
    assert refusal.value.code == "cell_malformed"
    assert "2 rows" in refusal.value.message


def test_relaxed_mondrian_keeps_the_rows_of_a_combination_together(opened: Open) -> None:
    rows = [(f"p{number // 4}", number % 4 // 2, "flu") for number in range(16)]
    decided = anonymize(opened(rows), [sf.KAnonymity(4)], algorithm="mondrian-relaxed")
    assert decided.figures["classes"] == 2
    assert set(decided.release().table["age"].to_pylist()) == {"0", "1"}


def test_measuring_counts_people_where_the_file_names_them() -> None:
    rows = [*ONE_PATIENT, ("bob", 3, "flu"), ("bob", 3, "flu")]
    found = measure(visits(rows), SCHEMA)
    assert (found.counted, found.k, found.rows) == ("people", 2, 7)
    assert found.sensitive["ill"]["folk"] == 1.0  # both have flu
    assert found.sensitive["ill"]["t_equal"] == 0
    without = measure(visits(rows).drop_columns(["patient"]), SCHEMA)
    assert (without.counted, without.k, without.person) == ("rows", 7, "patient")
    by_rows = measure(visits(rows), Schema("visits", COLUMNS))
    assert (by_rows.counted, by_rows.k, by_rows.person) == ("rows", 7, None)


def test_inspecting_counts_people(opened: Open) -> None:
    """Ann is alone at 3 and not at 5; five more are together: of 6 people one is unique."""
    rows = [*ONE_PATIENT, ("ann", 5, "flu"), *((f"p{number}", 5, "flu") for number in range(5))]
    found = opened(rows).inspect()
    assert (found.counted, found.rows) == ("people", 11)
    assert (found.full.rows, found.full.unique_rows, found.full.small_rows) == (6, 1, 1)
    prosecutor = found.reidentification.prosecutor
    assert (prosecutor.highest, prosecutor.at_risk) == (1, 1 / 6)
    assert prosecutor.average == pytest.approx((1 + 5 / 6) / 6)
    rowwise = replace(opened(rows), schema=Schema("visits", COLUMNS)).inspect()
    assert (rowwise.counted, rowwise.full.unique_rows) == ("rows", 0)


JOBS = Tree(("a", "b", "c", "d"), (("x", "*"), ("x", "*"), ("y", "*"), ("y", "*")))
TWO = Schema(
    "visits",
    (
        COLUMNS[0],
        replace(COLUMNS[1], domain=Bounds(0, 3), hierarchy=Widths((2,))),
        Column("job", Kind.TEXT, Role.QUASI, hierarchy=JOBS),
    ),
    UNIT,
)


@pytest.mark.parametrize("cost", ["discernability", "average-class-size", "c-avg", "suppressed"])
@pytest.mark.parametrize("limit", ["0", "0.3"])
def test_the_best_node_of_people_by_brute_force(cost: str, limit: str) -> None:
    """Every node counted row by row: the least cost of those that k people and the limit admit."""
    for seed in range(12):
        draw = np.random.default_rng(seed)
        size = int(draw.integers(4, 24))
        rows = [
            (f"p{draw.integers(9)}", int(draw.integers(4)), "abcd"[draw.integers(4)])
            for _ in range(size)
        ]
        names = ["patient", "age", "job"]
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        table = read(pa.table(columns), TWO)
        least = _least(rows, cost, limit)
        if least is None:
            with pytest.raises(CriterionError):
                table.anonymize(sf.KAnonymity(3), cost=cost, suppress=limit)
        else:
            problem, _ = pose(table, [sf.KAnonymity(3)], suppress=limit)
            for algorithm in ("optimal", "incognito"):
                found = run(problem, algorithm, cost=cost)
                assert found.cost[cost.replace("-", "_")] >= least - 1e-12
                if algorithm == "optimal":
                    assert found.cost[cost.replace("-", "_")] == pytest.approx(least)
        table.close()


def _least(rows: list[tuple[str, int, str]], cost: str, limit: str) -> float | None:
    ages: list[Callable[[int], object]] = [lambda age: age, lambda age: age // 2, lambda _: "*"]
    jobs: list[Callable[[str], str]] = [
        lambda job: job,
        lambda job: "x" if job in "ab" else "y",
        lambda _: "*",
    ]
    people = len({name for name, _, _ in rows})
    found = []
    for by_age, by_job in product(ages, jobs):
        classes: dict[Any, list[str]] = {}
        for name, age, job in rows:
            classes.setdefault((by_age(age), by_job(job)), []).append(name)
        fails = [names for names in classes.values() if len(set(names)) < 3]
        kept = [len(names) for names in classes.values() if len(set(names)) >= 3]
        gone = sum(map(len, fails))
        if len({name for names in fails for name in names}) > float(limit) * people or not kept:
            continue
        found.append(
            {
                "discernability": sum(n * n for n in kept) + gone * len(rows),
                "average-class-size": len(rows) / (len(kept) + (gone > 0)) / 3,
                "c-avg": (len(rows) - gone) / len(kept) / 3,
                "suppressed": gone,
            }[cost]
        )
    return min(found, default=None)
