"""Durable commits: group commit for many threads, and the outside head.

*Group commit*: operations that arrive while a transaction runs share the next one.

*The outside head* is the last position of the chain, kept away from the database, so that a
restored backup of the database is detected: it would return spent budget. Two slots in a file of
fixed size are overwritten in turn, each with its own checksum, and synced before the receipt is
issued. A crash can damage only the slot being written; the other still holds the position before
it, which is never ahead of the database. Overwriting in place needs no directory sync and no
growing file, so a sync costs one disk write. A head file that was replaced while open is refused:
other processes would see neither its lock nor its position.

Decision `ledger`.
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
from sfumato.privacy.ledger.failure import file_replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sfumato.privacy.ledger.chain import Draft, Key

Result = TypeVar("Result")


class Ticket(Generic[Result]):
    """One operation that waits for its transaction, and its result."""

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
        """The result of the operation; raise its error instead if it failed."""
        if self.error is not None:
            raise self.error
        return cast("Result", self._result)


class GroupCommit:
    """Runs operations in batches, one batch at a time, in the thread of one of the callers.

    There is no background thread to start, to stop, or to lose in a fork. A finished leader hands
    over to a specific waiter. If waiters raced for a lock instead, a single newcomer could commit
    alone before the others have queued up, at one sync each.
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
            # The first caller leads; the others wait until it commits them or hands over.
            ticket.leads, self._busy = not self._busy, True
        try:
            if not ticket.leads:
                ticket.called.wait()
            if ticket.leads:
                self._lead()
        finally:
            # Also when a signal interrupts the wait: another waiter must take over the lead.
            self._leave(cast("Ticket[object]", ticket))
        return ticket.result()

    def _lead(self) -> None:
        with self._lock:
            # Everything that queued up during the previous transaction shares this one and its
            # sync.
            batch, self._waiting = self._waiting, []
        try:
            self._commit(batch)
        except BaseException as error:
            # The whole transaction failed, so no operation of the batch may report success.
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
    """A copy of an error: raising one object in several threads would mix their tracebacks."""
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


# One page of common file systems and disks: a torn write damages one slot only.
_SLOT_BYTES = 4096
# In place of a file descriptor, which may be reused after the file is closed.
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
        """Hold an exclusive lock on the file among all processes of this machine."""
        if not filesystem.acquire_lock(self._file, seconds=self._timeout_seconds):
            raise LedgerError(
                "ledger_busy",
                f"The ledger is held by {filesystem.lock_holder(self._file)} for more than "
                f"{self._timeout_seconds:g} seconds; no answer is given.",
                hint="Wait until it ends, or end it, and try again.",
            )
        try:
            self._check_in_place()  # the file may have been replaced during the wait
            yield
        finally:
            filesystem.release_lock(self._file)

    def read(self) -> Position | None:
        """The newest position, or None if neither slot is valid."""
        self._check_in_place()
        slots = [slot for slot in self._slots() if slot is not None]
        return max(slots, key=lambda slot: slot[0])[1] if slots else None

    def write(self, position: Position) -> None:
        """Make a position the newest, durably; call it under the lock."""
        generations = [-1 if slot is None else slot[0] for slot in self._slots()]
        # Overwrite the older slot: a torn write then leaves the newer position readable.
        older = 0 if generations[0] <= generations[1] else 1
        text = f"{_MARK} {max(generations) + 1} {position.seq} {position.hash}"
        slot = f"{text} {digest(text.encode())}\n".encode().ljust(_SLOT_BYTES, b" ")
        if os.pwrite(self._file, slot, older * _SLOT_BYTES) != _SLOT_BYTES:
            raise OSError("short write to the head file")
        _sync_data(self._file)
        self._check_in_place()  # what was written to a file that is gone binds nobody

    def _check_in_place(self) -> None:
        if self._file != _CLOSED and not self._opened.in_place():
            raise file_replaced(self._name)

    def _slots(self) -> list[tuple[int, Position] | None]:
        return [_parse_slot(os.pread(self._file, _SLOT_BYTES, start)) for start in (0, _SLOT_BYTES)]

    def close(self) -> None:
        """Close the file; the descriptor is forgotten, because its number may be reused."""
        if self._file != _CLOSED:
            os.close(self._file)
            self._file = _CLOSED


def _make_durable(file: int, path: Path) -> None:
    """Make the size and the name of the file survive a power cut, before its first use."""
    size = os.fstat(file).st_size
    if size < 2 * _SLOT_BYTES:
        os.pwrite(file, bytes(2 * _SLOT_BYTES - size), size)
        os.fsync(file)
    sync_directory(path.parent)


def recorded_head(path: Path) -> Position | None:
    """The newest position in a head file, read without lock or change; None if there is none."""
    try:
        content = path.read_bytes()[: 2 * _SLOT_BYTES]
    except OSError:
        return None
    slots = [_parse_slot(content[start : start + _SLOT_BYTES]) for start in (0, _SLOT_BYTES)]
    return max((slot for slot in slots if slot is not None), default=(0, None))[1]


def sync_directory(directory: Path) -> None:
    """Sync a directory, so that the names in it are durable; raise if that fails."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _parse_slot(slot: bytes) -> tuple[int, Position] | None:
    fields = slot.decode("ascii", "replace").split()
    if len(fields) != 5 or fields[0] != _MARK or digest(" ".join(fields[:4]).encode()) != fields[4]:
        return None
    return int(fields[1]), Position(int(fields[2]), fields[3])
