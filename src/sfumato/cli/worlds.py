"""`sfumato worlds`: bound the answer of a query over an anonymized table."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from sfumato.cli.options import DeclaredSchema, Json, argument, option
from sfumato.text import dumps


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
