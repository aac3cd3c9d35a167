"""`sfumato compare`: compare several releases of one table in privacy and utility."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.options import (
    DeclaredSchema,
    Json,
    Overwrite,
    OwnersPage,
    argument,
    check_page,
    option,
)
from sfumato.cli.process import values_named
from sfumato.report.progress import progress
from sfumato.text import dumps

if TYPE_CHECKING:
    from sfumato.attack.comparison.result import Comparison


def compare(
    releases: Annotated[list[str], argument("RELEASE...", "Released tables, or their folders.")],
    original: Annotated[str, option("FILE", "The original table.", "--original")],
    schema: DeclaredSchema,
    known: Annotated[
        str | None,
        option(
            "FILE", "A table of what the attacker knows: people with names or quasi-identifiers."
        ),
    ] = None,
    control: Annotated[
        str | None,
        option("FILE", "A table of similar people who are not in the original (control group)."),
    ] = None,
    synthetic: Annotated[
        list[str] | None, option("RELEASE", "A candidate whose rows are synthetic; repeatable.")
    ] = None,
    report: OwnersPage = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Compare several releases of one table by privacy and utility.

    Candidates can be anonymized tables, anatomies, published counts, synthetic tables or tables of
    other tools. Reads the original without a budget: keep the result to yourself.

    Examples:
        sfumato compare safe.csv synthetic.csv --original people.csv --schema people.toml
        sfumato compare safe.csv synthetic.csv --original people.csv --schema people.toml \\
            --known voters.csv --report compare.html
    """
    from sfumato.attack.comparison.compare import compare_releases

    check_page(report, *releases, original, known, control, schema, overwrite=overwrite)
    with values_named(), progress("Comparing", unit="candidates") as report_progress:
        comparison = compare_releases(
            releases,
            original,
            schema,
            known=known,
            control=control,
            synthetic=synthetic or (),
            progress=report_progress,
        )
    if report is not None:
        comparison.save_report(report, overwrite=overwrite)
    if as_json:
        typer.echo(dumps(comparison.json(), ensure_ascii=False))
    else:
        show(comparison, report)


def show(comparison: Comparison, report: Path | None) -> None:
    """Print one line for each candidate, and the best trade-offs."""
    from sfumato.attack.comparison.page import summary
    from sfumato.report.terminal import print_for_owner

    print_for_owner(summary(comparison), report)
