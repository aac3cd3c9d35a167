"""`sfumato program`: which native programs others than the owner may run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.completion import one_of
from sfumato.cli.options import Json, VaultFolder, decided_by, option
from sfumato.text import dumps, minute


class ProgramAction(StrEnum):
    """What to do with approvals of programs."""

    APPROVE = "approve"
    LIST = "list"
    REVOKE = "revoke"


def program(
    action: Annotated[
        ProgramAction,
        typer.Argument(
            metavar="ACTION",
            help="What to do: one of the actions below.",
            show_default=False,
            autocompletion=one_of({str(one): "" for one in ProgramAction}),
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="PROGRAM",
            help="approve: a Python file; revoke: the digest of a program.",
            show_default=False,
        ),
    ] = None,
    function: Annotated[
        str | None, option("F", "approve: the function that is called with each block.")
    ] = None,
    helper: Annotated[
        str | None, option("F", "approve: the function that makes ranges, if there is one.")
    ] = None,
    operator: Annotated[str | None, option("WHO", "Who decided it; else you.")] = None,
    vault: VaultFolder = Path(),
    as_json: Json = False,
) -> None:
    """Approve Python programs that others than the owner send, after reading them.

    Your own programs need no approval, and programs in Starlark need none.

    Actions:
        approve  let whoever may send code run this file with this function, byte for byte
        list     all approved programs, the last approved first
        revoke   let a program no longer be run for others, from now on

    Examples:
        sfumato program approve ages.py --function mean_age --operator Ann --vault clinic
        sfumato program list --vault clinic
    """
    from sfumato.vault.programs import programs_of

    if action is not ProgramAction.LIST and name is None:
        raise typer.BadParameter(f"{action} needs a PROGRAM.")
    if action is not ProgramAction.APPROVE and (function or helper):
        raise typer.BadParameter("--function and --helper are for approvals.")
    with programs_of(vault) as programs:
        if action is ProgramAction.LIST:
            listed = [one.to_json() for one in programs.list()]
            typer.echo(dumps({"programs": listed})) if as_json else _show(listed)
        elif action is ProgramAction.REVOKE:
            gone = programs.revoke(str(name), operator=decided_by(operator))
            typer.echo(dumps({"revoked": gone}) if as_json else f"Revoked {gone}.")
        else:
            asked: dict[str, Any] = {
                "function": function,
                "helper": helper,
                "operator": decided_by(operator),
            }
            made = programs.approve(Path(str(name)), **asked)
            typer.echo(dumps(made.to_json()) if as_json else f"Approved {made.digest}.")


def _show(listed: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Digest", "Function", "Approved", "By"):
        table.add_column(title, overflow="fold")
    for one in listed:
        table.add_row(one["digest"], one["function"], minute(one["approved"]), one["operator"])
    Console(highlight=False).print(table if listed else "No programs are approved.")
