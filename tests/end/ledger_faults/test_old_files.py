"""Old files put back, flipped bytes and full disks."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.errors import BudgetError, LedgerError
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.chain import digest

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.privacy.ledger.base import Ledger

SPENT, LEFT = 7, 3
"""Tenths of the budget that the undamaged ledger has spent, and has left."""


def budget() -> Budget:
    return Budget.for_epsilon_delta(epsilon=1)


def charge(ledger: Ledger, request_id: str) -> None:
    receipt = ledger.reserve(
        PureEvent(epsilon=Fraction(1, 10)),
        accounts=["visits"],
        principal="alice",
        request_id=request_id,
        body_digest=digest(b""),
    )
    ledger.store(receipt, b"answer")


def spend(bench: Any) -> Ledger:
    ledger: Ledger = bench.open()
    ledger.open_account("visits", budget=budget())
    for number in range(SPENT):
        charge(ledger, f"r{number}")
    return ledger


@pytest.fixture
def spent_bench(make_bench: Any) -> Any:
    bench = make_bench("spent")
    spend(bench).close()
    return bench


@pytest.fixture
def killed_bench(make_bench: Any) -> Any:
    """A ledger whose process died, so that all charges are still in the log."""
    bench = make_bench("killed")

    def work() -> None:
        ledger = spend(bench)
        os.kill(os.getpid(), signal.SIGKILL)
        ledger.close()

    bench.run(work, "-e", "trace=none")
    return bench


def test_L6_an_old_file_put_back_is_refused(spent_bench: Any) -> None:
    old = spent_bench.folder / "old.sqlite"
    shutil.copy(spent_bench.database, old)
    ledger = spent_bench.open()
    charge(ledger, "new")
    ledger.close()
    shutil.copy(old, spent_bench.database)
    again = spent_bench.open()
    with pytest.raises(LedgerError) as refused:
        charge(again, "newer")
    assert refused.value.code == "ledger_rolled_back"
    again.acknowledge_rollback(operator="root")
    with pytest.raises(BudgetError):
        charge(again, "newer")
    again.verify()
    again.close()


def test_L6_two_copies_cannot_both_go_on(spent_bench: Any) -> None:
    """A fork of the database: whoever comes second finds a head that its copy never reached."""
    first = spent_bench.open()
    copy = spent_bench.folder / "copy"
    copy.mkdir()
    shutil.copy(spent_bench.database, copy / "ledger.sqlite")
    charge(first, "mine")
    first.close()
    shutil.move(copy / "ledger.sqlite", spent_bench.database)
    second = spent_bench.open()
    with pytest.raises(LedgerError, match="older than its outside head"):
        charge(second, "also mine")
    second.close()


def granted_after(bench: Any, damaged: Path, offset: int) -> int | None:
    """How many more charges a damaged ledger grants, or None when it noticed."""
    content = bytearray(damaged.read_bytes())
    content[offset] ^= 0xFF
    damaged.write_bytes(content)
    granted = 0
    try:
        ledger = bench.open()
        try:
            ledger.open_account("visits", budget=budget())
            while True:
                charge(ledger, f"more{granted}")
                granted += 1
        except BudgetError:
            ledger.verify()
            return granted
        finally:
            ledger.close()
    except Exception:  # noqa: BLE001 - also when SQLite refuses to open the file at all
        return None if granted <= LEFT else granted


def flip(spent_bench: Any, count: int, *, suffix: str) -> int:
    """Flip single bytes, spread over a file; return how many went unnoticed, all harmless."""
    pristine = spent_bench.folder / "pristine"
    for part in ("database", "outside"):
        shutil.copytree(spent_bench.folder / part, pristine / part)
    unnoticed = 0
    for number in range(count):
        for part in ("database", "outside"):
            shutil.rmtree(spent_bench.folder / part)
            shutil.copytree(pristine / part, spent_bench.folder / part)
        target = spent_bench.database.with_name(spent_bench.database.name + suffix)
        size = target.stat().st_size
        offset = int.from_bytes(sha256(f"{suffix}{number}".encode()).digest()[:8]) % size
        granted = granted_after(spent_bench, target, offset)
        assert granted is None or granted <= LEFT, offset
        unnoticed += granted is not None
    return unnoticed


def test_L5_flipped_bytes_are_found_or_harmless(spent_bench: Any) -> None:
    assert flip(spent_bench, 40, suffix="") < 40


def test_L5_flipped_bytes_of_the_log_are_found_or_harmless(killed_bench: Any) -> None:
    assert flip(killed_bench, 40, suffix="-wal") < 40


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_L5_a_thousand_flipped_bytes_are_found_or_harmless(
    spent_bench: Any, killed_bench: Any
) -> None:
    assert flip(spent_bench, 700, suffix="") < 700
    assert flip(killed_bench, 300, suffix="-wal") < 300


def test_L9_a_file_that_may_not_grow(make_bench: Any) -> None:
    """The file size limit of the process stands for a full disk: it fails in the same place."""
    bench = make_bench("full")

    def within_limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        bench.answer(90)

    status, _ = bench.run(within_limit, "-e", "trace=none")
    assert status == 3
    assert 0 < bench.check() < 90
