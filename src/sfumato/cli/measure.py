"""`sfumato measure`: what a table reaches, whoever anonymized it."""

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
from sfumato.cli.progress import progress, values_named
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping


def measure(
    table: TableFile,
    schema: DeclaredSchema,
    original: Annotated[str | None, option("FILE", "The table that it was made from.")] = None,
    population: Annotated[
        str | None, option("FILE", "A table of the people it is drawn from.")
    ] = None,
    workload: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Questions in SQL, one on a line: how far off are their answers?"
        ),
    ] = None,
    report: OwnersPage = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Measure k, every l and t, and all costs of a table, alone or against its original.

    Examples:
        sfumato measure safe.csv --schema people.toml
        sfumato measure safe.csv --schema people.toml --original people.csv \\
            --report reached.html
    """
    from sfumato.anonymize.measure import measure as measured
    from sfumato.anonymize.measure import read_questions
    from sfumato.attack.inspection_pages import measure_page

    check_page(report, table, original, population, workload, schema, overwrite=overwrite)
    questions = None if workload is None else read_questions(workload)
    with values_named(), progress("Measuring"):
        measures = measured(
            table, schema, original=original, population=population, workload=questions
        )
    found = measures.json()
    write_owners_page(report, lambda typed: measure_page(found, table, typed), overwrite=overwrite)
    if as_json:
        typer.echo(dumps(found, ensure_ascii=False))
    else:
        _show(found, measures.person)


def _show(found: Mapping[str, object], person: str | None) -> None:
    """Print the figures, one line each, and what they count."""
    from rich.console import Console
    from rich.table import Table

    from sfumato.report.terminal import printable

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right")
    for name, value in _lines(found):
        table.add_row(printable(name), printable(value))
    console = Console(highlight=False)
    console.print(table)
    whose = "original's" if found["reference"] == "original" else "release's own"
    console.print(f"Classes are compared with the {whose} distribution of values.", style="dim")
    if person is not None:
        told = f"People are counted, by column {person}."
        if found["counted"] == "rows":
            told = (
                f"Rows are counted, not people: the table does not say whose row it is ({person})."
            )
        console.print(printable(told), style="dim")


def _lines(found: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """The figures with the names that lead to them."""
    lines = []
    for name, value in found.items():
        title = f"{prefix} {name}".strip().replace("_", " ")
        if isinstance(value, dict):
            lines += _lines(value, title)
        elif isinstance(value, int | float):
            lines.append((title, f"{value:,.6g}"))
        elif value is None:
            lines.append((title, "–"))
    return lines
