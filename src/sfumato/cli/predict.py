"""`sfumato predict`: predict with a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import OUTPUT, Json, Overwrite, argument, option
from sfumato.text import dumps


def predict(
    model: Annotated[Path, argument("MODEL", "A model file that 'sfumato learn' wrote.")],
    table: Annotated[str, argument("TABLE", "A table with the features of the model.")],
    out: Annotated[
        Path,
        option("OUT", "A .csv, .parquet or .xlsx file.", "-o", "--out", rich_help_panel=OUTPUT),
    ],
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Add the predictions of a trained model to each row of a table.

    Costs no budget: the model is differentially private already.

    Examples:
        sfumato predict model.json people.csv -o predicted.csv
    """
    from sfumato.methods.learn.model import write_predictions

    predictions = write_predictions(model, table, out, overwrite=overwrite)
    rows, names = predictions.num_rows, predictions.column_names
    if as_json:
        typer.echo(dumps({"rows": rows, "columns": names, "out": str(out)}))
    else:
        typer.echo(f"Wrote {rows:,} rows with predictions to {out}.")
