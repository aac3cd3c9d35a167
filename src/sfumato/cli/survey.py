"""`sfumato survey`: ask people who need not trust us."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.options import OUTPUT, Json, Overwrite, argument, option
from sfumato.texts import dumps, share

if TYPE_CHECKING:
    from sfumato.local.survey_estimate import SurveyEstimate


class SurveyAction(StrEnum):
    """What to do with a round."""

    NEW = "new"
    SERVE = "serve"
    CLOSE = "close"
    ESTIMATE = "estimate"


def survey(
    action: Annotated[SurveyAction, argument("ACTION", "What to do: one of the actions below.")],
    file: Annotated[Path, argument("FILE", "The round (TOML).")],
    question: Annotated[str | None, option("TEXT", "new: what is asked.")] = None,
    choices: Annotated[str | None, option("A,B,...", "new: what can be answered.")] = None,
    epsilon: Annotated[
        str | None, option("EPSILON", "new: how much a report may reveal: 1, or log(3).")
    ] = None,
    mechanism: Annotated[str, option("NAME", "new: auto, warner (two choices) or k_ary.")] = "auto",
    opens: Annotated[str | None, option("TIME", "new: from when on; by default now.")] = None,
    closes: Annotated[str | None, option("TIME", "new: until when; by default 30 days.")] = None,
    host: Annotated[str, option("HOST", "serve: where to listen.")] = "127.0.0.1",
    port: Annotated[int, option("PORT", "serve: at which port; 0 for any.")] = 8321,
    allow_host: Annotated[
        list[str] | None, option("NAME", "serve: a name by which others reach it.")
    ] = None,
    behind_proxy: Annotated[
        list[str] | None, option("ADDRESS", "serve: a proxy that encrypts.")
    ] = None,
    cert: Annotated[Path | None, option("FILE", "serve: a certificate (PEM).")] = None,
    key: Annotated[Path | None, option("FILE", "serve: its key (PEM).")] = None,
    report: Annotated[
        Path | None,
        option("FILE.html", "close, estimate: write a page.", rich_help_panel=OUTPUT),
    ] = None,
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
        names = {"allow_hosts": tuple(allow_host or ()), "behind_proxy": tuple(behind_proxy or ())}
        _serve(file, host, port, {**names, "certificate": cert, "key": key}, as_json=as_json)
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
    from sfumato.local.rounds import key_file, new_round

    offered = tuple(one.strip() for one in choices.split(","))
    made = new_round(
        file, question, offered, epsilon=epsilon, mechanism=mechanism,
        opens=times["opens"], closes=times["closes"],
    )  # fmt: skip
    if as_json:
        facts = {"round": made.id, "mechanism": made.mechanism, "epsilon": float(made.epsilon)}
        typer.echo(dumps({**facts, "file": str(file), "key": str(key_file(file))}))
        return
    typer.echo(
        f"Round {made.id}: {made.mechanism} at epsilon {made.epsilon}, {len(made.choices)} "
        f"choices.\nSigned with '{key_file(file)}': keep that to yourself.\n"
        f"Next: 'sfumato survey serve {file}'."
    )


def _serve(file: Path, host: str, port: int, more: dict[str, object], *, as_json: bool) -> None:
    from sfumato.local.collection import Collection

    try:
        from sfumato.gate.serving import Listening, run
        from sfumato.gate.settings import Limits
        from sfumato.gate.surveys import survey_site
    except ModuleNotFoundError as error:
        raise typer.BadParameter(
            f"serve needs {error.name}. Run: pip install 'sfumato[serve]'."
        ) from None

    def ready(url: str) -> None:
        page = f"{url}/survey/{collection.round.id}"
        told = {"url": url, "page": page, "results": f"{page}/results"}
        sentence = f"People answer at {page}\nThe result so far: {page}/results\nCtrl-C ends it."
        typer.echo(dumps(told) if as_json else sentence)

    with closing(Collection(file)) as collection:
        run(
            lambda setting: survey_site(
                lambda name: collection if name == collection.round.id else None,
                setting,
                home=collection.round.id,
            ),
            Listening(host, port, **more),  # type: ignore[arg-type]
            limits=Limits(),
            ready=ready,
        )


def _estimate(
    file: Path, report: Path | None, *, close: bool, overwrite: bool, as_json: bool
) -> None:
    from sfumato.files import check_target
    from sfumato.local.collection import Collection
    from sfumato.local.rounds import key_file, store_file

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
    for title in ("Choice", "Share", "95 % within"):
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
