"""How a charge becomes durable: one transaction for many threads, and a head outside of it.

*Group commit*: threads that come while a transaction runs share the next one.

*The outside head* is the last position of the chain, kept away from the database. Two slots in a
file of fixed size are overwritten in turn, each with its own check sum and synced before the
receipt is given out. A crash can spoil only the slot being written; the other still holds the
position before it, which is never ahead of the database. Overwriting in place needs no directory
sync and no growing file, so a sync costs one disk write. A file that another was put in the place
of is not used any more: whoever opens it now would neither see its lock nor its position.

Decision `ledger-head`.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from sfumato import filesystem
from sfumato.errors import LedgerError
from sfumato.platform_support import OpenedFile
from sfumato.privacy.ledger.chain import Position, digest
from sfumato.privacy.ledger.failure import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sfumato.privacy.ledger.chain import Draft, Key

Result = TypeVar("Result")


class Ticket(Generic[Result]):
    """One operation that waits for its transaction, and what came of it."""

    def __init__(self, operation: Callable[[Draft], Result], key: Key | None) -> None:
        self._operation = operation
        self.key = key
        self._result: Result | None = None
        self.error: BaseException | None = None
        self.leads = False
        self.called = threading.Event()

    def apply(self, draft: Draft) -> None:
        """Run the operation on the draft of its transaction."""
        self._result = self._operation(draft)

    def result(self) -> Result:
        """What the operation returned, or its error."""
        if self.error is not None:
            raise self.error
        return cast("Result", self._result)


class GroupCommit:
    """Runs operations in batches, one batch at a time, in the thread of a waiting one.

    There is no thread of its own: nothing to start, to stop, or to lose in a fork. A finished
    leader hands over to a waiter by name; racing for a lock would let single newcomers slip in
    before the others have queued up, one sync each.
    """

    def __init__(self, commit: Callable[[list[Ticket[object]]], None]) -> None:
        self._commit = commit
        self._lock = threading.Lock()
        self._waiting: list[Ticket[object]] = []
        self._busy = False

    def run(self, operation: Callable[[Draft], Result], key: Key | None = None) -> Result:
        """Apply an operation, on the request of that key, and return when it is durable."""
        ticket = Ticket(operation, key)
        with self._lock:
            self._waiting.append(cast("Ticket[object]", ticket))
            ticket.leads, self._busy = not self._busy, True
        try:
            if not ticket.leads:
                ticket.called.wait()
            if ticket.leads:
                self._lead()
        finally:
            # Also when a signal interrupts the waiting: nobody waits for one who has left.
            self._leave(cast("Ticket[object]", ticket))
        return ticket.result()

    def _lead(self) -> None:
        with self._lock:
            batch, self._waiting = self._waiting, []
        try:
            self._commit(batch)
        except BaseException as error:
            # One transaction, one fate: nobody in the batch may take it for durable.
            for ticket in batch:
                ticket.error = _own_copy(error)
            raise
        finally:
            for ticket in batch:
                ticket.called.set()

    def _leave(self, ticket: Ticket[object]) -> None:
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            if not ticket.leads:
                return
            ticket.leads = False
            self._busy = bool(self._waiting)
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].called.set()


def _own_copy(error: BaseException) -> BaseException:
    """An error of one's own: raising the same object in many threads would mix tracebacks."""
    if isinstance(error, LedgerError):
        own_copy = copy(error)
        own_copy.detail = error.detail  # a copy loses it, since errors travel without it
        return own_copy
    return LedgerError(
        "ledger_failed",
        "The ledger's transaction was interrupted; no answer is given.",
        hint="Try again.",
        detail=type(error).__name__,
    )


_SLOT = 4096
_CLOSED = -1
_MARK = "sfumato-head"
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter


class OutsideHead:
    """The position that the database must have reached, in a file of another directory."""

    def __init__(self, path: Path, *, timeout_seconds: float | None = None) -> None:
        self._timeout_seconds = (
            filesystem.PATIENCE_SECONDS if timeout_seconds is None else timeout_seconds
        )
        self._name = path.name
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._opened = OpenedFile(path, os.fstat(self._file))
        try:
            with self.lock():
                _make_durable(self._file, path)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the file alone among all processes of this machine."""
        if not filesystem.acquire_lock(self._file, seconds=self._timeout_seconds):
            raise LedgerError(
                "ledger_busy",
                f"The ledger is held by {filesystem.lock_holder(self._file)} for more than "
                f"{self._timeout_seconds:g} seconds; no answer is given.",
                hint="Wait until it ends, or end it, and try again.",
            )
        try:
            self._check_in_place()  # who waited may have got the lock of a file that is gone
            yield
        finally:
            filesystem.release_lock(self._file)

    def read(self) -> Position | None:
        """The newest position, or None in a file that holds none any more."""
        self._check_in_place()
        found = [slot for slot in self._slots() if slot is not None]
        return max(found, key=lambda slot: slot[0])[1] if found else None

    def write(self, position: Position) -> None:
        """Make a position the newest, durably; call it under the lock."""
        generations = [-1 if slot is None else slot[0] for slot in self._slots()]
        older = 0 if generations[0] <= generations[1] else 1
        text = f"{_MARK} {max(generations) + 1} {position.seq} {position.hash}"
        slot = f"{text} {digest(text.encode())}\n".encode().ljust(_SLOT, b" ")
        if os.pwrite(self._file, slot, older * _SLOT) != _SLOT:
            raise OSError("short write to the head file")
        _sync_data(self._file)
        self._check_in_place()  # what was written to a file that is gone binds nobody

    def _check_in_place(self) -> None:
        if self._file != _CLOSED and not self._opened.in_place():
            raise replaced(self._name)

    def _slots(self) -> list[tuple[int, Position] | None]:
        return [_parse(os.pread(self._file, _SLOT, start)) for start in (0, _SLOT)]

    def close(self) -> None:
        """Let go of the file; a closed number must never be read again, it may be reused."""
        if self._file != _CLOSED:
            os.close(self._file)
            self._file = _CLOSED


def _make_durable(file: int, path: Path) -> None:
    """Before the first use of the file make its size and its name survive a power cut."""
    size = os.fstat(file).st_size
    if size < 2 * _SLOT:
        os.pwrite(file, bytes(2 * _SLOT - size), size)
        os.fsync(file)
    sync_directory(path.parent)


def recorded_head(path: Path) -> Position | None:
    """The newest position in a file, without touching it; None where there is none."""
    try:
        content = path.read_bytes()[: 2 * _SLOT]
    except OSError:
        return None
    found = [_parse(content[start : start + _SLOT]) for start in (0, _SLOT)]
    return max((slot for slot in found if slot is not None), default=(0, None))[1]


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable, and raise when that fails."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _parse(slot: bytes) -> tuple[int, Position] | None:
    words = slot.decode("ascii", "replace").split()
    if len(words) != 5 or words[0] != _MARK or digest(" ".join(words[:4]).encode()) != words[4]:
        return None
    return int(words[1]), Position(int(words[2]), words[3])
