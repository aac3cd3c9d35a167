"""`sfumato worlds`: ask a released table, and hear what is certain and what is likely."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from sfumato.cli.options import DeclaredSchema, Json, argument, option
from sfumato.text import dumps


def worlds(
    release: Annotated[
        str,
        argument(
            "RELEASE", "A .csv, .tsv, .parquet or .xlsx file, or the directory of an anatomy."
        ),
    ],
    sql: Annotated[str, argument("SQL", "One aggregate of one table.")],
    schema: DeclaredSchema,
    labels: Annotated[
        Literal["public", "tight"], option(None, "Whether both ends of a range are known to occur.")
    ] = "public",
    as_json: Json = False,
) -> None:
    """Answer a question over all tables that a release may stand for: bounds and an estimate.

    Examples:
        sfumato worlds safe.csv "SELECT COUNT(*) FROM people WHERE age > 64" --schema people.toml
    """
    from sfumato.anonymize.measure import bound

    found = bound(release, sql, schema, labels=labels).json()
    if as_json:
        typer.echo(dumps(found))
    else:
        for name, value in found.items():
            typer.echo(f"{name:9}{'unknown' if value is None else f'{value:,.6g}'}")
