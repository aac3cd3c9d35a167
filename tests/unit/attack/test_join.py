"""Joins of releases: true, false and lost pairs by hand, and counts over all worlds."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sfumato as sf
from sfumato.attack.classes import boxes_together
from sfumato.attack.finding import Findings
from sfumato.attack.join import count_bounds
from sfumato.data.counting.axes import Listed
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.counting.grouping import group
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Removal, Widths
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sfumato.attack.finding import Finding

    Attacked = Callable[..., Finding]
    Rows = dict[str, list[Any]]

SCHEMA = Schema(
    "people",
    (
        Column("name", Kind.TEXT, Role.IDENTIFIER, nullable=False),
        Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 199), Widths((5, 50))),
        Column("sex", Kind.TEXT, Role.QUASI, Values(("F", "M")), Removal()),
        Column("ill", Kind.TEXT, Role.SENSITIVE),
    ),
)
SIZE = 100


@pytest.fixture
def people() -> Rows:
    """Everybody has an age of their own."""
    return {
        "name": [f"p{n}" for n in range(SIZE)],
        "age": list(range(SIZE)),
        "sex": ["FM"[n % 2] for n in range(SIZE)],
        "ill": [("flu", "gout")[n % 3 == 0] for n in range(SIZE)],
    }


def by_fives(people: Rows, shift: int = 0) -> Rows:
    low = [(one + shift) // 5 * 5 - shift for one in people["age"]]
    ages = [f"[{max(one, 0)}, {one + 4}]" for one in low]
    return {"age": ages, "sex": ["*"] * len(low), "ill": people["ill"]}


def without_names(people: Rows) -> Rows:
    return {name: values for name, values in people.items() if name != "name"}


def test_finest_releases_of_the_same_people_join_truly(found: Attacked, people: Rows) -> None:
    raw = without_names(people)
    told = found("join", raw, SCHEMA, other=raw, original=people, other_original=people)
    assert (told.success.value, told.victims) == (1, SIZE)
    figures = told.figures
    assert (figures["joined"], figures["true"], figures["false"], figures["lost"]) == (
        SIZE,
        SIZE,
        0,
        0,
    )
    assert (figures["count"], figures["count_bounds"]) == (SIZE, [SIZE, SIZE])
    assert told.beats_baseline
    assert told.baseline.value == pytest.approx(1 / SIZE)


def test_two_releases_of_five_to_a_class_join_five_to_one(found: Attacked, people: Rows) -> None:
    safe = by_fives(people)
    told = found("join", safe, SCHEMA, other=safe, original=people)
    assert told.success.value == pytest.approx(1 / 5)
    figures = told.figures
    assert (figures["joined"], figures["original"], figures["lost"]) == (5 * SIZE, SIZE, 0)
    assert figures["true"] == pytest.approx(SIZE)
    assert figures["precision"] == pytest.approx(1 / 5)
    assert figures["count_bounds"] == [0, 5 * SIZE]
    assert figures["count_bounds_exact"]
    assert told.victims == 0


def test_shifted_classes_meet_two_each(found: Attacked, people: Rows) -> None:
    """Ages 0-4, 5-9, ... with 0-1, 2-6, 7-11, ...: rows join two classes, of seven to ten."""
    told = found("join", by_fives(people), SCHEMA, other=by_fives(people, 3), original=people)
    figures = told.figures
    assert figures["joined"] == 5 * (2 + 5) + 18 * 5 * 10 + 5 * (5 + 3)
    assert figures["true"] == pytest.approx(SIZE)
    assert told.success.value == pytest.approx((5 / 7 + 18 * 5 / 10 + 5 / 8) / SIZE)
    low, high = figures["count_bounds"]
    assert low <= figures["count"] <= high <= figures["joined"]
    assert not figures["count_bounds_exact"]


def test_boxes_that_overlap_lose_nobody_where_all_rows_are_released(
    found: Attacked, people: Rows
) -> None:
    """Ages 0-4 and 4-9 overlap in one; whoever is 4 is in one of them all the same."""
    ages = ["[0, 4]" if one < 4 else "[4, 9]" for one in people["age"][:10]]
    few = {name: values[:10] for name, values in people.items()}
    release = {"age": ages, "sex": ["*"] * 10, "ill": few["ill"]}
    told = found("join", release, SCHEMA, other=few, original=few, other_original=few)
    assert told.figures["lost"] == pytest.approx(0)
    assert told.figures["true"] == pytest.approx(10)


def test_a_public_table_bounds_the_count_exactly(found: Attacked, people: Rows) -> None:
    """Five rows stand anywhere in 0-4, where the register has two, none, one, none and none."""
    register = {"age": [0, 0, 2], "sex": ["F", "M", "F"], "job": ["cook", "smith", "smith"]}
    told = found("join", by_fives(people), SCHEMA, other=register, original=people, on="age")
    figures = told.figures
    assert (figures["joined"], figures["count"], figures["count_bounds"]) == (15, 3, [0, 10])
    assert figures["count_bounds_exact"]
    assert figures["true"] == pytest.approx(3)
    assert told.success.tried == 2  # of the ages 0 and 2
    assert told.success.value == pytest.approx((2 / 3 + 1 / 3) / 2)


def test_people_who_changed_are_lost_where_labels_part(found: Attacked, people: Rows) -> None:
    """A year older than in the register: one in five is in another class there."""
    older = {**without_names(people), "age": [one + 1 for one in people["age"]]}
    named = {**older, "name": people["name"]}
    told = found(
        "join", by_fives(people), SCHEMA, other=older, original=people, other_original=named
    )
    assert told.figures["lost"] == pytest.approx(SIZE / 5)
    assert told.figures["true"] == pytest.approx(SIZE * 4 / 5)
    finest = found(
        "join",
        without_names(people),
        SCHEMA,
        other=older,
        original=people,
        other_original=named,
    )
    assert finest.figures["true"] == 0
    assert (finest.success.value, finest.figures["lost"]) == (0, SIZE)


def test_namesakes_are_not_the_same_person(found: Attacked, people: Rows) -> None:
    """All are called Ann: rows with the same age are partners; by their number people are."""
    raw, called = without_names(people), {**people, "name": ["Ann"] * SIZE}
    told = found("join", raw, SCHEMA, other=raw, original=called, other_original=called)
    assert (told.figures["original"], told.success.value) == (SIZE, 1)
    unit = Schema("people", SCHEMA.columns, sf.Entity("name", 100))
    told = found("join", raw, unit, other=raw, original=called, other_original=called)
    assert told.figures["original"] == SIZE * SIZE


def test_rows_that_are_not_released_are_lost(found: Attacked, people: Rows) -> None:
    part = {name: values[:80] for name, values in by_fives(people).items()}
    told = found("join", part, SCHEMA, other=by_fives(people), original=people)
    assert told.figures["lost"] == pytest.approx(20)
    assert "20 rows of the originals are not released" in told.remarks[-1]


def test_python_has_the_same_door(people: Rows, tmp_path: Path) -> None:
    with sf.read(people, SCHEMA) as table:
        table.anonymize(k=5).save(tmp_path / "safe.csv")
        release = safe = sf.read(tmp_path / "safe.csv", SCHEMA)
        told = safe.attack("join", other=release, original=table, other_original=table)
        every = safe.attack(other=release, original=table)
    assert told.json()["figures"]["recall"] == pytest.approx(1)
    assert told.json()["success"] <= 1 / 5
    assert isinstance(every, Findings)
    assert every["join"].success.value == told.json()["success"]


def test_what_cannot_be_joined_is_refused(found: Attacked, people: Rows) -> None:
    with pytest.raises(ParameterError, match="other="):
        found("join", people, SCHEMA, original=people)
    with pytest.raises(ParameterError, match="original="):
        found("join", people, SCHEMA, other=people)
    with pytest.raises(ParameterError, match="did you mean 'age'"):
        found("join", people, SCHEMA, other=people, original=people, on=["agee"])


TINY = (
    Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 2)),
    Column("town", Kind.TEXT, Role.QUASI, Values(("a", "b", "c"))),
)
AGES = {"0": [0], "1": [1], "2": [2], "[0, 1]": [0, 1], "[1, 2]": [1, 2], "*": [0, 1, 2]}
TOWNS = {"a": "a", "b": "b", "c": "c", "{a, c}": "ac", "{a, b}": "ab", "*": "abc"}


def frequencies(rows: Sequence[tuple[str, str]]) -> Frequencies:
    axes, codes = [], []
    for column, values in zip(TINY, zip(*rows, strict=True), strict=True):
        coded = pa.array(values).dictionary_encode()
        order = pc.sort_indices(coded.dictionary)
        axes.append(Listed(column.name, coded.dictionary.take(order), declared=False))
        codes.append(np.argsort(order.to_numpy())[coded.indices.to_numpy()])
    groups = group(codes, [axis.size for axis in axes], np.ones(len(rows), dtype=np.int64))
    kept = tuple(code[groups.representatives] for code in codes)
    return Frequencies(tuple(axes), kept, groups.counts)


def all_counts(one: Sequence[tuple[str, str]], two: Sequence[tuple[str, str]]) -> set[int]:
    """The count in each world of both tables."""
    worlds = [
        [*product(*(product(AGES[age], TOWNS[town]) for age, town in rows))] for rows in (one, two)
    ]
    return {sum(a == b for a in mine for b in theirs) for mine in worlds[0] for theirs in worlds[1]}


@pytest.mark.parametrize("kind", ["labels", "values", "apart"])
def test_bounds_are_those_of_all_worlds(kind: str, draws: np.random.Generator) -> None:
    exact = tight = 0
    for _ in range(40):
        ages, towns = [*AGES], [*TOWNS]
        if kind == "apart":
            ages, towns = ["0", "[1, 2]"], ["{a, c}", "b"]
        one, two = (
            [(str(draws.choice(ages)), str(draws.choice(towns))) for _ in range(size)]
            for size in (2, 3)
        )
        if kind == "values":
            two = [(str(draws.integers(0, 3)), str(draws.choice(["a", "b"]))) for _ in range(4)]
        low, high, reached = count_bounds(
            *boxes_together([frequencies(one), frequencies(two)], TINY)
        )
        counts = all_counts(one, two)
        assert low <= min(counts)
        assert high >= max(counts)
        if reached:
            assert (low, high) == (min(counts), max(counts))
        exact += reached
        tight += (low, high) == (min(counts), max(counts))
    assert exact == 40 if kind != "labels" else 0 < exact < 40
    assert tight >= 25
