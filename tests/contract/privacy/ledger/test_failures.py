"""Any failure of the storage closes the ledger (promise 9)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.ledgers import ask, charge, code_of, nano

from sfumato.errors import LedgerError

if TYPE_CHECKING:
    from sfumato.privacy.accounting.filters import Budget


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


def test_L9_a_closed_ledger_stays_closed(durable_place: Any, one: Budget) -> None:
    ledger = durable_place.open()
    ledger.open_account("visits", budget=one)
    ledger.close()
    ledger.close()
    assert code_of(charge, ledger, "1/10", "r1") == "ledger_failed"
    assert nano(durable_place.open()) == 0
