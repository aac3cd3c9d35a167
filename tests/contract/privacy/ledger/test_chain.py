"""The chain, its outside head and its export (promises 5, 6, 7, 10)."""

from __future__ import annotations

import io
import json
from fractions import Fraction
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from tests.fixtures.ledgers import BODY, ask, charge, code_of, nano

from sfumato.privacy.accounting.events import ApproxEvent, GaussianNoise
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger import rules
from sfumato.privacy.ledger.checker import ExportError, check


def test_L5_append_only_and_tamper_evident(durable_place: Any, one: Budget) -> None:
    ledger = durable_place.open()
    ledger.open_account("visits", budget=one)
    for turn in range(5):
        ledger.store(charge(ledger, "1/10", f"r{turn}"), b"42")
    assert ledger.verify().position.seq == 12
    with raw(durable_place).connect() as connection:
        for statement in (
            "UPDATE sfumato_entries SET body = '{}' WHERE seq = 3",
            "DELETE FROM sfumato_entries WHERE seq = 3",
        ):
            with pytest.raises(DBAPIError, match="only ever added"):
                connection.execute(text(statement))
            connection.rollback()


TAMPERINGS = {
    "entry": "UPDATE sfumato_entries SET body = replace(body, 'alice', 'mallo')",
    "middle": "DELETE FROM sfumato_entries WHERE seq = 3",
    "balance": "UPDATE sfumato_balances SET spent = spent - 1 WHERE account = 'visits'",
    "budget": "UPDATE sfumato_accounts SET budget = replace(budget, '1', '9')",
    "answer": "UPDATE sfumato_answers SET answer = CAST('43' AS {bytes})",
    "lost answer": "DELETE FROM sfumato_answers",
    "request": "UPDATE sfumato_requests SET request = 'other'",
    "data set": "UPDATE sfumato_datasets SET account = 'spare'",
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_L5_verify_finds(durable_place: Any, one: Budget, tampering: str) -> None:
    ledger = durable_place.open()
    ledger.open_account("visits", budget=one)
    ledger.open_account("spare", budget=one)
    ledger.attach("stays", account="visits")
    ledger.store(charge(ledger, "1/10", "r1"), b"42")
    ledger.verify()
    with raw(durable_place).connect() as connection:
        for statement in unprotect(durable_place.kind):
            connection.execute(text(statement))
        column = "BLOB" if durable_place.kind == "sqlite" else "BYTEA"
        connection.execute(text(TAMPERINGS[tampering].format(bytes=column)))
        connection.commit()
    assert code_of(durable_place.open().verify) == "ledger_damaged"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE sfumato_entries SET body = replace(body, '19/20', '11/20') WHERE seq = 3",
        "UPDATE sfumato_entries SET body = replace(body, '\"visits\"', '\"visitz\"') WHERE seq = 3",
        "DELETE FROM sfumato_requests; DELETE FROM sfumato_entries WHERE seq = 3",
    ],
)
def test_L5_a_limit_is_not_counted_from_damaged_entries(
    durable_place: Any, one: Budget, damage: str
) -> None:
    ledger = durable_place.open()
    ledger.open_account("visits", budget=one)
    charge(ledger, "19/20", "r1")
    charge(ledger, "1/20", "r2")
    with raw(durable_place).connect() as connection:
        for statement in (*unprotect(durable_place.kind), *damage.split(";")):
            connection.execute(text(statement))
        connection.commit()
    again = durable_place.open()
    two = Budget.for_epsilon_delta(epsilon=2)
    assert code_of(again.set_limit, "visits", budget=two, operator="root") == "ledger_damaged"
    assert again.account("visits").budget == one


def test_L5_units_are_those_of_the_event(
    place: Any, one: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain that is whole but charges less than its events cost is found, here and outside."""
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    with monkeypatch.context() as patch:
        patch.setattr(rules, "cost", lambda budget, event: ((budget.charge(event)[0][0] // 2,),))
        ledger.store(charge(ledger, "1/10", "r1"), b"42")
    assert nano(ledger) == 50_000_000
    assert code_of(ledger.verify) == "ledger_damaged"
    two = Budget.for_epsilon_delta(epsilon=2)
    assert code_of(ledger.set_limit, "visits", budget=two, operator="root") == "ledger_damaged"
    target = io.StringIO()
    ledger.export(target)
    with pytest.raises(ExportError, match="something else"):
        check(target.getvalue().splitlines())


def test_L5_what_a_limit_says_was_spent_follows_from_the_events(
    place: Any, one: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    charge(ledger, "1/10", "r1")
    two = Budget.for_epsilon_delta(epsilon=2)
    with monkeypatch.context() as patch:
        patch.setattr(rules, "recount", lambda budget, _: budget.zero())
        ledger.set_limit("visits", budget=two, operator="root")
    assert nano(ledger) == 0
    assert code_of(ledger.verify) == "ledger_damaged"
    target = io.StringIO()
    ledger.export(target)
    with pytest.raises(ExportError, match="does not follow"):
        check(target.getvalue().splitlines())


def raw(place: Any) -> Any:
    """The database behind a ledger, without its rules."""
    address = place.address.replace("postgresql:", "postgresql+psycopg:")
    if place.kind == "sqlite":
        address = f"sqlite:///{address}"
    return create_engine(address, poolclass=NullPool)


def unprotect(kind: str) -> list[str]:
    """What a tamperer with all rights would do first."""
    if kind == "sqlite":
        names = ("update", "delete")
        return [f"DROP TRIGGER sfumato_entries_no_{name}" for name in names]
    return [
        "DROP TRIGGER sfumato_entries_keep ON sfumato_entries",
        "SET session_replication_role = replica",
    ]


def test_L5_a_lost_account_is_not_opened_afresh(durable_place: Any, one: Budget) -> None:
    ledger = durable_place.open()
    ledger.open_account("visits", budget=one)
    ledger.attach("stays", account="visits")
    charge(ledger, "1/10", "r1")
    with raw(durable_place).connect() as connection:
        for statement in unprotect(durable_place.kind):
            connection.execute(text(statement))
        for table in ("datasets", "balances", "accounts"):
            connection.execute(text(f"DELETE FROM sfumato_{table}"))
        connection.commit()
    again = durable_place.open()
    assert code_of(again.open_account, "visits", budget=one) == "ledger_damaged"
    assert again.open_account("visit", budget=one).spent == ((0,),)
    assert code_of(again.attach, "stays", account="visit") == "ledger_damaged"


def test_L6_rollback_is_refused_until_acknowledged(durable_place: Any, one: Budget) -> None:
    ledger = durable_place.open()
    ledger.open_account("visits", budget=one)
    ledger.store(charge(ledger, "1/10", "r1"), b"1")
    # The database falls back behind the head: its last entries are gone.
    with raw(durable_place).connect() as connection:
        for statement in (
            *unprotect(durable_place.kind),
            "DELETE FROM sfumato_answers",
            "DELETE FROM sfumato_requests",
            "DELETE FROM sfumato_entries WHERE seq > 2",
        ):
            connection.execute(text(statement))
        connection.commit()
    old = durable_place.open()
    assert code_of(charge, old, "1/10", "r2") == "ledger_rolled_back"
    assert code_of(ask, old, "r1") == "ledger_rolled_back"
    assert code_of(old.verify) == "ledger_rolled_back"
    assert old.account("visits").budget == one  # an operator may still look
    old.acknowledge_rollback(operator="root")
    assert code_of(charge, old, "1/1000000", "r2") == "budget_exhausted"
    again = durable_place.open()
    assert code_of(charge, again, "1/1000000", "r3") == "budget_exhausted"
    again.set_limit("visits", budget=Budget.for_epsilon_delta(epsilon=3), operator="root")
    charge(again, "1/10", "r4")
    assert nano(again) == 1_100_000_000


def test_L6_acknowledging_nothing_changes_nothing(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    ledger.acknowledge_rollback(operator="root")
    assert len(list(ledger.entries())) == 2
    charge(ledger, "1", "r1")


def test_L6_a_head_behind_the_database_is_healed(durable_place: Any, one: Budget) -> None:
    def die(step: str) -> None:
        if step == "committed":
            raise KeyboardInterrupt

    durable_place.open().open_account("visits", budget=one)
    with pytest.raises(KeyboardInterrupt):
        charge(durable_place.open(at_step=die), "1/10", "r1")
    again = durable_place.open()
    assert nano(again) == 100_000_000
    charge(again, "1/10", "r2")
    again.verify()


def test_L6_a_missing_head_is_refused(durable_place: Any, one: Budget) -> None:
    durable_place.open().open_account("visits", budget=one)
    durable_place.head.unlink()
    again = durable_place.open()
    assert code_of(charge, again, "1/10", "r1") == "ledger_rolled_back"
    again.acknowledge_rollback(operator="root")
    assert code_of(charge, again, "1/10", "r1") == "budget_exhausted"


def test_L7_the_database_checks_balances_too(durable_place: Any, one: Budget) -> None:
    durable_place.open().open_account("visits", budget=one)
    with raw(durable_place).connect() as connection:
        for amount in ("ceiling + 1", "-1"):
            with pytest.raises(DBAPIError, match=r"(?i)check"):
                connection.execute(text(f"UPDATE sfumato_balances SET spent = {amount}"))
            connection.rollback()


def test_L10_export_is_replayed_by_an_independent_checker(place: Any) -> None:
    ledger = place.open()
    both = Budget.for_epsilon_delta(epsilon=3, delta="1/1000000")
    ledger.open_account("visits", budget=both)
    ledger.open_account("visits/alice", budget=Budget.for_epsilon_delta(epsilon=1), parent="visits")
    ledger.attach("stays", account="visits")
    ledger.store(charge(ledger, "1/10", "r1", "visits/alice"), b"1")
    ledger.void(charge(ledger, "3/10", "r2", "visits/alice"))
    charge(ledger, "1/7", "r3")
    for number, event in enumerate(
        (
            GaussianNoise(variance=Fraction(100), l2_sensitivity_squared=Fraction(1)),
            ApproxEvent(epsilon=Fraction(1, 10), delta=Fraction(1, 10**9)),
        )
    ):
        ledger.reserve(
            event,
            accounts=["visits"],
            principal="bob",
            request_id=str(number),
            body_digest=BODY,
        )
    raised = Budget.for_epsilon_delta(epsilon=4, delta="1/1000000")
    ledger.set_limit("visits", budget=raised, operator="root")
    target = io.StringIO()
    ledger.export(target)
    lines = target.getvalue().splitlines()
    balances = check(lines)
    assert balances == {
        account.name: json.loads(json.dumps(account.spent)) for account in ledger.accounts()
    }
    ledger.verify()
    for spoiled in (
        lines[:-2] + lines[-1:],
        lines[:-1],
        lines[:3] + lines[4:],
        [line.replace('"alice"', '"mallo"') for line in lines],
        lines + lines[-1:],
        ["[]", *lines],
    ):
        with pytest.raises(ExportError):
            check(spoiled)
