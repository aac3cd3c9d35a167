"""`sfumato principal`: who may ask a vault, what, how dearly and until when."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.completion import one_of
from sfumato.cli.options import Json, VaultFolder, decided_by, form
from sfumato.text import dumps, minute
from sfumato.vault.family import Field
from sfumato.vault.principals import PERMITTED, SHAPES, PrincipalKind

if TYPE_CHECKING:
    from sfumato.vault.principal_admin import People
    from sfumato.vault.principals import Principal


class PrincipalAction(StrEnum):
    """What to do with a principal."""

    ADD = "add"
    LIST = "list"
    GRANT = "grant"
    LOWER = "lower"
    MOVE = "move"
    EXPIRE = "expire"
    CHANGE = "change"
    PASSWORD = "password"


_NEEDS = {
    PrincipalAction.ADD: ("kind",),
    PrincipalAction.GRANT: ("epsilon",),
    PrincipalAction.LOWER: ("epsilon",),
    PrincipalAction.MOVE: ("epsilon", "to"),
}
_BUDGET = ("epsilon", "delta", "population")
_RIGHTS = ("kind", "shapes", "min_epsilon", "max_epsilon")
_TAKES = {
    PrincipalAction.ADD: (*_RIGHTS, *_BUDGET, "expires"),
    PrincipalAction.LIST: (),
    PrincipalAction.GRANT: _BUDGET,
    PrincipalAction.LOWER: _BUDGET,
    PrincipalAction.MOVE: (*_BUDGET, "to"),
    PrincipalAction.EXPIRE: ("expires",),
    PrincipalAction.CHANGE: _RIGHTS,
    PrincipalAction.PASSWORD: ("url",),
}
_URL = "http://127.0.0.1:8321"
_KINDS = {
    str(kind): ", ".join(one for one in SHAPES if one in PERMITTED[kind]) for kind in PrincipalKind
}


@form(
    Field("kind", "add, change: one of the kinds below.", "KIND", choices=_KINDS),
    Field("population", "Whose budget; where there is one, that.", "NAME"),
    Field("epsilon", "The whole budget from now on; move: the part.", "EPSILON"),
    Field("delta", "Its delta; by default 0.", "DELTA"),
    Field("to", "move: who gets it.", "NAME"),
    Field("shapes", "add, change: fewer shapes than the kind's.", "A,B"),
    Field("min_epsilon", "add, change: the least a question costs.", "EPSILON"),
    Field("max_epsilon", "add, change: the most a question costs.", "EPSILON"),
    Field("expires", "add, expire: a day such as 2031-01-31, or 90d.", "WHEN"),
    Field("url", f"password: where the console is; by default {_URL}.", "URL"),
    Field("operator", "Who decided it; by default you.", "WHO"),
)
def principal(
    action: Annotated[
        PrincipalAction,
        typer.Argument(
            metavar="ACTION",
            help="What to do: one of the actions below.",
            show_default=False,
            autocompletion=one_of({str(one): "" for one in PrincipalAction}),
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Of whom; list: all.", show_default=False),
    ] = None,
    vault: VaultFolder = Path(),
    as_json: Json = False,
    **said: Any,
) -> None:
    """Say who may ask a vault, what, how dearly and until when; all of it in the ledger.

    Actions:
        add     a principal of a kind, with a budget where --epsilon is given
        list    all of them, or one
        grant   a budget for a population, or a larger one
        lower   leave a smaller budget; --epsilon 0 takes it away
        move    a part of a budget to another, both or neither
        expire  let their time end, now or at --expires
        change  their kind, shapes or prices
        password  print a link by which they set theirs for the console

    Kinds:
        owner            everything, from the populations' own budgets
        permanent-staff  explain, query, publish, synthesize, code, download
        temporary-staff  explain, query, publish, download
        external         explain, query, code, download
        purchaser        explain, query, download
        public           download

    Examples:
        sfumato principal add eve --kind external --population people --epsilon 0.5 \
            --expires 90d --operator Ann --vault clinic
        sfumato principal grant eve --population people --epsilon 1 --operator Ann \
            --vault clinic
        sfumato principal list --vault clinic
        sfumato principal password owner --vault clinic
    """
    from sfumato.vault.principal_admin import people_of

    operator = decided_by(said.pop("operator"))
    given = {key: one for key, one in said.items() if one}
    _check(action, name, given)
    if action is PrincipalAction.PASSWORD:
        _tell_link(vault, str(name), given.get("url", _URL), as_json=as_json)
        return
    with people_of(vault) as people:
        if action is PrincipalAction.LIST:
            found = people.list() if name is None else [people.get(name)]
        else:
            found = [_changed(people, action, name, given | {"operator": operator})]
        _tell(people, found, as_json=as_json, one=action is not PrincipalAction.LIST)


def _check(action: PrincipalAction, name: str | None, given: dict[str, Any]) -> None:
    """Refuse what an action lacks or does not take."""
    needed = [one for one in _NEEDS.get(action, ()) if one not in given]
    if name is None and action is not PrincipalAction.LIST:
        raise typer.BadParameter(f"{action} needs the NAME of a principal.")
    if needed:
        raise typer.BadParameter(f"{action} needs {' and '.join(map(_flag, needed))}.")
    other = [one for one in given if one not in _TAKES[action]]
    if other:
        raise typer.BadParameter(f"{action} takes no {' and no '.join(map(_flag, other))}.")


def _changed(
    people: People, action: PrincipalAction, name: str | None, given: dict[str, Any]
) -> Principal:
    """A principal as it is once the action is done."""
    if action is PrincipalAction.EXPIRE and "expires" in given:
        given["at"] = given.pop("expires")
    change = getattr(people, action)
    found: Principal = change(name, **given)
    return found


def _tell_link(vault: Path, name: str, url: str, *, as_json: bool) -> None:
    """Print the link by which somebody sets their password."""
    from sfumato.vault.logins import invite_to

    link = f"{url.rstrip('/')}{invite_to(vault, name)}"
    if as_json:
        typer.echo(dumps({"name": name, "link": link}))
    else:
        typer.echo(f"For {name}, good once, within three days: {link}")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _told(people: People, one: Principal) -> dict[str, Any]:
    """A principal with what is left of the budgets that are theirs alone."""
    own = [] if one.is_owner else people.balances(one.name)
    budgets = {each["account"]: each for each in own}
    shown = ("balance", "remaining")
    return one.to_json() | {
        "budgets": {name: {key: each[key] for key in shown} for name, each in budgets.items()}
    }


def _tell(people: People, found: list[Principal], *, as_json: bool, one: bool) -> None:
    told = [_told(people, each) for each in found]
    if as_json:
        typer.echo(dumps({"principal": told[0]} if one else {"principals": told}))
    else:
        _show(told)


def _show(told: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Principal", "Kind", "May", "Budgets", "A question", "Expires"):
        table.add_column(title, overflow="fold")
    for one in told:
        budgets = [f"{name}: {each['balance']}" for name, each in one["budgets"].items()]
        low, high = one["min_epsilon"], one["max_epsilon"]
        prices = [f"{word} {at}" for word, at in (("from", low), ("to", high)) if at is not None]
        may = ", ".join(one["shapes"])
        end = minute(one["expires"])
        table.add_row(one["name"], one["kind"], may, "\n".join(budgets), " ".join(prices), end)
    Console(highlight=False).print(table if told else "Nobody may ask but the owner.")
