"""`sfumato ledger`: what was spent, whether the book is whole, and its export."""

from __future__ import annotations

import sys
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.options import Json, VaultFolder, option
from sfumato.text import dumps

if TYPE_CHECKING:
    from typing import Any


class Action(StrEnum):
    """What to do with the ledger."""

    SHOW = "show"
    VERIFY = "verify"
    EXPORT = "export"
    LIMIT = "limit"
    ACKNOWLEDGE = "acknowledge"
    HEAD = "head"
    JOIN = "join"


def ledger(
    action: Annotated[
        Action,
        typer.Argument(
            metavar="ACTION",
            help="What to do: one of the actions below.",
            show_default=False,
        ),
    ],
    account: Annotated[str | None, option("NAME", "limit: of which.")] = None,
    epsilon: Annotated[
        str | None, option("EPSILON", "limit: the whole budget from now on.")
    ] = None,
    delta: Annotated[str, option("DELTA", "limit: its delta.")] = "0",
    operator: Annotated[str | None, option("WHO", "limit, acknowledge: who decided it.")] = None,
    head: Annotated[Path | None, option("FILE", "join: what 'ledger head' told elsewhere.")] = None,
    details: Annotated[
        bool, option(None, "show: the whole budget and what was spent in every way it is counted.")
    ] = False,
    vault: VaultFolder = Path(),
    as_json: Json = False,
) -> None:
    """See what was spent, check the book, or hand it to somebody who trusts nobody.

    Actions:
        show         what was spent of each budget, and what is left
        verify       check every entry against the one before it
        export       every entry as JSONL, for somebody who trusts nobody
        limit        an operator sets a new budget
        acknowledge  an operator admits that entries were lost, which burns every budget
        head         what this host has seen, for another host to begin with
        join         begin this host's own head where another host stands

    Examples:
        sfumato ledger show --vault clinic
        sfumato ledger verify --vault clinic
        sfumato ledger limit --account people --epsilon 4 --operator Ann --vault clinic
        sfumato ledger head --vault clinic
    """
    from sfumato.vault import accounts

    if action is Action.EXPORT:
        with closing(accounts.opened_ledger(vault)) as opened:
            opened.export(sys.stdout)
    elif action in (Action.HEAD, Action.JOIN):
        _share(action, vault, head)
    elif action is Action.VERIFY:
        verified = accounts.verify(vault)
        typer.echo(dumps(verified) if as_json else _sentence(verified))
    else:
        if action is not Action.SHOW:
            _decide(action, vault, account, epsilon, delta, operator)
        found = accounts.balances(vault)
        if as_json:
            typer.echo(dumps({"accounts": found}))
        else:
            _show(found, details=details)


def _decide(
    action: Action,
    vault: Path,
    account: str | None,
    epsilon: str | None,
    delta: str,
    operator: str | None,
) -> None:
    """Do what only an operator may, in somebody's name."""
    from sfumato.vault import accounts

    if action is Action.ACKNOWLEDGE:
        if operator is None:
            raise typer.BadParameter("acknowledge needs --operator.")
        accounts.acknowledge(vault, operator=operator)
        return
    if account is None or epsilon is None or operator is None:
        raise typer.BadParameter("limit needs --account, --epsilon and --operator.")
    accounts.set_limit(vault, account, epsilon=epsilon, delta=delta, operator=operator)


def _share(action: Action, vault: Path, head: Path | None) -> None:
    """Tell what this host has seen, or begin with what another has; as JSON, to be carried."""
    from sfumato.vault import hosts

    if action is Action.HEAD:
        typer.echo(dumps(hosts.positions(vault)))
        return
    if head is None:
        raise typer.BadParameter("join needs --head FILE, from 'sfumato ledger head' elsewhere.")
    typer.echo(dumps(hosts.join(vault, head)))


def _sentence(verified: dict[str, Any]) -> str:
    return (
        f"The ledger is whole: {verified['entries']} entries, {verified['accounts']} accounts, "
        f"{verified['requests']} requests. Head: {verified['head']}"
    )


def _show(accounts: list[dict[str, Any]], *, details: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    titles = ("Account", "Budget", *(("Whole", "Spent") if details else ()))
    for title in titles:
        table.add_column(title, overflow="fold")
    for one in accounts:
        more = (one["budget"], one["spent"]) if details else ()
        table.add_row(one["account"], one["balance"], *more)
    Console(highlight=False).print(table if accounts else "The ledger has no accounts yet.")
