# ruff: noqa: N802 - promises and failures go by their numbers
"""The ten promises of the ledger, each by its number, for every kind of ledger."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import threading
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from sfumato.errors import BudgetError, CallerError, LedgerError, ParameterError, SfumatoError
from sfumato.ledger.chain import digest
from sfumato.ledger.checker import ExportError, check
from sfumato.privacy.events import ApproxEvent, GaussianNoise, PureEvent
from sfumato.privacy.filters import Budget

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.base import Ledger
    from sfumato.ledger.receipt import Receipt

BODY = digest(b"SELECT COUNT(*) FROM visits")


def pure(epsilon: str) -> PureEvent:
    return PureEvent(epsilon=Fraction(epsilon))


def charge(ledger: Ledger, epsilon: str, request_id: str, account: str = "visits") -> Receipt:
    return ledger.reserve(
        pure(epsilon),
        accounts=[account],
        principal="alice",
        request_id=request_id,
        body_digest=BODY,
    )


def ask(ledger: Ledger, request_id: str, body: str = BODY) -> bytes | None:
    return ledger.answer(principal="alice", request_id=request_id, body_digest=body)


def nano(ledger: Ledger, account: str = "visits") -> int | None:
    """What a pure budget has spent, in units of 1e-9."""
    (part,) = ledger.spent(account)
    return None if part is None else part[0]


def code_of(action: Callable[..., object], *arguments: Any, **options: Any) -> str:
    with pytest.raises(SfumatoError) as caught:
        action(*arguments, **options)
    return caught.value.code


def test_L1_charge_before_answer(place: Any, one: Budget) -> None:
    steps: list[str] = []
    ledger = place.open(at_step=steps.append)
    ledger.open_account("visits", budget=one)
    steps.clear()
    receipt = charge(ledger, "1/10", "r1")
    assert steps == ["locked", "applied", "saved", "committed", "published", "reserved"]
    other = place.open()
    assert nano(other) == 100_000_000
    assert receipt.entropy().words(4).any()
    assert code_of(ask, other, "r1") == "answer_lost"
    steps.clear()
    ledger.store(receipt, b"42")
    assert steps[-2:] == ["published", "stored"]
    assert ask(place.open(), "r1") == b"42"


def test_L1_entropy_is_given_once_and_ends_with_the_answer(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    receipt = charge(ledger, "1/10", "r1")
    assert receipt.event == pure("1/10")
    entropy = receipt.entropy()
    assert len(entropy.words(3)) == 3
    assert code_of(receipt.entropy) == "receipt_spent"
    ledger.store(receipt, b"1")
    assert code_of(entropy.words, 1) == "receipt_spent"
    assert code_of(ledger.store, receipt, b"2") == "receipt_spent"


def test_L1_receipts_die_on_fork_and_copy(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    fresh, drawn = charge(ledger, "1/10", "r1"), charge(ledger, "1/10", "r2")
    entropy = drawn.entropy()
    for copier in (pickle.dumps, copy.copy, copy.deepcopy):
        for victim in (fresh, entropy):
            assert code_of(copier, victim) == "receipt_copied"
    assert in_child(fresh.entropy) == "receipt_forked"
    assert in_child(lambda: entropy.words(1)) == "receipt_forked"
    assert in_child(lambda: ledger.void(fresh)) == "receipt_forked"
    assert in_child(lambda: charge(ledger, "1/10", "r3")) == "ledger_forked"
    ledger.store(fresh, b"the parent's receipt still works")


def in_child(action: Callable[[], object]) -> str:
    """The code of the error that an action raises in a forked child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            action()
            os.write(write, b"no error")
        except SfumatoError as error:
            os.write(write, error.code.encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read().decode()


def test_L2_crash_loses_budget_never_privacy(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    charge(ledger, "1/10", "r1")
    charge(ledger, "2/10", "r2").entropy()
    again = place.open()
    assert nano(again) == 300_000_000
    for request_id in ("r1", "r2"):
        assert code_of(ask, again, request_id) == "answer_lost"
        assert code_of(charge, again, "1/10", request_id) == "answer_lost"


def test_L2_void_only_by_the_holder_and_before_entropy(place: Any, one: Budget) -> None:
    ledger, other = place.open(), place.open()
    ledger.open_account("visits", budget=one)
    kept, drawn = charge(ledger, "1/10", "r1"), charge(ledger, "2/10", "r2")
    drawn.entropy()
    assert code_of(ledger.void, drawn) == "receipt_spent"
    assert code_of(other.void, kept) == "receipt_foreign"
    ledger.void(kept)
    assert nano(ledger) == 200_000_000
    assert code_of(ledger.void, kept) == "receipt_spent"
    assert code_of(kept.entropy) == "receipt_spent"
    assert code_of(ledger.store, kept, b"1") == "receipt_spent"
    assert ask(ledger, "r1") is None
    charge(ledger, "1/10", "r1")  # nothing was answered, so the id is free again
    assert nano(ledger) == 300_000_000
    ledger.verify()


def test_L2_void_and_entropy_race_has_one_winner(one: Budget) -> None:
    from sfumato.ledger.memory import memory_ledger

    ledger = memory_ledger()
    ledger.open_account("visits", budget=one)
    for turn in range(200):
        receipt = charge(ledger, "1/1000", f"r{turn}")
        outcomes: list[str] = []
        start = threading.Barrier(2)

        def attempt(
            name: str, action: Callable[[], object], start: Any = start, won: Any = outcomes
        ) -> None:
            start.wait()
            try:
                action()
                won.append(name)
            except LedgerError:
                pass

        threads = [
            threading.Thread(target=attempt, args=("void", lambda r=receipt: ledger.void(r))),
            threading.Thread(target=attempt, args=("draw", receipt.entropy)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 1


def test_L3_no_overspend_under_concurrency(place: Any, one: Budget) -> None:
    ledgers = [place.open() for _ in range(2)]
    ledgers[0].open_account("visits", budget=one)
    granted: list[str] = []

    def spend(worker: int) -> None:
        for turn in range(4):
            try:
                charge(ledgers[worker % 2], "1/50", f"{worker}-{turn}")
                granted.append(f"{worker}-{turn}")
            except BudgetError:
                pass

    run_threads(spend, 32)
    assert len(granted) == 50
    assert nano(ledgers[0]) == 1_000_000_000
    assert ledgers[1].verify().requests == 50


def run_threads(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_L3_a_child_is_charged_with_its_parents_or_not_at_all(place: Any, one: Budget) -> None:
    ledger = place.open()
    half = Budget.for_epsilon_delta(epsilon="1/2")
    ledger.open_account("visits", budget=one)
    for name in ("alice", "bob", "carol"):
        ledger.open_account(f"visits/{name}", budget=half, parent="visits")
    charge(ledger, "1/2", "r1", "visits/alice")
    with pytest.raises(BudgetError, match="has epsilon 0 left"):
        charge(ledger, "1/10", "r2", "visits/alice")
    charge(ledger, "4/10", "r3", "visits/bob")
    with pytest.raises(BudgetError) as refused:  # the parent's rest is not the child's to know
        charge(ledger, "2/10", "r4", "visits/carol")
    assert refused.value.code == "budget_exhausted"
    assert "'visits'" in refused.value.message
    assert "left for this question. Ask" in refused.value.message
    assert nano(ledger, "visits/carol") == 0
    assert nano(ledger) == 900_000_000
    assert ledger.remaining("visits") == ((100_000_000,),)


def test_L3_several_data_sets_in_one_transaction(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    ledger.open_account("shops", budget=Budget.for_epsilon_delta(epsilon="1/10"))

    def both(epsilon: str, request_id: str) -> None:
        ledger.reserve(
            pure(epsilon),
            accounts=["visits", "shops"],
            principal="alice",
            request_id=request_id,
            body_digest=BODY,
        )

    both("1/10", "r1")
    assert code_of(both, "1/10", "r2") == "budget_exhausted"
    assert (nano(ledger, "visits"), nano(ledger, "shops")) == (100_000_000, 100_000_000)


def test_L3_child_never_above_parent(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    two = Budget.for_epsilon_delta(epsilon=2)
    with_delta = Budget.for_epsilon_delta(epsilon="1/2", delta="1/1000000")
    for budget in (two, with_delta):
        assert (
            code_of(ledger.open_account, "visits/a", budget=budget, parent="visits")
            == "child_above_parent"
        )
    ledger.open_account("visits/a", budget=one, parent="visits")
    half = Budget.for_epsilon_delta(epsilon="1/2")
    for name, budget in (("visits/a", two), ("visits", half)):
        assert (
            code_of(ledger.set_limit, name, budget=budget, operator="root") == "child_above_parent"
        )


def test_L4_idempotent(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    assert ask(ledger, "r1") is None
    ledger.store(charge(ledger, "1/10", "r1"), b"\x00answer\xff")
    assert [ask(ledger, "r1"), ask(place.open(), "r1")] == [b"\x00answer\xff"] * 2
    assert code_of(charge, ledger, "1/10", "r1") == "request_answered"
    assert nano(ledger) == 100_000_000
    other = digest(b"another question")
    with pytest.raises(CallerError) as reused:
        ask(ledger, "r1", other)
    assert reused.value.code == "request_reused"
    # Another principal's request of the same id is another request.
    assert ledger.answer(principal="bob", request_id="r1", body_digest=BODY) is None


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


def test_L7_exact_arithmetic(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    for turn in range(10):
        charge(ledger, "1/10", f"r{turn}")
    assert code_of(charge, ledger, "1/1000000000", "r10") == "budget_exhausted"
    assert nano(ledger) == 1_000_000_000


def test_L7_charges_are_rounded_up(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    charge(ledger, "1/3", "r1")
    assert nano(ledger) == 333_333_334


def test_L7_the_database_checks_balances_too(durable_place: Any, one: Budget) -> None:
    durable_place.open().open_account("visits", budget=one)
    with raw(durable_place).connect() as connection:
        for amount in ("ceiling + 1", "-1"):
            with pytest.raises(DBAPIError, match=r"(?i)check"):
                connection.execute(text(f"UPDATE sfumato_balances SET spent = {amount}"))
            connection.rollback()


def test_L8_clock_free(place: Any, one: Budget) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    clock = [now, now - timedelta(days=365), now + timedelta(days=3650)]
    ledger = place.open(clock=lambda: clock[len(list(ledger_times)) % 3])
    ledger_times: list[int] = []
    ledger.open_account("visits", budget=one)
    for turn in range(6):
        ledger_times.append(turn)
        charge(ledger, "1/10", f"r{turn}")
    records = [json.loads(entry.body) for entry in ledger.entries()]
    assert [record["seq"] for record in records] == list(range(1, 9))
    assert len({record["time"] for record in records[2:]}) == 3
    assert nano(ledger) == 600_000_000
    ledger.verify()


@pytest.mark.parametrize("step", ["locked", "applied", "saved", "committed", "published"])
@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
def test_L9_fail_closed(place: Any, one: Budget, step: str, failure: type[BaseException]) -> None:
    armed: list[str] = []

    def fail(at: str) -> None:
        if at in armed:
            raise failure

    ledger = place.open(at_step=fail)
    ledger.open_account("visits", budget=one)
    armed.append(step)
    with pytest.raises((LedgerError, KeyboardInterrupt)):
        charge(ledger, "1/10", "r1")
    armed.clear()
    assert code_of(charge, ledger, "1/10", "r2") == "ledger_failed"
    assert code_of(ask, ledger, "r1") == "ledger_failed"
    again = place.open()
    spent = nano(again)
    assert spent == (100_000_000 if step in {"committed", "published"} else 0)
    assert again.verify().requests == (1 if spent else 0)


def test_L9_the_whole_batch_fails_together(place: Any, one: Budget) -> None:
    """Threads that share a transaction share its failure: none takes its charge for durable."""
    entered, release = threading.Event(), threading.Event()

    def fail(step: str) -> None:
        if step == "applied" and entered.is_set():
            raise OSError("disk")
        if step == "applied" and armed:
            entered.set()
            release.wait()
            raise OSError("disk")

    armed: list[int] = []
    ledger = place.open(at_step=fail)
    ledger.open_account("visits", budget=one)
    armed.append(1)
    codes: list[str] = []
    run = threading.Thread(target=lambda: codes.append(code_of(charge, ledger, "1/10", "r0")))
    run.start()
    entered.wait()
    others = [
        threading.Thread(target=lambda n=n: codes.append(code_of(charge, ledger, "1/10", f"r{n}")))
        for n in range(1, 8)
    ]
    for thread in others:
        thread.start()
    release.set()
    for thread in [run, *others]:
        thread.join()
    assert codes == ["ledger_failed"] * 8


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


def test_F16_sixty_four_for_the_last_tenth(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    charge(ledger, "9/10", "first")
    outcomes: list[str] = []

    def attempt(worker: int) -> None:
        try:
            charge(ledger, "1/10", f"r{worker}")
            outcomes.append("granted")
        except BudgetError:
            outcomes.append("refused")

    run_threads(attempt, 64)
    assert sorted(outcomes) == ["granted"] + ["refused"] * 63


def test_F16_registering_again_resets_nothing(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    ledger.open_account("fresh", budget=one)
    ledger.attach("stays", account="visits")
    charge(ledger, "7/10", "r1")
    again = place.open()
    assert again.open_account("visits", budget=one).spent == ((700_000_000,),)
    again.attach("stays", account="visits")
    again.attach("growth of stays", account="visits")
    assert again.account_of("growth of stays") == again.account_of("stays") == "visits"
    assert code_of(again.attach, "stays", account="fresh") == "dataset_attached"
    larger = Budget.for_epsilon_delta(epsilon=2)
    assert code_of(again.open_account, "visits", budget=larger) == "account_exists"
    assert nano(again) == 700_000_000


def test_a_limit_is_raised_by_an_entry_and_keeps_what_was_spent(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    charge(ledger, "1", "r1")
    ledger.void(charge_free(ledger))
    raised = Budget.for_epsilon_delta(epsilon=2, delta="1/1000000")
    account = ledger.set_limit("visits", budget=raised, operator="root")
    assert account.spent == raised.add(raised.zero(), raised.charge(pure("1")))
    last = json.loads(list(ledger.entries())[-1].body)
    assert (last["kind"], last["operator"]) == ("limit", "root")
    low = Budget.for_epsilon_delta(epsilon="1/2")
    assert code_of(ledger.set_limit, "visits", budget=low, operator="root") == "limit_below_spent"
    ledger.verify()


def charge_free(ledger: Ledger) -> Receipt:
    ledger.open_account("spare", budget=Budget.for_epsilon_delta(epsilon=1))
    return charge(ledger, "1/2", "spare", "spare")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"accounts": []}, "accounts_empty"),
        ({"accounts": ["nobody"]}, "account_unknown"),
        ({"accounts": ["\ud800"]}, "name_invalid"),
        ({"principal": ""}, "name_invalid"),
        ({"principal": "a\nb"}, "name_invalid"),
        ({"request_id": "x" * 201}, "name_invalid"),
        ({"request_id": "\ud800"}, "name_invalid"),
        ({"body_digest": "abc"}, "digest_invalid"),
    ],
)
def test_bad_requests_are_refused_and_charge_nothing(
    place: Any, one: Budget, change: dict[str, Any], code: str
) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    good = {"accounts": ["visits"], "principal": "a", "request_id": "r", "body_digest": BODY}
    with pytest.raises(ParameterError) as caught:
        ledger.reserve(pure("1/10"), **{**good, **change})
    assert caught.value.code == code
    assert nano(ledger) == 0
    ledger.reserve(pure("1/10"), **good)  # a refusal is no failure
