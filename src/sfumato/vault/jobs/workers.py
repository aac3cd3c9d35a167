"""Workers: threads that take jobs up and bring them to an end, and keep their leases meanwhile.

A job is run under the request id that it was submitted with, however often it is begun: what was
charged is not charged again, what was answered is given from the ledger, and what drew entropy and
was lost stays lost. Decision 0363.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING

from sfumato.errors import InternalError, SfumatoError
from sfumato.vault.jobs.job import ANSWERING, MOST_ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from sfumato.vault.jobs.job import Job
    from sfumato.vault.jobs.store import JobStore

    RunJob = Callable[[Job, Callable[[], None]], Mapping[str, Any]]
    """Does the work of a job and says where it lies; it calls before anything is charged."""
    StopThread = Callable[[int], None]
    """Stops what a thread has an engine do."""

LEASE_SECONDS = 30.0
_POLL_SECONDS = 1.0
_AGAIN_SECONDS = 5.0
_LATER_SECONDS = 15.0
_AWAY = {
    "heavy_work_busy",
    *("jobs_unavailable", "ledger_busy", "ledger_disk_full", "ledger_failed", "ledger_replaced"),
}
"""Refusals after which a job waits for as long as it takes: nothing is charged meanwhile."""
_PASSING = {"answer_pending", "data_unreachable", "source_unready"}
"""Refusals, before any charge, after which the same work may go through a little later."""


class _NotOursError(Exception):
    """The job was cancelled, or another holder has taken it up."""


@dataclass(frozen=True)
class _Held:
    """A job that runs here: who holds it, in which thread."""

    holder: str
    thread: int


class JobWorkers:
    """Some threads of this process that work on the jobs of one store."""

    def __init__(
        self,
        store: JobStore,
        run: RunJob,
        stop_thread: StopThread,
        tell_operator: Callable[[str, str], None],
        *,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._store, self._run, self._stop_thread = store, run, stop_thread
        self._tell_operator, self._lease = tell_operator, lease_seconds
        self._threads: list[threading.Thread] = []
        self._held: dict[str, _Held] = {}
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._look = threading.Event()

    def start(self, workers: int) -> None:
        """Begin to take jobs up, in so many threads more."""
        self._stopping.clear()
        first = not self._threads
        work = [threading.Thread(target=self._serve, daemon=True) for _ in range(workers)]
        keep = [threading.Thread(target=self._keep_leases, daemon=True)] if first else []
        self._threads += [*work, *keep]
        for thread in (*keep, *work):
            thread.start()

    def stop(self, seconds: float) -> bool:
        """Take up no more, and wait for what runs; whether all of it came to an end in time."""
        self._stopping.set()
        self._wake.set()
        self._look.set()
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._threads = [one for one in self._threads if one.is_alive()]
        return not self._threads

    def wake(self) -> None:
        """Look for work now rather than at the next turn."""
        self._wake.set()

    def look(self) -> None:
        """Look now whether what runs here is still to be done."""
        self._look.set()

    def work(self) -> int:
        """Do what waits in this thread, until nothing does; say how many jobs that were."""
        keeper = None
        if not self._threads:
            self._stopping.clear()
            keeper = threading.Thread(target=self._keep_leases, daemon=True)
            keeper.start()
        done = 0
        try:
            while self._next():
                done += 1
        finally:
            if keeper is not None:
                self._stopping.set()
                self._look.set()
                keeper.join()
        return done

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                found = self._next()
            except SfumatoError:  # the store is away; it has told its operator
                found = False
            if not found:
                self._wake.wait(_POLL_SECONDS)
                self._wake.clear()

    def _next(self) -> bool:
        """Take up one job and bring it to an end; False where none waits."""
        holder = token_hex(16)
        job = self._store.claim(holder, self._lease)
        if job is None:
            return False
        with self._guard:
            self._held[job.id] = _Held(holder, threading.get_ident())
        try:
            self._bring_to_end(job)
        finally:
            with self._guard:
                self._held.pop(job.id, None)
            if self._stopping.is_set():
                self._look.set()
        return True

    def _bring_to_end(self, job: Job) -> None:
        def charging() -> None:
            if not self._store.note(job.holder, ANSWERING):
                raise _NotOursError

        try:
            self._store.done(job.id, self._run(job, charging))
        except _NotOursError:
            return
        except SfumatoError as error:
            self._settle(job, error)
        except Exception as error:  # noqa: BLE001  a worker outlives whatever a job does
            self._tell_operator(job.id, f"{type(error).__name__}: {error}")
            self._store.failed(
                job.holder,
                InternalError(
                    "job_failed",
                    "The job failed inside. What was charged stays spent. Let the operator look "
                    "for the cause in the vault's failures.log.",
                ),
            )

    def _settle(self, job: Job, error: SfumatoError) -> None:
        """Note a refusal, or have the job begun again where that may help."""
        if isinstance(error, InternalError) or error.detail:
            self._tell_operator(job.id, f"{error.code}: {error.detail or error.message}")
        if error.code in _AWAY:
            self._store.put_back(job.holder, _LATER_SECONDS, counted=False)
        elif error.code in _PASSING and job.attempts < MOST_ATTEMPTS:
            self._store.put_back(job.holder, _AGAIN_SECONDS * job.attempts, counted=True)
        else:
            self._store.failed(job.holder, error)

    def _keep_leases(self) -> None:
        """Renew the leases of what runs here, and stop what was cancelled or is another's."""
        while not self._stopping.is_set() or self._held:
            self._look.wait(self._lease / 3)
            self._look.clear()
            with self._guard:
                held = list(self._held.items())
            for job, one in held:
                with suppress(
                    SfumatoError
                ):  # the store is away: the lease may last until it is back
                    if not self._store.renew(one.holder, self._lease):
                        self._stop(job, one)

    def _stop(self, job: str, held: _Held) -> None:
        """Stop what a thread does for a job, unless it has gone on to another one."""
        with self._guard:
            if self._held.get(job) is held:
                self._stop_thread(held.thread)
