"""Malformed cells of databases: queries read them as NULL.

Files are converted as they are read; a table of a database cannot be. So the table node of such an
engine is marked with the columns that may hold malformed cells, and rendering replaces the node by
a selection. A timestamp at midnight becomes its day. A timestamp with a time of day, an infinite
one, and text whose bytes are not UTF-8 (which Spark stores unchecked) become NULL. A decimal
becomes the integer or the real of its value; NaN, which PostgreSQL stores in any decimal column, is
no integer and becomes NULL. The selection depends only on the types of columns, never on rows.
Decision `malformed-cells`.

A table node can also be marked with text limits: queries then see only the declared columns, and
the first characters of texts. These texts are compared by their bytes, whatever the collation of
the column is. Decision `private-texts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow.types as types
from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

DOUBTED = "sfumato.doubted"
"""The mark of a table node that says how cells of each column may be malformed."""


# For each dialect the collation in which texts are equal only if their bytes are.
_BY_BYTES = {"duckdb": "C", "postgres": "C", "spark": "UTF8_BINARY"}

LIMITED = "sfumato.limited"
"""The mark of a table node that says which columns queries see and how long their texts are."""


@dataclass(frozen=True)
class TextLimit:
    """The number of characters of a text that queries read.

    With `drops_longer` a longer text is NULL instead of cut. *Attack*: a cut could make one person
    of two names, whose rows together exceed the bound of one person. So names of people are never
    cut; rows of a longer name belong to nobody.
    """

    characters: int
    drops_longer: bool = False

    def applied(self, value: exp.Expr) -> exp.Expr:
        """Return the SQL of the limited text."""
        # A text of few bytes has few characters; testing the bytes first saves counting characters.
        bits = exp.Anonymous(this="BIT_LENGTH", expressions=[value.copy()])
        short = exp.LTE(this=bits, expression=exp.convert(8 * self.characters))
        case = exp.case().when(short, value.copy())
        if self.drops_longer:
            fits = exp.Length(this=value.copy()) <= exp.convert(self.characters)
            return case.when(fits, value.copy())
        first, length = exp.convert(1), exp.convert(self.characters)
        return case.else_(exp.Substring(this=value.copy(), start=first, length=length))


def limited(table: exp.Table, limits: Mapping[str, TextLimit | None]) -> exp.Table:
    """Mark a table so that queries see only these columns, and texts within their limits."""
    seen = table.copy()
    if any(limits.values()):
        seen.meta[LIMITED] = dict(limits)
    return seen


class Doubt(StrEnum):
    """How cells of a column may be malformed; the values are for messages to the owner."""

    NONE = ""
    TIME = "are not a day alone: they have a time of day, and those are not kept"
    BYTES = "are not text: their bytes are not UTF-8"
    DECIMAL_INTEGER = "are not integers but NaN"
    DECIMAL_REAL = "are not decimals"
    """Never so: a decimal of few digits is a real. It is only read as one."""


class Looking(Protocol):
    """An engine of a database, whose table can change while it is open."""

    def look(self) -> pa.Schema:
        """Read which columns the table has now, and note which may hold malformed cells."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


E = TypeVar("E", bound=Looking)


def looked(engine: E) -> E:
    """Let a new engine look at its table; close it if that fails."""
    try:
        engine.look()
    except BaseException:
        engine.close()
        raise
    return engine


def doubts_of(schema: pa.Schema, *, bytes_unchecked: bool = False) -> dict[str, Doubt]:
    """How cells of each column may be malformed, by its type."""

    def doubt(data_type: pa.DataType) -> Doubt:
        if types.is_timestamp(data_type) and data_type.tz is None:
            return Doubt.TIME
        if types.is_decimal(data_type):
            return Doubt.DECIMAL_REAL if data_type.scale else Doubt.DECIMAL_INTEGER
        return Doubt.BYTES if bytes_unchecked and types.is_string(data_type) else Doubt.NONE

    return {field.name: doubt(field.type) for field in schema}


def doubted(table: exp.Table, doubts: Mapping[str, Doubt]) -> exp.Table:
    """Mark a table so that queries read its malformed cells as NULL."""
    seen = table.copy()
    if any(doubts.values()):
        seen.meta[DOUBTED] = dict(doubts)
    return seen


def as_stored(table: exp.Table) -> tuple[exp.Table, dict[str, Doubt]]:
    """Return the unmarked table, and how its cells may be malformed."""
    stored = table.copy()
    return stored, stored.meta.pop(DOUBTED, {})


def sound(name: str, doubt: Doubt) -> exp.Expr:
    """Return the SQL of a cell; NULL where it is malformed."""
    value = exp.column(name, quoted=True)
    match doubt:
        case Doubt.TIME:
            time_fields = (
                exp.Extract(this=exp.var(name), expression=value.copy()).eq(0)
                for name in ("HOUR", "MINUTE", "SECOND")
            )
            return exp.case().when(exp.and_(*time_fields), exp.cast(value, "DATE"))
        case Doubt.BYTES:  # a Spark function; only Spark stores such bytes
            valid = exp.Anonymous(this="IS_VALID_UTF8", expressions=[value.copy()])
            return exp.case().when(valid, value)
        case Doubt.DECIMAL_INTEGER:  # NaN minus NaN is NaN; in PostgreSQL NaN equals itself
            is_number = exp.EQ(this=exp.Paren(this=value - value.copy()), expression=exp.convert(0))
            return exp.case().when(is_number, exp.cast(value.copy(), "BIGINT"))
        case Doubt.DECIMAL_REAL:
            return exp.cast(value, "DOUBLE")
    return value


def with_sound_cells(tree: exp.Expr, dialect: str) -> exp.Expr:
    """Replace every marked table of a query by the selection of what queries see."""
    changed = tree.copy()
    for table in list(changed.find_all(exp.Table)):
        if is_changed(table):
            table.replace(_selection(table, dialect))
    return changed


def as_spelled(text: exp.Expr, dialect: str) -> exp.Expr:
    """A text that equals another only if both have the same bytes, whatever the collation.

    *Attack*: a collation in which 'Ann' equals 'ann' makes one person of two. It also makes one
    group of two values and names it after whichever row comes first, so that one person's spelling
    is released with the count of all.
    """
    # The cast is for types with an equality of their own, such as citext of PostgreSQL.
    collation = exp.to_identifier(_BY_BYTES[dialect], quoted=True)
    return exp.Collate(this=exp.cast(text, "TEXT"), expression=collation)


def is_changed(table: exp.Table) -> bool:
    """Return whether a table is marked."""
    return DOUBTED in table.meta or LIMITED in table.meta


def _selection(table: exp.Table, dialect: str) -> exp.Expr:
    """What queries see of a marked table: sound cells, then cut to the limits."""
    stored, doubts = as_stored(table)
    limits: Mapping[str, TextLimit | None] = stored.meta.pop(LIMITED, {})
    stored.set("alias", None)
    alias = exp.to_identifier(table.alias_or_name, quoted=True)
    read: exp.Expr = stored
    if doubts:
        read = _alias_cells(
            {name: sound(name, doubt) for name, doubt in doubts.items()}, read, alias
        )
    if limits:
        cells = {name: exp.column(name, quoted=True) for name in limits}
        cut = {
            name: value
            if (limit := limits[name]) is None
            else limit.applied(as_spelled(value, dialect))
            for name, value in cells.items()
        }
        read = _alias_cells(cut, read, alias)
    return read


def _alias_cells(
    cells: Mapping[str, exp.Expr], table: exp.Expr, alias: exp.Identifier
) -> exp.Subquery:
    selected = (exp.alias_(cell, name, quoted=True) for name, cell in cells.items())
    read = exp.select(*selected).from_(table)
    return exp.Subquery(this=read, alias=exp.TableAlias(this=alias.copy()))
