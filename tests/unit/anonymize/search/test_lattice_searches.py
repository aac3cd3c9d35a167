"""Searches on tables small enough to follow by hand, and what they do when they cannot."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from sfumato.anonymize.criteria import DistinctDiversity, EntropyDiversity, KAnonymity, KMap
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.search import run
from sfumato.errors import CriterionError, ParameterError, SchemaError
from sfumato.release.recoding import ByColumn

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.anonymize.outcome import Outcome
    from sfumato.anonymize.problem import Problem

    MakeProblem = Callable[..., Problem]

LATTICE = ["optimal", "incognito", "samarati", "sweeney", "datafly"]

CENSUS = [
    ("1/21/76", "M", "53715"),
    ("4/13/86", "F", "53715"),
    ("2/28/76", "M", "53703"),
    ("1/21/76", "M", "53703"),
    ("4/13/86", "F", "53706"),
    ("2/28/76", "F", "53706"),
]
CENSUS_WAYS = {
    "birth": [("1/21/76",), ("2/28/76",), ("4/13/86",)],
    "sex": [("M",), ("F",)],
    "zip": [("53703", "5370*"), ("53706", "5370*"), ("53715", "5371*")],
}

ZIPS = ["13053", "13068", "13068", "13053", "14853", "14853", "14850", "14850"]
ZIPS += ["13053", "13053", "13068", "13068"]
AGES = ["28", "29", "21", "23", "50", "55", "47", "49", "31", "37", "36", "35"]
ILLS = ["heart", "heart", "viral", "viral", "cancer", "heart", "viral", "viral", *["cancer"] * 4]
MEDICAL = list(zip(ZIPS, AGES, ILLS, strict=True))
MEDICAL_WAYS = {
    "zip": [
        ("13053", "1305*", "130**"),
        ("13068", "1306*", "130**"),
        ("14850", "1485*", "1485*"),
        ("14853", "1485*", "1485*"),
    ],
    "age": [
        (
            age,
            "<30" if age < "30" else "3*" if age < "40" else ">40",
            "<40" if age < "40" else ">40",
        )
        for age in sorted(AGES)
    ],
}


def levels(outcome: Outcome) -> tuple[int, ...]:
    return tuple((outcome.levels or {}).values())


def minimal(outcome: Outcome) -> set[tuple[int, ...]]:
    return {tuple(node.values()) for node in outcome.minimal or ()}


def test_census_has_exactly_three_minimal_generalizations(make_problem: MakeProblem) -> None:
    found = run(make_problem(CENSUS, CENSUS_WAYS, KAnonymity(2)), "incognito")
    assert minimal(found) == {(0, 1, 2), (1, 0, 2), (1, 1, 0)}
    assert found.lattice == 12
    assert found.suppressed == 0


def test_both_medical_tables_come_from_one_hierarchy(make_problem: MakeProblem) -> None:
    ways = {**MEDICAL_WAYS, "ill": [("cancer",), ("heart",), ("viral",)]}
    crowd = make_problem(MEDICAL, ways, KAnonymity(4), sensitive=["ill"])
    assert minimal(run(crowd, "incognito")) == {(2, 1), (1, 2)}
    diverse = DistinctDiversity(3, of="ill")
    both = make_problem(MEDICAL, ways, KAnonymity(4), diverse, sensitive=["ill"])
    assert minimal(run(both, "incognito")) == {(1, 2)}
    assert levels(run(both, "optimal")) == (1, 2)


def test_datafly_raises_the_column_with_most_values(make_problem: MakeProblem) -> None:
    """By hand: age has 12 values, then 3; zip has 4, then 3; tied columns in schema order."""
    problem = make_problem(MEDICAL, dict(MEDICAL_WAYS), KAnonymity(4), sensitive=["ill"])
    found = run(problem, "datafly")
    # (0,0) age 12 -> (0,1) zip 4 -> (1,1) zip 3, age 3: zip -> (2,1), which is 4-anonymous.
    assert levels(found) == (2, 1)
    assert found.checked == 4


def test_samarati_takes_the_lowest_height_then_fewest_suppressed(
    make_problem: MakeProblem,
) -> None:
    problem = make_problem(CENSUS, CENSUS_WAYS, KAnonymity(2))
    assert sum(levels(run(problem, "samarati"))) == 2
    loose = make_problem(CENSUS, CENSUS_WAYS, KAnonymity(2), suppression_limit="0.34")
    found = run(loose, "samarati")
    assert sum(levels(found)) == 1
    assert found.suppressed == 2


def test_samarati_says_when_it_could_not_halve(make_problem: MakeProblem) -> None:
    """One row of each value passes, ten of one value fail, and all twelve together fail."""
    rows = [("a", "x"), ("a", "y"), *[("b", "x")] * 10]
    ways = {"q": [("a", "a"), ("b", "b")], "s": [("x",), ("y",)]}
    criterion = EntropyDiversity(2, of="s")
    problem = make_problem(rows, ways, criterion, suppression_limit="0.9", sensitive=["s"])
    found = run(problem, "samarati")
    assert (levels(found), found.suppressed, len(found.notes)) == ((0,), 10, 1)
    assert run(make_problem(CENSUS, CENSUS_WAYS, KAnonymity(2)), "samarati").notes == ()


def test_sweeney_returns_what_optimal_returns_for_precision(make_problem: MakeProblem) -> None:
    problem = make_problem(CENSUS, CENSUS_WAYS, KAnonymity(2), suppression_limit="0.2")
    found = run(problem, "sweeney")
    assert found.levels == run(problem, "optimal", cost="precision").levels
    assert found.checked == found.lattice == 12
    with pytest.raises(ParameterError) as error:
        run(problem, "sweeney", cost="loss")
    assert error.value.code == "option_not_applicable"


def test_the_limit_is_an_exact_decimal(make_problem: MakeProblem) -> None:
    """0.29 x 100 is 29 rows, though as a float it is 28.999999999999996."""
    rows = [("a",)] * 71 + [("b",)] * 29
    problem = make_problem(rows, {"q": [("a",), ("b",)]}, KAnonymity(30), suppression_limit="0.29")
    assert problem.allowed == 29
    found = run(problem)
    assert (levels(found), found.suppressed, found.released) == ((0,), 29, 71)


def test_a_missing_value_is_a_class_of_its_own(make_problem: MakeProblem) -> None:
    rows = [("a", "x"), ("a", "x"), (None, "x"), (None, "x")]
    problem = make_problem(rows, {"q": [("a",)], "r": [("x",)]}, KAnonymity(2))
    found = run(problem)
    assert levels(found) == (0, 0)
    assert found.classes == 2
    assert isinstance(found, Generalization)
    assert found.recoding().maps[0].labels.to_pylist() == ["a", None]


def test_recoding_releases_what_the_outcome_says(make_problem: MakeProblem) -> None:
    problem = make_problem(CENSUS, CENSUS_WAYS, KAnonymity(2), suppression_limit="0.34")
    found = run(problem, "samarati")
    recoding = found.recoding(["pay"])
    assert isinstance(recoding, ByColumn)
    codes = [
        dict(zip(one.values.to_pylist(), one.codes.to_pylist(), strict=True))
        for one in recoding.maps
    ]
    gone = set(zip(*(c.to_pylist() for c in recoding.suppressed.columns), strict=True))
    released = [tuple(m[v] for m, v in zip(codes, row, strict=True)) for row in CENSUS]
    kept = Counter(row for row in released if row not in gone)
    assert sum(kept.values()) == found.released == 4
    assert len(kept) == found.classes
    assert min(kept.values()) >= 2
    assert recoding.unchanged == ("pay",)
    assert recoding.suppressed.column_names == ["birth", "sex", "zip"]


def test_population_values_outside_the_table_count(make_problem: MakeProblem) -> None:
    ways = {"q": [("a", "ab"), ("b", "ab"), ("c", "c")]}
    problem = make_problem([("a",)], ways, KMap(3), population=[("a",), ("a",), ("b",), ("c",)])
    assert levels(run(problem)) == (1,)
    everybody = make_problem([("a",)], ways, KMap(4), population=[("a",), ("a",), ("b",), ("c",)])
    assert levels(run(everybody)) == (2,)


def test_weights_move_the_choice(make_problem: MakeProblem) -> None:
    rows = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
    ways = {"q": [("a",), ("b",)], "r": [("x",), ("y",)]}
    problem = make_problem(rows, ways, KAnonymity(2))
    assert levels(run(problem, weights={"r": 5})) == (1, 0)
    assert levels(run(problem, weights={"q": 5})) == (0, 1)
    assert run(problem, weights={"q": 5}).cost["loss"] == pytest.approx(1 / 6)
    assert run(problem).ncp == {"q": 0.0, "r": 1.0}


@pytest.mark.parametrize("algorithm", LATTICE)
def test_what_cannot_be_reached_is_refused(make_problem: MakeProblem, algorithm: str) -> None:
    with pytest.raises(CriterionError) as error:
        run(make_problem(CENSUS, CENSUS_WAYS, KAnonymity(7)), algorithm)
    assert error.value.code == "criterion_not_reachable"
    assert "53715" not in error.value.message


@pytest.mark.parametrize("algorithm", LATTICE)
def test_an_interruption_leaves_the_problem_usable(
    make_problem: MakeProblem, algorithm: str
) -> None:
    problem = make_problem(CENSUS, CENSUS_WAYS, KAnonymity(2))
    seen: list[tuple[float, float]] = []

    def interrupt(done: float, total: float) -> None:
        seen.append((done, total))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(problem, algorithm, progress=interrupt)
    assert 0 <= seen[0][0] <= seen[0][1]
    assert run(problem, algorithm).suppressed == 0


def test_out_of_time_optimal_shows_what_it_has(make_problem: MakeProblem) -> None:
    problem = make_problem(CENSUS, CENSUS_WAYS, KAnonymity(2))
    found = run(problem, limit_seconds=0)
    assert not found.optimal
    best = run(problem)
    assert best.optimal
    assert best.bound == best.cost["loss"]
    assert found.bound is not None
    assert found.bound <= best.cost["loss"] <= found.cost["loss"]


@pytest.mark.parametrize("algorithm", ["incognito", "samarati", "sweeney", "datafly"])
def test_out_of_time_others_show_what_they_have(make_problem: MakeProblem, algorithm: str) -> None:
    problem = make_problem(CENSUS, CENSUS_WAYS, KAnonymity(2))
    found = run(problem, algorithm, limit_seconds=-1)
    assert (found.ended, found.optimal, found.bound, found.minimal) == ("time", False, None, None)
    assert found.suppressed == 0
    assert tuple((found.levels or {}).values()) == problem.top
    assert found.verdict == "Not proven optimal: the search was ended by its time limit."


def test_out_of_time_with_nothing_to_show(make_problem: MakeProblem) -> None:
    problem = make_problem(CENSUS, CENSUS_WAYS, KAnonymity(7))
    for algorithm in ("incognito", "sweeney", "datafly"):
        with pytest.raises(ParameterError) as error:
            run(problem, algorithm, limit_seconds=-1)
        assert error.value.code == "parameter_out_of_range"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"algorithm": "best"}, "choice_unknown"),
        ({"cost": "cheap"}, "choice_unknown"),
        ({"weights": {"age": 1.0}}, "weights_invalid"),
        ({"weights": {"sex": 0.0}}, "weights_invalid"),
        ({"cost": "discernability", "weights": {"sex": 2.0}}, "option_not_applicable"),
    ],
)
def test_wrong_options_are_refused(
    make_problem: MakeProblem, options: dict[str, object], code: str
) -> None:
    problem = make_problem(CENSUS, CENSUS_WAYS, KAnonymity(2))
    with pytest.raises(ParameterError) as error:
        run(problem, **options)  # type: ignore[arg-type]
    assert error.value.code == code


def test_wrong_problems_are_refused(make_problem: MakeProblem) -> None:
    ways = {"q": [("a",)]}
    cases: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: make_problem([("a",)], ways), ParameterError, "parameter_missing"),
        (lambda: make_problem([("a",)], ways, KMap(2)), ParameterError, "parameter_missing"),
        (
            lambda: make_problem([("a",)], ways, EntropyDiversity(2, of="s")),
            ParameterError,
            "column_unknown",
        ),
        (
            lambda: make_problem([("a",)], ways, EntropyDiversity(2, of="q")),
            ParameterError,
            "role_invalid",
        ),
        (
            lambda: make_problem([("a",)], ways, KAnonymity(2), suppression_limit=1),
            ParameterError,
            "parameter_out_of_range",
        ),
        (
            lambda: make_problem([("b",)], ways, KAnonymity(2)),
            SchemaError,
            "value_outside_domain",
        ),
    ]
    for make, kind, code in cases:
        with pytest.raises(kind) as error:
            make()
        assert getattr(error.value, "code") == code  # noqa: B009


def test_a_lattice_too_large_is_refused_before_memory_is_taken(make_problem: MakeProblem) -> None:
    deep = [("a", *(f"l{level}" for level in range(60)))]
    ways = {f"q{place}": deep for place in range(6)}
    problem = make_problem([("a",) * 6], ways, KAnonymity(1))
    for algorithm in ("optimal", "incognito", "samarati", "sweeney"):
        with pytest.raises(ParameterError) as error:
            run(problem, algorithm)
        assert error.value.code == "problem_too_large"
    assert run(problem, "datafly").suppressed == 0
