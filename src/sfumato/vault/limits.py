"""Limits on answers: groups, bytes, stored bytes, heavy work at a time, seconds.

A query may cost next to no privacy and still have a million groups, which take memory and disk.
Every limit is checked against public facts, before any charge. The owner of the vault is bound by
the vault's own limit alone. Decisions `charge-order` and `server-limits`.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from sfumato.data.schema.names import quoted
from sfumato.errors import EngineError, PolicyError, SfumatoError
from sfumato.methods.method import AnswerLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sfumato.data.engines.base import Engine
    from sfumato.methods.method import Plan
    from sfumato.privacy.ledger.base import Ledger
    from sfumato.vault.session import Asker


MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class PrincipalLimits:
    """The limits of one principal: groups and bytes of an answer, bytes of all stored answers."""

    groups: int = 100_000
    answer_mebibytes: int = 32
    stored_mebibytes: int = 1024


@dataclass(frozen=True)
class VaultLimits:
    """The limits of a vault, for all its principals and for some by their names."""

    usual: PrincipalLimits = PrincipalLimits()
    of: Mapping[str, PrincipalLimits] = field(default_factory=dict)
    vault_mebibytes: int = 10 * 1024

    def of_answer(self, asker: Asker) -> AnswerLimit | None:
        """The largest answer of an asker; None for an owner, whose machine it is."""
        if asker.is_owner:
            return None
        limits = self._of(asker)
        return AnswerLimit(limits.groups, limits.answer_mebibytes * MEBIBYTE)

    def check_answer(self, prepared: Plan, asker: Asker) -> None:
        """Refuse an answer that has too many groups, or may take too many bytes."""
        limit, size = self.of_answer(asker), prepared.answer_size
        if limit is None or size is None:
            return
        if size.groups > limit.groups:
            raise PolicyError(
                "answer_too_large",
                f"The declared values make {size.groups:,} groups, all of which would be answered; "
                f"{quoted(asker.principal)} may have {limit.groups:,} in one answer. Group by "
                "fewer or coarser columns, or ask the vault's owner for a higher limit of groups.",
            )
        if size.bytes > limit.bytes:
            raise PolicyError(
                "answer_too_large",
                f"The answer may take {_mebibytes(size.bytes)} MiB; {quoted(asker.principal)} may "
                f"have {_mebibytes(limit.bytes)} MiB in one answer. Ask for fewer groups or fewer "
                "figures at a time, or ask the vault's owner for a higher limit.",
            )

    def check_stored(self, prepared: Plan, asker: Asker, ledger: Ledger) -> None:
        """Refuse an answer that the store of its principal, or the vault, has no room for.

        An answer of which no bound is known counts as the largest that the principal may have.
        Questions that run at the same time may together pass a limit by their own sizes.
        """
        size, limits = prepared.answer_size, self._of(asker)
        needed = limits.answer_mebibytes * MEBIBYTE if size is None else size.bytes
        stored = ledger.stored_bytes()
        own = stored.get(asker.principal, 0)
        if not asker.is_owner and own + needed > limits.stored_mebibytes * MEBIBYTE:
            raise PolicyError(
                "storage_full",
                f"The answers of {quoted(asker.principal)} in store take {_mebibytes(own)} MiB of "
                f"{limits.stored_mebibytes:,}, and this one may take {_mebibytes(needed)} more. "
                "What is in store is still given again. Ask for less, or ask the vault's owner for "
                "a higher limit.",
            )
        if sum(stored.values()) + needed > self.vault_mebibytes * MEBIBYTE:
            raise PolicyError(
                "storage_full",
                "The vault has no room for another answer of this size. What is in store is still "
                "given again. Let its owner raise vault_mebibytes under [limits] in vault.toml.",
            )
        # Last: the disk itself. A charge whose answer cannot be written would be lost.
        ledger.check_room(needed)

    def _of(self, asker: Asker) -> PrincipalLimits:
        return self.of.get(asker.principal, self.usual)


def _mebibytes(size: int) -> str:
    return f"{-(-size // MEBIBYTE):,}"


SMALL_BYTES = 1 << 20
"""Work of at most this many bytes never waits: a small query is quick beside any large one."""
CAPACITY_BYTES = 32 << 20  # the largest answer that a principal may have by default
"""The bytes that heavy answers of one process may take together while they are computed."""
MOST_WAITING = 4


class HeavyWork:
    """A queue for the heavy work of one process: first come, first served, within a capacity."""

    def __init__(self, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._capacity, self._used = capacity_bytes, 0
        self._queue: deque[tuple[object, str]] = deque()
        self._changed = threading.Condition()
        self._held = threading.local()

    @contextmanager
    def room(self, weight: int, asker: Asker, seconds: float | None) -> Iterator[None]:
        """Wait for room for work of `weight` bytes; refused if too much waits, or for too long.

        A thread that has room already takes no more: it would wait for itself for ever.
        """
        if weight <= SMALL_BYTES or getattr(self._held, "room", False):
            yield
            return
        # Work above the capacity runs alone rather than never.
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
        # One place in the queue for each principal: nobody can fill it and shut others out.
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
            # In any case: a ticket of one who gave up would block all behind it.
            self._queue.remove(ticket)
            self._changed.notify_all()


def _busy() -> EngineError:
    return EngineError(
        "heavy_work_busy",
        "Other large questions are being answered. Nothing was charged. Try again in a few "
        "seconds, or ask for fewer groups at a time.",
    )


R = TypeVar("R")

# Between two attempts to cancel a thread: it may be between two statements of its engine.
_PATIENCE_SECONDS = 0.1

QUESTION_SECONDS = 600.0
"""The deadline of a query, in seconds, where the owner has set none."""


def allowed_seconds(deadline: float | None, method: str) -> float | None:
    """The seconds that a method may take; None for no limit.

    Without a deadline of the owner queries have `QUESTION_SECONDS`; jobs may take hours.
    """
    if deadline is None:
        return QUESTION_SECONDS if method == "query" else None
    return deadline or None


def within(seconds: float | None, work: Callable[[], R], engines: Sequence[Engine]) -> R:
    """Run `work` for at most `seconds`; slower work is cancelled and its result discarded."""
    if seconds is None:
        return work()
    results: list[R] = []
    failed: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001  it is raised again by the one who waits
            failed.append(error)
        finally:
            ended.set()

    # A daemon: an engine that ignores its cancellation must not keep the process alive.
    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    try:
        ended.wait(seconds)
    finally:
        if not ended.is_set():  # at the deadline, or at Ctrl-C
            # Apart, because the reply must not wait for however long the databases take to stop.
            threading.Thread(target=_stop, args=(worker.ident, ended, engines), daemon=True).start()
    if failed:
        raise failed[0]
    if not results:
        raise TimeoutError(f"not done within {seconds} seconds")
    return results[0]


def _stop(worker: int, ended: threading.Event, engines: Sequence[Engine]) -> None:
    """Cancel what a thread runs, and whatever it begins next, until it has ended."""
    while not ended.is_set():
        for engine in list(engines):
            with suppress(SfumatoError):
                engine.cancel(worker)
        ended.wait(_PATIENCE_SECONDS)
