"""`sfumato inspect`, `measure` and `worlds`: what tables and anonymized tables reveal."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sfumato.cli.options import (
    OUTPUT,
    DeclaredSchema,
    Json,
    Overwrite,
    OwnersPage,
    SchemaFile,
    TableFile,
    argument,
    check_page,
    option,
    write_owners_page,
)
from sfumato.cli.process import values_named
from sfumato.report.progress import progress
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.data.inspection import Inspection

Population = Annotated[
    str | None, option("FILE", "A table of the population from which this table is drawn.")
]
_IS_RELEASE = (
    "sfumato: This is a release of Sfumato: its rows are labels of groups, not people. Use "
    "'sfumato measure' for its privacy."
)


def inspect(
    table: TableFile,
    schema: SchemaFile = None,
    population: Population = None,
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
    """Inspect a table: roles of its columns, unique people, risk of re-identification.

    Without --schema the roles are guessed from names and values. Only you see the result; nothing
    is released.

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
    # Its rows are labels, so "unique" would say nothing about people.
    if people.released and "://" in table:  # the side-car of a file says it already
        typer.echo(_IS_RELEASE, err=True)
    if schema is None:
        for remark in file_words(people, table):
            typer.echo(f"sfumato: {remark}", err=True)
    try:
        if write is not None:  # checked again: the files of hierarchies are known only now
            check_target(write, overwrite=overwrite, kept=people.files)
        with progress("Counting who is unique") as report_progress:
            inspection = people.inspect(population=population, progress=report_progress)
    finally:
        people.close()
    # Written only after the inspection succeeded, so that no half result stays behind.
    if write is not None:
        save_schema(people, write, overwrite=overwrite)
    write_owners_page(
        report, lambda typed: inspection_page(inspection, table, typed), overwrite=overwrite
    )
    if as_json:
        data = _inspection_json(inspection) | {"file": people.layout.facts()}
        typer.echo(dumps(data, ensure_ascii=False))
    else:
        from sfumato.data.inspection.terminal import print_inspection

        print_inspection(inspection, written=write)


def _inspection_json(inspection: Inspection) -> dict[str, object]:
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


def measure(
    table: TableFile,
    schema: DeclaredSchema,
    original: Annotated[str | None, option("FILE", "The original table.")] = None,
    population: Population = None,
    workload: Annotated[
        Path | None,
        option(
            "FILE", "A file of SQL queries, one in each line; measures the error of their answers."
        ),
    ] = None,
    report: OwnersPage = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Measure the privacy (k, l, t) and the loss of an anonymized table, made by any tool.

    With --original, the figures compare the table with its original.

    Examples:
        sfumato measure safe.csv --schema people.toml
        sfumato measure safe.csv --schema people.toml --original people.csv \\
            --report measures.html
    """
    from sfumato.anonymize.measure import measure as measure_table
    from sfumato.anonymize.measure import read_questions
    from sfumato.attack.inspection_pages import measure_page

    check_page(report, table, original, population, workload, schema, overwrite=overwrite)
    # Read before the table: a malformed query should cost no time.
    queries = None if workload is None else read_questions(workload)
    with values_named(), progress("Measuring"):
        measures = measure_table(
            table, schema, original=original, population=population, workload=queries
        )
    figures = measures.json()
    write_owners_page(
        report, lambda typed: measure_page(figures, table, typed), overwrite=overwrite
    )
    if as_json:
        typer.echo(dumps(figures, ensure_ascii=False))
    else:
        _print_figures(figures, measures.person)


def _print_figures(figures: Mapping[str, object], person: str | None) -> None:
    """Print one line for each figure, and what the figures count."""
    from rich.console import Console
    from rich.table import Table

    from sfumato.report.terminal import printable

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right")
    # printable() escapes control characters: a column name could rewrite the terminal.
    for name, value in _flatten(figures):
        table.add_row(printable(name), printable(value))
    console = Console(highlight=False)
    console.print(table)
    reference = "original's" if figures["reference"] == "original" else "release's own"
    console.print(f"Classes are compared with the {reference} distribution of values.", style="dim")
    if person is not None:
        counted = f"The figures count people, by column {person}."
        if figures["counted"] == "rows":
            counted = (
                f"The figures count rows: the table has no column {person} to tell people apart."
            )
        console.print(printable(counted), style="dim")


def _flatten(figures: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """The figures of nested records, each under its full name."""
    rows = []
    for name, value in figures.items():
        title = f"{prefix} {name}".strip().replace("_", " ")
        if isinstance(value, dict):
            rows += _flatten(value, title)
        elif isinstance(value, int | float):
            rows.append((title, f"{value:,.6g}"))
        elif value is None:
            rows.append((title, "–"))
    return rows


def worlds(
    release: Annotated[
        str,
        argument("RELEASE", "A .csv, .tsv, .parquet or .xlsx file, or the folder of an anatomy."),
    ],
    sql: Annotated[str, argument("SQL", "An SQL query with one aggregate over one table.")],
    schema: DeclaredSchema,
    labels: Annotated[
        Literal["public", "tight"],
        option(
            None,
            "How to read released ranges. tight: both ends of each range occur in the original.",
        ),
    ] = "public",
    as_json: Json = False,
) -> None:
    """Bound and estimate the answer of an SQL query from an anonymized table.

    An anonymized table fits many original tables. The bounds hold for all of them.

    Examples:
        sfumato worlds safe.csv "SELECT COUNT(*) FROM people WHERE age > 64" --schema people.toml
    """
    from sfumato.anonymize.measure import bound

    answer = bound(release, sql, schema, labels=labels).json()
    if as_json:
        typer.echo(dumps(answer))
    else:
        for name, value in answer.items():
            typer.echo(f"{name:9}{'unknown' if value is None else f'{value:,.6g}'}")
