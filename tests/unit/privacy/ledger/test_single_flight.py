"""One asker at a time, and what a dead one leaves behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.ledgers import BODY, nano, pure, run_threads

from sfumato.errors import BudgetError, LedgerError
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger import single_flight
from sfumato.privacy.ledger.memory import memory_ledger
from sfumato.privacy.ledger.single_flight import Flights

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.privacy.ledger.base import Ledger
    from sfumato.privacy.ledger.receipt import Receipt
    from sfumato.privacy.ledger.single_flight import Flight

KEY = ("alice", "r1")


@pytest.fixture(params=["memory", "folder"])
def flights(request: pytest.FixtureRequest, tmp_path: Path) -> Flights:
    return Flights(None if request.param == "memory" else tmp_path / "new" / "flights")


@pytest.fixture
def ledger() -> Ledger:
    made = memory_ledger()
    made.open_account("visits", budget=Budget.for_epsilon_delta(epsilon=1))
    return made


def reserve(ledger: Ledger, held: Flight, epsilon: str = "1/10") -> Receipt:
    return ledger.reserve(
        pure(epsilon),
        accounts=["visits"],
        principal=KEY[0],
        request_id=KEY[1],
        body_digest=BODY,
        flight=held,
    )


def resume(ledger: Ledger, held: Flight, epsilon: str = "1/10") -> Receipt | None:
    return ledger.resume(held, pure(epsilon), accounts=["visits"], body_digest=BODY)


def in_child(work: Callable[[], None]) -> None:
    """Do work in a child that kills itself, or is killed after it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_one_at_a_time(flights: Flights) -> None:
    inside: list[int] = []
    most: list[int] = []

    def ask(worker: int) -> None:
        for _ in range(10):
            with flights.alone("same"):
                inside.append(worker)
                most.append(len(inside))
                inside.pop()

    run_threads(ask, 8)
    assert max(most) == 1
    assert len(most) == 80


def test_others_go_on(flights: Flights) -> None:
    with flights.alone("one") as one, flights.alone("other", timeout_seconds=0) as other:
        assert one is not other


def test_nobody_waits_beyond_the_deadline(flights: Flights) -> None:
    codes: list[str] = []

    def wait() -> None:
        with pytest.raises(LedgerError) as pending, flights.alone("same", timeout_seconds=0.1):
            pass
        codes.append(pending.value.code)

    with flights.alone("same"):
        start = time.monotonic()
        waiter = threading.Thread(target=wait)
        waiter.start()
        waiter.join()
        assert time.monotonic() - start < 5
    assert codes == ["answer_pending"]


def test_another_process_is_waited_for(tmp_path: Path) -> None:
    ready, go = tmp_path / "ready", Flights(tmp_path)
    child = os.fork()
    if child == 0:
        with Flights(tmp_path).alone("same"):
            ready.touch()
            time.sleep(30)
        os._exit(0)
    while not ready.exists():
        time.sleep(0.001)
    with pytest.raises(LedgerError), go.alone("same", timeout_seconds=0.05):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with go.alone("same", timeout_seconds=5):
        pass
    assert [one.name for one in tmp_path.iterdir()] == ["ready"]


def test_L1_a_charge_without_entropy_is_resumed_once(flights: Flights, ledger: Ledger) -> None:
    with flights.alone(BODY) as held:
        assert resume(ledger, held) is None
        left = reserve(ledger, held)
        left.leave()
    with pytest.raises(LedgerError):
        left.entropy()
    with flights.alone(BODY) as held:
        assert resume(ledger, held, "1/5") is None  # another event
        again = resume(ledger, held)
        assert again is not None
        assert (again.request, again.proof) == (left.request, left.proof)
        again.entropy().words(1)
        ledger.store(again, b"42")
    with flights.alone(BODY) as held:
        assert resume(ledger, held) is None
    assert nano(ledger) == 100_000_000
    ledger.verify()


def test_L1_what_drew_entropy_is_never_resumed(flights: Flights, ledger: Ledger) -> None:
    with flights.alone(BODY) as held:
        reserve(ledger, held).entropy()
    with flights.alone(BODY) as held:
        assert resume(ledger, held) is None


def test_L1_only_the_very_charge_is_resumed(tmp_path: Path, ledger: Ledger) -> None:
    """Somebody else charged the same request in between, and drew: the note is not of that one."""
    folder = tmp_path / "flights"

    def die_before_charging() -> None:
        with Flights(folder).alone(BODY) as held:
            held.claim(KEY)
            os.kill(os.getpid(), signal.SIGKILL)

    in_child(die_before_charging)
    with Flights().alone(BODY) as other:
        reserve(ledger, other).entropy()
    with Flights(folder).alone(BODY) as held:
        assert held.key == KEY
        assert not held.drawn
        assert resume(ledger, held) is None


@pytest.mark.parametrize("drawn", [False, True])
def test_a_killed_asker_leaves_its_note(tmp_path: Path, drawn: bool) -> None:
    def die() -> None:
        with Flights(tmp_path).alone(BODY) as held:
            held.claim(KEY)
            if drawn:
                held.draw()
            os.kill(os.getpid(), signal.SIGKILL)

    in_child(die)
    with Flights(tmp_path).alone(BODY) as held:
        assert (held.key, held.drawn) == (KEY, drawn)


def test_L1_a_note_of_an_earlier_boot_counts_as_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut may have lost the note that entropy was drawn."""
    flights = Flights(tmp_path)
    with flights.alone(BODY) as held:
        held.claim(KEY)
    other = tmp_path / "boot"
    other.write_text("another boot\n")
    with monkeypatch.context() as patch:
        patch.setattr(single_flight, "_BOOT_ID_FILE", other)
        with flights.alone(BODY) as held:
            assert (held.key, held.drawn) == (None, True)
            held.claim(KEY)
        patch.setattr(single_flight, "_BOOT_ID_FILE", tmp_path / "absent")
        with flights.alone(BODY) as held:
            assert held.drawn
            held.claim(KEY)
        with flights.alone(BODY) as held:  # a system that does not tell
            assert held.drawn


@pytest.mark.parametrize("note", [b"", b"?", b"?[]", b"?[1,2", b"!garbage", b"?{}", b"?[1,2,3,4]"])
def test_a_spoiled_note_counts_as_drawn(tmp_path: Path, note: bytes) -> None:
    (tmp_path / f"{BODY}.flight").write_bytes(note)
    with Flights(tmp_path).alone(BODY) as held:
        assert held.drawn
    assert not list(tmp_path.iterdir())


def test_a_refused_charge_leaves_nothing(flights: Flights, ledger: Ledger) -> None:
    with flights.alone(BODY) as held, pytest.raises(BudgetError):
        reserve(ledger, held, "2")
    with flights.alone(BODY) as held:
        assert held.key is None


def test_where_no_notes_can_be_kept_threads_still_wait(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    flights = Flights(tmp_path / "file")
    with flights.alone("same") as held:
        held.claim(KEY)
        with pytest.raises(LedgerError), flights.alone("same", timeout_seconds=0):
            pass


def test_a_tape_that_cannot_be_removed_is_not_read_for_another_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words are the noise of an answer about the rows of an earlier moment."""
    flights = Flights(tmp_path)
    (tmp_path / f"{BODY}.tape").write_bytes(bytes(64))

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    with flights.alone(BODY, keep_entropy=True) as held:
        monkeypatch.setattr(Path, "unlink", refused)
        held.claim(KEY)
        assert (held.entropy_log, held.drawn) == (None, True)
