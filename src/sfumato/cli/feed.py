"""`sfumato feed`: standing questions of a vault, answered for every period."""

from __future__ import annotations

import json
from decimal import Decimal
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.completion import one_of
from sfumato.cli.options import (
    OUTPUT,
    Json,
    Overwrite,
    VaultFolder,
    decided_by,
    form,
    option,
    topic,
)
from sfumato.text import dumps
from sfumato.vault.family import Field

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
_SAID_APART = ("name", "sql", "to", "operator", "column", "every")
"""What `add` is told by words and options of its own, never within --ask."""


_Action = Annotated[
    FeedAction,
    typer.Argument(
        metavar="ACTION",
        help="What to do: one of the actions below.",
        show_default=False,
        autocompletion=one_of({str(one): "" for one in FeedAction}),
    ),
]
_Name = Annotated[str | None, typer.Argument(metavar="NAME", help="Which.", show_default=False)]
_Sql = Annotated[
    str | None, typer.Argument(metavar="SQL", help="add: one SELECT.", show_default=False)
]
_WISHES = (
    *topic(
        "What add takes",
        (
            Field("column", "The dates that rows belong to periods by.", "COLUMN"),
            Field("every", "day, week, month, quarter, year, or days such as 10d.", "PERIOD"),
            Field("begins", "The first day; else the first declared.", "DAY"),
            Field("ends", "The last day, or never; else the last declared.", "DAY"),
            Field("delay", "For how many days late rows are waited for.", "DAYS", type=int),
            Field("continual", "All rows since the beginning, for one price.", "", bool, False),
            Field("method", "continual: auto, tree, honaker, root, ...", "METHOD"),
            Field("window", "continual: of the last so many periods.", "PERIODS", type=int),
            Field("days", "continual: periods of a person that count.", "PERIODS", type=int),
            Field("by", "continual: one figure for each value of it.", "COLUMN"),
            Field("family", "publish, synthesize or above, instead of SQL.", "FAMILY"),
            Field("dataset", "Of which data set, where no SQL says it.", "NAME"),
            Field("ask", "What the family takes, as one JSON object.", "JSON"),
            Field("purpose", "What it is asked for.", "WHAT"),
            Field("plan", "Only say what it would cost.", "", bool, False),
        ),
    ),
    *topic(
        "Cost",
        (
            Field("epsilon", "What each period costs.", "EPSILON"),
            Field("rho", "The same in zero-concentrated terms.", "RHO"),
            Field("delta", "Allows Gaussian noise where it is better.", "DELTA"),
            Field("principal", "From whose budget; else the owner's.", "NAME"),
        ),
    ),
)


@form(*_WISHES)
def feed(
    action: _Action,
    name: _Name = None,
    sql: _Sql = None,
    to: Annotated[str | None, option("A,B", "add, open: who may read it; all by 'public'.")] = None,
    operator: Annotated[str | None, option("WHO", "Who decided it; else you.")] = None,
    out: Annotated[
        Path | None,
        option("OUT", "read: a .csv, .json or .atom.", "--out", "-o", rich_help_panel=OUTPUT),
    ] = None,
    vault: VaultFolder = Path(),
    overwrite: Overwrite = False,
    as_json: Json = False,
    **said: Any,
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

    # A flag that was not set and an empty text say nothing; a 0 is a number to be judged.
    wishes = {
        flag: None if value is False or value == "" else value for flag, value in said.items()
    }
    _check_said(action, name, wishes, {"SQL": sql, "--to": to, "--out": out})
    who = decided_by(operator)
    with open_vault(vault) as opened:
        feeds = opened.feeds
        if action is FeedAction.LIST:
            _listed(feeds, as_json=as_json)
        elif action is FeedAction.RUN:
            done = feeds.work()
            typer.echo(dumps({"answered": done}) if as_json else f"Periods answered: {done}.")
            for line in _troubles(feeds):
                typer.echo(line, err=True)
        elif action is FeedAction.READ:
            _read(feeds, str(name), out, overwrite=overwrite, as_json=as_json)
        elif action is FeedAction.ADD:
            told = _wished(wishes, to)
            add = feeds.plan if wishes["plan"] else partial(feeds.add, operator=who)
            found = add(str(name), sql, **told)
            _told(feeds, found, as_json=as_json, off=feeds.expected(found))
        elif action is FeedAction.OPEN:
            _told(feeds, feeds.open_to(str(name), str(to), operator=who), as_json=as_json)
        else:
            _told(feeds, feeds.stop(str(name), operator=who), as_json=as_json)


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
        if not isinstance(asked, dict) or asked.keys() & {*found, *_SAID_APART}:
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
        many = state["periods"]
        far = str(state["answered"]) if many is None else f"{state['answered']} of {many}"
        far += f", {len(state['lost'])} lost" if state["lost"] else ""
        far += f", not going on: {state['trouble']['code']}" if state["trouble"] else ""
        table.add_row(one.name, one.every, far, one.whole_in_words, ", ".join(one.to))
    Console(highlight=False).print(table if found else "There are no feeds.")


def _troubles(feeds: Feeds) -> list[str]:
    """A line for each feed that does not go on, and why."""
    from sfumato.vault.feeds.step_store import lost_state

    lost, found = lost_state(), []
    for one in feeds.list():
        trouble = feeds.state(one)["trouble"]
        if trouble is not None:
            is_lost = trouble["code"] == lost.code
            why = f"{trouble['code']}: {lost.message}" if is_lost else f"{trouble['code']}."
            found.append(f"{one.name} does not go on at {trouble['period']}: {why}")
    return found


def _read(feeds: Feeds, name: str, out: Path | None, *, overwrite: bool, as_json: bool) -> None:
    feed, items = feeds.get(name), feeds.read(name)
    if out is not None:
        from sfumato.filesystem import check_target, whole
        from sfumato.vault.feeds.feed import written

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


def _told(
    feeds: Feeds, found: Feed, *, as_json: bool, off: Mapping[str, float] | None = None
) -> None:
    if as_json:
        told = {**found.to_json(), "whole_cost": found.whole_cost, **feeds.state(found)}
        typer.echo(dumps(told if off is None else {**told, "expected_sd": off}))
        return
    from sfumato.report.terminal import printable

    state = feeds.state(found)
    many = state["periods"] or "its"
    lines = [
        f"{found.name}: {found.in_words}",
        f"Every {found.every} {found.span}, by {found.column}.",
        f"Of {many} periods {state['over']} are over, {state['answered']} answered.",
        f"Costs {found.whole_in_words} in all"
        + ("." if found.is_continual else f", {found.price_in_words} each."),
        f"Open to: {', '.join(found.to) or 'nobody else'}.",
    ]
    if found.is_continual and off is not None:
        each = ", ".join(f"{one:.4g} in {step}" for step, one in off.items())
        lines.append(f"By method {found.asked['method']}, off by about {each}.")
    lines += [] if found.stopped is None else [f"Stopped on {found.stopped.date()}."]
    typer.echo("\n".join(str(printable(line)) for line in lines))
