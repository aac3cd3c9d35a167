"""`sfumato pan`: count visitors in a pan-private file, which may be stolen."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import Json, argument, option
from sfumato.cli.process import EndedEarly
from sfumato.text import dumps, share

if TYPE_CHECKING:
    from sfumato.methods.stream.pan_file import PanRecord


class PanAction(StrEnum):
    """What to do with the file."""

    NEW = "new"
    UPDATE = "update"
    READ = "read"


_Events = Annotated[
    list[str] | None, argument("EVENTS...", "update: tables with a row for each visit.")
]
_People = Annotated[
    str | None, option("TABLE", "new: the roll, all people who may come; it is public.")
]
_Column = Annotated[
    str | None, option("COLUMN", "new: who a row is about. update: where it is named otherwise.")
]
_Epsilon = Annotated[
    str | None, option("EPSILON", "new: what the file tells a thief, at most 1.5936.")
]
_Output = Annotated[
    str | None, option("EPSILON", "new: what all answers tell; as much as --epsilon by default.")
]
_Reads = Annotated[int, option("N", "new: how many answers that pays for.")]
_AtLeast = Annotated[int, option("VISITS", "new: count who came so often.")]
_Sample = Annotated[
    int | None, option("N", "new: how many people have a place; 100,000 where there are as many.")
]
_Resume = Annotated[
    bool, option(None, "update: finish one that was stopped, given its tables again.", "--resume")
]


def pan(
    action: Annotated[PanAction, argument("ACTION", "What to do: one of the actions below.")],
    file: Annotated[Path, argument("FILE", "The counter.")],
    events: _Events = None,
    people: _People = None,
    column: _Column = None,
    epsilon: _Epsilon = None,
    output_epsilon: _Output = None,
    reads: _Reads = 1,
    at_least: _AtLeast = 1,
    sample: _Sample = None,
    resume: _Resume = False,
    as_json: Json = False,
) -> None:
    """Count distinct visitors in a pan-private file: the file itself is differentially private.

    The file holds random bits about people of a public roll; a bit is drawn anew when its person
    comes. Whoever seizes the file, once, learns next to nothing about anybody.

    Actions:
        new     make the counter: the roll, epsilon, and how many answers are paid for
        update  take in tables of visits, which can be deleted then
        read    the share of people who came; the same until more came in

    Examples:
        sfumato pan new seen.pan --people members.csv --column member --epsilon 1 --reads 5
        sfumato pan update seen.pan monday.csv
        sfumato pan read seen.pan
        sfumato pan read seen.pan --json
    """
    from sfumato.methods.stream import pan_file

    if action is PanAction.NEW:
        if people is None or column is None or epsilon is None:
            raise typer.BadParameter("new needs --people, --column and --epsilon.")
        made = pan_file.new(
            file, people, column, epsilon=epsilon, output_epsilon=output_epsilon,
            reads=reads, at_least=at_least, sample=sample,
        )  # fmt: skip
        _say(made.to_json(), _made(made, file), as_json=as_json)
    elif action is PanAction.UPDATE:
        if not events and not resume:
            raise typer.BadParameter("update needs a table of visits.")
        try:
            made = pan_file.update_all(file, events or [], column, resume=resume)
        except KeyboardInterrupt:
            _tell_stopped(pan_file.load(file))
            raise
        _say(made.to_json(), f"Taken in: {made.updates:,} updates so far.", as_json=as_json)
    else:
        made, answer = pan_file.read(file)
        _say({**made.to_json(), **answer}, _answered(made, answer), as_json=as_json)


def _say(told: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    typer.echo(dumps(told) if as_json else sentence)


def _tell_stopped(made: PanRecord) -> None:
    """Say how far an update got that was interrupted in the middle of its visits."""
    if made.position:
        raise EndedEarly(
            f"Interrupted: the visits of {made.position:,} of {made.method.size:,} places were "
            "taken in. Give the same tables again with --resume, which takes in the rest."
        )


def _made(made: PanRecord, file: Path) -> str:
    of = made.method
    total = float(of.epsilon + of.output_epsilon)
    return (
        f"A counter of {of.people:,} people, of whom {of.size:,} have a place; an answer will be "
        f"off by about {share(of.variance**0.5)}.\n"
        f"The file tells a thief epsilon {float(of.epsilon):g}, once; {of.reads:,} answers tell "
        f"epsilon {float(of.output_epsilon):g}: {total:g} together.\n"
        f"Next: 'sfumato pan update {file} VISITS'. Keep no copies: two of them, of different "
        "days, tell who came."
    )


def _answered(made: PanRecord, answer: dict[str, Any]) -> str:
    often = "" if made.method.at_least == 1 else f" at least {made.method.at_least} times"
    return (
        f"{share(answer['share'])} ± {share(answer['sd'])} of {made.method.people:,} people came"
        f"{often}: about {answer['count']:,.0f} ± {answer['count_sd']:,.0f}.\n"
        f"{_more(made.method.reads - len(made.answers))} paid for."
    )


def _more(answers: int) -> str:
    return "1 more answer is" if answers == 1 else f"{answers:,} more answers are"
