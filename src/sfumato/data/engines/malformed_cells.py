"""Cells of a database that are malformed under their kind: to whoever queries they are NULL.

Files are converted as they are read; a table of a database stays what it is. So the table that
such an engine hands out says which of its columns may hold malformed cells, and wherever a query
reads it, a selection is put in its place. A timestamp at midnight is that day; one with a time of
day, or an infinite one, is NULL, and so is text whose bytes are not UTF-8, which Spark stores
without a look. What is done depends on the types alone. Decision `malformed-cells`.

Likewise a table may say how long its texts may be: whoever queries it sees the declared columns
alone, and of a text its first characters. Decision `private-texts`. Such texts are compared by
their bytes, whatever collation a column was given. Decision `private-texts`.
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
"""What a table in a query's tree says of its columns: how each may be malformed."""


_BY_BYTES = {"duckdb": "C", "postgres": "C", "spark": "UTF8_BINARY"}
"""The collation of each dialect under which texts are equal if they have the same bytes."""

LIMITED = "sfumato.limited"
"""What a table in a query's tree says of the columns that are seen: how long their texts may be."""


@dataclass(frozen=True)
class TextLimit:
    """How many characters of a text are read. Of a longer one, none where it `drops_longer`.

    Two names of people must never become one by a cut: of two people in one the bound on what one
    of them contributes would not hold. So a longer name is NULL, and its rows belong to nobody.
    """

    characters: int
    drops_longer: bool = False

    def applied(self, value: exp.Expr) -> exp.Expr:
        """The text as far as it is read. What has few bytes is not looked into: that is cheaper."""
        bits = exp.Anonymous(this="BIT_LENGTH", expressions=[value.copy()])
        short = exp.LTE(this=bits, expression=exp.convert(8 * self.characters))
        case = exp.case().when(short, value.copy())
        if self.drops_longer:
            fits = exp.Length(this=value.copy()) <= exp.convert(self.characters)
            return case.when(fits, value.copy())
        first, length = exp.convert(1), exp.convert(self.characters)
        return case.else_(exp.Substring(this=value.copy(), start=first, length=length))


def limited(table: exp.Table, limits: Mapping[str, TextLimit | None]) -> exp.Table:
    """A table of which queries see these columns, and texts no longer than their limits."""
    seen = table.copy()
    if any(limits.values()):
        seen.meta[LIMITED] = dict(limits)
    return seen


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
            time_fields = (
                exp.Extract(this=exp.var(name), expression=value.copy()).eq(0)
                for name in ("HOUR", "MINUTE", "SECOND")
            )
            return exp.case().when(exp.and_(*time_fields), exp.cast(value, "DATE"))
        case Doubt.BYTES:  # a function of Spark's, the only engine that stores such bytes
            valid = exp.Anonymous(this="IS_VALID_UTF8", expressions=[value.copy()])
            return exp.case().when(valid, value)
    return value


def with_sound_cells(tree: exp.Expr, dialect: str) -> exp.Expr:
    """A query that reads sound cells wherever a table may have others."""
    changed = tree.copy()
    for table in list(changed.find_all(exp.Table)):
        if is_changed(table):
            table.replace(_selection(table, dialect))
    return changed


def as_spelled(text: exp.Expr, dialect: str) -> exp.Expr:
    """A text that equals another only if both are spelled alike, whatever its collation says.

    A collation that takes 'Ann' for 'ann' makes one person of two, who share one bound. It makes
    one group of two values too, and names the group by whichever row comes first: one person's
    spelling would be released with everybody's count.
    """
    # The cast is for types with an equality of their own, such as citext of PostgreSQL.
    collation = exp.to_identifier(_BY_BYTES[dialect], quoted=True)
    return exp.Collate(this=exp.cast(text, "TEXT"), expression=collation)


def is_changed(table: exp.Table) -> bool:
    """Whether queries see a table otherwise than it is stored."""
    return DOUBTED in table.meta or LIMITED in table.meta


def _selection(table: exp.Table, dialect: str) -> exp.Expr:
    """What queries see of a table: sound cells first, and of these no more than the limits say."""
    stored, doubts = as_stored(table)
    limits: Mapping[str, TextLimit | None] = stored.meta.pop(LIMITED, {})
    stored.set("alias", None)
    alias = exp.to_identifier(table.alias_or_name, quoted=True)
    read: exp.Expr = stored
    if doubts:
        read = _aliased({name: sound(name, doubt) for name, doubt in doubts.items()}, read, alias)
    if limits:
        cells = {name: exp.column(name, quoted=True) for name in limits}
        cut = {
            name: value
            if (limit := limits[name]) is None
            else limit.applied(as_spelled(value, dialect))
            for name, value in cells.items()
        }
        read = _aliased(cut, read, alias)
    return read


def _aliased(cells: Mapping[str, exp.Expr], table: exp.Expr, alias: exp.Identifier) -> exp.Subquery:
    selected = (exp.alias_(cell, name, quoted=True) for name, cell in cells.items())
    read = exp.select(*selected).from_(table)
    return exp.Subquery(this=read, alias=exp.TableAlias(this=alias.copy()))
