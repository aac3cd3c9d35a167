"""`sfumato measure`: measure the privacy and the losses of an anonymized table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.options import (
    DeclaredSchema,
    Json,
    Overwrite,
    OwnersPage,
    TableFile,
    check_page,
    option,
    write_owners_page,
)
from sfumato.cli.process import values_named
from sfumato.report.progress import progress
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping


def measure(
    table: TableFile,
    schema: DeclaredSchema,
    original: Annotated[str | None, option("FILE", "The original table.")] = None,
    population: Annotated[
        str | None, option("FILE", "A table of the population from which this table is drawn.")
    ] = None,
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
