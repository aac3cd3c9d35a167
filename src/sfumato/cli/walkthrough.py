"""The dialogue of `sfumato add` on a terminal, which completes a schema and sets a budget.

Questions go to standard error, so that standard output holds the result alone.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli.process import in_flags
from sfumato.data.schema.names import quoted
from sfumato.errors import SfumatoError
from sfumato.report.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.operations.schema_draft import SchemaDraft

_INTRODUCTION = """\
Whatever you declare becomes public, so declare only what everybody may know. Values after "Seen"
were read from the rows and are private until you declare them; bounds are shown roughly. Enter
accepts the answer in brackets. Nothing is written before you have seen the whole schema. Ctrl-C
stops without any change.
"""
_LEAVE_OUT = "-"
"""The answer that leaves a column without a domain."""


def complete(values: dict[str, Any]) -> None:
    """Ask for the missing schema and budget of a private data set, if this is a terminal.

    Parameters
    ----------
    values
        The options that were typed, by name; the answers are added to them.
    """
    # Without a terminal, as in a script, the command fails with an error that names the option.
    if values.get("public") or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    schema = _complete_schema(values["source"], values.get("schema"), unit=values.get("unit"))
    if schema is None:
        return
    values["schema"] = schema
    if "epsilon" not in values and "population" not in values:
        values["epsilon"] = _ask(
            "Total budget: how much may all answers together reveal about one person? Epsilon",
            default="1",
        )


def _complete_schema(source: str, schema: Path | None, *, unit: str | None) -> Path | None:
    """Ask for what a schema lacks, and write it to a file; None if the user refuses.

    A complete schema is returned without a question.
    """
    from sfumato.operations.schema_draft import draft, lacks_bounds

    if schema is None:
        if not _confirm(f"There is no --schema. Inspect {source} now and declare its columns?"):
            return None
    elif not lacks_bounds(schema):
        return schema
    with progress("Reading and measuring the columns") as report:
        schema_draft = draft(source, schema, report)
    _print(_INTRODUCTION)
    if unit is None:
        _ask_unit(schema_draft)
    for column in schema_draft.open_columns():
        _ask_domain(schema_draft, column.name, str(column.kind))
    gapless = schema_draft.gapless()
    if gapless and _confirm(
        f"No value is missing in {', '.join(map(quoted, gapless))}. Declare that in public?"
    ):
        schema_draft.never_missing(gapless)
    return _write(schema_draft, schema)


def _ask_unit(schema_draft: SchemaDraft) -> None:
    if schema_draft.schema.unit.by_person:
        return
    seen = schema_draft.seen.unit
    if seen.by_person:
        _print(f"Seen: one {quoted(seen.column or '')} has up to about {seen.max_rows:,} rows.")
    if _confirm("Is each row about a different person?", default=not seen.by_person):
        return
    while True:
        name = _ask("Which column identifies the person of a row?", default=seen.column)
        max_rows = _ask(
            "How many rows of one person may count at most?", default=max(seen.max_rows, 2)
        )
        try:
            schema_draft.people(name, int(max_rows))
        except (SfumatoError, ValueError) as error:
            _print(getattr(error, "message", f"{max_rows!r} is not a whole number."))
        else:
            return


def _ask_domain(schema_draft: SchemaDraft, name: str, kind: str) -> None:
    """Ask for bounds or values of a column until they can be declared, or it is left out."""
    seen = schema_draft.proposed(name)
    if kind == "text":
        question = f"{quoted(name)} (text): its values, separated by commas; {_LEAVE_OUT} for none"
    else:
        question = f"{quoted(name)} ({kind}): lowest, highest; {_LEAVE_OUT} to leave the column out"
    while True:
        answer = _ask(f"{question}. Seen:" if seen else question, default=seen)
        try:
            if answer.strip() != _LEAVE_OUT:
                schema_draft.declare(name, answer)
            elif kind != "text":
                schema_draft.leave_out(name)
        except SfumatoError as error:
            _print(in_flags(error))
        else:
            return


def _write(schema_draft: SchemaDraft, schema: Path | None) -> Path:
    """Show the schema, and write it to the path that the user names."""
    folder = Path() if schema is None else schema.parent
    _print(f"\n{schema_draft.text(folder)}")
    # A name that is free, since Enter must never replace a file.
    proposed, number = folder / f"{schema_draft.schema.table}.toml", 1
    while proposed.exists():
        number += 1
        proposed = folder / f"{schema_draft.schema.table}-{number}.toml"
    while True:
        path = Path(_ask("Write this schema to", default=str(proposed)))
        if path.exists() and not _confirm(f"Replace {path}?", default=False):
            continue
        try:
            schema_draft.save(path, overwrite=path.exists())
        except SfumatoError as error:
            _print(in_flags(error))
        else:
            return path


def _print(text: str) -> None:
    typer.echo(text, err=True)


def _ask(question: str, default: Any = None) -> str:
    with _abort_as_interrupt():
        return str(typer.prompt(question, default=default, err=True, type=str))


def _confirm(question: str, *, default: bool = True) -> bool:
    with _abort_as_interrupt():
        return typer.confirm(question, default=default, err=True)


@contextmanager
def _abort_as_interrupt() -> Iterator[None]:
    """End the command if a question is answered by Ctrl-C or Ctrl-D."""
    try:
        yield
    except typer.Abort:
        raise KeyboardInterrupt from None
