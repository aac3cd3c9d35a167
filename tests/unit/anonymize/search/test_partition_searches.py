"""Partition searches: what they release, and what they refuse."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from sfumato.anonymize.criteria import DistinctDiversity, KAnonymity, KMap
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.partition import Intervals, Partition
from sfumato.anonymize.problem import Problem
from sfumato.anonymize.search import aggarwal, k_optimize, run
from sfumato.anonymize.search.refine import refine
from sfumato.anonymize.taxonomy import grow
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.hierarchy import Tree
from sfumato.errors import CriterionError, ParameterError
from sfumato.release.recoding import ByColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.anonymize.criteria import Criterion
    from sfumato.data.counting.frequencies import Frequencies

    Counted = Callable[[Sequence[str], Sequence[Sequence[object]]], Frequencies]

AGE = Column("age", Kind.INTEGER, Role.QUASI)
TREE = Tree(tuple("abcd"), (("x", "*"), ("x", "*"), ("y", "*"), ("y", "*")))
KIND = Column("kind", Kind.TEXT, Role.QUASI, hierarchy=TREE)
COLOUR = Column("colour", Kind.TEXT, Role.QUASI)
ALL = ("mondrian", "mondrian-relaxed", "k-optimize", "meyerson-williams")
APPROXIMATE = ("meyerson-williams", "aggarwal-suppress", "aggarwal-generalize")


def problem(
    counted: Counted,
    columns: Sequence[Column],
    rows: Sequence[Sequence[object]],
    *criteria: Criterion,
    population: Sequence[Sequence[object]] | None = None,
) -> Problem:
    names = [column.name for column in columns]
    sensitive = ["ill"] if len(rows[0]) > len(columns) else []
    values = [{row[place] for row in [*rows, *(population or [])]} for place in range(len(names))]
    return Problem.build(
        counted([*names, *sensitive], rows),
        {c.name: grow(c, found) for c, found in zip(columns, values, strict=True)},  # type: ignore[arg-type]
        names,
        criteria,
        population=None if population is None else counted(names, population),
    )


def labels(found: Partition) -> Counter[tuple[str | None, ...]]:
    """The released combinations with their rows, as the engine would be told."""
    table = found.recoding().shares  # type: ignore[union-attr]
    names = [column.name for column in found.release.problem.quasi]
    parts = [table[name].to_pylist() for name in names]
    counts: Counter[tuple[str | None, ...]] = Counter()
    for combination, rows in zip(zip(*parts, strict=True), table["rows"].to_pylist(), strict=True):
        counts[combination] += rows
    return counts


def test_numbers_are_released_as_ranges_and_a_single_value_as_itself(counted: Counted) -> None:
    rows = [(20,), (21,), (25,), (30,), (30,)]
    found = run(problem(counted, [AGE], rows, KAnonymity(2)), "mondrian")
    assert isinstance(found, Partition)
    assert labels(found) == {("[20, 21]",): 2, ("[25, 30]",): 3}
    loose = run(problem(counted, [AGE], [*rows, (30,), (30,)], KAnonymity(2)), "mondrian")
    assert isinstance(loose, Partition)
    assert labels(loose)[("30",)] == 4


def test_categories_are_released_as_ancestors_or_as_sets(counted: Counted) -> None:
    rows = [(v,) for v in "aabbccdd"]
    tree = run(problem(counted, [KIND], rows, KAnonymity(4)), "mondrian")
    assert isinstance(tree, Partition)
    assert labels(tree) == {("x",): 4, ("y",): 4}
    flat = run(problem(counted, [COLOUR], rows, KAnonymity(4)), "mondrian")
    assert isinstance(flat, Partition)
    assert labels(flat) == {("{a, b}",): 4, ("{c, d}",): 4}


def test_classes_that_a_cut_told_apart_stay_apart(counted: Counted) -> None:
    """Both sides have the root as ancestor: sets of values are released instead."""
    tree = Tree(tuple("abcdef"), tuple((parent, "*") for parent in "xxyyzz"))
    column = Column("kind", Kind.TEXT, Role.QUASI, hierarchy=tree)
    rows = [(v,) for v in "aabbccddeeff"]
    found = run(problem(counted, [column], rows, KAnonymity(6)), "mondrian")
    assert isinstance(found, Partition)
    assert labels(found) == {("{a, b, c}",): 6, ("{d, e, f}",): 6}
    assert found.classes == 2
    assert found.cost["loss"] == pytest.approx(2 / 5)


def test_a_missing_value_beside_others_is_released_as_the_root(counted: Counted) -> None:
    rows = [(20,), (21,), (None,), (None,), (None,)]
    found = run(problem(counted, [AGE], rows, KAnonymity(2)), "mondrian")
    assert isinstance(found, Partition)
    assert labels(found) == {("[20, 21]",): 2, (None,): 3}
    whole = run(problem(counted, [AGE], rows, KAnonymity(3)), "mondrian")
    assert isinstance(whole, Partition)
    assert labels(whole) == {("*",): 5}


def test_relaxed_shares_the_copies_of_a_value(counted: Counted) -> None:
    rows = [(1,), (5,), (5,), (5,), (5,), (9,)]
    strict = run(problem(counted, [AGE], rows, KAnonymity(3)), "mondrian")
    assert strict.classes == 1
    relaxed = run(problem(counted, [AGE], rows, KAnonymity(3)), "mondrian-relaxed")
    assert isinstance(relaxed, Partition)
    assert labels(relaxed) == {("[1, 5]",): 3, ("[5, 9]",): 3}


def test_k_optimize_releases_value_maps_and_says_when_it_was_cut_short(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(age, kind) for age in (1, 2, 3, 8, 9) for kind in "aabd"]
    asked = problem(counted, [AGE, KIND], rows, KAnonymity(4))
    found = run(asked, "k-optimize")
    assert isinstance(found, Intervals)
    assert isinstance(found.recoding(), ByColumn)
    assert found.optimal
    monkeypatch.setattr(k_optimize, "_MOST_GROUPINGS", 5)
    short = run(asked, "k-optimize")
    assert not short.optimal
    assert short.bound is not None
    assert short.bound <= found.cost["discernability"] <= short.cost["discernability"]


def test_k_optimize_names_intervals_by_ancestor_where_that_says_no_more(counted: Counted) -> None:
    rows = [(v,) for v in "abcd" for _ in range(2)]
    found = run(problem(counted, [KIND], rows, KAnonymity(4)), "k-optimize")
    recoding = found.recoding()
    assert isinstance(recoding, ByColumn)
    assert recoding.maps[0].labels.to_pylist() == ["x", "x", "y", "y"]
    uneven = run(problem(counted, [KIND], [*rows, ("a",)] * 2, KAnonymity(5)), "k-optimize")
    shown = uneven.recoding()
    assert isinstance(shown, ByColumn)
    assert set(shown.maps[0].labels.to_pylist()) <= {"a", "x", "y", "{b, c}", "d", "{b, c, d}"}


@pytest.mark.parametrize("name", APPROXIMATE)
def test_equal_rows_cost_nothing(counted: Counted, name: str) -> None:
    rows = [(1, "a")] * 3 + [(2, "b")] * 4
    found = run(problem(counted, [AGE, KIND], rows, KAnonymity(3)), name)
    assert isinstance(found, Partition)
    assert found.starred == 0
    assert found.cost["loss"] == 0
    assert labels(found) == {("1", "a"): 3, ("2", "b"): 4}


def test_large_tables_are_grouped_in_blocks_without_a_factor(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(age, "abcd"[age % 4]) for age in range(60)]
    asked = problem(counted, [AGE, KIND], rows, KAnonymity(3))
    whole = run(asked, "aggarwal-suppress")
    assert whole.factor == 6
    monkeypatch.setattr(aggarwal, "MOST_ROWS", 50)
    monkeypatch.setattr(aggarwal, "BLOCK_ROWS", 20)
    found = run(asked, "aggarwal-suppress")
    assert isinstance(found, Partition)
    assert found.factor is None
    assert found.release.sizes.min() >= 3
    assert found.released == 60


@pytest.mark.parametrize("name", [*ALL, "aggarwal-suppress", "aggarwal-generalize"])
def test_too_few_rows_are_refused(counted: Counted, name: str) -> None:
    with pytest.raises(CriterionError) as error:
        run(problem(counted, [AGE], [(1,), (2,)], KAnonymity(3)), name)
    assert error.value.code == "criterion_not_reachable"


@pytest.mark.parametrize("name", ["mondrian", "mondrian-relaxed", "k-optimize"])
def test_criteria_of_a_population_are_refused(counted: Counted, name: str) -> None:
    rows = [(1,), (2,)]
    asked = problem(counted, [AGE], rows, KMap(2), population=rows * 3)
    with pytest.raises(ParameterError) as error:
        run(asked, name)
    assert error.value.code == "criterion_not_supported"


def test_a_population_that_no_criterion_asks_for_changes_nothing(counted: Counted) -> None:
    rows = [(20,), (21,), (25,), (30,)]
    asked = problem(counted, [AGE], rows, KAnonymity(2), population=[(1,), (22,), *rows])
    found = run(asked, "mondrian")
    assert isinstance(found, Partition)
    assert labels(found) == {("[20, 21]",): 2, ("[25, 30]",): 2}


@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximations_are_for_k_anonymity_alone(counted: Counted, name: str) -> None:
    rows = [(1, "flu"), (2, "cold"), (3, "flu")]
    asked = problem(counted, [AGE], rows, KAnonymity(2), DistinctDiversity(2, of="ill"))
    with pytest.raises(ParameterError) as error:
        run(asked, name)
    assert error.value.code == "criterion_not_supported"


def test_what_cannot_be_done_names_what_can(counted: Counted) -> None:
    asked = problem(counted, [AGE], [(age,) for age in range(60)], KAnonymity(5))
    with pytest.raises(ParameterError, match="aggarwal-suppress") as error:
        run(asked, "meyerson-williams")
    assert error.value.code == "problem_too_large"
    with pytest.raises(ParameterError, match="optimal") as error:
        run(asked, "k-optimize", cost="loss")
    assert error.value.code == "option_not_applicable"


@pytest.mark.parametrize("name", [*ALL[:2], *APPROXIMATE])
def test_time_runs_out(counted: Counted, name: str) -> None:
    asked = problem(counted, [AGE], [(age,) for age in range(4) for _ in range(2)], KAnonymity(2))
    found = run(asked, name, limit_seconds=-1)
    assert (found.ended, found.classes, found.factor, found.optimal) == ("time", 1, None, False)
    assert run(asked, name).classes > 1


def test_refinement_takes_up_what_was_suppressed(counted: Counted) -> None:
    """a, b and c are alone: at level 1 the two of x are a class, and c stays alone."""
    rows = [(v,) for v in "abc" + "d" * 30]
    names = ["kind"]
    asked = Problem.build(
        counted(names, rows),
        {"kind": grow(KIND, [])},
        names,
        [KAnonymity(2)],
        suppression_limit="0.4",
    )
    before = run(asked, "optimal", cost="loss")
    assert isinstance(before, Generalization)
    assert (before.levels, before.suppressed) == ({"kind": 0}, 3)
    found = refine(before, cost="loss")
    assert labels(found.outcome) == {("d",): 30, ("x",): 2}
    assert (found.rounds, found.outcome.suppressed) == (1, 1)
    # Two rows wear a label of 2 leaves instead of 4, (4 - 2) / (4 - 1) each, of 33 rows.
    assert found.gain == pytest.approx(2 * 2 / 3 / 33)
