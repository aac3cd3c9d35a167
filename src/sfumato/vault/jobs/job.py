"""A job: the request in plain JSON, its owner and its state.

Jobs are stored in a database and run by any server of the vault. The progress of a job depends on
no row: its stages are those of the protocol.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.privacy.ledger.rules import check_name
from sfumato.report.display import Card, CardTable, Shown
from sfumato.text import dumps
from sfumato.vault.jobs.anonymize_job import ANONYMIZE, check_option_names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sfumato.vault.families import Family


COMPARE = "compare"
"""The family of jobs that compare releases and produce none."""


class JobState(StrEnum):
    """What has become of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = (JobState.DONE, JobState.FAILED, JobState.CANCELLED)

STAGES = ("waiting", "preparing", "answering", "ended")
"""The stages of a job, the same for all rows. Charge, counting and noise are one stage, because the
time between them depends on rows."""
PREPARING, ANSWERING, LAST = 1, 2, 3
MOST_ATTEMPTS = 3
"""The largest number of starts: a job that takes its server down is not started for ever."""


@dataclass(frozen=True, repr=False)
class Job(Shown):
    """Submitted work, stored until it is done, also if its caller is gone."""

    id: str
    family: str
    dataset: str
    principal: str
    asked: Mapping[str, Any]
    request_id: str
    """The request id of its charge: it is charged once, however often it is started."""
    purpose: str | None = None
    state: JobState = JobState.WAITING
    stage: int = 0
    submitted: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    error: Mapping[str, str] | None = None
    """Why it failed: a code, a message, and which kind of error that is."""
    plan: str | None = field(default=None, compare=False)
    """The digest of its plan, if it has one; another plan is never run."""
    result: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Of what is paid for: the receipt under which the ledger keeps it, and whether it was charged
    for this job."""
    attempts: int = field(default=0, compare=False)
    holder: str = field(default="", compare=False)

    @property
    def is_over(self) -> bool:
        """Whether the job is done, failed or cancelled."""
        return self.state in ENDED

    @property
    def release(self) -> str | None:
        """The name of its release in `vault.releases`, if it produced one."""
        gave = self.state is JobState.DONE and self.family != COMPARE
        return self.id if gave else None

    def to_json(self) -> dict[str, Any]:
        """The job in the form that programs get, by every door."""
        return {
            "job": self.id,
            "family": self.family,
            "dataset": self.dataset,
            "principal": self.principal,
            "purpose": self.purpose,
            "asked": dict(self.asked),
            "request_id": self.request_id,
            "state": str(self.state),
            "progress": {
                "stage": STAGES[self.stage],
                "number": self.stage,
                "of": LAST,
            },
            "submitted": _iso_seconds(self.submitted),
            "started": _iso_seconds(self.started),
            "ended": _iso_seconds(self.ended),
            "error": None if self.error is None else dict(self.error),
            "release": self.release,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            data["job"],
            data["family"],
            data["dataset"],
            data["principal"],
            data["asked"],
            data["request_id"],
            purpose=data["purpose"],
            state=JobState(data["state"]),
            stage=STAGES.index(data["progress"]["stage"]),
            submitted=_time(data["submitted"]),
            started=_time(data["started"]),
            ended=_time(data["ended"]),
            error=data["error"],
        )

    def _card(self) -> Card:
        why = f": {self.error['message']}" if self.error else ""
        facts = {
            "Asked by": self.principal,
            "State": f"{self.state}{why}",
            "Submitted": _iso_seconds(self.submitted) or "",
            "Ended": _iso_seconds(self.ended) or "",
        }
        return Card(f"{self.id}, {self.family} of {self.dataset}, {self.state}{why}", facts)


class AnyJobs(Shown, ABC):
    """The jobs of a vault, local or behind a server."""

    _pause_seconds: ClassVar[float]
    """How long `wait` sleeps before it looks again."""

    @abstractmethod
    def get(self, job: str | Job, *, principal: str | None = None) -> Job:
        """Get a job as it is now; one of somebody else is unknown."""

    @abstractmethod
    def list(self, *, principal: str | None = None, limit: int = 100) -> Sequence[Job]:
        """List the newest jobs of a principal, all for the owner, the last first."""

    def wait(
        self, job: str | Job, *, principal: str | None = None, seconds: float | None = None
    ) -> Job:
        """Wait until a job has ended, at most so many seconds, and return it as it is then."""
        end = None
        if seconds is not None:
            end = time.monotonic() + arguments.seconds(seconds, "seconds")
        while True:
            current = self.get(job, principal=principal)
            if current.is_over or (end is not None and time.monotonic() >= end):
                return current
            time.sleep(self._pause_seconds)

    def _card(self) -> Card:
        listed = self.list()
        rows = [(job.id, job.family, job.dataset, job.principal, str(job.state)) for job in listed]
        titles = ("Job", "What", "Data set", "Asked by", "State")
        table = CardTable(titles, rows[:10], len(rows[10:]))
        waiting = sum(not job.is_over for job in listed)
        return Card(f"{len(listed)} kept, {waiting} not done yet", {}, table if rows else None)


def _iso_seconds(moment: datetime | None) -> str | None:
    """A moment to the second: finer, it would tell how long rows took."""
    return None if moment is None else moment.isoformat(timespec="seconds")


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def moment(milliseconds: int | None) -> datetime | None:
    """A moment of a database, in whole seconds."""
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds // 1000, UTC)


MOST_BYTES = 1024 * 1024


def plain_values(asked: Mapping[str, object], files: Collection[str]) -> dict[str, Any]:
    """The arguments as JSON values, which read the same when the job is run.

    For arguments in `files`, values must be given and no path: it would be that of a server's file.
    """
    plain = {}
    for name, value in asked.items():
        if name in files and isinstance(value, str | Path):
            raise ParameterError(
                "request_malformed",
                f"{name} of a job must be given as what it holds, not as {arguments.shown(value)}: "
                "the server that runs it may not have that file. Give the values as a list.",
            )
        if value is not None:
            plain[name] = arguments.plain(value, name)
    length = len(dumps(plain))
    if length > MOST_BYTES:
        raise ParameterError(
            "request_malformed",
            f"What a job is asked may have {MOST_BYTES:,} bytes in JSON, not {length:,}. Ask for "
            "fewer ranges at a time.",
        )
    return plain


def families() -> dict[str, Family]:
    """The families that a job can run, besides anonymizing: those of one data set."""
    from sfumato.vault.families import FAMILIES

    return {name: family for name, family in FAMILIES.items() if family.of_dataset}


def family_named(name: str) -> Family:
    """A family that a job may be of, by its name."""
    known = families()
    if name not in known:
        raise ParameterError(
            "choice_unknown",
            f"A job cannot be of {quoted(name)}; {suggestion(name, [*known, ANONYMIZE, COMPARE])}",
            parameter="family",
        )
    return known[name]


def check_request(request_id: str) -> None:
    """Refuse a text that cannot be a request id."""
    check_name(request_id, "request id")


def asked_plainly(family: str, asked: Mapping[str, object]) -> dict[str, Any]:
    """The arguments of a job as JSON values; refused where its method would not take them."""
    if family == ANONYMIZE:
        options = plain_values(asked, ("population",))
        check_option_names(options)
        return options
    if family == COMPARE:
        return plain_values(asked, ())
    from sfumato.operations.fields import fields  # most jobs are read, not submitted
    from sfumato.operations.private_methods import METHOD_OF

    known = family_named(family)
    takes = {field.name: field for field in fields(METHOD_OF[known.name].request)}
    plain = plain_values(asked, [name for name, field in takes.items() if field.from_file])
    wrong = [] if known.name in _WITH_OPTIONS else [name for name in plain if name not in takes]
    missing = [name for name, field in takes.items() if field.required and name not in plain]
    if wrong or missing != ["dataset"]:
        problem = f"it takes no {quoted(wrong[0])}" if wrong else "it needs more"
        raise ParameterError(
            "request_malformed",
            f"A job of {known.name!r} cannot be asked so: {problem}. It takes {', '.join(takes)}.",
        )
    return plain


_WITH_OPTIONS = ("publish", "learn", "synthesize")
"""The families whose kinds have options, which planning checks."""
