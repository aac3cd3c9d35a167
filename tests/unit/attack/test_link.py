"""Linking: everybody is found in a raw table, one in k in a k-anonymous one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Removal, Widths
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from sfumato.attack.finding import Finding

    Attacked = Callable[..., Finding]

SCHEMA = Schema(
    "people",
    (
        Column("name", Kind.TEXT, Role.IDENTIFIER),
        Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 99), Widths((5, 20))),
        Column("weight", Kind.INTEGER, Role.QUASI, Bounds(0, 199), Widths((10, 50))),
        Column("sex", Kind.TEXT, Role.QUASI, Values(("F", "M")), Removal()),
        Column("street", Kind.INTEGER, Role.QUASI, Bounds(0, 99), Widths((10, 50))),
        Column("ill", Kind.TEXT, Role.SENSITIVE, Values(("yes", "no"))),
    ),
)


@pytest.fixture
def people(draws: np.random.Generator) -> dict[str, list[Any]]:
    size = 400
    return {
        "name": [f"person {place}" for place in range(size)],
        "age": draws.integers(0, 100, size).tolist(),
        "weight": draws.integers(0, 200, size).tolist(),
        "sex": [("F", "M")[one] for one in draws.integers(0, 2, size)],
        "street": draws.integers(0, 100, size).tolist(),
        "ill": [("yes", "no")[one] for one in draws.integers(0, 2, size)],
    }


def without(table: dict[str, list[Any]], *names: str) -> dict[str, list[Any]]:
    return {name: values for name, values in table.items() if name not in names}


def some(table: dict[str, list[Any]], places: range) -> dict[str, list[Any]]:
    return {name: [values[place] for place in places] for name, values in table.items()}


def test_nearly_everybody_is_found_in_a_raw_table(
    found: Attacked, people: dict[str, list[Any]]
) -> None:
    told = found("link", without(people, "name"), SCHEMA, known=people, original=people)
    assert told.success.value > 0.98
    assert told.victims > 390
    assert told.beats_baseline
    assert set(told.examples[0]) == {"name"}


@pytest.mark.parametrize("algorithm", ["optimal", "mondrian"])
def test_at_most_one_in_k_is_found_in_a_k_anonymous_table(
    found: Attacked, people: dict[str, list[Any]], algorithm: str
) -> None:
    with sf.read(people, SCHEMA) as table:
        release = table.anonymize(k=5, algorithm=algorithm).table
    told = found("link", release, SCHEMA, known=people, original=people)
    assert 0 < told.success.value <= 1 / 5
    assert told.victims == 0


def test_people_who_are_not_in_the_original_are_not_tried(
    found: Attacked, people: dict[str, list[Any]]
) -> None:
    inside = some(people, range(100))
    named = found("link", without(inside, "name"), SCHEMA, known=people, original=inside)
    assert named.success.tried == 100
    unnamed = found(
        "link", without(inside, "name"), SCHEMA, known=without(people, "name"), original=inside
    )
    assert unnamed.success.tried == pytest.approx(100, abs=2)
    assert unnamed.success.value == pytest.approx(named.success.value, abs=0.02)


def test_without_the_original_others_on_the_list_who_fit_are_counted(found: Attacked) -> None:
    release = {"age": [30], "weight": [70], "sex": ["F"], "ill": ["yes"]}
    one = {"name": ["Ann"], "age": [30], "weight": [70], "sex": ["F"]}
    assert found("link", release, SCHEMA, known=one).success.value == 1
    two = {"name": ["Ann", "Eve"], "age": [30, 30], "weight": [70, 70], "sex": ["F", "F"]}
    assert found("link", release, SCHEMA, known=two).success.value == 0.5


def test_lists_with_other_columns_are_refused(found: Attacked) -> None:
    release = {"age": [30], "weight": [70], "sex": ["F"], "ill": ["yes"]}
    with pytest.raises(ParameterError, match="no quasi-identifier in common"):
        found("link", release, SCHEMA, known={"name": ["Ann"]})
    with pytest.raises(ParameterError, match="known="):
        found("link", release, SCHEMA)
    with pytest.raises(ParameterError, match="did you mean 'link'"):
        found("lnk", release, SCHEMA)


def mistyped(
    people: dict[str, list[Any]], draws: np.random.Generator, share: float
) -> dict[str, list[Any]]:
    """The same list; so many cells of each column are wrong, and as many missing."""
    table = without(people, "ill")
    for name, most in (("age", 100), ("weight", 200), ("street", 100)):
        wrong, gone = draws.random((2, len(table[name]))) < share
        table[name] = [
            None
            if lost
            else (value + 1 + int(draws.integers(0, most - 1))) % most
            if bad
            else value
            for value, bad, lost in zip(table[name], wrong, gone, strict=True)
        ]
    return table


def test_typing_errors_stop_the_exact_attacker_alone(
    found: Attacked, people: dict[str, list[Any]], draws: np.random.Generator
) -> None:
    listed = mistyped(people, draws, 0.05)
    raw = without(people, "name")
    exact = found("link", raw, SCHEMA, known=listed, original=people)
    fuzzy = found("link-fuzzy", raw, SCHEMA, known=listed, original=people)
    clean = found("link-fuzzy", raw, SCHEMA, known=people, original=people)
    assert exact.success.high < fuzzy.success.low
    assert fuzzy.success.value > 0.9
    assert clean.success.value > 0.98
    assert "Without allowing for errors" in fuzzy.remarks[0]


def test_fuzzy_linking_of_a_k_anonymous_table_gets_no_more_than_one_in_k(
    found: Attacked, people: dict[str, list[Any]], draws: np.random.Generator
) -> None:
    with sf.read(people, SCHEMA) as table:
        release = table.anonymize(k=5, algorithm="mondrian").table
    listed = mistyped(people, draws, 0.05)
    told = found("link-fuzzy", release, SCHEMA, known=listed, original=people)
    assert told.success.value <= 1 / 5


def test_fuzzy_linking_needs_names_to_be_scored(
    found: Attacked, people: dict[str, list[Any]]
) -> None:
    with pytest.raises(ParameterError, match="names people"):
        found(
            "link-fuzzy",
            without(people, "name"),
            SCHEMA,
            known=without(people, "name"),
            original=people,
        )


def test_uniqueness_by_a_list_and_by_a_number(found: Attacked, draws: np.random.Generator) -> None:
    size = 4000
    everyone = {
        "age": draws.integers(0, 60, size).tolist(),
        "weight": draws.integers(40, 100, size).tolist(),
        "sex": [("F", "M")[one] for one in draws.integers(0, 2, size)],
    }
    sample = some(everyone, range(0, size, 4))
    counted = found("uniqueness", sample, SCHEMA, known=everyone)
    assert counted.success.value == pytest.approx(0.57, abs=0.05)  # e^(-4000/7200)
    estimated = found("uniqueness", sample, SCHEMA, population_size=size)
    assert estimated.success.value == pytest.approx(counted.success.value, rel=0.25)
    assert estimated.success.low < estimated.success.value < estimated.success.high
    with pytest.raises(ParameterError, match="population_size="):
        found("uniqueness", sample, SCHEMA)


def test_nobody_is_unique_behind_labels_that_all_share(found: Attacked) -> None:
    release = {"age": ["[0, 99]"] * 50, "weight": ["*"] * 50, "sex": ["*"] * 50}
    told = found("uniqueness", release, SCHEMA, population_size=1000)
    assert (told.success.value, told.victims) == (0, 0)


def test_a_population_is_no_smaller_than_its_sample(found: Attacked) -> None:
    sample: dict[str, list[Any]] = {
        "age": [20 + n % 13 for n in range(40)],
        "weight": [50 + n % 5 for n in range(40)],
        "sex": [("F", "M")[n % 3 > 1] for n in range(40)],
    }
    with pytest.raises(ParameterError, match="more than the population_size= of 39"):
        found("uniqueness", sample, SCHEMA, population_size=39)
    whole = found("uniqueness", sample, SCHEMA, known=sample)
    for size in (40, 41, 42, 50):
        told = found("uniqueness", sample, SCHEMA, population_size=size)
        assert told.victims == 0  # who they are is not known
        assert any("are expected to be alone" in one for one in told.remarks)
        assert told.success.high <= whole.success.value + 1e-12  # who is alone is so here too
        if size == 40:
            assert told.success.value == pytest.approx(whole.success.value)


def test_an_estimate_is_no_surer_than_the_estimators_are_one(found: Attacked) -> None:
    """All of 100 people differ, of a million: they may all have a twin who was not drawn."""
    sample: dict[str, list[Any]] = {
        "age": list(range(100)),
        "weight": [50] * 100,
        "sex": ["F"] * 100,
    }
    told = found("uniqueness", sample, SCHEMA, population_size=1_000_000)
    assert (told.success.low, told.success.high) == (0, 1)
    everyone = found("uniqueness", sample, SCHEMA, population_size=101)
    assert 0.9 < everyone.success.low < 1
