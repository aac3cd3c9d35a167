"""Cells of a database that are malformed under their kind: to whoever queries they are NULL.

Files are converted as they are read; a table of a database stays what it is. So the table that
such an engine hands out says which of its columns may hold malformed cells, and wherever a query
reads it, a selection is put in its place. A timestamp at midnight is that day; one with a time of
day, or an infinite one, is NULL, and so is text whose bytes are not UTF-8, which Spark stores
without a look. What is done depends on the types alone. Decisions 0253 and 0254.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow.types as types
from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

DOUBTED = "sfumato.doubted"
"""What a table in a query's tree says of its columns: how each may be malformed."""


class Doubt(StrEnum):
    """How cells of a column may be malformed, and what an owner is told of those that are."""

    NONE = ""
    TIME = "are not a day alone: they have a time of day, and those are not kept"
    BYTES = "are not text: their bytes are not UTF-8"


class Looking(Protocol):
    """An engine of a database, which is asked what its table holds."""

    def look(self) -> pa.Schema:
        """See which columns its table has now, and which of them may hold malformed cells."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


E = TypeVar("E", bound=Looking)


def looked(engine: E) -> E:
    """An engine that was just opened, once it has seen its table; closed if it cannot."""
    try:
        engine.look()
    except BaseException:
        engine.close()
        raise
    return engine


def doubts_of(schema: pa.Schema, *, bytes_unchecked: bool = False) -> dict[str, Doubt]:
    """How cells of each column may be malformed, by its type; some engines check no text."""

    def doubt(data_type: pa.DataType) -> Doubt:
        if types.is_timestamp(data_type) and data_type.tz is None:
            return Doubt.TIME
        return Doubt.BYTES if bytes_unchecked and types.is_string(data_type) else Doubt.NONE

    return {field.name: doubt(field.type) for field in schema}


def doubted(table: exp.Table, doubts: Mapping[str, Doubt]) -> exp.Table:
    """A table of which queries see malformed cells as NULL."""
    seen = table.copy()
    if any(doubts.values()):
        seen.meta[DOUBTED] = dict(doubts)
    return seen


def as_stored(table: exp.Table) -> tuple[exp.Table, dict[str, Doubt]]:
    """A table as it lies there, and how its cells may be malformed."""
    stored = table.copy()
    return stored, stored.meta.pop(DOUBTED, {})


def sound(name: str, doubt: Doubt) -> exp.Expr:
    """A cell of a column; NULL where it is malformed."""
    value = exp.column(name, quoted=True)
    match doubt:
        case Doubt.TIME:
            parts = (
                exp.Extract(this=exp.var(part), expression=value.copy()).eq(0)
                for part in ("HOUR", "MINUTE", "SECOND")
            )
            return exp.case().when(exp.and_(*parts), exp.cast(value, "DATE"))
        case Doubt.BYTES:  # a function of Spark's, the only engine that stores such bytes
            valid = exp.Anonymous(this="IS_VALID_UTF8", expressions=[value.copy()])
            return exp.case().when(valid, value)
    return value


def with_sound_cells(tree: exp.Expr) -> exp.Expr:
    """A query that reads sound cells wherever a table may have others."""
    changed = tree.copy()
    for table in list(changed.find_all(exp.Table)):
        if DOUBTED in table.meta:
            table.replace(_selection(table))
    return changed


def _selection(table: exp.Table) -> exp.Subquery:
    stored, doubts = as_stored(table)
    stored.set("alias", None)
    cells = (exp.alias_(sound(*one), one[0], quoted=True) for one in doubts.items())
    alias = exp.to_identifier(table.alias_or_name, quoted=True)
    read = exp.select(*cells).from_(stored)
    return exp.Subquery(this=read, alias=exp.TableAlias(this=alias))
