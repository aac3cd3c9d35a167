"""A chamber whose workers fork: what bubblewrap and Landlock have in common. Decision 0385."""

from __future__ import annotations

import math
import os
import platform
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.sandbox import runtime, seccomp
from sfumato.sandbox.base import (
    OVERHEAD_SECONDS,
    SPARE_SECONDS,
    START_SECONDS,
    Rehearsal,
    longest_seconds,
    unavailable,
)
from sfumato.sandbox.launcher import Worker, sealed
from sfumato.sandbox.probe import probe
from sfumato.texts import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.sandbox.base import BlockLimits, Probe, Program
    from sfumato.sandbox.launcher import Started

_STACK_BYTES = 8 << 20
_OPEN_FILES = 64


class ForkingChamber(ABC):
    """Each worker forks a fresh process for each block from one that has seen no rows."""

    name: str

    @abstractmethod
    def _start(self, control: int) -> Started:
        """Start a worker that listens to this socket, shut in."""

    def _wishes(self) -> dict[str, Any]:
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
        with self._setup(program, width, limits, rows=any(blocks)) as setup:
            job = _Job(self, setup, blocks, width, limits, min(workers, len(blocks)))
            results = job.done(on_time=on_time)
        if on_time:
            _until(job.end)
        return results

    def rehearse(
        self, program: Program, block: bytes, width: int, limits: BlockLimits
    ) -> Rehearsal:
        """Run it as a block would, on made-up rows alone, and tell what it said."""
        with self._setup(program, width, limits, rows=bool(block)) as setup, ExitStack() as stack:
            (worker,) = self.team(setup, 1, stack)
            outcome = worker.run(block, width, limits, listen=True)
        if outcome is None:
            raise unavailable(f"{self.name}: the worker was lost")
        said = outcome.said.decode(errors="replace")
        if outcome.late:
            said += (
                f"It was ended because it took longer than {limits.seconds:g} seconds. Threads "
                "cannot be started: what waits for some needs use_threads=False, or n_jobs=1.\n"
            )
        elif outcome.record is None and not said:
            said = f"It ended without a result; it may use {limits.memory >> 20} MiB of memory.\n"
        return Rehearsal(outcome.record, said)

    def worker(self, setup: int, stack: ExitStack) -> Worker:
        """A worker on its way, who ends with the stack."""
        worker = Worker(self._start, setup)
        stack.callback(worker.close)
        return worker

    def team(self, setup: int, size: int, stack: ExitStack) -> list[Worker]:
        """Workers that are ready; none has seen a row yet, so who is not may be told why."""
        end = time.monotonic() + START_SECONDS
        try:
            team = [self.worker(setup, stack) for _ in range(size)]
        except OSError as error:
            raise unavailable(f"{self.name}: {error}") from None
        if not all(one.ready(max(end - time.monotonic(), 0.0)) for one in team):
            raise unavailable(
                f"{self.name}: a worker ended, or was not ready in {START_SECONDS:g} seconds"
            )
        return team

    @contextmanager
    def _setup(
        self, program: Program, width: int, limits: BlockLimits, *, rows: bool
    ) -> Iterator[int]:
        """All that a worker is told, as a file."""
        machine = platform.machine()
        source = program.source.decode("utf-8", errors="replace")
        told = {
            "parent": None,
            "landlock": None,
            "first_filter": seccomp.first_filter(machine, programs=False).hex(),
            "last_filter": seccomp.last_filter(machine).hex(),
            "packages": runtime.found().packages,
            "modules": [*(("numpy", "pyarrow.ipc") if rows else ()), *runtime.modules_of(source)],
            "source": source,
            "function": program.function,
            "width": width,
            "limits": _resources(limits),
            **self._wishes(),
        }
        fd = sealed(dumps(told).encode())
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

    Each block begins at a time of its own, which follows from its number alone: a clock then tells
    it nothing of the blocks before. A worker that is lost, such as one that cannot end a block in
    time, is followed by one that stands by, so that blocks after it do not wait.
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
        self._stopped = False

    @property
    def end(self) -> float:
        """When its records may be given: known when the workers are ready, before any block is."""
        return self._ready + longest_seconds(len(self._blocks), self._workers, self._limits)

    def done(self, *, on_time: bool) -> list[bytes | None]:
        """Run it; when this ends, however it does, no process of it is left."""
        with ExitStack() as stack:
            each = 2 if on_time else 1
            team = self._chamber.team(self._setup, each * self._workers, stack)
            self._ready = time.monotonic()
            # Ended in this order: nobody waits for a worker that is gone.
            pool = stack.enter_context(ThreadPoolExecutor(self._workers))
            stack.callback(self._stop, team)
            crews = [team[place :: self._workers] for place in range(self._workers)]
            list(pool.map(partial(self._work, on_time=on_time), range(self._workers), crews))
        return self._results

    def _stop(self, team: list[Worker]) -> None:
        self._stopped = True
        for worker in team:
            worker.forget()

    def _work(self, place: int, crew: list[Worker], *, on_time: bool) -> None:
        """All blocks of one place."""
        with ExitStack() as stack:
            for turn, index in enumerate(range(place, len(self._blocks), self._workers)):
                begin = self._begin(turn)
                if on_time:
                    _until(begin)
                    self._recruit(crew, stack)
                late = time.monotonic() > begin + SPARE_SECONDS / 2
                if not crew or self._stopped or (on_time and late):
                    continue
                outcome = crew[0].run(self._blocks[index], self._width, self._limits, listen=False)
                if outcome is None:
                    crew.pop(0)
                else:
                    self._results[index] = outcome.record

    def _begin(self, turn: int) -> float:
        """When a place's block begins, whatever those before it did."""
        return self._ready + turn * (self._limits.seconds + OVERHEAD_SECONDS)

    def _recruit(self, crew: list[Worker], stack: ExitStack) -> None:
        """Have somebody come who will stand by, where nobody does; he gets ready meanwhile."""
        if len(crew) < 2:
            with suppress(OSError):
                crew.append(self._chamber.worker(self._setup, stack))
        if crew and not crew[0].is_ready and not crew[0].ready(0.0):
            crew.append(crew.pop(0))


def _until(moment: float) -> None:
    time.sleep(max(moment - time.monotonic(), 0.0))
