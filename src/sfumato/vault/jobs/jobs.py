"""The jobs of a vault: submitted, listed, cancelled and run by worker threads.

A job is prepared when it is submitted, so that impossible work is refused at once, and prepared
again when it is run, by the declarations and permissions of that time. All its starts use the
request id of its submission: a charge is made once, a stored answer is given again, and a charge
whose noise was lost stays lost. Decision `jobs`.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.names import quoted
from sfumato.errors import InternalError, ParameterError, PolicyError, SfumatoError
from sfumato.release.files_in_use import JOBS
from sfumato.vault.answer import paid_under
from sfumato.vault.config import asking
from sfumato.vault.failure_log import note_failure
from sfumato.vault.jobs.anonymize_job import ANONYMIZE, anonymize_dataset, check_request_options
from sfumato.vault.jobs.job import (
    ANSWERING,
    COMPARE,
    MOST_ATTEMPTS,
    AnyJobs,
    Job,
    JobState,
    asked_plainly,
    check_request,
    families,
    family_named,
)
from sfumato.vault.jobs.store import JobStore
from sfumato.vault.session import OwnRequest, check_plan, check_request_id, plan_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.methods.method import Plan
    from sfumato.vault.datastore import DataStore
    from sfumato.vault.private import Private
    from sfumato.vault.vault import Vault

    RunJob = Callable[[Job, Callable[[], None]], Mapping[str, Any]]
    """Does the work of a job and returns its result; calls its argument before any charge."""
    StopThread = Callable[[int], None]
    """Cancels the engine's work for a thread, by the thread's number."""


# A job whose server died is taken up by another one after this time.
LEASE_SECONDS = 30.0
# Jobs that another process submits are seen after this time; those of this process wake a worker.
_POLL_SECONDS = 1.0
# After a passing refusal the job waits so long, times its attempts.
_AGAIN_SECONDS = 5.0
# While the ledger or the store is away, the job waits so long and no attempt is counted.
_LATER_SECONDS = 15.0
_AWAY = {
    "heavy_work_busy",
    *("store_unavailable", "ledger_busy", "ledger_disk_full", "ledger_failed", "ledger_replaced"),
}
"""Refusals after which a job waits without end: the service is away, and nothing is charged."""
_PASSING = {"answer_pending", "data_unreachable", "source_unready"}
"""Refusals, before any charge, after which the same work may succeed a little later."""


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
        """Start `workers` further threads that run jobs."""
        self._stopping.clear()
        first = not self._threads
        work = [threading.Thread(target=self._serve, daemon=True) for _ in range(workers)]
        lease_keepers = [threading.Thread(target=self._keep_leases, daemon=True)] if first else []
        self._threads += [*work, *lease_keepers]
        for thread in (*lease_keepers, *work):
            thread.start()

    def stop(self, seconds: float) -> bool:
        """Start no further jobs and wait for running ones; return whether all ended in time."""
        self._stopping.set()
        self._wake.set()
        self._look.set()
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        return not self._threads

    def wake(self) -> None:
        """Look for jobs now and not only after the pause."""
        self._wake.set()

    def look(self) -> None:
        """Check now whether the jobs that run here were cancelled or taken over."""
        self._look.set()

    def work(self) -> int:
        """Run waiting jobs in this thread until there are none; return their number."""
        keeper = None
        if not self._threads:
            self._stopping.clear()
            keeper = threading.Thread(target=self._keep_leases, daemon=True)
            keeper.start()
        job_count = 0
        try:
            while self._next():
                job_count += 1
        finally:
            if keeper is not None:
                self._stopping.set()
                self._look.set()
                keeper.join()
        return job_count

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                had_work = self._next()
            except SfumatoError:  # the store is away; it has told its operator
                had_work = False
            if not had_work:
                self._wake.wait(_POLL_SECONDS)
                self._wake.clear()

    def _next(self) -> bool:
        """Claim one job and run it; False if none waits."""
        # A name for this one attempt: a job that comes back to the same thread is another lease.
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
            # The last point at which a cancelled job costs nothing.
            if not self._store.note(job.holder, ANSWERING):
                raise _NotOursError

        try:
            self._store.mark_done(job.id, self._run(job, charging))
        except _NotOursError:
            return
        except SfumatoError as error:
            self._settle(job, error)
        except Exception as error:  # noqa: BLE001  a worker outlives whatever a job does
            self._tell_operator(job.id, f"{type(error).__name__}: {error}")
            self._store.mark_failed(
                job.holder,
                InternalError(
                    "job_failed",
                    "The job failed inside. What was charged stays spent. Let the operator look "
                    "for the cause in the vault's failures.log.",
                ),
            )

    def _settle(self, job: Job, error: SfumatoError) -> None:
        """Store a refusal, or let the job wait if a later start may succeed."""
        # The stored error goes to the job's owner; what only the operator may read goes to the
        # log.
        if isinstance(error, InternalError) or error.detail:
            self._tell_operator(job.id, f"{error.code}: {error.detail or error.message}")
        if error.code in _AWAY:
            self._store.put_back(job.holder, _LATER_SECONDS, counted=False)
        elif error.code in _PASSING and job.attempts < MOST_ATTEMPTS:
            self._store.put_back(job.holder, _AGAIN_SECONDS * job.attempts, counted=True)
        else:
            self._store.mark_failed(job.holder, error)

    def _keep_leases(self) -> None:
        """Renew the leases of jobs that run here; stop those that were cancelled or taken over."""
        while not self._stopping.is_set() or self._held:
            # Two renewals may fail before a lease ends.
            self._look.wait(self._lease / 3)
            self._look.clear()
            with self._guard:
                held = list(self._held.items())
            for job, running in held:
                with suppress(
                    SfumatoError
                ):  # the store is away: the lease may last until it is back
                    if not self._store.renew(running.holder, self._lease):
                        self._stop(job, running)

    def _stop(self, job: str, held: _Held) -> None:
        """Stop what a thread does for a job, unless it has gone on to another one."""
        with self._guard:
            if self._held.get(job) is held:
                self._stop_thread(held.thread)


_MOST_LISTED = 1000


class Jobs(AnyJobs):
    """The jobs of a vault. A principal sees their own jobs, the owner sees all."""

    _pause_seconds = 0.05

    def __init__(
        self, vault: Vault, data: DataStore, *, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        self._vault, self._data, self._lease_seconds = vault, data, lease_seconds

    @cached_property
    def _store(self) -> JobStore:
        return JobStore(self._vault.config)

    @cached_property
    def _workers(self) -> JobWorkers:
        folder = self._vault.config.folder
        return JobWorkers(
            self._store,
            self._run,
            self._data.cancel,
            lambda job, message: note_failure(folder, f"job {job}", message),
            lease_seconds=self._lease_seconds,
        )

    @property
    def _begun(self) -> bool:
        """Whether there may be jobs: to look for them makes no file in a vault that has none."""
        config = self._vault.config
        return config.in_postgres or (config.folder / JOBS).exists()

    def submit(
        self,
        family: str,
        dataset: str,
        *,
        principal: str | None = None,
        purpose: str | None = None,
        request_id: str | None = None,
        plan: str | None = None,
        **asked: object,
    ) -> Job:
        """Submit a job. A worker must run it: `start`, `work`, a server, or 'sfumato job run'.

        Parameters
        ----------
        family
            "publish", "synthesize", "above" or "anonymize"; for owners also "compare", which
            compares `releases` of the data set.
        dataset
            The data set.
        principal, purpose
            Who asks and pays, by default the owner; the purpose to which people agreed.
        request_id
            The charge is made under it when the job runs. The same id with the same work returns
            the same job.
        plan
            The digest of a plan; any other plan is refused.
        **asked
            The options of the method of that name.

        Returns
        -------
        Job
            The stored job.

        Raises
        ------
        ParameterError
            For options that do not fit, or if `plan` is another (`plan_changed`).
        PolicyError
            Without permission, or with too many unfinished jobs.
        BudgetError
            If the budget would not pay for it now; nothing is charged before it runs.
        """
        asking_principal, name = asking(principal), arguments.text(dataset, "dataset")
        arguments.maybe_text(purpose, "purpose")
        job_id = token_hex(8)
        asked_under = check_request_id(request_id)
        key = job_id if asked_under is None else asked_under
        check_request(key)
        arguments.text(family, "family")
        job, prepared = self._planned(
            Job(job_id, family, name, asking_principal, asked, key, purpose), plan
        )
        self._data.check_purpose((name,), purpose)
        # A job that is stored under this id may be paid for already: then the budget may be empty.
        if self._store.under(asking_principal, key) is None:
            self._check_payable(job, prepared)
        stored = self._store.add(job)
        self._workers.wake()
        return stored

    def get(self, job: str | Job, *, principal: str | None = None) -> Job:
        """A job in its present state; jobs of other principals do not exist for the caller."""
        name = job.id if isinstance(job, Job) else arguments.text(job, "job")
        stored = self.look_up(name, principal=principal)
        if stored is None:
            raise ParameterError("job_unknown", f"There is no job {quoted(name)} of yours.")
        return stored

    def look_up(self, job: str, *, principal: str | None = None) -> Job | None:
        """A job in its present state, or None."""
        owner, name = self._visible_owner(principal), arguments.text(job, "job")
        return self._store.get(name, owner) if self._begun else None

    def list(self, *, principal: str | None = None, limit: int = 100) -> Sequence[Job]:
        """The newest jobs of a principal, all for the owner, the last first."""
        number = arguments.whole(limit, "limit")
        if not 1 <= number <= _MOST_LISTED:
            raise ParameterError(
                "parameter_out_of_range",
                f"limit must be from 1 to {_MOST_LISTED}, not {number}.",
                parameter="limit",
                given=number,
            )
        owner = self._visible_owner(principal)
        return self._store.list(owner, limit=number) if self._begun else []

    def get_of_anyone(self, job: str) -> Job | None:
        """A job of any principal, for callers that check permission themselves."""
        return self._store.get(job, None) if self._begun else None

    def list_done(self, principal: str | None, limit: int) -> Sequence[Job]:
        """List the newest jobs that are done, of one principal or of all."""
        states = [JobState.DONE]
        return self._store.list(principal, limit=limit, states=states) if self._begun else []

    def cancel(self, job: str | Job, *, principal: str | None = None) -> Job:
        """Cancel a job that has not ended. A charge that was made for it stays spent."""
        stored = self.get(job, principal=principal)
        self._store.cancel(stored.id, self._visible_owner(principal))
        self._workers.look()
        return self.get(stored, principal=principal)

    def start(self, workers: int = 1) -> None:
        """Run jobs in `workers` threads of this process."""
        self._workers.start(arguments.whole(workers, "workers"))

    def stop(self, seconds: float = 30) -> bool:
        """Start no further jobs, wait at most `seconds`; return whether all running ones ended."""
        patience = arguments.seconds(seconds, "seconds")
        return self._workers.stop(patience) if "_workers" in self.__dict__ else True

    def work(self) -> int:
        """Run waiting jobs in this thread until there are none; return their number."""
        return self._workers.work() if self._begun else 0

    def close(self) -> None:
        """Stop working and close the database."""
        self.stop()
        if "_store" in self.__dict__:
            self._store.close()

    def _planned(self, job: Job, plan: str | None) -> tuple[Job, Plan | None]:
        """A job in plain values with its plan of today; impossible work is refused."""
        person = self._vault.principal_registry.admitted(job.principal)
        if job.family in (ANONYMIZE, COMPARE):
            if not person.is_owner:
                raise PolicyError(
                    "permission_missing",
                    f"{quoted(person.name)} may not do this: rows of people are released by their "
                    "owner. Ask for a publication or a synthesis.",
                )
            job = replace(job, asked=asked_plainly(job.family, job.asked))
            if job.family == ANONYMIZE:
                check_request_options(self._vault, job)
            else:
                # Only here and in `_run`: most processes that run jobs need no attacks loaded.
                from sfumato.vault.release_attacks import named_candidates

                named_candidates(self._vault, job)
            return job, None
        shape = family_named(job.family).shape
        # Without permission nothing is planned: refusals of a plan tell what is declared.
        person.check(shape)
        job = replace(job, asked=asked_plainly(job.family, job.asked))
        _, prepared = self._prepared(job)
        check_plan(prepared, plan)
        person.check(shape, prepared.parameters["cost"])
        if not job.asked.keys() & {"epsilon", "rho"}:
            # Without a price it costs today's default, also if the budget changes before it runs.
            usual = prepared.parameters["cost"]["epsilon"]
            job = replace(job, asked={**job.asked, "epsilon": usual})
        return replace(job, plan=plan_digest(prepared)), prepared

    def _check_payable(self, job: Job, prepared: Plan | None) -> None:
        """Refuse what would fail today by consent or budget; no row is read for it."""
        if prepared is None:
            self._data.check_consent((job.dataset,))
            return
        self._data.check_consent(prepared.datasets)
        asker = self._vault.asker(job.principal, job.purpose, prepared.datasets)
        self._vault.gatekeeper.check_payable(prepared, asker, job.request_id)

    def _prepared(self, job: Job) -> tuple[Private, Plan]:
        """The plan of a job, by present declarations and permissions."""
        private = self._vault.private(job.dataset, principal=job.principal, purpose=job.purpose)
        return private, private.prepare(families()[job.family], **job.asked)

    def _run(self, job: Job, charging: Callable[[], None]) -> dict[str, Any]:
        """Do the work of a job; return what its record keeps of the result."""
        with suppress(SfumatoError):  # a configuration that is being edited is taken up later
            self._vault.refresh()
        if job.family == ANONYMIZE:
            anonymize_dataset(self._vault, job, charging)
            return {}
        if job.family == COMPARE:
            from sfumato.vault.release_attacks import compare_candidates

            compare_candidates(self._vault, job, charging)
            return {}
        private, prepared = self._prepared(job)
        check_plan(prepared, job.plan)
        charging()
        answer = private.answer(
            families()[job.family], prepared, request_id=OwnRequest(job.request_id)
        )
        # A job that is begun again finds what it paid for before.
        begun = job.request_id if job.attempts > 1 else None
        charged = paid_under(answer, self._vault.ledger, job.principal, begun)
        return {"receipt": answer.entry, "charged": charged}

    def _visible_owner(self, principal: str | None) -> str | None:
        """The principal whose jobs are visible to the caller; None for all, to an owner."""
        person = self._vault.principal_registry.admitted(asking(principal))
        return None if person.is_owner else person.name
