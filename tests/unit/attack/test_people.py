"""Several rows a person: people are counted where the schema says whose rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.attack.finding import Finding

    Attacked = Callable[..., Finding]

COLUMNS = (
    Column("who", Kind.INTEGER, Role.IDENTIFIER, nullable=False),
    Column("ward", Kind.TEXT, Role.QUASI),
    Column("ill", Kind.TEXT, Role.SENSITIVE),
)
ROWS = Schema("visits", COLUMNS)
PEOPLE = Schema("visits", COLUMNS, sf.Entity("who", 9))
VISITS: dict[str, list[Any]] = {
    "who": [1, 1, 2, 2, 3, 3, 3],
    "ward": ["a", "b", "a", "b", "c", "c", "d"],
    "ill": ["flu", "flu", "gout", "gout", "flu", "flu", "gout"],
}


def test_a_person_is_found_by_any_of_their_rows(found: Attacked) -> None:
    """Of two who were seen in both wards each is picked once in two; the third is alone."""
    told = found("link", VISITS, PEOPLE, original=VISITS)
    assert told.success.tried == 3
    # who 3 has two alike rows in ward c, each found for one in two, and one in d
    assert told.success.value == pytest.approx((0.75 + 0.75 + 1) / 3)
    assert told.victims == 1
    assert told.baseline.value == pytest.approx(1 - ((6 / 7) ** 2 * 2 + (6 / 7) ** 3) / 3)
    assert "people, by who" in told.remarks[-1]
    rows = found("link", VISITS, ROWS, original=VISITS)
    assert rows.success.tried == 7
    assert rows.success.value == pytest.approx(4 / 7)


def test_a_person_is_hit_by_any_class(found: Attacked) -> None:
    told = found("homogeneity", VISITS, PEOPLE)
    assert (told.success.tried, told.victims) == (3, 1)
    assert found("homogeneity", VISITS, ROWS).victims == 3
    both = {**VISITS, "ill": ["flu"] * 6 + ["gout"]}
    assert found("homogeneity", both, PEOPLE).victims == 3
    unnamed = {name: VISITS[name] for name in ("ward", "ill")}
    told = found("homogeneity", unnamed, PEOPLE)
    assert (told.success.tried, told.remarks) == (
        7,
        ["Rows are counted, not people, of whom some may have several."],
    )


def test_values_of_people_that_have_nothing_to_do_with_classes(
    found: Attacked, draws: np.random.Generator
) -> None:
    visits = {
        "who": draws.integers(0, 700, 3000).tolist(),
        "ward": [f"ward {one}" for one in draws.integers(0, 900, 3000)],
        "ill": draws.choice(["asthma", "flu", "gout"], 3000).tolist(),
    }
    told = found("homogeneity", visits, PEOPLE)
    assert told.success.tried == len({*visits["who"]})
    assert told.baseline.low <= told.success.value <= told.baseline.high


def test_who_is_alone_is_asked_of_people(found: Attacked) -> None:
    """In ward c one person has both rows; in ward d there is another one, who was not released."""
    everyone = {"who": [*VISITS["who"], 4], "ward": [*VISITS["ward"], "d"]}
    told = found("uniqueness", VISITS, PEOPLE, known=everyone)
    assert (told.success.tried, told.victims) == (3, 1)
    assert found("uniqueness", VISITS, ROWS, known=everyone).victims == 0
    moved = {"who": [*everyone["who"], 4], "ward": [*everyone["ward"], "c"]}
    assert found("uniqueness", VISITS, PEOPLE, known=moved).victims == 0


def test_membership_tries_each_person_once(found: Attacked, draws: np.random.Generator) -> None:
    def visits(first: int) -> dict[str, list[Any]]:
        who = np.repeat(np.arange(first, first + 60), 5)
        return {
            "who": who.tolist(),
            "ward": [f"ward {one}" for one in draws.integers(0, 5000, len(who))],
            "ill": draws.choice(["flu", "gout"], len(who)).tolist(),
        }

    inside, outside = visits(0), visits(100)
    told = found("membership", inside, PEOPLE, original=inside, control=outside)
    assert told.success.tried == 30  # of 60 others half are compared with, and half of all is told
    assert told.success.low > 0.5
    assert "one row of each is tried" in told.remarks[-1]
    rows = found("membership", inside, ROWS, original=inside, control=outside)
    assert rows.success.tried == 150


def test_other_attacks_say_that_rows_are_counted(found: Attacked) -> None:
    told = found("predict", VISITS, PEOPLE, original=VISITS)
    assert "Rows are counted" in told.remarks[-1]
    assert "Rows are counted" not in " ".join(
        found("predict", VISITS, ROWS, original=VISITS).remarks
    )
