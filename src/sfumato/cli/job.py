"""`sfumato job`: long work that is asked for, and who does it."""

from __future__ import annotations

import json
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.completion import one_of
from sfumato.cli.options import Json, VaultFolder, option
from sfumato.text import dumps, minute

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.vault.jobs.job import Job
    from sfumato.vault.jobs.jobs import Jobs


class JobAction(StrEnum):
    """What to do with jobs."""

    SUBMIT = "submit"
    LIST = "list"
    SHOW = "show"
    CANCEL = "cancel"
    RUN = "run"


_NAMED = (JobAction.SUBMIT, JobAction.SHOW, JobAction.CANCEL)
Action = Annotated[
    JobAction,
    typer.Argument(
        metavar="ACTION",
        help="What to do: one of the actions below.",
        show_default=False,
        autocompletion=one_of({str(one): "" for one in JobAction}),
    ),
]
Named = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="show, cancel: which job; submit: publish, synthesize, above, anonymize, compare.",
        show_default=False,
    ),
]
_SUBMITTED = "What to submit"


def job(
    action: Action,
    name: Named = None,
    dataset: Annotated[
        str | None, option("NAME", "Of which data set.", rich_help_panel=_SUBMITTED)
    ] = None,
    ask: Annotated[
        str | None,
        option("JSON", "What the method of that name takes.", rich_help_panel=_SUBMITTED),
    ] = None,
    purpose: Annotated[str | None, option("WORD", "What for.", rich_help_panel=_SUBMITTED)] = None,
    request: Annotated[
        str | None,
        option("ID", "Submit safely again: same id, same job.", rich_help_panel=_SUBMITTED),
    ] = None,
    limit: Annotated[int, option("N", "list: at most so many, the newest.")] = 20,
    vault: VaultFolder = Path(),
    as_json: Json = False,
) -> None:
    """Have long work of a vault done, see what has become of it, or cancel it.

    A job is charged when it is begun, once, whatever happens to who begins it. Servers do jobs
    while they serve; 'run' does them where none is, on any machine that reaches the ledger.

    Actions:
        submit  keep a job until it is done; what cannot be done is refused at once
        list    the newest jobs of everybody, and what has become of them
        show    one job: what was asked, how far it is, why it failed
        cancel  end a job, whatever it is at; what was charged stays spent
        run     do what waits, until nothing does

    Examples:
        sfumato job submit anonymize --dataset people --ask '{"k": 5}' --vault clinic
        sfumato job run --vault clinic
        sfumato job list --vault clinic
    """
    from sfumato.vault.vault import open_vault

    said = {"--dataset": dataset, "--ask": ask, "--purpose": purpose, "--request": request}
    _check_said(action, name, said)
    asked = {} if ask is None else _read(ask)
    with open_vault(vault) as opened:
        jobs = opened.jobs
        if action is JobAction.SUBMIT:
            extra: Any = {"purpose": purpose, "request_id": request, **asked}
            _told(jobs.submit(str(name), str(dataset), **extra), as_json=as_json)
        elif action is JobAction.RUN:
            done = jobs.work()
            typer.echo(dumps({"done": done}) if as_json else f"Jobs brought to an end: {done}.")
        elif action is JobAction.LIST:
            _listed(jobs, limit, as_json=as_json)
        else:
            found = jobs.cancel(str(name)) if action is JobAction.CANCEL else jobs.get(str(name))
            _told(found, as_json=as_json)


def _check_said(action: JobAction, name: str | None, said: Mapping[str, object]) -> None:
    """Refuse an action without what it needs, and what it would ignore."""
    if (name is not None) is not (action in _NAMED):
        needs = "needs a NAME" if name is None else "takes no NAME"
        raise typer.BadParameter(f"{action} {needs}; 'sfumato job --help' tells which.")
    if action is JobAction.SUBMIT and said["--dataset"] is None:
        raise typer.BadParameter("submit needs --dataset NAME.")
    for flag, value in said.items():
        if value is not None and action is not JobAction.SUBMIT:
            raise typer.BadParameter(f"{action} takes no {flag}.")


def _read(ask: str) -> dict[str, Any]:
    """What is asked, digit for digit."""
    try:
        found = json.loads(ask, parse_float=Decimal)
    except (ValueError, RecursionError):
        found = None
    apart = {"principal", "purpose", "request_id", "family", "dataset", "plan"}
    if not isinstance(found, dict) or apart & found.keys():
        raise typer.BadParameter(
            """--ask must be one JSON object of what is asked, such as '{"k": 5}'."""
        )
    return found


def _listed(jobs: Jobs, limit: int, *, as_json: bool) -> None:
    found: Sequence[Job] = jobs.list(limit=limit)
    if as_json:
        typer.echo(dumps({"jobs": [one.to_json() for one in found]}))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Job", "What", "Data set", "Asked by", "Submitted", "State"):
        table.add_column(title, overflow="fold", no_wrap=title == "Job")
    for one in found:
        when = minute(one.to_json()["submitted"])
        table.add_row(one.id, one.family, one.dataset, one.principal, when, str(one.state))
    Console(highlight=False).print(table if found else "There are no jobs.")


def _told(job: Job, *, as_json: bool) -> None:
    told = job.to_json()
    if as_json:
        typer.echo(dumps(told))
        return
    from sfumato.release.files_in_use import RELEASES
    from sfumato.report.terminal import printable
    from sfumato.vault.jobs.job import COMPARE

    why = f" ({job.error['code']}): {job.error['message']}" if job.error else ""
    over = f", ended {minute(told['ended'])}" if told["ended"] else ""
    lines = [
        f"{job.id}: {job.family} of {job.dataset}, asked by {job.principal}",
        f"State: {job.state}{why}",
        f"Asked: {dumps(told['asked'], ensure_ascii=False)}",
        f"Submitted {minute(told['submitted'])}{over}",
    ]
    lines += [f"Release: sfumato release show {job.release}"] if job.release else []
    if job.family == COMPARE and job.state == "done":
        lines.append(f"What was found: {RELEASES}/{job.id}/comparison.html in the vault's folder")
    typer.echo("\n".join(str(printable(line)) for line in lines))
