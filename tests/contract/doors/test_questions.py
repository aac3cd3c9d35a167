"""Questions are asked, explained, charged and refused alike by both doors."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.doors.alike import assert_alike
from tests.contract.doors.conftest import LOCAL, REMOTE
from tests.fixtures.slices import few_fast

import sfumato as sf
from sfumato.errors import BudgetError, ParameterError, PolicyError, SfumatoError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.doors.conftest import Doors

    from sfumato.vault.vault_api import AnyVault

COUNT = "SELECT COUNT(*) AS n FROM people"
BY_CITY = "SELECT city, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY city ORDER BY n DESC"

QUESTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "count": (COUNT, {"epsilon": 0.1}),
    "groups": (BY_CITY, {"epsilon": "1/7"}),
    "weights": (BY_CITY, {"epsilon": Fraction(1, 9), "weights": {"n": 0.1 + 0.2, "age": 2}}),
    "gaussian": (COUNT, {"rho": Decimal("0.01"), "delta": 1e-8}),
    "rollup": ("SELECT city, COUNT(*) AS n FROM people GROUP BY ROLLUP (city)", {"epsilon": 0.2}),
    "dates": ("SELECT COUNT(*) AS n FROM people WHERE born < DATE '1955-05-05'", {"epsilon": 0.1}),
    "unlisted": ("SELECT age, COUNT(*) FROM people GROUP BY age", {"epsilon": 0.1}),
    "median": ("SELECT MEDIAN(income) AS m FROM people", {"epsilon": 0.2}),
    "join": (
        "SELECT v.kind, COUNT(*) AS n FROM visits v JOIN people p ON v.id = p.id GROUP BY v.kind",
        {"epsilon": 0.2},
    ),
    "public": (
        "SELECT c.land, COUNT(*) n FROM people p JOIN cities c ON p.city = c.city GROUP BY c.land",
        {"epsilon": 0.2},
    ),
    "built": (
        sf.table("people")
        .where("age > 30 AND city <> 'Köln'")
        .with_columns(old="age >= 60")
        .group_by("city", older="old")
        .aggregate(n="COUNT(*)", mean="AVG(income)")
        .having("n > 0")
        .order_by("n DESC")
        .limit(3),
        {"epsilon": 0.3},
    ),
    "built-join": (
        sf.table("people", "p")
        .join(sf.table("visits").where("cost > 5"), alias="v", on="p.id = v.id")
        .group_by("p.city")
        .aggregate(n="COUNT(*)"),
        {"epsilon": 0.2},
    ),
    "clause": (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.12) COUNT(*) AS n FROM people",
        {},
    ),
}


@pytest.mark.parametrize("name", few_fast(QUESTIONS, 6))
def test_an_answer_is_the_same_by_both_doors(local: AnyVault, remote: AnyVault, name: str) -> None:
    asked, cost = QUESTIONS[name]
    assert remote.explain(asked, **cost).text() == local.explain(asked, **cost).text()
    assert remote.explain(asked, **cost).to_json() == local.explain(asked, **cost).to_json()
    fresh = remote.query(asked, **cost)
    again = local.query(asked, **cost)
    assert fresh.charged
    assert not again.charged
    assert_alike(fresh, again)


def test_a_repeat_is_free_and_a_request_id_names_one_question(vault: AnyVault) -> None:
    door = type(vault).__name__
    sql = f"SELECT COUNT(*) AS {door} FROM people"
    first = vault.query(sql, epsilon=0.1, request_id=f"{door} 1")
    left = vault.private("people").remaining
    again = vault.query(sql, epsilon=0.1)
    named = vault.query(sql, epsilon=0.1, request_id=f"{door} 1")
    assert (first.charged, again.charged, named.charged) == (True, False, False)
    assert first.receipt == again.receipt == named.receipt
    assert again.remaining == left == vault.private("people").remaining
    with pytest.raises(SfumatoError) as refused:
        vault.query(f"{sql} WHERE age > 9", epsilon=0.1, request_id=f"{door} 1")
    assert refused.value.code == "request_reused"


@pytest.mark.parametrize("name", ["größe 😀", " blanks ", "utf-8''a", "%41", "ä" * 200])
def test_a_request_id_is_any_text_that_can_be_shown(
    local: AnyVault, remote: AnyVault, name: str
) -> None:
    sql = f"SELECT COUNT(*) AS n FROM people WHERE age > {sum(map(ord, name)) % 97}"
    there = remote.query(sql, epsilon=0.01, request_id=name)
    assert there.charged
    assert not local.query(sql, epsilon=0.01, request_id=name).charged
    for vault in (local, remote):
        with pytest.raises(SfumatoError) as refused:
            vault.query(f"{sql} AND age < 99", epsilon=0.01, request_id=name)
        assert refused.value.code == "request_reused"


WRONG: dict[str, Callable[[Any], Any]] = {
    "syntax": lambda vault: vault.query("SELECT FROM WHERE", epsilon=0.1),
    "column": lambda vault: vault.query("SELECT COUNT(agee) FROM people", epsilon=0.1),
    "table": lambda vault: vault.query("SELECT COUNT(*) FROM poeple", epsilon=0.1),
    "rows": lambda vault: vault.query("SELECT age FROM people", epsilon=0.1),
    "public": lambda vault: vault.query("SELECT COUNT(*) FROM cities", epsilon=0.1),
    "unfinished": lambda vault: vault.query(sf.table("people"), epsilon=0.1),
    "nothing": lambda vault: vault.query(17, epsilon=0.1),
    "zero": lambda vault: vault.query(COUNT, epsilon=0),
    "text": lambda vault: vault.query(COUNT, epsilon="much"),
    "tiny": lambda vault: vault.query(COUNT, epsilon=1e-12),
    "huge": lambda vault: vault.query(COUNT, epsilon=11),
    "too much": lambda vault: vault.query(f"{COUNT} WHERE age > 3", epsilon=10),
    "two costs": lambda vault: vault.query(COUNT, epsilon=0.1, rho=0.1),
    "weights": lambda vault: vault.query(COUNT, epsilon=0.1, weights={"x": 1}),
    "request": lambda vault: vault.query(COUNT, epsilon=0.1, request_id=7),
    "request of lines": lambda vault: vault.query(COUNT, epsilon=0.1, request_id="a\r\nX: y"),
    "request of nothing": lambda vault: vault.query(COUNT, epsilon=0.1, request_id=""),
    "request too long": lambda vault: vault.query(COUNT, epsilon=0.1, request_id="a" * 201),
    "dataset": lambda vault: vault.private("poeple"),
    "public set": lambda vault: vault.private("cities"),
    "kind": lambda vault: vault.plan("histogramm", "people", columns=["age"], epsilon=0.1),
    "option": lambda vault: vault.plan("histogram", "people", columns="age", epsilon=1, wdth=2),
    "columns": lambda vault: vault.plan("tree", "people", columns=["agee"], epsilon=0.1),
    "ranges": lambda vault: vault.plan("tree", "people", columns="age", workload=[[1, 2]]),
    "method": lambda vault: vault.private("people").plan_synthesis(method="aimm", epsilon=1),
    "child": lambda vault: vault.private("people").plan_synthesis(child="vsits", key="id"),
    "misspelt": lambda vault: vault.private("people").plan_synthesis(collumns="age"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_refused_in_the_same_words(
    local: AnyVault, remote: AnyVault, wrong: str
) -> None:
    before = local.accounts()
    told = []
    for vault in (local, remote):
        with pytest.raises((SfumatoError, TypeError)) as refused:
            WRONG[wrong](vault)
        told.append((type(refused.value), getattr(refused.value, "code", ""), str(refused.value)))
    assert told[0] == told[1]
    assert local.accounts() == before


def test_a_principal_has_the_same_budget_by_both_doors(doors: Doors, local: AnyVault) -> None:
    with doors.open(REMOTE, "ann") as remote:
        fresh = remote.query(BY_CITY, epsilon=0.25, purpose="care")
        again = local.query(BY_CITY, epsilon=0.25, purpose="care", principal="ann")
        assert (fresh.charged, again.charged) == (True, False)
        assert_alike(fresh, again)
        assert remote.private("people").remaining == again.remaining
        assert repr(remote.private("people")) == repr(local.private("people", principal="ann"))
        assert remote.query(BY_CITY, epsilon=0.25, purpose="care", principal="ann").charged is False
        assert [one["account"] for one in remote.accounts()] == ["people/ann"]
        other = remote.query(BY_CITY, epsilon=0.25, purpose="research")
        assert other.charged, "another purpose is another question"
        with pytest.raises(PolicyError) as refused:
            remote.query(BY_CITY, epsilon=0.25, principal="bob")
        assert refused.value.code == "permission_missing"
        for ask in (remote.private, remote.questions, remote.jobs.list):
            for who in ("owner", "nobody"):
                given = ("people",) if ask == remote.private else ()
                with pytest.raises(PolicyError) as refused:
                    ask(*given, principal=who)
                assert refused.value.code == "permission_missing"
        with pytest.raises(BudgetError) as refused_for_budget:
            remote.query(COUNT, epsilon=4.9)
        with pytest.raises(BudgetError) as locally:
            local.query(COUNT, epsilon=4.9, principal="ann")
        assert str(refused_for_budget.value) == str(locally.value)


def test_who_has_no_budget_sees_the_same_by_both_doors(doors: Doors, local: AnyVault) -> None:
    with doors.open(REMOTE, "bob") as remote:
        assert remote.datasets == ("cities",)
        assert remote.accounts() == []
        told = []
        for ask in (
            lambda: local.query(COUNT, epsilon=0.1, principal="bob"),
            lambda: remote.query(COUNT, epsilon=0.1),
        ):
            with pytest.raises(SfumatoError) as refused:
                ask()
            told.append((refused.value.code, str(refused.value)))
        assert told[0] == told[1]
        assert "people" not in told[0][1].replace("FROM people", "").replace("'people'", "", 1)


def test_what_a_vault_says_of_itself(doors: Doors, local: AnyVault, remote: AnyVault) -> None:
    assert remote.datasets == local.datasets
    assert remote.accounts() == local.accounts()
    ours, theirs = local.private("people"), remote.private("people")
    assert ours.schema == theirs.schema
    assert repr(ours) == repr(theirs)
    assert ours._repr_html_() == theirs._repr_html_()
    assert ours.usual_epsilon == theirs.usual_epsilon
    assert ours.largest_epsilon == theirs.largest_epsilon
    assert repr(remote) == f"<RemoteVault: {doors.url}: people, visits, cities>"
    assert "people" in str(remote._repr_html_())
    assert "query" in dir(remote)


def test_a_vault_that_was_closed_says_so(doors: Doors) -> None:
    told = []
    for door in (LOCAL, REMOTE):
        with doors.open(door) as vault:
            private = vault.private("people")
        with pytest.raises(ParameterError) as refused:
            vault.query(COUNT, epsilon=0.1)
        told.append(refused.value.code)
        assert "people" in repr(private)
        assert repr(vault)
    assert told == ["vault_closed", "vault_closed"]
