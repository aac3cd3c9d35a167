"""Timestamps of a database under a kind that has no time of day: a cell is a day, or malformed.

Files are converted as they are read; a table of a database stays what it is. So the table that
such an engine hands out says which of its columns are timestamps, and wherever a query reads it,
days are put in its place: a cell at midnight is that day, and one with a time of day, or an
infinite one, is NULL. What is done depends on the types alone. Decision 0253.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow.types as types
from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

TIMED = "sfumato.timed"
"""What a table in a query's tree says of its columns: whether each holds times."""


class Looking(Protocol):
    """An engine of a database, which is asked what its table holds."""

    def look(self) -> pa.Schema:
        """See which columns its table has now, and which of them are times."""
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


def timed_columns(schema: pa.Schema) -> dict[str, bool]:
    """All columns, and whether each holds times where only days are wanted."""
    return {
        field.name: types.is_timestamp(field.type) and field.type.tz is None for field in schema
    }


def in_days(table: exp.Table, columns: Mapping[str, bool]) -> exp.Table:
    """A table of which queries see days instead of times."""
    seen = table.copy()
    if any(columns.values()):
        seen.meta[TIMED] = dict(columns)
    return seen


def as_stored(table: exp.Table) -> tuple[exp.Table, list[str]]:
    """A table as it lies there, and the columns of times that queries see as days."""
    stored = table.copy()
    columns = stored.meta.pop(TIMED, {})
    return stored, [name for name, timed in columns.items() if timed]


def day_of(name: str) -> exp.Expr:
    """The day that a timestamp is; NULL where it has a time of day, or is infinite."""
    value = exp.column(name, quoted=True)
    parts = (
        exp.Extract(this=exp.var(part), expression=value.copy()).eq(0)
        for part in ("HOUR", "MINUTE", "SECOND")
    )
    return exp.case().when(exp.and_(*parts), exp.cast(value, "DATE"))


def with_days(tree: exp.Expr) -> exp.Expr:
    """A query in which days are read wherever a table has times."""
    changed = tree.copy()
    for table in list(changed.find_all(exp.Table)):
        if TIMED in table.meta:
            table.replace(_days(table))
    return changed


def _days(table: exp.Table) -> exp.Subquery:
    columns = table.meta[TIMED]
    stored, _ = as_stored(table)
    stored.set("alias", None)
    cells = (
        exp.alias_(day_of(name) if timed else exp.column(name, quoted=True), name, quoted=True)
        for name, timed in columns.items()
    )
    alias = exp.to_identifier(table.alias_or_name, quoted=True)
    read = exp.select(*cells).from_(stored)
    return exp.Subquery(this=read, alias=exp.TableAlias(this=alias))
