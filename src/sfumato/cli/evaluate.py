"""`sfumato evaluate`: how near a synthetic table is to its original."""

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
from sfumato.cli.progress import progress
from sfumato.text import dumps


def evaluate(
    synthetic: Annotated[str, argument("SYNTHETIC", "The synthetic table, whoever made it.")],
    original: Annotated[str, option("FILE", "The table that it was made from.", "--original")],
    schema: DeclaredSchema,
    target: Annotated[
        str | None,
        option("COLUMN", "Learn to guess it from either table.", autocompletion=columns),
    ] = None,
    report: OwnersPage = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """See how near a synthetic table is to its original, and what it gives away.

    It looks at the original without a budget, so what it tells is for the owner.

    Examples:
        sfumato evaluate synthetic.csv --original people.csv --schema people.toml
        sfumato evaluate synthetic.csv --original people.csv --schema people.toml \\
            --target disease --report evaluation.html
    """
    from sfumato.attack.evaluation.evaluate import compare_tables
    from sfumato.attack.evaluation.page import summary
    from sfumato.report.terminal import print_for_owner

    check_page(report, synthetic, original, schema, overwrite=overwrite)
    with progress("Comparing the tables", unit="sets of columns") as told:
        found = compare_tables(synthetic, original, schema, target=target, progress=told)
    if report is not None:
        found.report(report, overwrite=overwrite)
    if as_json:
        typer.echo(dumps(found.json(), ensure_ascii=False))
    else:
        print_for_owner(summary(found), report)
