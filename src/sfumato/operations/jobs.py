"""Jobs: long work of a vault, which is stored until it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.operations.fields import JsonObject, Name, Request, arg
from sfumato.operations.operation import (
    OWNERS,
    Context,
    Permission,
    Result,
    operation,
    print_table,
)
from sfumato.text import dumps, minute

if TYPE_CHECKING:
    from sfumato.vault.jobs.job import Job

PAGE = "/console/jobs"
MOST_LISTED = 1000
_SUBMITTED = "What to submit"
_APART = {"principal", "purpose", "request_id", "family", "dataset", "plan"}
"""Names that `asked` must not hold: fields of the request, and the plan, which only servers set."""
_OWN = Permission("query")
"""The vault shows a principal its own jobs and an owner all jobs."""
_JOB = arg("The job.", metavar="JOB", positional=True)


class Progress(msgspec.Struct):
    """How far a job is."""

    stage: str
    number: int
    of: int


class JobRecord(Result):
    """A job: its request, its progress, and its error or its release."""

    job: str
    family: str
    dataset: str
    principal: str
    purpose: str | None
    asked: dict[str, Any]
    request_id: str
    state: str
    progress: Progress
    submitted: str | None
    started: str | None
    ended: str | None
    error: dict[str, str] | None
    release: str | None

    def __post_init__(self) -> None:
        _ = self.described  # refuses an unknown state, which a foreign server may send

    @property
    def location(self) -> str:
        """The address of the job; HTTP sends it when a job is submitted."""
        return f"/v1/jobs/{self.job}"

    @property
    def described(self) -> Job:
        """The job as Python gives it."""
        from sfumato.vault.jobs.job import Job

        return Job.from_json(self.to_json())

    def show(self) -> None:
        """Print the job in a few lines."""
        from sfumato.release.files_in_use import RELEASES
        from sfumato.report.terminal import printable
        from sfumato.vault.jobs.job import COMPARE

        reason = f" ({self.error['code']}): {self.error['message']}" if self.error else ""
        over = f", ended {minute(self.ended)}" if self.ended else ""
        lines = [
            f"{self.job}: {self.family} of {self.dataset}, asked by {self.principal}",
            f"State: {self.state}{reason}",
            f"Asked: {dumps(self.asked, ensure_ascii=False)}",
            f"Submitted {minute(self.submitted)}{over}",
        ]
        if self.release:
            lines.append(f"Release: sfumato release show {self.release}")
        if self.family == COMPARE and self.state == "done":
            page = f"{RELEASES}/{self.job}/comparison.html"
            lines.append(f"Comparison: {page} in the vault's folder")
        print("\n".join(str(printable(line)) for line in lines))  # noqa: T201


class JobList(Result):
    """Jobs, the newest first."""

    jobs: tuple[JobRecord, ...]

    def show(self) -> None:
        """Print a table."""
        rows = [
            (
                record.job,
                record.family,
                record.dataset,
                record.principal,
                minute(record.submitted),
                record.state,
            )
            for record in self.jobs
        ]
        titles = ("Job", "What", "Data set", "Asked by", "Submitted", "State")
        print_table(titles, rows, "There are no jobs.", unbroken="Job")


class JobsRun(Result):
    """The number of jobs that were brought to an end."""

    done: int

    def show(self) -> None:
        """Print one sentence."""
        print(f"Jobs brought to an end: {self.done}.")  # noqa: T201


class SubmitJob(Request):
    """Submit a job: work that runs in the background.

    What cannot be done is refused at once. A job is charged when it begins, once, whatever
    happens to the process that runs it.
    """

    family: Annotated[
        Name,
        arg("publish, synthesize, above, anonymize, ...", metavar="FAMILY", positional=True),
    ]
    dataset: Annotated[Name, arg("The data set.", topic=_SUBMITTED)]
    asked: Annotated[
        JsonObject | None,
        arg("Options of the family, as one JSON object.", flag="ask", topic=_SUBMITTED),
    ] = None
    purpose: Annotated[
        Name | None, arg("The purpose of the question.", metavar="PURPOSE", topic=_SUBMITTED)
    ] = None
    request_id: Annotated[
        str | None,
        arg(
            "Submit safely again: same id, same job.",
            metavar="ID",
            flag="request",
            topic=_SUBMITTED,
        ),
    ] = None


class ListJobs(Request):
    """List your jobs, the newest first; owners see those of everybody."""

    limit: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_LISTED)], arg("Only this many, the newest.")
    ] = 100


class ShowJob(Request):
    """Show a job: its progress, its error or its release."""

    job: Annotated[Name, _JOB]


class CancelJob(Request):
    """Cancel a job, whatever its state; what was charged stays spent."""

    job: Annotated[Name, _JOB]


class RunJobs(Request):
    """Run waiting jobs until none is left.

    Servers do jobs while they serve; this does them on any machine that reaches the ledger.
    """


# HTTP has a route for each family instead, whose body has the fields of that family.


@operation(
    "job submit",
    allowed=OWNERS,
    examples=[{"family": "anonymize", "dataset": "people", "asked": {"k": 5}}],
    doors=("command",),
    whole_vault=True,
)
def submit_job(context: Context, request: SubmitJob) -> JobRecord:
    """Plan the job and store it."""
    asked: dict[str, Any] = request.asked or {}
    # Else an option could replace the principal who pays, or the data set.
    if clash := _APART & asked.keys():
        raise ParameterError(
            "request_malformed",
            'The JSON object must hold only options of the family, such as {"k": 5}. Give '
            f"{quoted(min(clash))} outside it.",
            parameter="asked",
        )
    submitted = context.vault.jobs.submit(
        request.family,
        request.dataset,
        principal=context.principal,
        purpose=request.purpose,
        request_id=request.request_id,
        **asked,
    )
    return _record(submitted)


@operation("job run", allowed=OWNERS, examples=[{}], doors=("command",), whole_vault=True)
def run_jobs(context: Context, request: RunJobs) -> JobsRun:  # noqa: ARG001
    """Work in this process."""
    return JobsRun(done=context.vault.jobs.work())


@operation(
    "job list",
    allowed=_OWN,
    examples=[{}],
    method="GET",
    path="/jobs",
    whole_vault=True,
    page=PAGE,
)
def list_jobs(context: Context, request: ListJobs) -> JobList:
    """Read the newest jobs."""
    listed = context.vault.jobs.list(principal=context.principal, limit=request.limit)
    return JobList(jobs=tuple(map(_record, listed)))


@operation(
    "job show",
    allowed=_OWN,
    examples=[{"job": "5dc893f2e527a768"}],
    method="GET",
    path="/jobs/{job}",
    whole_vault=True,
    page=PAGE,
)
def show_job(context: Context, request: ShowJob) -> JobRecord:
    """Read a job; a job of another principal is unknown, like one that does not exist."""
    return _record(context.vault.jobs.get(request.job, principal=context.principal))


@operation(
    "job cancel",
    allowed=_OWN,
    examples=[{"job": "5dc893f2e527a768"}],
    method="DELETE",
    path="/jobs/{job}",
    whole_vault=True,
    page=PAGE,
)
def cancel_job(context: Context, request: CancelJob) -> JobRecord:
    """End a job; one that has ended stays as it is."""
    return _record(context.vault.jobs.cancel(request.job, principal=context.principal))


def _record(job: Job) -> JobRecord:
    return JobRecord.from_json(job.to_json())
