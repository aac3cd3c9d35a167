"""`sfumato evaluate`: compare a synthetic table with its original."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli.completion import columns
from sfumato.cli.options import (
    DeclaredSchema,
    Json,
    Overwrite,
    OwnersPage,
    argument,
    check_page,
    option,
)
from sfumato.report.progress import progress
from sfumato.text import dumps


def evaluate(
    synthetic: Annotated[str, argument("SYNTHETIC", "The synthetic table, of any tool.")],
    original: Annotated[str, option("FILE", "The original table.", "--original")],
    schema: DeclaredSchema,
    target: Annotated[
        str | None,
        option(
            "COLUMN",
            "Train models that predict this column on both tables, and compare them.",
            autocompletion=columns,
        ),
    ] = None,
    report: OwnersPage = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Compare a synthetic table with its original: similarity, use for models, copied rows.

    Reads the original without a budget: keep the result to yourself.

    Examples:
        sfumato evaluate synthetic.csv --original people.csv --schema people.toml
        sfumato evaluate synthetic.csv --original people.csv --schema people.toml \\
            --target disease --report evaluation.html
    """
    from sfumato.attack.evaluation.evaluate import compare_tables
    from sfumato.attack.evaluation.page import summary
    from sfumato.report.terminal import print_for_owner

    check_page(report, synthetic, original, schema, overwrite=overwrite)
    with progress("Comparing the tables", unit="sets of columns") as report_progress:
        evaluation = compare_tables(
            synthetic, original, schema, target=target, progress=report_progress
        )
    if report is not None:
        evaluation.report(report, overwrite=overwrite)
    if as_json:
        typer.echo(dumps(evaluation.json(), ensure_ascii=False))
    else:
        print_for_owner(summary(evaluation), report)
