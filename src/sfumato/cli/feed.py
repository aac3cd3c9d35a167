"""`sfumato feed`: standing questions of a vault, answered for every period."""

from __future__ import annotations

import json
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.completion import one_of
from sfumato.cli.options import OUTPUT, Json, Overwrite, VaultFolder, decided_by, option
from sfumato.texts import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.vault.feeds.feed import Feed, FeedItem
    from sfumato.vault.feeds.feeds import Feeds


class FeedAction(StrEnum):
    """What to do with feeds."""

    ADD = "add"
    LIST = "list"
    READ = "read"
    RUN = "run"
    OPEN = "open"
    STOP = "stop"


_NAMELESS = (FeedAction.LIST, FeedAction.RUN)
_ADD, _COST = "What add takes", "Cost"


def _adding(metavar: str | None, told: str, *flags: str, panel: str = _ADD) -> Any:
    return option(metavar, told, *flags, rich_help_panel=panel)


def feed(
    action: Annotated[
        FeedAction,
        typer.Argument(
            metavar="ACTION",
            help="What to do: one of the actions below.",
            show_default=False,
            autocompletion=one_of({str(one): "" for one in FeedAction}),
        ),
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which feed.", show_default=False)
    ] = None,
    sql: Annotated[
        str | None,
        typer.Argument(metavar="SQL", help="add: one SELECT.", show_default=False),
    ] = None,
    column: Annotated[
        str | None, _adding("COLUMN", "The dates that rows belong to periods by.")
    ] = None,
    every: Annotated[
        str | None, _adding("PERIOD", "day, week, month, quarter, year, or 10d.")
    ] = None,
    begins: Annotated[str | None, _adding("DAY", "The first day; else the first declared.")] = None,
    ends: Annotated[str | None, _adding("DAY", "The last day; else the last declared.")] = None,
    delay: Annotated[int, _adding("DAYS", "How long late rows are waited for.")] = 0,
    continual: Annotated[
        bool, _adding(None, "All rows from the beginning on, for one price.", "--continual")
    ] = False,
    family: Annotated[
        str | None, _adding("FAMILY", "publish, synthesize or above, instead of SQL.")
    ] = None,
    dataset: Annotated[
        str | None, _adding("NAME", "Of which data set, where no SQL says it.")
    ] = None,
    ask: Annotated[
        str | None, _adding("JSON", "What the family takes, as one JSON object.")
    ] = None,
    epsilon: Annotated[
        str | None, _adding("EPSILON", "What each period costs.", panel=_COST)
    ] = None,
    rho: Annotated[
        str | None, _adding("RHO", "The same in zero-concentrated terms.", panel=_COST)
    ] = None,
    delta: Annotated[str | None, _adding("DELTA", "Allows Gaussian noise.", panel=_COST)] = None,
    principal: Annotated[
        str | None, _adding("NAME", "From whose budget; else the owner's.", panel=_COST)
    ] = None,
    purpose: Annotated[str | None, _adding("WHAT", "What it is asked for.")] = None,
    plan: Annotated[bool, _adding(None, "Only say what it would cost.", "--plan")] = False,
    to: Annotated[str | None, option("A,B", "add, open: who may read it; all by 'public'.")] = None,
    operator: Annotated[str | None, option("WHO", "Who decided it; else you.")] = None,
    out: Annotated[
        Path | None,
        option("OUT", "read: a .csv, .json or .atom.", "--out", "-o", rich_help_panel=OUTPUT),
    ] = None,
    vault: VaultFolder = Path(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Have a question answered for every period, on the rows of that period.

    What all periods cost together is checked and told before the first. A server answers them when
    they are over; 'run' does it where none is. Each is charged and answered once, whatever happens.

    Actions:
        add   keep a question; periods that are over already are caught up with
        list  all feeds, how far each is, and what it costs in all
        read  what a feed told of each period, or write it to a file
        run   answer what is over and not answered yet
        open  let those of --to read it from now on, and nobody else
        stop  answer no period that ends from now on

    Examples:
        sfumato feed list --vault clinic
        sfumato feed run --vault clinic
    """
    from sfumato.vault.vault import open_vault

    wishes = {
        "column": column, "every": every, "begins": begins, "ends": ends, "family": family,
        "dataset": dataset, "ask": ask, "epsilon": epsilon, "rho": rho, "delta": delta,
        "principal": principal, "purpose": purpose, "delay": delay or None,
        "continual": continual or None, "plan": plan or None,
    }  # fmt: skip
    _check_said(action, name, wishes, {"SQL": sql, "--to": to, "--out": out})
    with open_vault(vault) as opened:
        feeds = opened.feeds
        if action is FeedAction.LIST:
            _listed(feeds, as_json=as_json)
        elif action is FeedAction.RUN:
            done = feeds.work()
            typer.echo(dumps({"answered": done}) if as_json else f"Periods answered: {done}.")
        elif action is FeedAction.READ:
            _read(feeds, str(name), out, overwrite=overwrite, as_json=as_json)
        elif action is FeedAction.ADD:
            told = _wished(wishes, to)
            if plan:
                found = feeds.plan(str(name), sql, **told)
            else:
                found = feeds.add(str(name), sql, operator=decided_by(operator), **told)
            _told(feeds, found, as_json=as_json)
        elif action is FeedAction.OPEN:
            found = feeds.open_to(str(name), str(to), operator=decided_by(operator))
            _told(feeds, found, as_json=as_json)
        else:
            _told(feeds, feeds.stop(str(name), operator=decided_by(operator)), as_json=as_json)


def _check_said(
    action: FeedAction,
    name: str | None,
    wishes: Mapping[str, object],
    others: Mapping[str, object],
) -> None:
    """Refuse an action without what it needs, and what it would ignore."""
    if (name is None) is not (action in _NAMELESS):
        needs = "needs a NAME" if name is None else "takes no NAME"
        raise typer.BadParameter(f"{action} {needs}; 'sfumato feed --help' tells which.")
    takes = {
        FeedAction.ADD: {"SQL", "--to"},
        FeedAction.READ: {"--out"},
        FeedAction.OPEN: {"--to"},
    }.get(action, set())
    given = {flag for flag, value in others.items() if value is not None}
    if action is not FeedAction.ADD:
        given |= {f"--{flag}" for flag, value in wishes.items() if value is not None}
    elif wishes["column"] is None or wishes["every"] is None:
        raise typer.BadParameter("add needs --column COLUMN and --every PERIOD.")
    if action is FeedAction.OPEN and "--to" not in given:
        raise typer.BadParameter("open needs --to A,B.")
    for flag in sorted(given - takes):
        raise typer.BadParameter(f"{action} takes no {flag}.")


def _wished(wishes: Mapping[str, Any], to: str | None) -> dict[str, Any]:
    """What was asked for, as the vault takes it."""
    apart = ("ask", "continual", "plan")
    found = {name: one for name, one in wishes.items() if one is not None and name not in apart}
    if wishes["continual"]:
        found["family"] = "continual"
    if wishes["ask"] is not None:
        try:
            asked = json.loads(wishes["ask"], parse_float=Decimal)
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict) or asked.keys() & found.keys():
            raise typer.BadParameter(
                "--ask must be one JSON object of what the family takes, without what other "
                """options say, such as '{"kind": "histogram", "columns": ["sex"]}'."""
            )
        found |= asked
    return found | (
        {} if to is None else {"to": [one.strip() for one in to.split(",") if one.strip()]}
    )


def _listed(feeds: Feeds, *, as_json: bool) -> None:
    found = feeds.list()
    if as_json:
        typer.echo(dumps({"feeds": [feeds.described(one) for one in found]}))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Feed", "Every", "Answered", "Whole cost", "Open to"):
        table.add_column(title, overflow="fold", no_wrap=title == "Feed")
    for one in found:
        state = feeds.state(one)
        far = f"{state['answered']} of {state['periods']}"
        table.add_row(one.name, one.every, far, one.whole_in_words, ", ".join(one.to))
    Console(highlight=False).print(table if found else "There are no feeds.")


def _read(feeds: Feeds, name: str, out: Path | None, *, overwrite: bool, as_json: bool) -> None:
    feed, items = feeds.get(name), feeds.read(name)
    if out is not None:
        from sfumato.files import check_target, whole
        from sfumato.vault.feeds.formats import written

        check_target(out, overwrite=overwrite)
        _, content = written(feed, items, out.suffix.lower().removeprefix("."))
        with whole(out, overwrite=overwrite) as new:
            new.write_bytes(content)
        typer.echo(dumps({"written": [str(out)]}) if as_json else f"Wrote {out}.")
    elif as_json:
        typer.echo(dumps({**feeds.described(feed), "items": [one.to_json() for one in items]}))
    else:
        _shown(items)


def _shown(items: Sequence[FeedItem]) -> None:
    from rich.console import Console
    from rich.table import Table

    from sfumato.report.terminal import printable

    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = items[-1].table.column_names if items else []
    for title in ("Period", *columns):
        table.add_column(str(printable(title)), overflow="fold")
    for item in items:
        for row in item.table.to_pylist():
            table.add_row(
                item.period.name, *(str(printable(str(row.get(one, "")))) for one in columns)
            )
    Console(highlight=False).print(table if items else "No period is answered yet.")
    if items:
        typer.echo(items[-1].guarantee)


def _told(feeds: Feeds, found: Feed, *, as_json: bool) -> None:
    if as_json:
        typer.echo(dumps({**found.to_json(), "whole_cost": found.whole_cost, **feeds.state(found)}))
        return
    from sfumato.report.terminal import printable

    state = feeds.state(found)
    lines = [
        f"{found.name}: {found.in_words}",
        f"Every {found.every} from {found.begins} to {found.ends}, by {found.column}.",
        f"Of {state['periods']} periods {state['over']} are over, {state['answered']} answered.",
        f"Costs {found.whole_in_words} in all"
        + ("." if found.is_continual else f", {found.price_in_words} each."),
        f"Open to: {', '.join(found.to) or 'nobody else'}.",
    ]
    lines += [] if found.stopped is None else [f"Stopped on {found.stopped.date()}."]
    typer.echo("\n".join(str(printable(line)) for line in lines))
