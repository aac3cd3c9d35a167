"""Kinds that the text columns of a source could be read as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
from sqlglot import exp

from sfumato.data.engines.base import column
from sfumato.data.files.cell_text import find_fitting_kinds, read_leniently
from sfumato.data.schema.column import Kind

if TYPE_CHECKING:
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.column import Column


def fitting_kinds(engine: Engine) -> dict[str, set[Kind]]:
    """For each text column of the source the kinds that all its cells fit."""
    names = [name for name, kind in engine.columns(engine.table).items() if kind is Kind.TEXT]
    if not names:
        return {}
    return find_fitting_kinds(
        engine.stream(exp.select(*map(column, names)).from_(engine.table)), names
    )


def fitting_cells(engine: Engine, asked: Column) -> int:
    """The number of cells of a text column that can be read as the column `asked`."""
    cell, rows = column(asked.name), exp.Count(this=exp.Star())
    counted = (
        exp.select(exp.alias_(cell, "sf_value"), exp.alias_(rows, "sf_count"))
        .from_(engine.table)
        .group_by(cell.copy())
    )
    return sum(
        pc.sum(pc.if_else(cells.is_valid(), batch.column(1), 0)).as_py() or 0
        for batch in engine.stream(counted)
        for cells in [read_leniently(batch.column(0), asked)]
    )
