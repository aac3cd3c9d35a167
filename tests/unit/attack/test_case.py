"""Tables without rows: every attack says so in one line, and no figure comes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sfumato.attack.comparison.compare import compare
from sfumato.attack.finding import Findings
from sfumato.attack.registry import ANSWER_ATTACKS, ATTACKS
from sfumato.attack.runner import attack
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.attack.finding import Finding

    Attacked = Callable[..., Finding]
    Rows = dict[str, list[Any]]

SCHEMA = Schema(
    "people",
    (
        Column("age", Kind.INTEGER, Role.QUASI),
        Column("town", Kind.TEXT, Role.QUASI),
        Column("ill", Kind.TEXT, Role.SENSITIVE),
    ),
)
PEOPLE: Rows = {
    "age": [20 + n % 9 for n in range(30)],
    "town": [f"t{n % 4}" for n in range(30)],
    "ill": [("flu", "gout", "none")[n % 7 % 3] for n in range(30)],
}
HEADER: Rows = {name: [] for name in PEOPLE}
SUPPRESSED: Rows = {name: ["*"] * 5 for name in PEOPLE}


@pytest.mark.parametrize("release", [HEADER, SUPPRESSED], ids=["header", "suppressed"])
def test_a_release_without_rows_is_told_by_every_attack(release: Rows) -> None:
    beside: dict[str, Any] = dict.fromkeys(("known", "original", "other", "control"), PEOPLE)
    found = attack("all", release, SCHEMA, **beside)
    assert isinstance(found, Findings)
    assert not found.findings
    assert {one for one in found.not_run.values() if "the release has no rows" not in one} == set()
    assert found.not_run.keys() == ATTACKS.keys()


def test_nobody_in_the_original_is_told_by_every_attack() -> None:
    found = attack("all", PEOPLE, SCHEMA, original=HEADER, known=PEOPLE, control=PEOPLE)
    assert isinstance(found, Findings)
    assert not found.findings
    assert all("the original has no people" in one for one in found.not_run.values())


@pytest.mark.parametrize(("flag", "words"), [("known", "list"), ("control", "control")])
def test_other_empty_tables_are_named(found: Attacked, flag: str, words: str) -> None:
    with pytest.raises(ParameterError, match=f"{words}.* Give {flag}= a table with rows"):
        found("link", PEOPLE, SCHEMA, **{"original": PEOPLE, flag: HEADER})


def test_questions_need_people(found: Attacked) -> None:
    for name in ANSWER_ATTACKS:
        with pytest.raises(ParameterError, match="no rows"):
            found(name, HEADER, SCHEMA, epsilon=1)


def test_an_empty_candidate_is_compared_without_attacks() -> None:
    told = compare({"empty": HEADER, "all": PEOPLE}, PEOPLE, SCHEMA)
    assert not told["empty"].findings.findings
    assert all(
        "no rows" in one for one in told["empty"].findings.not_run.values() if "side" not in one
    )
    with pytest.raises(ParameterError, match="The original has no rows"):
        compare([PEOPLE], HEADER, SCHEMA)


def test_a_class_that_nobody_fits_is_no_class_of_people(found: Attacked) -> None:
    """Minimality reasons from classes of people; here nobody of the original fits one."""
    far = PEOPLE | {"age": [70] * 30}
    with pytest.raises(ParameterError, match="no class of the release is that of people"):
        found("minimality", far, SCHEMA, original=PEOPLE)
    missing: Rows = PEOPLE | {"age": [None] * 30, "town": [None] * 30}
    all_missing = attack("all", missing, SCHEMA, original=PEOPLE, control=PEOPLE)
    assert isinstance(all_missing, Findings)
    assert "that of people" in all_missing.not_run["minimality"]
