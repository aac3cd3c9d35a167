"""Jobs in a database: jobs.sqlite in the vault's folder, or the ledger's PostgreSQL.

A worker holds a job by a lease and renews it while it works; when the worker dies, another one
takes the job after the lease. Time is the database's own, so servers need not agree on a clock.
Done stays done: an answer in the ledger is a fact, whichever worker reports it. Decision `jobs`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    and_,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from sfumato.errors import (
    CallerError,
    InternalError,
    PolicyError,
    SfumatoError,
    in_fields,
)
from sfumato.release.files_in_use import JOBS
from sfumato.text import dumps, without_places
from sfumato.vault.jobs.job import LAST, MOST_ATTEMPTS, PREPARING, Job, JobState, moment
from sfumato.vault.side_database import Int64, Name, SideDatabase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Row

    from sfumato.vault.config import Config

MOST_WAITING = 100
"""The largest number of unfinished jobs of one principal."""
ANSWER_LOST = "answer_lost"

_metadata = MetaData()
_jobs = Table(
    "sfumato_jobs",
    _metadata,
    Column("id", Name, primary_key=True),
    Column("principal", Name, nullable=False, index=True),
    Column("request", Name, nullable=False),
    Column("family", Name, nullable=False),
    Column("dataset", Name, nullable=False),
    Column("purpose", Name),
    Column("asked", Text, nullable=False),
    Column("plan", Name),
    Column("state", Name, nullable=False, index=True),
    Column("stage", Integer, nullable=False),
    Column("submitted", Int64, nullable=False),
    Column("started", Int64),
    Column("ended", Int64),
    Column("error", Text),
    Column("result", Text),
    Column("attempts", Integer, nullable=False),
    Column("holder", Name),
    # While it runs: until when it is its holder's. While it waits: from when on it may be taken.
    Column("until", Int64, nullable=False),
    # Ids of different principals never collide, so nobody learns whether another one used an id.
    UniqueConstraint("principal", "request", name="sfumato_jobs_once"),
    sqlite_strict=True,
)
_running_jobs = _jobs.alias()
_running_of_same = (
    select(func.count())
    .where(
        _running_jobs.c.principal == _jobs.c.principal, _running_jobs.c.state == JobState.RUNNING
    )
    .scalar_subquery()
)
_CLOCKS = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
}
"""Milliseconds since 1970 by the database's clock."""
_is_open = _jobs.c.state.in_([JobState.WAITING, JobState.RUNNING])


class JobStore:
    """The jobs of one vault, for any number of threads, processes and hosts."""

    def __init__(self, config: Config) -> None:
        self._tables = SideDatabase(config, JOBS, _metadata, "jobs")
        self._now = literal_column(_CLOCKS[self._tables.dialect_name], Int64)

    def add(self, job: Job) -> Job:
        """Store a job; return the stored one if its request id is known."""
        asked = dumps(job.asked, sort_keys=True)
        values = {
            "id": job.id,
            "principal": job.principal,
            "request": job.request_id,
            "family": job.family,
            "dataset": job.dataset,
            "purpose": job.purpose,
            "asked": asked,
            "plan": job.plan,
            "state": JobState.WAITING,
            "stage": 0,
            "attempts": 0,
            "submitted": self._now,
            "until": self._now,
        }
        same_request = _jobs.c.principal == job.principal, _jobs.c.request == job.request_id
        for _ in range(2):  # another server may add the same at this moment
            try:
                with self._tables.writing() as connection:
                    # Without the lock many requests at once would all count before any has added
                    # its job, and pass the limit together.
                    self._tables.lock(connection, f"jobs {job.principal}")
                    row = connection.execute(select(_jobs).where(*same_request)).first()
                    if row is None:
                        self._check_room(connection, job.principal)
                        connection.execute(insert(_jobs).values(values))
                        row = connection.execute(select(_jobs).where(*same_request)).one()
                    return _check_same_work(_job(row), job, asked == row.asked)
            except IntegrityError:
                continue
        raise self._tables.failure("a job was added and is gone")

    def get(self, name: str, principal: str | None) -> Job | None:
        """A job by its name; of one principal, or of all with None."""
        with self._tables.reading() as connection:
            row = connection.execute(select(_jobs).where(_of(principal), _jobs.c.id == name))
            record = row.first()
        return None if record is None else _job(record)

    def under(self, principal: str, request: str) -> Job | None:
        """The job of a principal that was kept under a request."""
        same_request = _jobs.c.principal == principal, _jobs.c.request == request
        with self._tables.reading() as connection:
            row = connection.execute(select(_jobs).where(*same_request)).first()
        return None if row is None else _job(row)

    def list(
        self, principal: str | None, *, limit: int, states: Sequence[JobState] = tuple(JobState)
    ) -> list[Job]:
        """The newest jobs, of one principal or of all, the last first."""
        asked = (
            select(_jobs)
            .where(_of(principal), _jobs.c.state.in_(states))
            .order_by(_jobs.c.submitted.desc(), _jobs.c.id)
            .limit(limit)
        )
        with self._tables.reading() as connection:
            return [_job(row) for row in connection.execute(asked)]

    def claim(self, holder: str, seconds: float) -> Job | None:
        """Claim the next job that waits or whose holder died; None if there is none.

        The principal with the fewest running jobs comes first, so nobody fills all workers.
        """
        free = and_(_jobs.c.state == JobState.WAITING, _jobs.c.until <= self._now)
        abandoned = and_(_jobs.c.state == JobState.RUNNING, _jobs.c.until < self._now)
        asked = (
            select(_jobs)
            .where(or_(free, abandoned))
            .order_by(_running_of_same, _jobs.c.submitted, _jobs.c.id)
            .limit(1)
            .with_for_update(of=_jobs, skip_locked=True)
        )
        while True:
            with self._tables.writing() as connection:
                row = connection.execute(asked).first()
                if row is None:
                    return None
                values = {
                    "state": JobState.RUNNING,
                    "stage": PREPARING,
                    "started": func.coalesce(_jobs.c.started, self._now),
                    "attempts": row.attempts + 1,
                    "holder": holder,
                    "until": self._now + int(seconds * 1000),
                }
                # It was started that often without an end, each time with its server: the next one
                # shall live.
                if row.attempts >= MOST_ATTEMPTS:
                    values = self._over(JobState.FAILED, error=_error_record(_abandoned()))
                connection.execute(update(_jobs).where(_jobs.c.id == row.id).values(values))
                claimed = connection.execute(select(_jobs).where(_jobs.c.id == row.id)).one()
            if claimed.state == JobState.RUNNING:
                return _job(claimed)

    def renew(self, holder: str, seconds: float) -> bool:
        """Renew the lease of a job; False if it was cancelled or is held by another worker."""
        return self._change({"until": self._now + int(seconds * 1000)}, *_held(holder))

    def note(self, holder: str, stage: int) -> bool:
        """Store a stage; False if the job was cancelled or is held by another worker."""
        return self._change({"stage": stage}, *_held(holder))

    def mark_done(self, name: str, result: Mapping[str, Any]) -> None:
        """Mark a job as done, whichever worker holds it now, unless it was cancelled.

        Another worker may have found the charge without its answer while this one still computed.
        """
        lost = and_(_jobs.c.state == JobState.FAILED, _jobs.c.error.contains(f'"{ANSWER_LOST}"'))
        self._change(
            {**self._over(JobState.DONE), "result": dumps(result)},
            _jobs.c.id == name,
            or_(_jobs.c.state == JobState.RUNNING, lost),
        )

    def mark_failed(self, holder: str, error: SfumatoError) -> None:
        """Mark a job as failed, with the error."""
        self._change(self._over(JobState.FAILED, error=_error_record(error)), *_held(holder))

    def put_back(self, holder: str, seconds: float, *, counted: bool) -> None:
        """Let a job wait at least `seconds` before its next start; `counted`: this start counts."""
        self._change(
            {
                "attempts": _jobs.c.attempts - (0 if counted else 1),
                "state": JobState.WAITING,
                "stage": 0,
                "holder": None,
                "until": self._now + int(seconds * 1000),
            },
            *_held(holder),
        )

    def cancel(self, name: str, principal: str | None) -> bool:
        """Cancel a job that has not ended; return whether it was cancelled."""
        return self._change(
            self._over(JobState.CANCELLED), _of(principal), _jobs.c.id == name, _is_open
        )

    def close(self) -> None:
        """Close all connections."""
        self._tables.close()

    def _over(self, state: JobState, error: str | None = None) -> dict[str, Any]:
        return {"state": state, "stage": LAST, "ended": self._now, "holder": None, "error": error}

    def _change(self, values: Mapping[str, Any], *conditions: Any) -> bool:
        with self._tables.writing() as connection:
            return connection.execute(update(_jobs).where(*conditions).values(values)).rowcount > 0

    def _check_room(self, connection: Connection, principal: str) -> None:
        asked = select(func.count()).where(_jobs.c.principal == principal, _is_open)
        if (connection.scalar(asked) or 0) >= MOST_WAITING:
            raise PolicyError(
                "jobs_too_many",
                f"You have {MOST_WAITING} jobs that are not done yet, which is the most at a time. "
                "Wait for some of them, or cancel them.",
            )


def _of(principal: str | None) -> Any:
    return literal_column("1") == 1 if principal is None else _jobs.c.principal == principal


def _held(holder: str) -> tuple[Any, Any]:
    return _jobs.c.holder == holder, _jobs.c.state == JobState.RUNNING


def _check_same_work(stored: Job, asked: Job, alike: bool) -> Job:
    """The job under a request id, unless the id stands for other work."""
    ours = (stored.family, stored.dataset, stored.purpose) == (
        asked.family,
        asked.dataset,
        asked.purpose,
    )
    if not (alike and ours):
        raise CallerError(
            "request_reused",
            f"Request id {asked.request_id!r} was already used for another job. Take a new one.",
        )
    return stored


def _job(row: Row[Any]) -> Job:
    return Job(
        id=row.id,
        family=row.family,
        dataset=row.dataset,
        principal=row.principal,
        asked=json.loads(row.asked),
        request_id=row.request,
        purpose=row.purpose,
        state=JobState(row.state),
        stage=row.stage,
        submitted=moment(row.submitted),
        started=moment(row.started),
        ended=moment(row.ended),
        plan=row.plan,
        error=None if row.error is None else json.loads(row.error),
        result={} if row.result is None else json.loads(row.result),
        attempts=row.attempts,
        holder=row.holder or "",
    )


def _error_record(error: SfumatoError) -> str:
    # Jobs are read from other machines, so the message names no path of this one.
    message = without_places(in_fields(error))
    return dumps({"code": error.code, "message": message, "kind": type(error).__name__})


def _abandoned() -> InternalError:
    return InternalError(
        "job_failed",
        f"The job was begun {MOST_ATTEMPTS} times and never came to an end: its server stopped "
        "each time. Whatever was charged stays spent. Ask for less at a time, or let the operator "
        "look for the cause.",
    )
