"""Bound how much heavy work runs at a time, so that small questions go on beside it.

Work is weighed by the bytes that an answer may take, from public facts. Small work never waits.
Heavy work takes its weight from a fixed capacity, first come, first served. Of everybody but the
owner at most one may wait, and few in all: a server has as many threads as requests that it works
on, and whoever waits holds one. Decision 0509.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sfumato.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.vault.asker import Asker

SMALL_BYTES = 1 << 20
"""Work of at most so many bytes never waits."""
CAPACITY_BYTES = 32 << 20
"""How many bytes heavy answers may take together while they are made."""
MOST_WAITING = 4


class HeavyWork:
    """The heavy work of one process."""

    def __init__(self, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._capacity, self._used = capacity_bytes, 0
        self._queue: deque[tuple[object, str]] = deque()
        self._changed = threading.Condition()
        self._held = threading.local()

    @contextmanager
    def room(self, weight: int, asker: Asker, seconds: float | None) -> Iterator[None]:
        """Work of a weight in bytes; refused where too much waits already, or for too long.

        A thread that has room already needs no more: to wait for itself would be for ever.
        """
        if weight <= SMALL_BYTES or getattr(self._held, "room", False):
            yield
            return
        weight = min(weight, self._capacity)
        with self._changed:
            self._enter(weight, asker, seconds)
        self._held.room = True
        try:
            yield
        finally:
            self._held.room = False
            with self._changed:
                self._used -= weight
                self._changed.notify_all()

    def _enter(self, weight: int, asker: Asker, seconds: float | None) -> None:
        def is_next() -> bool:
            return self._queue[0] is ticket and self._used + weight <= self._capacity

        waiting = [name for _, name in self._queue]
        is_free = not waiting and self._used + weight <= self._capacity
        is_crowded = asker.principal in waiting or len(waiting) >= MOST_WAITING
        if is_crowded and not is_free and not asker.is_owner:
            raise _busy()
        ticket = (object(), asker.principal)
        self._queue.append(ticket)
        try:
            if not self._changed.wait_for(is_next, seconds):
                raise _busy()
            self._used += weight
        finally:
            self._queue.remove(ticket)
            self._changed.notify_all()


def _busy() -> EngineError:
    return EngineError(
        "heavy_work_busy",
        "Other large questions are being answered. Nothing was charged. Try again in a few "
        "seconds, or ask for fewer groups at a time.",
    )
