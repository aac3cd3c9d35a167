"""What `sfumato add` asks on a terminal: all that a table's schema still lacks.

Questions go to standard error, so that standard output holds the result alone.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli.process import in_flags
from sfumato.cli.progress import progress
from sfumato.data.schema.names import quoted
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.operations.schema_draft import SchemaDraft

_INTRODUCTION = """\
What you declare counts as public, so say what everybody may know. What is shown as seen was read
off the rows, for you alone; bounds only about. Nothing is written before you have seen it all.
Enter takes what stands in brackets. Ctrl-C ends it, and nothing has changed.
"""
_OUT = "-"


def on_terminal() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def complete(values: dict[str, Any]) -> None:
    """Ask for the schema and the budget of a private data set, if there is somebody to ask."""
    if values.get("public") or not on_terminal():
        return
    schema = completed(values["source"], values.get("schema"), unit=values.get("unit"))
    if schema is None:
        return
    values["schema"] = schema
    if "epsilon" not in values and "population" not in values:
        values["epsilon"] = budget()


def completed(source: str, schema: Path | None, *, unit: str | None) -> Path | None:
    """Ask for what a schema lacks, and write the answers to a file; None where that is not wanted.

    A schema that lacks nothing is taken as it is, without a question.
    """
    from sfumato.operations.schema_draft import draft, lacks_bounds

    if schema is None:
        if not _yes(f"There is no --schema. Inspect {source} now, and go through its columns?"):
            return None
    elif not lacks_bounds(schema):
        return schema
    with progress("Reading and measuring the columns") as report:
        begun = draft(source, schema, report)
    _say(_INTRODUCTION)
    if unit is None:
        _ask_unit(begun)
    for column in begun.open_columns():
        _ask_domain(begun, column.name, str(column.kind))
    gapless = begun.gapless()
    if gapless and _yes(
        f"No value is missing in {', '.join(map(quoted, gapless))}. May everybody count on that?"
    ):
        begun.never_missing(gapless)
    return _write(begun, schema)


def budget() -> str:
    """Ask how much all answers together may tell of a person."""
    return _ask("How much may all answers ever tell of one person? Their epsilon", default="1")


def _ask_unit(begun: SchemaDraft) -> None:
    if begun.schema.unit.by_person:
        return
    seen = begun.seen.unit
    if seen.by_person:
        _say(f"Seen: one {quoted(seen.column or '')} has up to about {seen.max_rows:,} rows.")
    if _yes("Is each row about another person?", default=not seen.by_person):
        return
    while True:
        name = _ask("Which column says whose a row is?", default=seen.column)
        most = _ask("How many rows of one person count at most?", default=max(seen.max_rows, 2))
        try:
            begun.people(name, int(most))
        except (SfumatoError, ValueError) as error:
            _say(getattr(error, "message", f"{most!r} is no whole number."))
        else:
            return


def _ask_domain(begun: SchemaDraft, name: str, kind: str) -> None:
    """Ask for bounds or values of a column until they can be declared, or it is left out."""
    seen = begun.proposed(name)
    if kind == "text":
        wanted = f"{quoted(name)} (text): its values, with commas between; {_OUT} leaves them open"
    else:
        wanted = f"{quoted(name)} ({kind}): lowest, highest; {_OUT} leaves the column out"
    while True:
        said = _ask(f"{wanted}. Seen:" if seen else wanted, default=seen)
        try:
            if said.strip() != _OUT:
                begun.declare(name, said)
            elif kind != "text":
                begun.leave_out(name)
        except SfumatoError as error:
            _say(in_flags(error))
        else:
            return


def _write(begun: SchemaDraft, schema: Path | None) -> Path:
    """Show the schema, and write it where its owner says."""
    folder = Path() if schema is None else schema.parent
    _say(f"\n{begun.text(folder)}")
    free, number = folder / f"{begun.schema.table}.toml", 1
    while free.exists():
        number += 1
        free = folder / f"{begun.schema.table}-{number}.toml"
    while True:
        path = Path(_ask("Write this schema to", default=str(free)))
        if path.exists() and not _yes(f"Replace {path}?", default=False):
            continue
        try:
            begun.save(path, overwrite=path.exists())
        except SfumatoError as error:
            _say(in_flags(error))
        else:
            return path


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _ask(question: str, default: Any = None) -> str:
    with _ending_in_order():
        return str(typer.prompt(question, default=default, err=True, type=str))


def _yes(question: str, *, default: bool = True) -> bool:
    with _ending_in_order():
        return typer.confirm(question, default=default, err=True)


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Whoever ends a question, by Ctrl-C or Ctrl-D, ends the command."""
    try:
        yield
    except typer.Abort:
        raise KeyboardInterrupt from None
