"""One server as several processes that share its socket: Python computes on one core at a time.

Each opens the vault for itself, after it was forked; what they must agree on lies in the ledger. A
process that dies is replaced, so that others go on being answered; when the one that began them is
gone, however it went, they end in order. Decision `server-limits`.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from sfumato.errors import InternalError, option

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_LOOK_SECONDS = 0.1
_SHORT_LIFE_SECONDS = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_in(
    processes: int, serve: Callable[[Callable[[], None]], None], ready: Callable[[], None]
) -> None:
    """Serve in so many processes until told to end; `ready` is called once all of them listen.

    `serve` is given what to call when it listens. In the processes that are forked this returns
    when their service is over.
    """
    family = _Family(serve)
    before = {one: signal.getsignal(one) for one in _SIGNALS}
    for one in _SIGNALS:
        signal.signal(one, family.end)
    try:
        if any(family.begin_one() for _ in range(processes)):
            return
        family.watch(processes, ready)
    finally:
        if family.is_parent:
            family.end()
            family.wait()
            for one, handler in before.items():
                signal.signal(one, handler)


class _Family:
    """The processes of a server."""

    def __init__(self, serve: Callable[[Callable[[], None]], None]) -> None:
        self._serve = serve
        self._listening, self._tell = os.pipe()
        # Nothing is ever written to it: it ends when the last who could write, the parent, does.
        self._orphaned, self._alive = os.pipe()
        self._begun: dict[int, float] = {}
        self._ending = False
        self._parent = os.getpid()

    @property
    def is_parent(self) -> bool:
        """Whether this is the process that began all others."""
        return os.getpid() == self._parent

    def is_ending(self) -> bool:
        """Whether a signal has told all to end."""
        return self._ending

    def begin_one(self) -> bool:
        """Fork a process and serve in it; true in that process, when its service is over."""
        if self.is_ending():
            return False
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until each is told what they mean
        child = os.fork()
        if child:
            self._begun[child] = time.monotonic()
        else:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        if child:
            return False
        os.close(self._alive)
        threading.Thread(target=_end_with, args=(self._orphaned,), daemon=True).start()
        self._serve(lambda: _say(self._tell))
        return True

    def watch(self, processes: int, ready: Callable[[], None]) -> None:
        """Replace what dies, until told to end.

        Before all have listened a death ends all; so do short lives, more than there are processes
        and none but those: one that somebody kills may have been young.
        """
        told = short = 0
        while not self.is_ending():
            if select.select([self._listening], [], [], _LOOK_SECONDS)[0]:
                told += len(os.read(self._listening, processes))
                if told == processes:
                    ready()
            for lived in self._buried():
                if self.is_ending():
                    return
                short = short + 1 if lived < _SHORT_LIFE_SECONDS else 0
                if told < processes or short > processes:
                    raise InternalError(
                        "process_ended",
                        "Processes of the server end as soon as they have begun, so all were. "
                        f"Start it with {option('processes', 1)} to see why.",
                    )
                if self.begin_one():
                    return

    def end(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """Tell all processes to end when their work is done."""
        self._ending = True
        for child in list(self._begun):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)

    def wait(self) -> None:
        """Wait until all have ended."""
        while self._begun:
            list(self._buried())
            time.sleep(_LOOK_SECONDS if self._begun else 0)
        for one in (self._listening, self._tell, self._orphaned, self._alive):
            os.close(one)

    def _buried(self) -> list[float]:
        """How long each of those lived that have died, which are forgotten."""
        found = []
        for child, begun in list(self._begun.items()):
            if os.waitpid(child, os.WNOHANG)[0]:
                del self._begun[child]
                found.append(time.monotonic() - begun)
        return found


def _say(tell: int) -> None:
    """Say that a process listens; once all have, nobody need hear it."""
    with suppress(BrokenPipeError):
        os.write(tell, b".")


def _end_with(orphaned: int) -> None:
    """Wait until the parent is gone, and tell this process to end as the parent would have."""
    os.read(orphaned, 1)
    os.kill(os.getpid(), signal.SIGTERM)
