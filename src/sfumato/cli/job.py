"""`sfumato job`: long work that was asked for, and who does it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.completion import one_of
from sfumato.cli.options import Json, VaultFolder, option
from sfumato.texts import dumps, minute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.vault.jobs.job import Job


class JobAction(StrEnum):
    """What to do with jobs."""

    LIST = "list"
    SHOW = "show"
    CANCEL = "cancel"
    RUN = "run"


_NAMED = (JobAction.SHOW, JobAction.CANCEL)


def job(
    action: Annotated[
        JobAction,
        typer.Argument(
            metavar="ACTION",
            help="What to do: one of the actions below.",
            show_default=False,
            autocompletion=one_of({str(one): "" for one in JobAction}),
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="JOB", help="show, cancel: which, by its name.", show_default=False),
    ] = None,
    limit: Annotated[int, option("N", "list: at most so many, the newest.")] = 20,
    vault: VaultFolder = Path(),
    as_json: Json = False,
) -> None:
    """See long work that was submitted to a vault, cancel it, or do what waits.

    Servers do jobs while they serve. What they do not get to, or what was submitted where none
    runs, is done by 'run', on any machine that reaches the vault's ledger.

    Actions:
        list    the newest jobs of everybody, and what has become of them
        show    one job: what was asked, how far it is, why it failed
        cancel  end a job, whatever it is at; what was charged stays spent
        run     do what waits, until nothing does

    Examples:
        sfumato job list --vault clinic
        sfumato job run --vault clinic
    """
    from sfumato.vault.vault import open_vault

    if (name is None) is (action in _NAMED):
        raise typer.BadParameter(
            f"{action} needs the name of a JOB; 'list' tells them."
            if name is None
            else f"{action} takes no name of a job."
        )
    with open_vault(vault) as opened:
        jobs = opened.jobs
        if action is JobAction.RUN:
            done = jobs.work()
            typer.echo(dumps({"done": done}) if as_json else f"Jobs brought to an end: {done}.")
            return
        if action is JobAction.LIST:
            found = jobs.list(limit=limit)
            told = {"jobs": [one.to_json() for one in found]}
            typer.echo(dumps(told)) if as_json else _listed(found)
            return
        one = jobs.cancel(str(name)) if action is JobAction.CANCEL else jobs.get(str(name))
        typer.echo(dumps(one.to_json()) if as_json else _shown(one))


def _listed(jobs: Sequence[Job]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Job", "What", "Data set", "Asked by", "Submitted", "State"):
        table.add_column(title, overflow="fold")
    for one in jobs:
        when = minute(one.to_json()["submitted"])
        table.add_row(one.id, one.family, one.dataset, one.principal, when, str(one.state))
    Console(highlight=False).print(table if jobs else "There are no jobs.")


def _shown(job: Job) -> str:
    told = job.to_json()
    why = f" ({job.error['code']}): {job.error['message']}" if job.error else ""
    lines = [
        f"{job.id}: {job.family} of {job.dataset}, asked by {job.principal}",
        f"State: {job.state}{why}",
        f"Asked: {dumps(told['asked'], ensure_ascii=False)}",
        f"Submitted {minute(told['submitted'])}"
        + (f", ended {minute(told['ended'])}" if told["ended"] else ""),
    ]
    lines += [f"Release: sfumato release show {job.release}"] if job.release else []
    return "\n".join(lines)
