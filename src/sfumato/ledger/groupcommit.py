"""Group commit: threads that come while a transaction runs share the next one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from sfumato.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.book import Draft, Key

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
        return type(error)(error.code, error.message, detail=error.detail)
    return LedgerError(
        "ledger_failed",
        "The ledger's transaction was interrupted; no answer is given. Try again.",
        detail=type(error).__name__,
    )
