"""`sfumato predict`: what a model says of the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import OUTPUT, Json, Overwrite, argument, option
from sfumato.text import dumps


def predict(
    model: Annotated[Path, argument("MODEL", "A model that sfumato learn wrote.")],
    table: Annotated[str, argument("TABLE", "The rows to look at, with the model's features.")],
    out: Annotated[
        Path,
        option("OUT", "A .csv, .parquet or .xlsx.", "-o", "--out", rich_help_panel=OUTPUT),
    ],
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Tell by a model what is not in a table, row by row.

    It costs nothing: nothing of the people that it was learnt of is in a model.

    Examples:
        sfumato predict model.json people.csv -o told.csv
    """
    from sfumato.methods.learn.model import write_predictions

    told = write_predictions(model, table, out, overwrite=overwrite)
    if as_json:
        typer.echo(dumps({"rows": told.num_rows, "columns": told.column_names, "out": str(out)}))
    else:
        typer.echo(f"Wrote {told.num_rows:,} rows, with what the model says of each, to {out}.")
