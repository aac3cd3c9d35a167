"""Charge before answer, crashes, and repeated requests (promises 1, 2, 4)."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.ledgers import BODY, ask, charge, code_of, in_child, nano, pure

from sfumato.errors import CallerError, LedgerError
from sfumato.privacy.ledger.chain import digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.privacy.accounting.filters import Budget


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
    assert code_of(receipt.entropy) == "receipt_invalid"
    ledger.store(receipt, b"1")
    assert code_of(entropy.words, 1) == "receipt_invalid"
    assert code_of(ledger.store, receipt, b"2") == "receipt_invalid"


def test_L1_receipts_die_on_fork_and_copy(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    fresh, drawn = charge(ledger, "1/10", "r1"), charge(ledger, "1/10", "r2")
    entropy = drawn.entropy()
    for copier in (pickle.dumps, copy.copy, copy.deepcopy):
        for victim in (fresh, entropy):
            assert code_of(copier, victim) == "object_not_shareable"
    assert in_child(fresh.entropy) == "object_not_shareable"
    assert in_child(lambda: entropy.words(1)) == "object_not_shareable"
    assert in_child(lambda: ledger.void(fresh)) == "object_not_shareable"
    assert in_child(lambda: charge(ledger, "1/10", "r3")) == "object_not_shareable"
    ledger.store(fresh, b"the parent's receipt still works")


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
    """Bad input 41: what may have been answered is not refunded."""
    ledger, other = place.open(), place.open()
    ledger.open_account("visits", budget=one)
    kept, drawn = charge(ledger, "1/10", "r1"), charge(ledger, "2/10", "r2")
    drawn.entropy()
    assert code_of(ledger.void, drawn) == "receipt_invalid"
    assert code_of(other.void, kept) == "receipt_invalid"
    ledger.void(kept)
    assert nano(ledger) == 200_000_000
    assert code_of(ledger.void, kept) == "receipt_invalid"
    assert code_of(kept.entropy) == "receipt_invalid"
    assert code_of(ledger.store, kept, b"1") == "receipt_invalid"
    assert ask(ledger, "r1") is None
    charge(ledger, "1/10", "r1")  # nothing was answered, so the id is free again
    assert nano(ledger) == 300_000_000
    ledger.verify()


def test_L2_void_and_entropy_race_has_one_winner(one: Budget) -> None:
    from sfumato.privacy.ledger.memory import memory_ledger

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
