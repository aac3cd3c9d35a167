"""What kinds of principals may do, and what one of them may."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from tests.fixtures.ledgers import code_of

from sfumato.vault.families import FAMILIES
from sfumato.vault.principals import (
    PERMITTED,
    SHAPES,
    Principal,
    PrincipalKind,
    kind_named,
    read_expiry,
    shapes_named,
)

LAST = datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))
NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


def principal(**said: object) -> Principal:
    told = {"name": "alice", "kind": PrincipalKind.EXTERNAL, "shapes": frozenset({"query"})}
    return Principal(**{**told, **said})  # type: ignore[arg-type]


def test_every_kind_is_in_the_one_table_and_nothing_else_is_permitted() -> None:
    assert set(PERMITTED) == set(PrincipalKind)
    assert frozenset().union(*PERMITTED.values()) == set(SHAPES)
    assert all(set(shapes) <= set(SHAPES) for shapes in PERMITTED.values())
    assert PERMITTED[PrincipalKind.PUBLIC] == {"download"}


def test_every_family_has_a_shape_that_can_be_permitted() -> None:
    assert {one.shape for one in FAMILIES.values()} <= set(SHAPES)


def test_a_shape_that_is_not_named_is_refused() -> None:
    principal().check("query")
    assert code_of(principal().check, "synthesize") == "permission_missing"
    assert code_of(principal().check, "anything") == "permission_missing"
    assert code_of(principal(shapes=frozenset()).check, "query") == "permission_missing"
    principal(kind=PrincipalKind.OWNER, shapes=frozenset()).check("query", {"epsilon": "100"})


@pytest.mark.parametrize(
    ("cost", "fine"),
    [
        ({"epsilon": "1/2"}, True),
        ({"epsilon": "1"}, True),
        ({"epsilon": "100000001/100000000"}, False),
        ({"epsilon": "1/10"}, True),
        ({"epsilon": "99/1000", "delta": "1/10"}, False),
        ({"rho": "1/2"}, True),  # of epsilon 1
        ({"rho": "1/200"}, True),  # of epsilon 1/10
        ({"rho": "51/100"}, False),
        ({"rho": "1/201"}, False),
    ],
)
def test_a_price_is_within_their_range(cost: dict[str, str], fine: bool) -> None:
    person = principal(min_epsilon=Fraction(1, 10), max_epsilon=Fraction(1))
    if fine:
        person.check("query", cost)
    else:
        assert code_of(person.check, "query", cost) == "permission_missing"
    principal().check("query", cost)


def test_the_usual_price_is_within_their_range() -> None:
    person = principal(min_epsilon=Fraction(1, 10), max_epsilon=Fraction(1))
    assert [person.usual(Fraction(one)) for one in ("1/100", "1/2", "3")] == [
        Fraction(1, 10), Fraction(1, 2), 1]  # fmt: skip
    assert principal().usual(Fraction(3)) == 3


def test_what_exists_for_them() -> None:
    person = principal(populations=("visits",))
    assert person.sees("visits")
    assert not person.sees("others")
    assert not principal(populations=("visits",), shapes=frozenset({"download"})).sees("visits")
    assert principal(kind=PrincipalKind.OWNER).sees("others")


def test_it_comes_back_from_json() -> None:
    person = principal(
        min_epsilon=Fraction(1, 3),
        max_epsilon=Fraction(1, 2),
        expires=NOW,
        populations=("a", "b"),
        shapes=frozenset({"query", "explain"}),
    )
    assert person.to_json()["max_epsilon"] == "0.5"
    assert person.to_json()["shapes"] == ["explain", "query"]
    assert Principal.from_json(person.to_json()) == person
    assert Principal.from_json(principal().to_json()) == principal()
    assert "alice, external: explain, query" in repr(person)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2031-01-31", datetime(2031, 1, 31, tzinfo=UTC)),
        ("2031-01-31T18:00+01:00", datetime(2031, 1, 31, 17, tzinfo=UTC)),
        ("90d", NOW + timedelta(days=90)),
        (datetime(2031, 1, 31), datetime(2031, 1, 31, tzinfo=UTC)),  # noqa: DTZ001
        (None, None),
    ],
)
def test_when_something_ends(said: object, meant: datetime | None) -> None:
    assert read_expiry(said, NOW) == meant


@pytest.mark.parametrize("said", ["", "soon", "-3d", "99999999d", "2031-02-30", "٣d", "1e3d", LAST])
def test_a_time_that_cannot_be_read(said: object) -> None:
    assert code_of(read_expiry, said, NOW) == "time_malformed"


def test_words_that_are_none() -> None:
    assert kind_named("external") is PrincipalKind.EXTERNAL
    assert code_of(kind_named, "extrenal") == "choice_unknown"
    assert code_of(kind_named, "Owner") == "choice_unknown"
    assert shapes_named(PrincipalKind.EXTERNAL, None) == PERMITTED[PrincipalKind.EXTERNAL]
    assert shapes_named(PrincipalKind.EXTERNAL, "query,explain") == {"query", "explain"}
    assert shapes_named(PrincipalKind.EXTERNAL, []) == frozenset()
    assert code_of(shapes_named, PrincipalKind.EXTERNAL, ["synthesize"]) == "choice_unknown"
