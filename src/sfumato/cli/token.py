"""`sfumato token`: by what a server knows who asks."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.completion import one_of
from sfumato.cli.options import Json, VaultFolder, decided_by, option
from sfumato.text import dumps, minute

if TYPE_CHECKING:
    from sfumato.vault.tokens import Tokens


class TokenAction(StrEnum):
    """What to do with tokens."""

    NEW = "new"
    LIST = "list"
    REVOKE = "revoke"


def token(
    action: Annotated[
        TokenAction,
        typer.Argument(
            metavar="ACTION",
            help="What to do: one of the actions below.",
            show_default=False,
            autocompletion=one_of({str(one): "" for one in TokenAction}),
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="new: for which principal; revoke: the eight letters of the token.",
            show_default=False,
        ),
    ] = None,
    scopes: Annotated[
        str | None, option("A,B", "new: what for; by default all that its holder may.")
    ] = None,
    expires: Annotated[str | None, option("WHEN", "new: a day such as 2031-01-31, or 90d.")] = None,
    operator: Annotated[str | None, option("WHO", "new, revoke: who decided it; else you.")] = None,
    vault: VaultFolder = Path(),
    as_json: Json = False,
) -> None:
    """Make, list and revoke the tokens by which a server knows who asks.

    Actions:
        new     make one for a principal and print it, which is never done again
        list    all that were not revoked, and when each was last used, to the hour
        revoke  let one never be used again, at any server, from now on

    Scopes:
        query        ask, publish, synthesize, download releases
        plan         see data sets, and what a question would cost
        submit-code  send a program
        ledger:read  see what was spent of their own budgets
        admin        administer the vault; for owners

    Examples:
        sfumato token new owner --expires 30d --operator Ann --vault clinic
        sfumato token list --vault clinic
    """
    from sfumato.vault.tokens import tokens_of

    if action is not TokenAction.LIST and name is None:
        raise typer.BadParameter(f"{action} needs a NAME.")
    if action is not TokenAction.NEW and (scopes or expires):
        raise typer.BadParameter("--scopes and --expires are for new tokens.")
    with tokens_of(vault) as tokens:
        if action is TokenAction.LIST:
            listed = [one.to_json() for one in tokens.list() if name in (None, one.principal)]
            typer.echo(dumps({"tokens": listed})) if as_json else _show(listed)
        elif action is TokenAction.REVOKE:
            gone = tokens.revoke(str(name), operator=decided_by(operator))
            typer.echo(dumps({"revoked": gone}) if as_json else f"Revoked {gone}.")
        else:
            asked = {"scopes": scopes, "expires": expires, "operator": decided_by(operator)}
            _make(tokens, str(name), asked, as_json=as_json)


def _make(tokens: Tokens, principal: str, asked: dict[str, Any], *, as_json: bool) -> None:
    """Make a token and print it, alone, so that a script can take it."""
    text = tokens.new(principal, **asked)
    made = next(one for one in tokens.list() if text.startswith(f"sfu_{one.id}"))
    typer.echo(dumps({"token": text, **made.to_json()}) if as_json else text)
    if not as_json:
        said = f"for {made.principal}: {', '.join(made.scopes)}"
        typer.echo(f"sfumato: {made.id}, {said}. It is not shown again.", err=True)


def _show(listed: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Token", "Principal", "For", "Expires", "Last used"):
        table.add_column(title, overflow="fold")
    for one in listed:
        end, used = minute(one["expires"]), minute(one["used"])
        table.add_row(one["id"], one["principal"], ", ".join(one["scopes"]), end, used)
    Console(highlight=False).print(table if listed else "There are no tokens.")
