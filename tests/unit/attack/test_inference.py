"""Attacks that reason: each breaks the release it was made for, and no other."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymize.classes import Classes, Original, from_matrix
from sfumato.anonymize.criteria.diversity import (
    DistinctDiversity,
    Diversity,
    EntropyDiversity,
    FolkDiversity,
    RecursiveDiversity,
)
from sfumato.attack.downcoding import likeliest, refined
from sfumato.attack.minimality import Asked, asked_of, left_possible
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Tree, Widths
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sfumato.attack.finding import Finding

    Attacked = Callable[..., Finding]

ILLS = ("hiv", "flu", "cold", "gout", "acne")
WHERE = Column(
    "where",
    Kind.TEXT,
    Role.QUASI,
    hierarchy=Tree(
        tuple(f"{town}{side}" for town in range(40) for side in "ab"),
        tuple((f"town {town}", "*") for town in range(40) for _ in "ab"),
    ),
)
TOWNS = Schema("people", (WHERE, Column("ill", Kind.TEXT, Role.SENSITIVE, Values(ILLS))))


@pytest.mark.parametrize(
    "asked",
    [Asked("folk", 2), Asked("entropy", 2), Asked("recursive", 2, Fraction(3, 2)),
     Asked("recursive", 3, Fraction(2)), Asked("distinct", 2)],
    ids=str,
)  # fmt: skip
def test_worlds_that_are_left_are_those_of_all_deals(asked: Asked) -> None:
    """By looking at every deal of six values to two parts of 2 and 4."""
    values = ("hiv", "hiv", "flu", "cold", "gout", "acne")
    if asked.least == 3 or asked.kind in ("distinct", "entropy"):
        values = ("hiv", "hiv", "hiv", "flu", "cold", "cold")
    names = sorted(set(values))
    hits, worlds = np.zeros((2, len(names)), dtype=int), 0
    kinds: dict[str, Callable[..., Diversity]] = {
        "folk": FolkDiversity,
        "entropy": EntropyDiversity,
        "distinct": DistinctDiversity,
        "recursive": partial(RecursiveDiversity, c=asked.factor),
    }
    criterion = kinds[asked.kind](asked.least, "ill")

    def fine(part: Sequence[str]) -> bool:
        """As the anonymizer judges it."""
        counts = np.array([[part.count(name) for name in names]])
        original = Original("ill", counts[0])
        classes = Classes(counts.sum(axis=1), {"ill": from_matrix(counts, original)})
        return bool(criterion.holds(classes)[0])

    judged = {part: fine(part) for size in (2, 4) for part in {*permutations(values, size)}}
    for deal in permutations(values):
        if judged[deal[:2]] and judged[deal[2:]]:
            continue
        worlds += 1
        hits[0, names.index(deal[0])] += 1
        hits[1, names.index(deal[5])] += 1
    chances = left_possible([values.count(name) for name in names], [2, 4], asked)
    assert worlds
    assert chances is not None
    expected = [[Fraction(int(one), worlds) for one in row] for row in hits]
    assert chances.tolist() == expected
    if asked == Asked("folk", 2):
        assert chances[0, names.index("hiv")] == 1


def test_a_class_that_could_have_been_parted_is_never_made() -> None:
    assert left_possible([1, 1, 1, 1], [2, 2], Asked("folk", 2)) is None


def test_distinct_values_are_asked_for_as_the_side_car_says() -> None:
    """Three of one value and one of another in parts of two: l = 2 needs one of each in both."""
    chances = left_possible([3, 1], [2, 2], Asked("distinct", 2))
    assert chances is not None
    assert chances.tolist() == [[Fraction(3, 4), Fraction(1, 4)]] * 2
    told = {"criteria": ["5-anonymity", "distinct 3-diversity of ill"]}
    assert asked_of(told, "ill") == Asked("distinct", 3)
    assert asked_of(told, "other") is None
    deep = RecursiveDiversity(3, "ill", c="3/2"), EntropyDiversity(2, "my ill")
    told = {"criteria": [str(one) for one in deep]}
    assert asked_of(told, "ill") == Asked("recursive", 3, Fraction(3, 2))
    assert asked_of(told, "my ill") == Asked("entropy", 2)


def merged(telling: bool, draws: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Forty towns of two sides with 2 and 4 people, two of whom have hiv; sides are merged.

    In the telling release they are merged because both ill live on the small side; in the other
    one all are merged, wherever people live.
    """
    where, ill, town_of = [], [], []
    for town in range(40):
        values = ["hiv", "hiv", "flu", "cold", "gout", "acne"]
        if not telling:
            draws.shuffle(values)
        where += [f"{town}a"] * 2 + [f"{town}b"] * 4
        ill += values
        town_of += [f"town {town}"] * 6
    return {"where": where, "ill": ill}, {"where": town_of, "ill": ill}


def test_minimality_breaks_a_release_that_stopped_as_soon_as_it_could(
    found: Attacked, draws: np.random.Generator
) -> None:
    original, release = merged(True, draws)
    told = found("minimality", release, TOWNS, original=original, l=2)
    assert told.baseline.value == pytest.approx(1 / 3)
    assert told.success.low > told.baseline.high
    assert told.victims >= 80  # all who have it are certain


def test_minimality_is_wrong_about_a_release_that_was_merged_anyway(
    found: Attacked, draws: np.random.Generator
) -> None:
    original, release = merged(False, draws)
    told = found("minimality", release, TOWNS, original=original, l=2)
    assert not told.beats_baseline
    assert told.success.value <= told.baseline.high


TRAITS = Schema(
    "people",
    (
        Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 99)),
        Column("sex", Kind.TEXT, Role.QUASI, Values(("F", "M"))),
        Column("smokes", Kind.TEXT, Role.QUASI, Values(("yes", "no"))),
        Column("ill", Kind.TEXT, Role.SENSITIVE, Values(("lung", "heart", "skin", "none"))),
    ),
)


def bucketized(
    related: bool, draws: np.random.Generator, folder: Path
) -> tuple[Path, dict[str, Any]]:
    size = 1200
    ill = draws.integers(0, 4, size)
    trait = ill if related else draws.integers(0, 4, size)
    noisy = np.where(draws.random(size) < 0.8, trait, draws.integers(0, 4, size))
    people = {
        "age": (draws.integers(0, 3, size) + 20 * noisy).tolist(),
        "sex": [("F", "M")[one] for one in draws.integers(0, 2, size)],
        "smokes": [("yes", "no")[int(one > 1)] for one in noisy],
        "ill": [("lung", "heart", "skin", "none")[one] for one in ill],
    }
    with sf.read(people, TRAITS) as table:
        table.anonymize(l=3, algorithm="anatomy").save(folder / "buckets")
    return folder / "buckets", people


def test_definetti_beats_the_bucket_where_traits_tell_of_values(
    found: Attacked, draws: np.random.Generator, tmp_path: Path
) -> None:
    folder, people = bucketized(True, draws, tmp_path)
    told = found("definetti", folder, TRAITS, original=people)
    assert told.baseline.value == pytest.approx(1 / 3, abs=0.05)
    assert told.success.low > told.baseline.high + 0.2


def test_definetti_learns_nothing_from_columns_that_are_independent(
    found: Attacked, draws: np.random.Generator, tmp_path: Path
) -> None:
    folder, people = bucketized(False, draws, tmp_path)
    told = found("definetti", folder, TRAITS, original=people)
    assert told.baseline.low <= told.success.value <= told.baseline.high


def test_definetti_refuses_a_release_without_groups(found: Attacked) -> None:
    rows = {"age": [1], "sex": ["F"], "smokes": ["no"], "ill": ["none"]}
    with pytest.raises(ParameterError, match="not an anatomy"):
        found("definetti", rows, TRAITS, original=rows)


AGES = Schema(
    "people",
    (
        Column("name", Kind.TEXT, Role.IDENTIFIER),
        Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 999), Widths((5, 20))),
        Column("height", Kind.INTEGER, Role.QUASI, Bounds(0, 999), Widths((10, 50))),
        Column("ill", Kind.INTEGER, Role.SENSITIVE, Bounds(0, 7)),
    ),
)


@pytest.fixture
def patients(draws: np.random.Generator) -> dict[str, list[Any]]:
    size = 1000
    return {
        "name": [f"person {place}" for place in range(size)],
        "age": draws.permutation(size).tolist(),
        "height": draws.permutation(size).tolist(),
        "ill": draws.integers(0, 8, size).tolist(),
    }


def by_fives(people: dict[str, list[Any]], kept: str, starred: str) -> dict[str, list[Any]]:
    """Classes of five people who are next to each other in one column; the other one is gone."""
    low = [one // 5 * 5 for one in people[kept]]
    return {
        kept: [f"[{one}, {one + 4}]" for one in low],
        starred: ["*"] * len(low),
        "ill": people["ill"],
    }


def test_two_releases_say_what_neither_says(
    found: Attacked, patients: dict[str, list[Any]]
) -> None:
    one = by_fives(patients, "age", "height")
    other = by_fives(patients, "height", "age")
    people = {name: patients[name] for name in ("name", "age", "height")}
    told = found("composition", one, AGES, known=people, other=other)
    assert 0.15 < told.success.value < 0.25  # four others in each class, of eight values
    assert told.success.low > told.baseline.high
    twice = found("composition", one, AGES, known=people, other=one)
    assert twice.success.value == twice.baseline.value < 0.02


@pytest.mark.slow
def test_two_releases_may_have_any_number_of_values(found: Attacked) -> None:
    """Over a million in one class, of which the other release leaves one."""
    many = (1 << 20) + 1
    declared = Schema(
        "people",
        (Column("age", Kind.INTEGER, Role.QUASI), Column("ill", Kind.INTEGER, Role.SENSITIVE)),
    )
    one = pa.table({"age": np.full(many, 5), "ill": np.arange(many)})
    other = {"age": [5], "ill": [many - 1]}
    told = found("composition", other, declared, known={"age": [5]}, other=one)
    assert (told.victims, told.success.tried) == (1, 1)


def test_composition_needs_a_second_release(found: Attacked, patients: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="other="):
        found("composition", patients, AGES, known=patients)


@pytest.mark.parametrize(
    ("weights", "size", "expected"),
    [([99, 1], 5, [5, 0]), ([1, 1], 4, [2, 2]), ([3, 2, 1], 6, [3, 2, 1]), ([0, 0], 2, [1, 1])],
)
def test_likeliest_numbers(weights: list[float], size: int, expected: list[int]) -> None:
    assert likeliest(np.array(weights, dtype=float), size).tolist() == expected


def test_refined_numbers_are_tight_and_minimal() -> None:
    assert refined(np.array([99.0, 1.0]), 5, 5).tolist() == [4, 1]
    assert refined(np.array([1.0, 1.0]), 20, 5).tolist() in ([4, 16], [16, 4])
    assert refined(np.array([90.0, 6.0, 4.0]), 5, 5).tolist() == [4, 1, 0]


def skewed(minimal: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """In each town one of five lives on the rare side, or in one town of five all of them do."""
    where, town_of = [], []
    for town in range(40):
        rare = 1 if minimal else 5 * (town % 5 == 0)
        where += [f"{town}b"] * rare + [f"{town}a"] * (5 - rare)
        town_of += [f"town {town}"] * 5
    ills = [ILLS[place % 5] for place in range(200)]
    return {"where": where, "ill": ills}, {"where": town_of, "ill": ills}


def test_downcoding_takes_minimal_labels_back(found: Attacked) -> None:
    original, release = skewed(minimal=True)
    listed = {"where": [f"{town}{side}" for town in range(40) for side in "a" * 99 + "b"]}
    told = found("downcoding", release, TOWNS, original=original, known=listed)
    assert told.success.value == 1
    assert told.baseline.value == 0
    assert told.victims == 200


def test_downcoding_fails_where_labels_are_coarser_than_need_be(found: Attacked) -> None:
    original, release = skewed(minimal=False)
    listed = {"where": [f"{town}{side}" for town in range(40) for side in "aaab"]}
    told = found("downcoding", release, TOWNS, original=original, known=listed)
    assert told.success.value <= told.baseline.value
    with pytest.raises(ParameterError, match="nothing to take back"):
        found("downcoding", original, TOWNS, original=original)


def people_of(draws: np.random.Generator, size: int) -> dict[str, list[Any]]:
    """The ill depend on age a little, and on nothing else."""
    age = draws.integers(0, 100, size)
    ill = np.where(draws.random(size) < 0.3, age // 13, draws.integers(0, 8, size))
    return {
        "age": age.tolist(),
        "height": draws.integers(0, 200, size).tolist(),
        "ill": ill.tolist(),
    }


def test_a_copy_leaks_beyond_what_is_known_of_anyone(
    found: Attacked, draws: np.random.Generator
) -> None:
    inside, outside, fresh = (people_of(draws, 600) for _ in range(3))
    copy = found("predict", inside, AGES, original=inside, control=outside)
    assert copy.success.value > 0.9
    assert copy.control is not None
    assert copy.control.high < copy.success.low
    assert copy.risk > 0.8
    synthetic = found("predict", fresh, AGES, original=inside, control=outside)
    assert synthetic.control is not None
    assert synthetic.success.low < synthetic.control.high
    assert synthetic.risk < 0.1


def test_many_numbers_are_guessed_by_the_side_of_their_middle(found: Attacked) -> None:
    schema = Schema(
        "pay",
        (
            Column("age", Kind.INTEGER, Role.QUASI),
            Column("salary", Kind.INTEGER, Role.SENSITIVE),
        ),
    )
    rows = {"age": list(range(50)), "salary": list(range(0, 5000, 100))}
    told = found("predict", rows, schema, original=rows)
    assert told.success.value == 1
    assert told.baseline.value == pytest.approx(0.5)
    assert "above" in told.remarks[0]
