"""A job: what was asked, by whom, and what has become of it.

Nothing that it tells while it runs depends on a row: stages are those of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from collections.abc import Mapping


COMPARE = "compare"
"""The family of jobs that look at releases and make none."""


class JobState(StrEnum):
    """What has become of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = (JobState.DONE, JobState.FAILED, JobState.CANCELLED)

STAGES = ("waiting", "preparing", "answering", "ended")
"""What a job goes through, whatever the rows are: planned from public facts, then charged, counted
and noised in one."""
PREPARING, ANSWERING, LAST = 1, 2, 3
MOST_ATTEMPTS = 3
"""So often a job is begun: one that takes its server down is not begun for ever."""


@dataclass(frozen=True, repr=False)
class Job(Shown):
    """Work that was asked for and is kept until it is done, whatever happens to who asked."""

    id: str
    family: str
    dataset: str
    principal: str
    asked: Mapping[str, Any]
    request_id: str
    """Under which it is charged, once, however often it is begun."""
    purpose: str | None = None
    state: JobState = JobState.WAITING
    stage: int = 0
    submitted: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    error: Mapping[str, str] | None = None
    """Why it failed: a code, a message, and which kind of error that is."""
    plan: str | None = field(default=None, compare=False)
    """The digest of what was planned for it, where anything was; another plan is never run."""
    result: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Of what is paid for: the receipt under which the ledger keeps it, and whether it was charged
    for this job."""
    attempts: int = field(default=0, compare=False)
    holder: str = field(default="", compare=False)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will become of it."""
        return self.state in ENDED

    @property
    def release(self) -> str | None:
        """The release that came of it, by its name in `vault.releases`."""
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
            "submitted": _told(self.submitted),
            "started": _told(self.started),
            "ended": _told(self.ended),
            "error": None if self.error is None else dict(self.error),
            "release": self.release,
        }

    def _card(self) -> Card:
        why = f": {self.error['message']}" if self.error else ""
        facts = {
            "Asked by": self.principal,
            "State": f"{self.state}{why}",
            "Submitted": _told(self.submitted) or "",
            "Ended": _told(self.ended) or "",
        }
        return Card(f"{self.id}, {self.family} of {self.dataset}, {self.state}{why}", facts)


def _told(moment: datetime | None) -> str | None:
    """A moment to the second: finer, it would tell how long rows took."""
    return None if moment is None else moment.isoformat(timespec="seconds")


def moment(milliseconds: int | None) -> datetime | None:
    """A moment of a database, in whole seconds."""
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds // 1000, UTC)
