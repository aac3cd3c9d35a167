"""`sfumato survey`: ask people who need not trust us."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import OUTPUT, Json, Overwrite, argument, option
from sfumato.cli.serve import not_installed
from sfumato.text import dumps, share

if TYPE_CHECKING:
    from sfumato.methods.local.rounds import Round
    from sfumato.methods.local.survey_estimate import SurveyEstimate


class SurveyAction(StrEnum):
    """What to do with a round."""

    NEW = "new"
    SERVE = "serve"
    CLOSE = "close"
    ESTIMATE = "estimate"


_Question = Annotated[str | None, option("QUESTION", "new: what is asked.")]
_Choices = Annotated[str | None, option("A,B,...", "new: what can be answered.")]
_Epsilon = Annotated[
    str | None, option("EPSILON", "new: how much a report may reveal: 1, or log(3).")
]
_Mechanism = Annotated[str, option("NAME", "new: auto, warner (two choices) or k-ary.")]
_Opens = Annotated[str | None, option("TIME", "new: from when on; by default now.")]
_Closes = Annotated[str | None, option("TIME", "new: until when; by default 30 days later.")]
_Host = Annotated[str, option("ADDRESS", "serve: where to listen.")]
_Port = Annotated[int, option("PORT", "serve: on which port; 0 for any that is free.")]
_Names = Annotated[
    list[str] | None, option("NAME", "serve: a name by which others reach it; repeatable.")
]
_Proxies = Annotated[
    list[str] | None, option("ADDRESS", "serve: only from this proxy, which encrypts; repeatable.")
]
_Certificate = Annotated[Path | None, option("FILE", "serve: a certificate, to encrypt with.")]
_Key = Annotated[Path | None, option("FILE", "serve: the certificate's key.")]
_Check = Annotated[
    bool, option(None, "serve: only say whether it could start, and leave.", "--check")
]
_PerHour = Annotated[
    int, option("N", "serve: reports that a round takes from one address in an hour.")
]
_Page = Annotated[
    Path | None, option("FILE.html", "close, estimate: write a page.", rich_help_panel=OUTPUT)
]


def survey(
    action: Annotated[SurveyAction, argument("ACTION", "What to do: one of the actions below.")],
    file: Annotated[Path, argument("FILE", "The round (TOML).")],
    question: _Question = None,
    choices: _Choices = None,
    epsilon: _Epsilon = None,
    mechanism: _Mechanism = "auto",
    opens: _Opens = None,
    closes: _Closes = None,
    host: _Host = "127.0.0.1",
    port: _Port = 8321,
    allow_host: _Names = None,
    behind_proxy: _Proxies = None,
    cert: _Certificate = None,
    key: _Key = None,
    reports_per_hour: _PerHour = 300,
    check: _Check = False,
    report: _Page = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Ask a question whose answers are randomized before they leave people's devices.

    Only randomized reports are ever collected; shares are estimated from them with their error.

    Actions:
        new       declare a round: question, choices, epsilon, times; signed
        serve     the page where people answer, and the live result
        close     take no report any more, for good, and estimate
        estimate  the share of each choice, with its error

    Examples:
        sfumato survey new smoking.toml --question "Do you smoke?" --choices yes,no --epsilon 1
        sfumato survey serve smoking.toml --port 0 --check
        sfumato survey estimate smoking.toml
        sfumato survey close smoking.toml --json
    """
    if action is SurveyAction.NEW:
        if question is None or choices is None or epsilon is None:
            raise typer.BadParameter("new needs --question, --choices and --epsilon.")
        times = {"opens": opens, "closes": closes}
        _new(file, question, choices, epsilon, mechanism, times, as_json=as_json)
        return
    if action is SurveyAction.SERVE:
        place = {
            "host": host,
            "port": port,
            "allow_hosts": tuple(allow_host or ()),
            "behind_proxy": tuple(behind_proxy or ()),
            "certificate": cert,
            "key": key,
        }
        _serve(file, place, reports_per_hour, check=check, as_json=as_json)
        return
    _estimate(
        file, report, close=action is SurveyAction.CLOSE, overwrite=overwrite, as_json=as_json
    )


def _new(
    file: Path,
    question: str,
    choices: str,
    epsilon: str,
    mechanism: str,
    times: dict[str, str | None],
    *,
    as_json: bool,
) -> None:
    from sfumato.methods.local.rounds import key_file, new_round

    offered = tuple(one.strip() for one in choices.split(","))
    made = new_round(
        file, question, offered, epsilon=epsilon, mechanism=mechanism,
        opens=times["opens"], closes=times["closes"],
    )  # fmt: skip
    if as_json:
        facts: dict[str, Any] = {"round": made.id, "mechanism": made.mechanism}
        facts["epsilon"] = float(made.epsilon)
        facts["by_hand"] = None if made.by_hand is None else str(made.by_hand_epsilon)
        typer.echo(dumps({**facts, "file": str(file), "key": str(key_file(file))}))
        return
    typer.echo(
        f"Round {made.id}: {made.mechanism} at epsilon {made.epsilon}, {len(made.choices)} "
        f"choices.\nSigned with '{key_file(file)}': keep that to yourself.\n"
        f"{_without_script(made)}Next: 'sfumato survey serve {file}'."
    )


def _without_script(made: Round) -> str:
    """Who cannot answer at all: a line, where coins and dice do not reach."""
    from sfumato.methods.local.paper_coins import MOST_CHOICES

    if made.by_hand is not None:
        return ""
    return (
        f"Nobody can answer without a script: coins and dice do for 2 to {MOST_CHOICES} choices "
        f"and not too small an epsilon, and this round has {len(made.choices)} at epsilon "
        f"{made.epsilon}.\n"
    )


def _serve(
    file: Path, place: dict[str, Any], reports_per_hour: int, *, check: bool, as_json: bool
) -> None:
    from sfumato.methods.local.collection import Collection

    try:
        from sfumato.server.serve import Listening
        from sfumato.server.survey_server import RoundServer
    except ModuleNotFoundError as missing:
        raise not_installed(missing) from None

    with closing(Collection(file)) as collection:
        server = RoundServer(collection, Listening(**place), reports_per_hour)

        def ready() -> None:
            told = {"url": server.url, "page": server.page, "results": f"{server.page}/results"}
            sentence = (
                f"People answer at {server.page}\nThe result so far: {server.page}/results\n"
                f"It takes at most {reports_per_hour:,} reports an hour from one address "
                "(--reports-per-hour). Ctrl-C ends it."
            )
            typer.echo(dumps(told) if as_json else sentence)

        if check:
            server.close()
            ready()
        else:
            server.answer(ready)


def _estimate(
    file: Path, report: Path | None, *, close: bool, overwrite: bool, as_json: bool
) -> None:
    from sfumato.filesystem import check_target
    from sfumato.methods.local.collection import Collection
    from sfumato.methods.local.rounds import key_file, store_file

    if report is not None:
        kept = (file, key_file(file), store_file(file))
        check_target(report, overwrite=overwrite, kept=kept)
    with closing(Collection(file)) as collection:
        found = collection.close_round() if close else collection.estimate()
    if report is not None:
        found.save_report(report, overwrite=overwrite)
    if as_json:
        typer.echo(dumps(found.to_json(), ensure_ascii=False))
    else:
        show(found)


def show(found: SurveyEstimate) -> None:
    """Print the share of each choice, with its error, and what was rejected."""
    from rich.console import Console
    from rich.table import Table

    from sfumato.report.terminal import printable

    console = Console(highlight=False)
    console.print(printable(found.round.question), style="bold")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Choice", "Share", "95 % interval"):
        table.add_column(title, overflow="fold", justify="left" if title == "Choice" else "right")
    for name, middle, low, _ in found.bars():
        table.add_row(printable(name), share(middle), f"± {share(middle - low)}")
    console.print(table if found.n else "There is no report yet.")
    state = f"closed {found.closed}" if found.closed else "open"
    rejected = ", ".join(f"{count:,} {reason}" for reason, count in sorted(found.rejected.items()))
    console.print(
        f"{found.n:,} reports, {found.round.mechanism} at epsilon {found.round.epsilon}; {state}."
        + (f" Rejected: {rejected}." if rejected else ""),
        markup=False,
    )
