"""Budgets of principals: given, lowered, moved; both or none, and never above the population's."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.ledgers import charge, code_of

from sfumato.errors import SfumatoError
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.memory import memory_ledger
from sfumato.vault.config import Config
from sfumato.vault.principal_registry import PrincipalRegistry

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.privacy.ledger.base import Ledger

BY = {"operator": "ann"}


@pytest.fixture
def ledger() -> Ledger:
    made = memory_ledger()
    made.open_account("visits", budget=Budget.for_epsilon_delta(epsilon=2, delta="1e-6"))
    return made


@pytest.fixture
def people(ledger: Ledger, tmp_path: Path) -> PrincipalRegistry:
    budgets = {"visits": Budget.for_epsilon_delta(epsilon=2, delta="1e-6")}
    config = Config(tmp_path, "ledger.sqlite", tmp_path / "head", budgets=budgets)
    made = PrincipalRegistry(ledger, lambda: config)
    for name in ("alice", "bob", "carl"):
        made.add(name, "external", **BY)
    made.grant("alice", epsilon=1, **BY)
    made.grant("bob", epsilon="1/2", delta="1e-7", **BY)
    return made


def held(ledger: Ledger, name: str) -> tuple[Fraction, Fraction]:
    loss = ledger.account(f"visits/{name}").budget.loss()
    return loss.epsilon, getattr(loss, "delta", Fraction(0))


def test_a_budget_is_given_raised_and_lowered(people: PrincipalRegistry, ledger: Ledger) -> None:
    assert held(ledger, "bob") == (Fraction(1, 2), Fraction(1, 10**7))
    people.grant("alice", epsilon="1.5", **BY)
    people.grant("alice", epsilon="1.5", **BY)  # the same again is the same
    assert held(ledger, "alice")[0] == Fraction(3, 2)
    people.lower("alice", epsilon="1/3", **BY)
    assert held(ledger, "alice")[0] == Fraction(1, 3)
    assert code_of(people.grant, "alice", epsilon="0.3", **BY) == "budget_out_of_range"
    assert code_of(people.grant, "bob", epsilon=1, **BY) == "budget_out_of_range"  # less delta
    assert code_of(people.lower, "alice", epsilon="0.34", **BY) == "budget_out_of_range"
    assert (
        code_of(people.lower, "alice", epsilon="0.3", delta="1e-9", **BY) == "budget_out_of_range"
    )
    assert code_of(people.lower, "carl", epsilon=0, **BY) == "budget_not_held"
    assert code_of(people.lower, "nobody", epsilon=0, **BY) == "principal_unknown"
    entries = [entry.body for entry in ledger.entries()]
    assert sum('"kind":"limit"' in body and '"operator":"ann"' in body for body in entries) == 3
    ledger.verify()


def test_a_budget_can_be_taken_away_and_given_back_as_spent(
    people: PrincipalRegistry, ledger: Ledger
) -> None:
    ledger.store(charge(ledger, "3/4", "r1", account="visits/alice"), b"42")
    assert people.lower("alice", epsilon=0, **BY).populations == ()
    assert people.balances("alice") == []
    assert people.grant("alice", epsilon=1, **BY).populations == ("visits",)
    assert people.balances("alice")[0]["remaining"]["epsilon"] == 0.25


def test_what_was_spent_stays_spent(people: PrincipalRegistry, ledger: Ledger) -> None:
    ledger.store(charge(ledger, "3/4", "r1", account="visits/alice"), b"42")
    for change in (
        lambda: people.lower("alice", epsilon="0.7", **BY),
        lambda: people.move("alice", "bob", epsilon="0.3", **BY),
    ):
        assert code_of(change) == "budget_out_of_range"
    assert (held(ledger, "alice")[0], held(ledger, "bob")[0]) == (Fraction(1), Fraction(1, 2))
    people.move("alice", "bob", epsilon="0.25", **BY)
    assert (held(ledger, "alice")[0], held(ledger, "bob")[0]) == (Fraction(3, 4), Fraction(3, 4))
    ledger.verify()


def test_R41_transfers_that_are_none(people: PrincipalRegistry, ledger: Ledger) -> None:
    before = ledger.verify()
    refused = [
        ("options_conflict", ("alice", "alice", {"epsilon": "0.1"})),
        ("parameter_out_of_range", ("alice", "bob", {"epsilon": "-0.1"})),
        ("budget_out_of_range", ("alice", "bob", {"epsilon": "1.1"})),
        ("budget_not_held", ("carl", "bob", {"epsilon": "0.1"})),
        ("principal_unknown", ("alice", "nobody", {"epsilon": "0.1"})),
        ("account_elsewhere", ("alice", "owner", {"epsilon": "0.1"})),
        ("parameter_out_of_range", ("alice", "bob", {"epsilon": "0.1", "delta": "-1"})),
        ("population_unknown", ("alice", "bob", {"epsilon": "0.1", "population": "x"})),
    ]
    for code, (giver, taker, amounts) in refused:
        assert code_of(people.move, giver, taker, **amounts, **BY) == code
    assert code_of(people.move, "bob", "alice", epsilon="0.1", delta="2e-7", **BY) == (
        "budget_out_of_range"
    )
    people.grant("bob", epsilon="1.5", delta="1e-7", **BY)
    assert code_of(people.move, "alice", "bob", epsilon="0.6", **BY) == "budget_out_of_range"
    assert held(ledger, "alice")[0] == 1
    assert ledger.verify().position.seq == before.position.seq + 2


def test_all_can_be_moved(people: PrincipalRegistry, ledger: Ledger) -> None:
    people.move("bob", "carl", epsilon="1/2", delta="1e-7", **BY)
    assert people.get("bob").populations == ()
    assert people.get("carl").populations == ("visits",)
    assert held(ledger, "carl") == (Fraction(1, 2), Fraction(1, 10**7))


def test_moves_at_once_lose_and_make_nothing(people: PrincipalRegistry, ledger: Ledger) -> None:
    people.lower("bob", epsilon="1/2", **BY)

    def move(giver: str, taker: str) -> None:
        for _ in range(20):
            with suppress(SfumatoError):
                people.move(giver, taker, epsilon="0.3", **BY)

    ways: list[Any] = [("alice", "bob"), ("bob", "alice")] * 3
    threads = [Thread(target=move, args=way) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = [held(ledger, one)[0] for one in ("alice", "bob") if people.get(one).populations]
    assert sum(kept) == Fraction(3, 2)
    ledger.verify()
