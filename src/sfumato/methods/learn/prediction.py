"""What a model says of every row of a table, beside what the table has."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.data.engines.base import everything
from sfumato.data.files.writers import format_of, write_file
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError
from sfumato.filesystem import check_target
from sfumato.methods.learn.model import load_model
from sfumato.release.open_table import read

if TYPE_CHECKING:
    import pyarrow as pa


def predict_table(model: Path, source: str) -> pa.Table:
    """A table with what a model says of each row as further columns.

    A model holds nothing of the data it was learnt of, and the rows here are whoever's who asks: so
    this costs nothing.
    """
    learnt = load_model(model)
    with closing(read(source, Schema("rows", learnt.columns)).engine) as engine:
        rows = engine.run(everything(engine.table))
    for name, told in learnt.read(learnt.rows_of(rows)).items():
        if name in rows.column_names:
            raise ParameterError(
                "name_taken",
                f"The table has a column {quoted(name)} already, which is what the model calls its "
                "own. Rename it.",
            )
        rows = rows.append_column(name, told)
    return rows


def write_predictions(model: Path, source: str, out: Path, *, overwrite: bool) -> pa.Table:
    """Write such a table, and give it; a place that cannot be written is refused first."""
    format_of(out)
    check_target(out, overwrite=overwrite, kept=[model, Path(source)])
    told = predict_table(model, source)
    write_file(told.to_reader, out, overwrite=overwrite)
    return told
