"""Serve with several processes that share one socket, because Python uses one core per process.

Each process opens the vault after it was forked; shared state is in the ledger. A process that dies
is replaced. When the parent ends, even by SIGKILL, its children finish their work and end too.
Decision `server-limits`.
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

_POLL_SECONDS = 0.1
_SHORT_LIFE_SECONDS = 1.0
"""A process that dies sooner probably cannot start at all."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_in(
    processes: int, serve: Callable[[Callable[[], None]], None], ready: Callable[[], None]
) -> None:
    """Serve with several processes until a signal ends them.

    Parameters
    ----------
    processes
        The number of processes.
    serve
        Serves in one process until it is stopped. It calls its argument when it listens.
    ready
        Called once, in the parent, when all processes listen.

    Raises
    ------
    InternalError
        If the processes end as soon as they have started.
    """
    pool = _ProcessPool(serve)
    handlers = {number: signal.signal(number, pool.end) for number in _SIGNALS}
    try:
        if any(pool.fork() for _ in range(processes)):
            return  # this is a child, and it has ended its service
        pool.watch(processes, ready)
    finally:
        # A child that returns from `serve` runs this too, and must not end its siblings.
        if pool.is_parent:
            pool.end()
            pool.wait()
            for number, handler in handlers.items():
                signal.signal(number, handler)


class _ProcessPool:
    """The processes of one server."""

    def __init__(self, serve: Callable[[Callable[[], None]], None]) -> None:
        self._serve = serve
        # A child writes one byte when it listens.
        self._ready_reader, self._ready_writer = os.pipe()
        # Nothing is written here. Only the parent keeps the write end, so a child that waits to
        # read sees the end of the pipe when the parent dies, however it dies.
        self._parent_reader, self._parent_writer = os.pipe()
        self._started: dict[int, float] = {}
        self._is_ending = False
        self._parent = os.getpid()

    @property
    def is_parent(self) -> bool:
        """Whether this is the process that forked all others."""
        return os.getpid() == self._parent

    def fork(self) -> bool:
        """Fork a process and serve in it; return true in the child, after its service."""
        if self._is_ending:
            return False
        # A signal between the fork and the child's own handlers would end the parent's pool.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        child = os.fork()
        if child:
            self._started[child] = time.monotonic()
        else:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        if child:
            return False
        os.close(self._parent_writer)
        threading.Thread(target=_end_with_parent, args=(self._parent_reader,), daemon=True).start()
        self._serve(lambda: _write_byte(self._ready_writer))
        return True

    def watch(self, processes: int, ready: Callable[[], None]) -> None:
        """Replace processes that die, until a signal ends the pool.

        The pool ends with an error if a process dies before all have listened, or if more processes
        than there are die young in a row. A single young one may have been killed by somebody.
        """
        listening = short_lives = 0
        while not self._ends():
            if select.select([self._ready_reader], [], [], _POLL_SECONDS)[0]:
                listening += len(os.read(self._ready_reader, processes))
                if listening == processes:
                    ready()
            for lifetime in self._reap():
                if self._ends():
                    return
                short_lives = short_lives + 1 if lifetime < _SHORT_LIFE_SECONDS else 0
                if listening < processes or short_lives > processes:
                    raise InternalError(
                        "process_ended",
                        "The processes of the server ended as soon as they had started. Start it "
                        f"with {option('processes', 1)} to see why.",
                    )
                if self.fork():
                    return

    def end(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """Tell all processes to end when their open requests are answered."""
        self._is_ending = True
        for child in list(self._started):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)

    def wait(self) -> None:
        """Wait until all processes have ended."""
        while self._started:
            self._reap()
            time.sleep(_POLL_SECONDS if self._started else 0)
        for descriptor in (
            self._ready_reader,
            self._ready_writer,
            self._parent_reader,
            self._parent_writer,
        ):
            os.close(descriptor)

    def _ends(self) -> bool:
        # A method, because type checkers do not know that a signal handler changes the field.
        return self._is_ending

    def _reap(self) -> list[float]:
        """Forget the processes that have died, and return how many seconds each lived."""
        lifetimes = []
        for child, started in list(self._started.items()):
            if os.waitpid(child, os.WNOHANG)[0]:
                del self._started[child]
                lifetimes.append(time.monotonic() - started)
        return lifetimes


def _write_byte(descriptor: int) -> None:
    with suppress(BrokenPipeError):  # the parent has ended
        os.write(descriptor, b".")


def _end_with_parent(reader: int) -> None:
    """Wait until the parent has died, and end this process as the parent would have."""
    os.read(reader, 1)
    os.kill(os.getpid(), signal.SIGTERM)
