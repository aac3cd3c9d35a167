"""`sfumato inspect`: show who stands out in a table."""

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
from sfumato.report.progress import progress
from sfumato.text import dumps

if TYPE_CHECKING:
    from sfumato.data.inspection import Inspection

_IS_RELEASE = (
    "sfumato: This is a release of Sfumato: its rows are labels of groups, not people. Use "
    "'sfumato measure' for its privacy."
)


def inspect(
    table: TableFile,
    schema: SchemaFile = None,
    population: Annotated[
        str | None, option("FILE", "A table of the population from which this table is drawn.")
    ] = None,
    write: Annotated[
        Path | None,
        option(
            "FILE",
            "Write the inferred schema to a TOML file.",
            "--write",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    report: OwnersPage = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Inspect a table: roles of columns, unique people, risk of re-identification.

    Examples:
        sfumato inspect people.csv
        sfumato inspect people.csv --write guessed.toml --report risk.html
    """
    from sfumato.attack.inspection_pages import inspection_page
    from sfumato.filesystem import check_target
    from sfumato.release.open_table import file_words, read, save_schema

    for page in (write, report):
        check_page(page, table, schema, population, overwrite=overwrite)
    with progress("Reading and measuring the columns") as report_progress:
        people = read(table, schema, progress=report_progress)
    if people.released and "://" in table:  # the side-car of a file says it already
        typer.echo(_IS_RELEASE, err=True)
    if schema is None:
        for remark in file_words(people, table):
            typer.echo(f"sfumato: {remark}", err=True)
    try:
        if write is not None:  # the files of hierarchies are known only now
            check_target(write, overwrite=overwrite, kept=people.files)
        with progress("Counting who is unique") as report_progress:
            inspection = people.inspect(population=population, progress=report_progress)
    finally:
        people.close()
    if write is not None:
        save_schema(people, write, overwrite=overwrite)
    write_owners_page(
        report, lambda typed: inspection_page(inspection, table, typed), overwrite=overwrite
    )
    if as_json:
        data = _to_json(inspection) | {"file": people.layout.facts()}
        typer.echo(dumps(data, ensure_ascii=False))
    else:
        from sfumato.data.inspection.terminal import print_inspection

        print_inspection(inspection, written=write)


def _to_json(inspection: Inspection) -> dict[str, object]:
    return {
        "rows": inspection.rows,
        "columns": [
            {
                "name": guess.column.name,
                "kind": guess.column.kind,
                "role": guess.column.role,
                "reason": guess.reason,
                "written": {} if guess.column.spelling is None else guess.column.spelling.keys,
                "warnings": list(guess.warnings),
            }
            for guess in inspection.guesses
        ],
        "counted": inspection.counted,
        "largest_set": inspection.largest,
        "left_out": inspection.left_out,
        "sets": [
            {
                "columns": list(column_set.columns),
                "groups": column_set.groups,
                "unique_rows": column_set.unique_rows,
                "unique_share": column_set.unique_share,
                "small_rows": column_set.small_rows,
                "small_share": column_set.small_share,
            }
            for column_set in inspection.sets
        ],
        "risk": asdict(inspection.reidentification),
    }
