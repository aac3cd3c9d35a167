"""Attacks on the classes of a table: each finds its planted weakness, and chance where none is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.attack.beliefs import by_chance, dealt
from sfumato.attack.classes import ClassValues
from sfumato.attack.homogeneity import excluded, surely
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Values
from sfumato.data.schema.hierarchy import Tree
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.attack.finding import Finding

    Attacked = Callable[..., Finding]

ILLS = ("asthma", "cancer", "flu", "gout")
SCHEMA = Schema(
    "clinic",
    (
        Column("ward", Kind.TEXT, Role.QUASI),
        Column("ill", Kind.TEXT, Role.SENSITIVE, Values(ILLS)),
    ),
)


def wards(*counts: tuple[int, ...]) -> dict[str, list[str]]:
    """A ward for each tuple, with so many people of each illness."""
    rows = [
        (f"ward {place}", ill)
        for place, ward in enumerate(counts)
        for ill, many in zip(ILLS, ward, strict=True)
        for _ in range(many)
    ]
    return {"ward": [one for one, _ in rows], "ill": [other for _, other in rows]}


def independent(draws: np.random.Generator, size: int = 3000) -> dict[str, list[str]]:
    return {
        "ward": [f"ward {one}" for one in draws.integers(0, 300, size)],
        "ill": [ILLS[one] for one in draws.choice(4, size, p=[0.4, 0.1, 0.3, 0.2])],
    }


def test_homogeneity_finds_the_people_of_a_class_with_one_value(found: Attacked) -> None:
    told = found("homogeneity", wards((0, 5, 0, 0), (2, 1, 2, 1)), SCHEMA)
    assert (told.success.value, told.victims) == (5 / 11, 5)
    assert told.examples == [{"ward": "ward 0", "ill": "cancer", "rows": 5}]
    half = found("homogeneity", wards((3, 1, 1, 1), (2, 2, 1, 1)), SCHEMA, sure=0.5)
    assert half.victims == 3


def test_background_excludes_the_worst_values(found: Attacked) -> None:
    release = wards((0, 2, 3, 0), (1, 1, 2, 0), (2, 1, 1, 1))
    assert found("homogeneity", release, SCHEMA).victims == 0
    assert found("background", release, SCHEMA).victims == 5
    assert found("background", release, SCHEMA, exclude=2).victims == 9
    assert found("background", release, SCHEMA, exclude=3).victims == 14


def test_what_is_excluded_is_never_the_own_value() -> None:
    values = ClassValues(
        np.array([0, 0, 0, 1]), np.array([0, 1, 2, 0]), np.array([4, 3, 1, 2]), ["a", "b", "c"]
    )
    assert excluded(values, 1).tolist() == [3, 4, 4, 0]
    assert excluded(values, 2).tolist() == [4, 5, 7, 0]
    assert excluded(values, 9).tolist() == [4, 5, 7, 0]
    assert surely(values, 2, 1.0).tolist() == [True, True, True, True]
    assert surely(values, 1, 1.0).tolist() == [False, False, False, True]


def test_skewness_finds_a_rare_value_that_is_common_in_a_class(found: Attacked) -> None:
    """As on the slide: few have cancer, and half of the first class."""
    release = wards((2, 4, 2, 0), *[(10, 0, 8, 2)] * 10)
    told = found("skewness", release, SCHEMA, gain=5)
    assert told.victims == 4
    assert told.examples[0]["ill"] == "cancer"
    assert told.excess > 0.01
    public = {"ill": ["cancer"] * 50 + ["flu"] * 20 + ["asthma"] * 20 + ["gout"] * 10}
    assert found("skewness", release, SCHEMA, gain=5, known=public).victims == 0


HEIGHTS = Schema(
    "clinic",
    (
        Column("ward", Kind.TEXT, Role.QUASI),
        Column("salary", Kind.INTEGER, Role.SENSITIVE),
        Column(
            "organ",
            Kind.TEXT,
            Role.SENSITIVE,
            hierarchy=Tree(
                ("ulcer", "gastritis", "flu", "bronchitis"),
                (("stomach", "*"), ("stomach", "*"), ("lung", "*"), ("lung", "*")),
            ),
        ),
    ),
)


def test_similarity_finds_near_numbers_and_labels_above_values(found: Attacked) -> None:
    release = {
        "ward": ["a", "a", "b", "b", "c", "c", "d", "d"],
        "salary": [10, 11, 50, 1_000_000, 20, 90, 30, 2_000_000],
        "organ": ["ulcer", "flu", "flu", "bronchitis", "ulcer", "gastritis", "flu", "ulcer"],
    }
    assert found("similarity", release, HEIGHTS, sensitive="salary").victims == 2
    assert found("similarity", release, HEIGHTS, sensitive="organ").victims == 4


def test_similarity_needs_to_know_what_values_mean(found: Attacked) -> None:
    with pytest.raises(ParameterError, match="Declare a hierarchy") as refused:
        found("similarity", wards((1, 1, 1, 1)), SCHEMA)
    assert refused.value.code == "attack_cannot_run"


@pytest.mark.parametrize("name", ["homogeneity", "background", "skewness"])
def test_values_that_have_nothing_to_do_with_classes_are_found_by_chance_alone(
    name: str, found: Attacked, draws: np.random.Generator
) -> None:
    """The strong case, at an interval of 95 % and fixed draws."""
    told = found(name, independent(draws), SCHEMA)
    assert told.baseline.low <= told.success.value <= told.baseline.high
    assert not told.beats_baseline


def test_near_numbers_by_chance_are_no_finding(found: Attacked) -> None:
    draws = np.random.default_rng(1)
    release = {
        "ward": [f"ward {one}" for one in draws.integers(0, 600, 2000)],
        "salary": draws.integers(0, 1000, 2000).tolist(),
    }
    told = found("similarity", release, HEIGHTS)
    assert told.victims > 50
    assert told.baseline.low <= told.success.value <= told.baseline.high


def test_dealing_keeps_classes_and_values() -> None:
    values = ClassValues(
        np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2]), np.array([40, 3, 10, 20]), ["a", "b", "c"]
    )
    other = dealt(values, 1)
    assert other.sizes.tolist() == values.sizes.tolist()
    assert other.totals.tolist() == values.totals.tolist()
    assert dealt(values, 1).counts.tolist() == other.counts.tolist()
    assert dealt(values, 2).counts.tolist() != other.counts.tolist()
    every: Any = lambda one: np.ones(len(one.counts), dtype=bool)  # noqa: E731
    assert by_chance(values, every).value == 1


def test_a_release_without_sensitive_columns_says_so(found: Attacked) -> None:
    schema = Schema("clinic", (Column("ward", Kind.TEXT, Role.QUASI),))
    with pytest.raises(ParameterError, match='role = "sensitive"'):
        found("homogeneity", {"ward": ["a", "b"]}, schema)


def test_what_chance_does_is_seen_in_some_classes(draws: np.random.Generator) -> None:
    """Of 6,000 rows in classes of 5 and one of 3,000; dealings to 2,000 rows agree with all."""
    owners = np.concatenate([np.arange(3_000) // 5, np.full(3_000, 600)])
    drawn = draws.integers(0, 2, len(owners))
    cells, counts = np.unique(owners * 2 + drawn, return_counts=True)
    values = ClassValues(cells // 2, cells % 2, counts, ["a", "b"])
    whole = by_chance(values, lambda found: surely(found, 0, 1.0))
    some = by_chance(values, lambda found: surely(found, 0, 1.0), 2_000)
    assert whole.value == pytest.approx(2 * 0.5**5 / 2, rel=0.1)
    assert some.low <= whole.value <= some.high
    assert some.value == pytest.approx(whole.value, rel=0.2)
    assert some.tried == whole.tried
