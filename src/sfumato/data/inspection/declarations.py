"""Propose declarations from rows: bounds, values, missing cells and the privacy unit.

The proposals are for the owner only and declare nothing until a person confirms them: they are
written as comments or asked one by one. Bounds are round and a bit wider than the data, so that
they reveal no cell. Decision `schemas`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from sfumato.data.inspection.hierarchies import finite, round_up
from sfumato.data.inspection.roles import names_a_person, numbers_something
from sfumato.data.schema.column import Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity, Rows
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.inspection.profile import ColumnProfile
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.domain import Domain
    from sfumato.data.schema.unit import Unit

# Bounds are multiples of a round number near this fraction of the range.
_STEPS_OF_RANGE = 10

# Up to 12 distinct integers count as codes and are listed, if each is in at least 20 rows.
_CODES, _COMMON = 12, 20

# Integers whose mean distance is larger than this count as codes, too.
_APART = 10_000

# Dates over at least so many years are bounded by decades.
_LONG_YEARS = 20


def observed_column(profile: ColumnProfile, column: Column) -> Column:
    """A guessed column with everything that its owner could declare."""
    domain = None
    if column.role is not Role.IDENTIFIER and profile.present:
        domain = _domain(profile, column.kind)
    return replace(column, domain=domain, nullable=profile.nulls > 0 or profile.rows == 0)


def _domain(profile: ColumnProfile, kind: Kind) -> Domain | None:
    if kind is Kind.BOOLEAN:
        return None
    lists_all = len(profile.top) == profile.distinct
    codes = kind is Kind.INTEGER and _are_codes(profile)
    try:
        if lists_all and (kind is Kind.TEXT or codes):
            listed = sorted(value for value, _ in profile.top)
            return Values(tuple(listed))  # type: ignore[arg-type]  # no floats here
        return _bounds(profile, kind)
    except SchemaError:
        return None  # numbers or texts that no schema can hold


def _are_codes(profile: ColumnProfile) -> bool:
    """Whether integers are codes rather than quantities: few and common, or far apart."""
    rarest = min((rows for _, rows in profile.top), default=0)
    low, high = finite(profile.minimum), finite(profile.maximum)
    apart = low is not None and high is not None and high - low > _APART * profile.distinct
    return apart or (profile.distinct <= _CODES and rarest >= _COMMON)


def _bounds(profile: ColumnProfile, kind: Kind) -> Bounds | None:
    low, high = profile.minimum, profile.maximum
    if isinstance(low, date) and isinstance(high, date):
        return _years(low, high)
    least, most = finite(low), finite(high)
    if kind is Kind.TEXT or least is None or most is None:
        return None
    unit = round_up((most - least) / _STEPS_OF_RANGE or abs(most) / _STEPS_OF_RANGE or Decimal(1))
    if kind is Kind.INTEGER:
        unit = max(unit, Decimal(1))
    # One unit below the smallest value, so that the bound is nobody's cell.
    below = ((least / unit).to_integral_value(ROUND_CEILING) - 1) * unit
    above = ((most / unit).to_integral_value(ROUND_FLOOR) + 1) * unit
    if least >= 0:  # amounts end at nothing
        below = max(below, Decimal(0))
    if kind is Kind.INTEGER:
        return Bounds(int(below), int(above))
    return Bounds(below, above)


def _years(low: date, high: date) -> Bounds:
    """Bounds of whole years, or of whole decades for a long range."""
    width = 10 if high.year - low.year >= _LONG_YEARS else 1
    first = max(low.year - low.year % width, date.min.year)
    last = min(high.year - high.year % width + width - 1, date.max.year)
    return Bounds(date(first, 1, 1), date(last, 12, 31))


def observed_schema(schema: Schema, profiles: Sequence[ColumnProfile]) -> Schema:
    """A guessed schema with everything that its owner could declare, the unit included."""
    columns = tuple(map(observed_column, profiles, schema.columns))
    several = (
        profile
        for profile, column in zip(profiles, columns, strict=True)
        if could_number_people(column) and 1 < profile.distinct < profile.present
    )
    repeated = next(several, None)
    unit: Unit = Rows()
    if repeated is not None:
        unit = Entity(repeated.name, int(round_up(Decimal(repeated.top[0][1]))))
    return Schema(schema.table, columns, unit, schema.layout)


def names_people(column: Column) -> bool:
    """Whether a column can be the unit: an identifier without missing values that is not real."""
    return column.role is Role.IDENTIFIER and not column.nullable and column.kind is not Kind.REAL


def could_number_people(column: Column) -> bool:
    """Whether a column can be the unit and is named like a number or a person."""
    named = names_a_person(column.name) or numbers_something(column.name)
    return named and names_people(column)


def with_people(schema: Schema, seen: Schema) -> Schema:
    """The guessed schema, with `nullable = false` for the columns that can be the unit."""
    known = {column.name: names_people(column) for column in seen.columns}
    columns = (replace(column, nullable=not known[column.name]) for column in schema.columns)
    return replace(schema, columns=tuple(columns))
