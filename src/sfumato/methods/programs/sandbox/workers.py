"""A chamber whose workers fork: what bubblewrap and Landlock have in common. Decision
`programs`."""

from __future__ import annotations

import fcntl
import math
import os
import platform
import struct
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.methods.programs.sandbox import cgroups, runtime, seccomp
from sfumato.methods.programs.sandbox.base import (
    ERRORS,
    OVERHEAD_SECONDS,
    PREPARE_SECONDS,
    SPARE_SECONDS,
    START_SECONDS,
    Rehearsal,
    busy,
    longest_seconds,
    unavailable,
)
from sfumato.methods.programs.sandbox.launcher import Worker, sealed
from sfumato.methods.programs.sandbox.probe import probe
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sfumato.methods.programs.sandbox.base import BlockLimits, Probe, Program
    from sfumato.methods.programs.sandbox.cgroups import Keeping
    from sfumato.methods.programs.sandbox.launcher import BlockOutcome, Fork, Started

_STACK_BYTES = 8 << 20
_OPEN_FILES = 64
_REHEARSAL_WAIT, _LOOK_AGAIN = 30.0, 0.05
"""Seconds that a rehearsal waits for its turn, and between two looks."""


class ForkingChamber(ABC):
    """Each worker forks a fresh process for each block from one that has seen no rows."""

    name: str
    fresh_memory: ClassVar[bool] = True
    """Each block has memory that no file and no other process shares; tests plant a twin."""

    @abstractmethod
    def _start(self, control: int) -> Started:
        """Start a worker that listens to this socket, shut in."""

    def _own_setup(self) -> dict[str, Any]:
        """What the worker is to do beside what every worker does."""
        return {}

    def probe(self) -> Probe:
        """Try to escape, from inside, now."""
        return probe(self)

    def run(
        self,
        program: Program,
        blocks: Sequence[bytes],
        width: int,
        limits: BlockLimits,
        workers: int,
        *,
        on_time: bool = True,
    ) -> list[bytes | None]:
        """The record of each block, in their order; None for any failure whatever.

        Only who has rows about nobody may have them as soon as they are there.
        """
        if not blocks:
            return []
        with _turn(), self._setup(program, width, limits, rows=any(blocks)) as setup:
            job = _Job(self, setup, blocks, width, limits, min(workers, len(blocks)))
            results = job.results(on_time=on_time)
        if on_time:
            _until(job.end)
        return results

    def rehearse(
        self, program: Program, block: bytes, width: int, limits: BlockLimits
    ) -> Rehearsal:
        """Run it as a block would, on made-up rows alone, and say how it failed if it did.

        It waits for its turn: beside real blocks it could feel them.
        """
        with _turn(_REHEARSAL_WAIT):
            return self.attempt(program, block, width, limits)

    def attempt(self, program: Program, block: bytes, width: int, limits: BlockLimits) -> Rehearsal:
        """The same at once, for a program that is ours."""
        with self._setup(program, width, limits, rows=bool(block)) as setup, ExitStack() as stack:
            (worker,) = self.team(setup, 1, stack)
            fork = worker.fork()
            if fork is None:
                raise unavailable(f"{self.name}: the worker was lost")
            stack.callback(fork.close)
            if not self.prepared(fork, START_SECONDS):
                raise unavailable(f"{self.name}: a block's process has no memory of its own")
            end = time.monotonic() + limits.seconds
            outcome = fork.run(block, width, limits, end, listen=True)
        return rehearsal(program, outcome, width, limits)

    def prepared(self, fork: Fork, seconds: float) -> bool:
        """Wait until the process of a block may have its rows; whether it may."""
        return fork.prepared(seconds) and not (self.fresh_memory and fork.has_shared_pages)

    def _worker(self, keeping: Keeping, stack: ExitStack) -> Worker:
        """A worker on its way, who ends with the stack."""
        worker = Worker(self._start, keeping)
        stack.callback(worker.close)
        return worker

    def team(self, setup: int, size: int, stack: ExitStack) -> list[Worker]:
        """Workers that are ready; none has seen a row yet, so who is not may be told why."""
        end = time.monotonic() + START_SECONDS
        keeping = cgroups.keeping()
        try:
            team = [self._worker(keeping, stack) for _ in range(size)]
        except OSError as error:
            raise unavailable(f"{self.name}: {error}") from None
        # All limits are in place before any worker may see a row.
        heard = all(worker.set_up(setup, max(end - time.monotonic(), 0.0)) for worker in team)
        if not heard or not all(worker.ready(max(end - time.monotonic(), 0.0)) for worker in team):
            why = " (this machine swaps, so memory must be locked)" if keeping == "locks" else ""
            raise unavailable(
                f"{self.name}: a worker ended, or was not ready in {START_SECONDS:g} seconds{why}"
            )
        return team

    @contextmanager
    def _setup(
        self, program: Program, width: int, limits: BlockLimits, *, rows: bool
    ) -> Iterator[int]:
        """All that a worker is told, as a file."""
        machine = platform.machine()
        source = program.source.decode("utf-8", errors="replace")
        setup = {
            "parent": None,
            "landlock": None,
            "first_filter": seccomp.first_filter(machine, programs=False).hex(),
            "last_filter": seccomp.last_filter(machine).hex(),
            "packages": runtime.find_runtime().packages,
            "modules": [*(("numpy", "pyarrow.ipc") if rows else ()), *runtime.modules_of(source)],
            "source": source,
            "function": program.function,
            "width": width,
            "limits": _resources(limits),
            "errors": ERRORS,
            "fresh_memory": self.fresh_memory,
            "lock_memory": cgroups.keeping() == "locks",
            **self._own_setup(),
        }
        fd = sealed(dumps(setup).encode())
        try:
            yield fd
        finally:
            os.close(fd)


def _resources(limits: BlockLimits) -> dict[str, int]:
    """What the kernel itself keeps a block within, beside its memory."""
    return {
        "RLIMIT_CPU": math.ceil(limits.seconds) + 1,
        "RLIMIT_STACK": _STACK_BYTES,
        "RLIMIT_NOFILE": _OPEN_FILES,
        **dict.fromkeys(
            ("RLIMIT_FSIZE", "RLIMIT_CORE", "RLIMIT_NPROC", "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE"), 0
        ),
    }


class _Job:
    """One program on all blocks: block i is worker i modulo their number's, whatever happens.

    Each block's process is made, and its rows handed out, at times that follow from its number
    alone: a clock then tells it nothing of the blocks before. All workers are started before any
    block; a lost one is followed by one that stands by, so that blocks after it do not fail.
    """

    def __init__(
        self,
        chamber: ForkingChamber,
        setup: int,
        blocks: Sequence[bytes],
        width: int,
        limits: BlockLimits,
        workers: int,
    ) -> None:
        self._chamber, self._setup, self._workers = chamber, setup, workers
        self._blocks, self._width, self._limits = blocks, width, limits
        self._results: list[bytes | None] = [None] * len(blocks)
        self._ready = 0.0
        self._stopped = Event()

    @property
    def end(self) -> float:
        """When its records may be given: known when the workers are ready, before any block is."""
        return self._ready + longest_seconds(len(self._blocks), self._workers, self._limits)

    def results(self, *, on_time: bool) -> list[bytes | None]:
        """Run it; when this ends, however it does, no process of it is left."""
        with ExitStack() as stack:
            per_lane = 2 if on_time else 1
            team = self._chamber.team(self._setup, per_lane * self._workers, stack)
            self._ready = time.monotonic()
            # Ended in this order: nobody waits for a worker that is gone.
            pool = stack.enter_context(ThreadPoolExecutor(self._workers))
            stack.callback(self._stop, team)
            crews = [team[lane :: self._workers] for lane in range(self._workers)]
            list(pool.map(partial(self._work, on_time=on_time), range(self._workers), crews))
        return self._results

    def _stop(self, team: list[Worker]) -> None:
        self._stopped.set()
        for worker in team:
            worker.forget()

    def _work(self, lane: int, crew: list[Worker], *, on_time: bool) -> None:
        """All blocks of one place."""
        for turn, index in enumerate(range(lane, len(self._blocks), self._workers)):
            # By the clock and the block's number alone: when a block starts tells nothing of the
            # ones before.
            begin = self._ready + turn * (self._limits.seconds + OVERHEAD_SECONDS)
            if on_time:
                _until(begin, self._stopped.wait)
            # A block that would begin late fails rather than start at a time that depends on
            # others.
            late = time.monotonic() > begin + SPARE_SECONDS / 2
            if not crew or self._stopped.is_set() or (on_time and late):
                continue
            handed = begin + PREPARE_SECONDS if on_time else None
            fork = crew[0].fork()
            if fork is None:
                # The lost worker's block has failed; the one that stands by takes the next.
                crew.pop(0)
            else:
                with closing(fork):
                    self._results[index] = self._record(fork, self._blocks[index], handed)

    def _record(self, fork: Fork, block: bytes, handed: float | None) -> bytes | None:
        """What a block gives: rows at the moment `handed`, or at once, and its time from then."""
        if handed is None:
            if not self._chamber.prepared(fork, START_SECONDS):
                return None
            handed = time.monotonic()
        elif not self._chamber.prepared(fork, handed + self._limits.seconds - time.monotonic()):
            return None
        _until(handed)
        end = handed + self._limits.seconds
        return fork.run(block, self._width, self._limits, end, listen=False).record


@contextmanager
def _turn(seconds: float = math.inf) -> Iterator[None]:
    """Wait for the turn to run an analyst's program: one job at a time on this installation.

    Two at once could feel each other by how busy the machine is. The file of the worker is what
    all processes of an installation have in common; who waits longer than so is refused.
    """
    end = time.monotonic() + seconds
    with runtime.ZYGOTE.open("rb") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if math.isinf(seconds) else fcntl.LOCK_NB))
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise busy() from None
                time.sleep(_LOOK_AGAIN)
        yield


def rehearsal(
    program: Program, outcome: BlockOutcome, width: int, limits: BlockLimits
) -> Rehearsal:
    """What may be told of a rehearsal: a class of errors, a line, and words of ours about them."""
    if outcome.late:
        return Rehearsal(
            None,
            f"It was ended because it took longer than {limits.seconds:g} seconds. Threads cannot "
            "be started: what waits for some needs use_threads=False, or n_jobs=1.",
            "TimeoutError",
        )
    if outcome.record is not None:
        return Rehearsal(outcome.record)
    error, line = _read_report(program, outcome.report)
    if error is None:
        reason = f"It ended without a result; it may use {limits.memory >> 20} MiB of memory."
        return Rehearsal(None, reason)
    reason = f"{error} in line {line}" if line else error
    hint = _HINTS.get((error, line is not None))
    fields = {"function": program.function, "width": width}
    return Rehearsal(None, f"{reason}: {hint.format(**fields)}" if hint else reason, error, line)


def _read_report(program: Program, report: bytes) -> tuple[str | None, int | None]:
    """The error and the line that a process reports; what cannot be is none.

    The program itself may have written the report, so it is worth no more than what it can say.
    """
    try:
        number, line = struct.unpack("<HI", report)
        error = ERRORS[number]
    except (struct.error, IndexError):
        return None, None
    lines = program.source.count(b"\n") + 1
    return error, line if 0 < line <= lines else None


_HINTS = {
    ("NameError", False): "the program has no function '{function}'",
    ("ValueError", False): "the function must give as many numbers as are declared, {width}",
    ("TypeError", False): "the function must give a number, or a sequence of numbers",
    ("ImportError", True): (
        "only Python's own library and numpy, scipy, sklearn, pandas and pyarrow are there, and "
        "they are loaded before the rows come: write every import at the top of the program"
    ),
    ("PermissionError", True): "files, the network, processes and threads are not there",
}
"""What an error means in a line of the program (True), or after it (False)."""


def _until(moment: float, sleep: Callable[[float], object] | None = None) -> None:
    (sleep or time.sleep)(max(moment - time.monotonic(), 0.0))
