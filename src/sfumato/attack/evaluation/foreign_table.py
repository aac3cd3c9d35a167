"""Open a synthetic table of unknown origin and compare its form with the schema.

Columns may be missing, added, reordered or of another kind; numbers may be written differently.
What can be read is read, everything else becomes a remark, and no cell stops the evaluation.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.engines.base import column as cell_of
from sfumato.data.engines.duckdb import DuckDB
from sfumato.data.engines.sources import open_source
from sfumato.data.files.cell_conversion import fitting_cells
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.layout import DEFAULT_LAYOUT
from sfumato.data.schema.names import quoted
from sfumato.errors import SchemaError, SourceError
from sfumato.release.sidecar import layout_in_sidecar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.data.engines.base import Engine
    from sfumato.data.engines.sources import Source
    from sfumato.data.schema.schema import Schema

_READABLE = {(Kind.REAL, Kind.INTEGER), (Kind.INTEGER, Kind.REAL), (Kind.INTEGER, Kind.TEXT)}
"""Kinds that are read as others without looking at their cells."""


@dataclass(frozen=True)
class Stranger:
    """An open table of unknown origin, its comparable columns, and remarks about its form."""

    engine: Engine
    columns: tuple[Column, ...]
    remarks: tuple[str, ...]
    malformed: Mapping[str, int] = field(default_factory=dict)


def open_stranger(source: Source, schema: Schema, compared: Sequence[Column]) -> Stranger:
    """Open a table, and read the compared columns that it has as their declared kinds."""
    engine = _open_file(source, schema)
    try:
        held = engine.columns(engine.table)
        present = [column for column in compared if column.name in held]
        if not present:
            raise SchemaError(
                "comparison_impossible",
                f"The synthetic table has {_list_names([*held])}, and none of those to compare: "
                f"{_list_names([wanted.name for wanted in compared])}. Name its columns as the "
                "schema does.",
            )
        remarks = _form(schema, compared, list(held))
        # Cells that become missing by reading them as their kind are malformed: counted before
        # and after.
        before = _known(engine, present)
        readable, strange = _read_as_declared(engine, present)
        remarks += [
            f"{column.name} holds {held[column.name]} where {column.kind} is declared, and is left "
            "out."
            for column in strange
        ]
        if not readable:
            raise SchemaError(
                "comparison_impossible",
                "No column of the synthetic table can be read as what the schema declares: "
                f"{quoted(present[0].name)} holds {held[present[0].name]}, not {present[0].kind}. "
                "Write it with the kinds of the original.",
            )
        after = _known(engine, readable)
    except BaseException:
        engine.close()
        raise
    malformed = {name: before[name] - count for name, count in after.items()}
    return Stranger(engine, tuple(readable), tuple(remarks), malformed)


def _open_file(source: Source, schema: Schema) -> Engine:
    """Open a file by the layout of its side-car, of the original, or the usual one."""
    names = [column.name for column in schema.columns]
    path = Path(source) if isinstance(source, str | Path) and "://" not in str(source) else None
    own_layout = None if path is None else layout_in_sidecar(path)
    layouts = list(dict.fromkeys((own_layout or schema.layout, DEFAULT_LAYOUT)))
    for layout in layouts[:-1]:
        with suppress(SourceError):
            engine = open_source(source, layout=layout, declared=names, strict=False)
            if {*names} & {*engine.columns(engine.table)}:
                return engine
            engine.close()
    return open_source(source, layout=layouts[-1], declared=names, strict=False)


def _form(schema: Schema, compared: Sequence[Column], held: Sequence[str]) -> list[str]:
    """Return remarks about missing, added and reordered columns."""
    names = [column.name for column in schema.columns]
    lacking = [column.name for column in compared if column.name not in held]
    undeclared = [name for name in held if name not in names]
    remarks = []
    if lacking:
        remarks.append(f"It lacks {_list_names(lacking)}, which cannot be compared.")
    if undeclared:
        remarks.append(f"It has {_list_names(undeclared)}, which the schema does not declare.")
    if [name for name in held if name in names] != [name for name in names if name in held]:
        remarks.append("Its columns have another order than the schema.")
    return remarks


def _list_names(names: Sequence[str]) -> str:
    prefix = "the column" if len(names) == 1 else f"{len(names):,} columns:"
    return f"{prefix} {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"


def _known(engine: Engine, columns: Sequence[Column]) -> dict[str, int]:
    """Count the cells of each column that are not missing."""
    counts = [
        exp.Count(this=cell_of(column.name)).as_(f"sf_{number}")
        for number, column in enumerate(columns)
    ]
    counted = engine.run(exp.select(*counts).from_(engine.table.copy()))
    numbers = (int(cells[0].as_py()) for cells in counted.columns)
    return {column.name: number for column, number in zip(columns, numbers, strict=True)}


def _read_as_declared(
    engine: Engine, columns: Sequence[Column]
) -> tuple[list[Column], list[Column]]:
    """Read columns as their declared kinds; return those that could be read, and the others."""
    held = engine.columns(engine.table)
    strange = [column for column in columns if not _readable(held[column.name], column, engine)]
    readable = [column for column in columns if column not in strange]
    if isinstance(engine, DuckDB):
        readings = {
            column.name: _reading(engine, column) if held[column.name] is Kind.TEXT else column
            for column in readable
        }
        engine.retype(readings, strict=False)
        # Whole numbers that were written with a fraction were read as reals.
        engine.retype({column.name: column for column in readable}, strict=False)
    return readable, strange


def _readable(held: Kind, column: Column, engine: Engine) -> bool:
    if held is column.kind:
        return True
    return isinstance(engine, DuckDB) and (held is Kind.TEXT or (held, column.kind) in _READABLE)


def _reading(engine: DuckDB, column: Column) -> Column:
    """Return the reading of a text column that fits most cells: as declared, or the usual one."""
    plain = replace(column, spelling=None)
    readings = [column, plain]
    if column.kind is Kind.INTEGER:
        readings.append(Column(column.name, Kind.REAL))
    return max(readings, key=partial(fitting_cells, engine))  # the first of equals
