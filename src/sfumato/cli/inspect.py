"""`sfumato inspect`: see the risk in a table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.options import (
    OUTPUT,
    Json,
    Overwrite,
    OwnersPage,
    SchemaFile,
    TableFile,
    check_page,
    option,
    write_owners_page,
)
from sfumato.cli.progress import progress
from sfumato.text import dumps

if TYPE_CHECKING:
    from sfumato.data.inspection import Inspection

_RELEASED = (
    "sfumato: This is a release of Sfumato: what is seen here is its labels, not the people. Use "
    "measure for what it reaches."
)


def inspect(
    table: TableFile,
    schema: SchemaFile = None,
    population: Annotated[
        str | None, typer.Option(metavar="FILE", help="A table of the people it is drawn from.")
    ] = None,
    write: Annotated[
        Path | None,
        option(
            "FILE",
            "Write the guessed schema to a TOML file.",
            "--write",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    report: OwnersPage = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """See who stands out in a table: roles of its columns, unique people, risk of a match.

    Examples:
        sfumato inspect people.csv
        sfumato inspect people.csv --write guessed.toml --report risk.html
    """
    from sfumato.attack.inspection_pages import inspection_page
    from sfumato.filesystem import check_target
    from sfumato.release.open_table import file_words, read, save_schema

    for page in (write, report):
        check_page(page, table, schema, population, overwrite=overwrite)
    with progress("Reading and measuring the columns") as told:
        people = read(table, schema, progress=told)
    if people.released and "://" in table:  # a file lies beside what tells of it
        typer.echo(_RELEASED, err=True)
    if schema is None:
        for words in file_words(people, table):
            typer.echo(f"sfumato: {words}", err=True)
    try:
        if write is not None:  # a schema has its hierarchies from files
            check_target(write, overwrite=overwrite, kept=people.files)
        with progress("Counting who is unique") as told:
            found = people.inspect(population=population, progress=told)
    finally:
        people.close()
    if write is not None:
        save_schema(people, write, overwrite=overwrite)
    write_owners_page(
        report, lambda typed: inspection_page(found, table, typed), overwrite=overwrite
    )
    if as_json:
        facts = _as_json(found) | {"file": people.layout.facts()}
        typer.echo(dumps(facts, ensure_ascii=False))
    else:
        from sfumato.data.inspection.terminal import print_inspection

        print_inspection(found, written=write)


def _as_json(found: Inspection) -> dict[str, object]:
    return {
        "rows": found.rows,
        "columns": [
            {
                "name": guess.column.name,
                "kind": guess.column.kind,
                "role": guess.column.role,
                "reason": guess.reason,
                "written": {} if guess.column.spelling is None else guess.column.spelling.keys,
                "warnings": list(guess.warnings),
            }
            for guess in found.guesses
        ],
        "counted": found.counted,
        "largest_set": found.largest,
        "left_out": found.left_out,
        "sets": [
            {
                "columns": list(one.columns),
                "groups": one.groups,
                "unique_rows": one.unique_rows,
                "unique_share": one.unique_share,
                "small_rows": one.small_rows,
                "small_share": one.small_share,
            }
            for one in found.sets
        ],
        "risk": asdict(found.reidentification),
    }
