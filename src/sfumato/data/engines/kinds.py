"""Kinds of values and Arrow types: which types hold a kind, and which fit without a conversion.

Dates are limited to the years 1 to 9999 of Python; engines and Parquet files can hold others.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.types as types
from sqlglot import exp

from sfumato.data.engines.base import column
from sfumato.data.engines.malformed_cells import as_stored, sound
from sfumato.data.schema.column import Column, Kind
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sfumato.data.engines.base import Engine

STORED: Mapping[Kind, pa.DataType] = {
    Kind.INTEGER: pa.int64(),
    Kind.REAL: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.DATE: pa.date32(),
    Kind.BOOLEAN: pa.bool_(),
}
"""The one Arrow type in which each kind is stored."""

Asked: TypeAlias = Kind | Column
"""The kind to read a column as, or a declared column, which may also have a spelling."""


def kind_asked(asked: Asked) -> Kind:
    """Return the kind to read a column as."""
    return asked.kind if isinstance(asked, Column) else asked


def stored_schema(columns: Mapping[str, Asked]) -> pa.Schema:
    """Return the Arrow schema in which columns are stored."""
    return pa.schema([(name, STORED[kind_asked(asked)]) for name, asked in columns.items()])


# Integers that a float64 holds exactly.
_SMALL_INTEGERS = {pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()}

DIGITS_OF_INTEGER = 18
"""Decimals of at most so many digits fit an int64."""

DIGITS_OF_REAL = 15
"""Decimals of at most so many digits survive a float64."""


def plain(data_type: pa.DataType) -> pa.DataType:
    """Return the type of the values, also where they are dictionary-encoded."""
    return data_type.value_type if types.is_dictionary(data_type) else data_type


def is_text(data_type: pa.DataType) -> bool:
    """Return whether a type holds text, plain or dictionary-encoded."""
    return plain(data_type) in {pa.string(), pa.large_string(), pa.string_view()}


def kind_of(data_type: pa.DataType) -> Kind | None:
    """Return the kind that a type holds; None where there is none.

    A timestamp without a zone counts as a date; conversion refuses times of day.
    """
    data_type = plain(data_type)
    if is_text(data_type) or types.is_null(data_type):
        return Kind.TEXT
    if types.is_boolean(data_type):
        return Kind.BOOLEAN
    if types.is_integer(data_type):
        return Kind.INTEGER
    if types.is_floating(data_type):
        return Kind.REAL
    if types.is_date(data_type) or (types.is_timestamp(data_type) and data_type.tz is None):
        return Kind.DATE
    if types.is_decimal(data_type):
        if data_type.scale == 0 and data_type.precision <= DIGITS_OF_INTEGER:
            return Kind.INTEGER
        return Kind.REAL if data_type.precision <= DIGITS_OF_REAL else None
    return None


def fits(data_type: pa.DataType, kind: Kind) -> bool:
    """Return whether every value of a type converts to a kind exactly."""
    if types.is_null(data_type):
        return True
    match kind:
        case Kind.TEXT:
            return is_text(data_type) or kind_of(data_type) is Kind.INTEGER
        case Kind.REAL:
            return kind_of(data_type) is Kind.REAL or data_type in _SMALL_INTEGERS
        case Kind.INTEGER:
            return kind_of(data_type) is Kind.INTEGER and data_type != pa.uint64()
        case Kind.DATE:
            return bool(data_type == pa.date32())
        case Kind.BOOLEAN:
            return bool(data_type == pa.bool_())


def kinds_of(schema: pa.Schema) -> dict[str, Kind]:
    """Return the kind of each column; refuse columns of a type that has none."""
    kinds = {field.name: kind_of(field.type) for field in schema}
    strange = [field for field in schema if kinds[field.name] is None]
    if strange:
        named = ", ".join(f"{field.name!r} ({_type_name(field.type)})" for field in strange[:5])
        others = f" and {len(strange) - 5} more" if len(strange) > 5 else ""
        raise SourceError(
            "column_type_unsupported",
            f"Cannot use the type of column {named}{others}. Allowed are integers up to 64 bits, "
            f"reals, decimals of at most {DIGITS_OF_REAL} declared digits "
            f"({DIGITS_OF_INTEGER} without a fraction), text, dates, timestamps without a zone at "
            "midnight, and booleans; convert the others, in a database by a view with "
            "CAST(... AS DOUBLE PRECISION), say, or leave them out.",
        )
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _type_name(data_type: pa.DataType) -> str:
    """Return the name of a type for messages; of a type of one database the name there."""
    if isinstance(data_type, pa.OpaqueType):
        return f"{data_type.type_name} of {data_type.vendor_name}"
    return str(data_type)


def chosen_kinds(held: Mapping[str, Kind], asked: Mapping[str, Asked]) -> dict[str, Asked]:
    """Return for each column the requested kind, else its own; refuse unknown columns."""
    for name in asked:
        if name not in held:
            raise SourceError(
                "column_unknown",
                f"The table has no column {name!r}. It has {', '.join(map(repr, held))}.",
            )
    return {name: asked.get(name, kind) for name, kind in held.items()}


_EPOCH = date(1970, 1, 1)
# The range of Python dates, in days since 1970.
_FIRST, _LAST = (date.min - _EPOCH).days, (date.max - _EPOCH).days


def check_cells(engine: Engine, kinds: Mapping[str, Kind]) -> None:
    """Refuse malformed cells in the engine's table, and dates outside the years 1 to 9999."""
    _check_sound(engine, kinds)
    _check_dates(engine, [name for name, kind in kinds.items() if kind is Kind.DATE])


def _check_dates(engine: Engine, names: Sequence[str]) -> None:
    """Refuse dates outside the years 1 to 9999."""
    if not names:
        return
    ends = [end(this=column(name)) for name in names for end in (exp.Min, exp.Max)]
    aliased = (exp.alias_(end, f"sf_end_{position}") for position, end in enumerate(ends))
    extremes = engine.run(exp.select(*aliased).from_(engine.table.copy()))
    days = [cells.cast(pa.date32()).cast(pa.int32())[0].as_py() for cells in extremes.columns]
    for position, day in enumerate(days):
        if day is not None and not _FIRST <= day <= _LAST:
            raise SourceError(
                "cell_malformed",
                f"Column {names[position // 2]!r} holds dates outside the years 1 to 9999, which "
                "cannot be worked with.",
                hint="Correct them in the source, or make them missing.",
            )


def _check_sound(engine: Engine, names: Collection[str]) -> None:
    """Refuse malformed cells of a database table, as conversion refuses those of a file."""
    stored, doubts = as_stored(engine.table)
    asked = {name: doubt for name, doubt in doubts.items() if doubt and name in names}
    if not asked:
        return
    # COUNT skips NULL: a malformed cell counts as it is stored but not as it is read.
    lost = (
        exp.cast(exp.Count(this=column(name)) - exp.Count(this=sound(name, doubt)), "BIGINT").as_(
            f"sf_lost_{position}"
        )
        for position, (name, doubt) in enumerate(asked.items())
    )
    (lost_cells,) = engine.run(exp.select(*lost).from_(stored)).to_pylist()
    for (name, doubt), cells in zip(asked.items(), lost_cells.values(), strict=True):
        if cells:
            raise SourceError(
                "cell_malformed",
                f"Column {name!r} has {cells:,} cells that {doubt}.",
                hint="Mend or convert the column in a view, and name the view.",
            )
