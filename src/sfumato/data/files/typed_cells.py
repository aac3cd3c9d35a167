"""Convert typed cells, such as those of a spreadsheet, to kinds one by one.

*Invariant*: the result depends only on the cell itself and on declarations, never on other cells.
Decision `reading-files`.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.engines.kinds import STORED, kind_asked, stored_schema
from sfumato.data.files.cell_text import conform
from sfumato.data.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.data.engines.kinds import Asked

Cell = str | float | int | bool | date | datetime | time | timedelta | None

# Rows converted at a time, which bounds the memory of the texts in between.
ROWS_AT_ONCE = 65_536

# Integers up to 2^53 are exact as float64, the only numbers of a sheet.
_EXACT = 1 << 53


def natural_kind(cells: Sequence[Cell]) -> Kind:
    """The kind of cells; text where they are of several kinds."""
    types = {type(cell) for cell in cells} - {type(None)}
    if types == {bool}:
        return Kind.BOOLEAN
    if types == {date}:
        return Kind.DATE
    if types and types <= {int, float}:
        numbers = [cell for cell in cells if cell is not None]
        return Kind.INTEGER if all(map(_is_whole, numbers)) else Kind.REAL
    return Kind.TEXT


def settled(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Convert datetimes to dates where all are midnight, else all of them to text with a time.

    Only for undeclared tables, which only their owner reads: here a cell depends on others.
    """
    if datetime not in {type(cell) for cell in cells}:
        return cells
    if any(not isinstance(cell, date | None) for cell in cells):
        return cells
    times = [
        cell if cell is None or isinstance(cell, datetime) else datetime.combine(cell, time())
        for cell in cells
        if cell is None or isinstance(cell, date)
    ]
    if all(cell is None or cell.time() == time() for cell in times):
        return [cell and cell.date() for cell in times]
    return [as_text(cell) for cell in times]


def as_text(cell: Cell) -> str | None:
    """A cell as text: numbers in plain form, dates in ISO form."""
    match cell:
        case None | str():
            return cell
        case bool():
            return str(cell).lower()
        case float() if _is_whole(cell):
            return str(int(cell))
        case datetime():
            return cell.isoformat(sep=" ")
        case date() | time():
            return cell.isoformat()
        case _:
            return str(cell)


def read_cells(
    columns: Mapping[str, Sequence[Cell]], asked: Mapping[str, Asked], *, strict: bool
) -> Iterator[pa.RecordBatch]:
    """Convert columns to kinds: cells of the right type as they are, others through text."""
    schema = stored_schema(asked)
    kinds = {name: kind_asked(column) for name, column in asked.items()}
    texts = pa.schema([(name, pa.string()) for name in kinds])
    rows = max(map(len, columns.values()), default=0)

    def written() -> Iterator[pa.RecordBatch]:
        for start in range(0, rows, ROWS_AT_ONCE):
            chunks = [_chunk(columns[name], start) for name in kinds]
            spelled = [
                pa.array(
                    [None if _native(cell, kind) is not None else as_text(cell) for cell in chunk],
                    pa.string(),
                )
                for chunk, kind in zip(chunks, kinds.values(), strict=True)
            ]
            yield pa.record_batch(spelled, schema=texts)

    for number, batch in enumerate(conform(written(), asked, strict=strict)):
        merged = []
        for name, read in zip(kinds, batch.columns, strict=True):
            chunk, kind = _chunk(columns[name], number * ROWS_AT_ONCE), kinds[name]
            native = pa.array([_native(cell, kind) for cell in chunk], STORED[kind])
            merged.append(read if native.null_count == len(native) else pc.coalesce(native, read))
        yield pa.record_batch(merged, schema=schema)


def _chunk(cells: Sequence[Cell], start: int) -> Sequence[Cell]:
    return cells[start : start + ROWS_AT_ONCE]


def _native(cell: Cell, kind: Kind) -> Cell:
    """The value of a cell whose type is of the kind; None for other cells."""
    match kind, cell:
        case Kind.BOOLEAN, bool():
            return cell
        case Kind.INTEGER | Kind.REAL, bool():
            return None
        case Kind.INTEGER, int() | float() if _is_whole(cell):
            return int(cell)
        case Kind.REAL, int() | float():
            return float(cell)
        case Kind.DATE, datetime():
            return cell.date()
        case Kind.DATE, date():
            return cell
    return None


def _is_whole(cell: object) -> bool:
    return isinstance(cell, int | float) and abs(cell) <= _EXACT and cell == int(cell)
