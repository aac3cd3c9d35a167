"""Partition searches on Adult: applied in the engine, read back, measured again."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from sfumato.anonymize.criteria import DistinctDiversity, KAnonymity
from sfumato.anonymize.measure import measure_counts
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.partition import Partition
from sfumato.anonymize.problem import Problem
from sfumato.anonymize.search import run
from sfumato.anonymize.search.refine import refine
from sfumato.data.counting.frequencies import Frequencies, count
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.hierarchy import read_tree

ADULT = Path(__file__).parents[4] / "../shared/data/adult"
QUASI = [
    "age", "sex", "race", "marital-status", "education", "native-country", "workclass",
    "occupation",
]  # fmt: skip
SENSITIVE = "salary-class"

pytestmark = pytest.mark.skipif(
    not ADULT.is_dir(), reason="the shared Adult data is not beside the repository"
)


def kind(name: str) -> Kind:
    return Kind.INTEGER if name == "age" else Kind.TEXT


@cache
def columns() -> tuple[Column, ...]:
    found = []
    for name in [*QUASI, SENSITIVE]:
        tree = read_tree(ADULT / f"adult_hierarchy_{name}.csv", kind(name))
        role = Role.SENSITIVE if name == SENSITIVE else Role.QUASI
        found.append(Column(name, kind(name), role, hierarchy=tree))
    return tuple(found)


@cache
def original() -> Frequencies:
    names = [*QUASI, SENSITIVE]
    engine = open_source(ADULT / "adult.csv", kinds={name: kind(name) for name in names})
    try:
        return count(engine, engine.table, names)
    finally:
        engine.close()


def problem(*criteria: KAnonymity | DistinctDiversity, limit: str = "0") -> Problem:
    taxonomies = {
        column.name: column.hierarchy.grow([]) for column in columns() if column.hierarchy
    }
    return Problem.build(original(), taxonomies, QUASI, criteria, suppression_limit=limit)


def released(found: Partition) -> Frequencies:
    names = [*QUASI, SENSITIVE]
    engine = open_source(ADULT / "adult.csv", kinds={name: kind(name) for name in names})
    try:
        with found.recoding([SENSITIVE]).released(engine, engine.table) as query:
            table = engine.run(query)
    finally:
        engine.close()
    again = open_source(table)
    try:
        return count(again, again.table, names)
    finally:
        again.close()


def check(found: Partition) -> None:
    """What is measured of the released table is what was said of it."""
    measures = measure_counts(released(found), columns(), original=original())
    assert measures.k >= found.k
    assert measures.classes == found.classes
    assert measures.cost["suppressed"] == found.suppressed
    for name in ("loss", "loss_geometric", "discernability", "entropy"):
        assert measures.cost[name] == pytest.approx(found.cost[name], rel=1e-9)
    # A label that several levels have is measured at the lowest.
    assert (measures.cost["precision"] or 0) <= found.cost["precision"] + 1e-9


@pytest.mark.parametrize(("k", "most"), [(5, 275_000), (10, 480_000)])
def test_mondrian_tells_more_apart_than_it_must(k: int, most: int) -> None:
    found = run(problem(KAnonymity(k)), "mondrian")
    assert isinstance(found, Partition)
    assert found.cost["discernability"] <= most
    sizes = found.release.sizes
    assert sizes.min() >= k
    assert sizes.max() <= 2 * len(QUASI) * (k - 1) + original().marginal(QUASI).counts.max()
    if k == 5:
        check(found)


def test_relaxed_mondrian_measures_as_it_says() -> None:
    found = run(problem(KAnonymity(5)), "mondrian-relaxed")
    assert isinstance(found, Partition)
    assert found.release.shares.sizes.max() <= 9
    check(found)


def test_mondrian_reaches_diversity() -> None:
    found = run(problem(KAnonymity(5), DistinctDiversity(2, of=SENSITIVE)), "mondrian")
    assert isinstance(found, Partition)
    measures = measure_counts(released(found), columns(), original=original())
    assert measures.k >= 5
    assert measures.sensitive[SENSITIVE]["distinct"] == 2


def test_refinement_gains_and_measures_as_it_says() -> None:
    before = run(problem(KAnonymity(5), limit="0.1"), "optimal")
    assert isinstance(before, Generalization)
    found = refine(before)
    assert found.gain > 0
    assert found.outcome.suppressed < before.suppressed / 2
    check(found.outcome)


def test_k_optimize_is_anytime() -> None:
    found = run(problem(KAnonymity(50), limit="0.1"), "k-optimize", limit_seconds=2)
    assert not found.optimal
    assert found.bound is not None
    assert found.bound <= found.cost["discernability"] < found.rows**2
    assert isinstance(found, Partition)
    assert found.release.sizes.min() >= 50
