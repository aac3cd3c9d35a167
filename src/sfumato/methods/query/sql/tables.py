"""Declared tables, and the SQL that enforces their declarations whatever rows they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.methods.query.expressions.typed_values import (
    FIRST_DAY,
    LAST_DAY,
    SMALLEST,
    TYPES,
    Direct,
    Typed,
    days_of,
    literal,
    shorten_text,
)
from sfumato.methods.query.sql.relation import Owner, Relation, column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.domain import Scalar
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit


@dataclass(frozen=True)
class PrivateRows:
    """Rows about people. Data sets with the same `population` name their people alike."""

    schema: Schema
    unit: Unit
    population: str


@dataclass(frozen=True)
class PublicRows:
    """Public rows, which belong to no person.

    `keys` declares how many rows may share a value of these columns: {("zip",): 1} says that zip
    codes are unique. Joins keep no more than that.
    """

    schema: Schema
    keys: Mapping[tuple[str, ...], int] = field(default_factory=dict)


Catalogue = Mapping[str, PrivateRows | PublicRows]
"""The declared data sets by name."""


_LARGEST = Fraction(10) ** 100


def declared_table(name: str, declared: PrivateRows | PublicRows, alias: str) -> Relation:
    """A declared table under an alias."""
    table = exp.Table(this=exp.to_identifier(name, quoted=True))
    table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    person = declared.unit.column if isinstance(declared, PrivateRows) else None
    columns = _Columns(declared.schema, alias, person)
    if isinstance(declared, PrivateRows):
        return Relation(
            table,
            columns,
            Owner(declared.unit, declared.population),
            columns[person].tree if person is not None else None,
            # Declared bounds hold only after sampling, which follows the joins: until then any
            # number of rows.
            rows_per_person=None if person is not None else 1,
            private=frozenset({name}),
        )
    keys = {frozenset(key): bound for key, bound in declared.keys.items()}
    return Relation(table, columns, None, keys=keys, public=frozenset({name}))


class _Columns(Mapping[str, Typed]):
    """The columns of a table, each planned when it is first asked for."""

    def __init__(self, schema: Schema, alias: str, person: str | None) -> None:
        self._declared = {
            declared_column.name: declared_column for declared_column in schema.columns
        }
        self._alias, self._person = alias, person
        self._planned: dict[str, Typed] = {}

    def __getitem__(self, name: str) -> Typed:
        if name not in self._planned:
            planned = _person_value if name == self._person else _column_value
            self._planned[name] = planned(self._declared[name], self._alias)
        return self._planned[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


def _raw(declared: Column, alias: str) -> exp.Expr:
    return exp.cast(column(alias, declared.name), TYPES[declared.kind])


def _person_value(declared: Column, alias: str) -> Typed:
    """The person column, unchanged: clamping would merge two people into one."""
    dated = declared.kind is Kind.DATE
    low, high = (Fraction(FIRST_DAY), Fraction(LAST_DAY)) if dated else (None, None)
    # Not nullable by declaration: rows without a person are left out before anything is counted.
    return Typed(_raw(declared, alias), declared.kind, False, low, high, unit=True)


def _column_value(declared: Column, alias: str) -> Typed:
    """A column, clamped to its declared bounds.

    Rows may violate their declaration. A NULL in a column without NULLs becomes the lowest value,
    an empty text or FALSE, so that the plan holds whatever is read, and no error reveals the row.
    """
    raw = _raw(declared, alias)
    ends = _declared_ends(declared)
    low, high = (None, None) if ends is None else (_to_fraction(end) for end in ends)
    tree, nullable = raw, declared.nullable
    if declared.kind is Kind.REAL:
        lowest = literal(Fraction(0) if ends is None else ends[0])
        tree = _or_else(_make_finite(raw, ends), lowest, nullable=nullable)
    elif ends is not None:
        tree = clamp(raw, literal(ends[0]), literal(ends[1]), nullable=nullable)
    elif declared.kind is Kind.INTEGER:
        tree = _replace_null(raw, 0, nullable=nullable)
    elif declared.kind is Kind.DATE:
        low, high = Fraction(FIRST_DAY), Fraction(LAST_DAY)
        span = {"low": literal(date.min), "high": literal(date.max)}
        inside = exp.case().when(exp.Between(this=raw.copy(), **span), raw.copy())
        tree = _or_else(inside, literal(date.min), nullable=nullable)
    known = declared.public_domain
    values = known.values if isinstance(known, Values) else None
    length = None
    if declared.kind is Kind.TEXT:
        length = declared.characters
        tree = _replace_null(shorten_text(raw, length), "", nullable=nullable)
    if declared.kind is Kind.BOOLEAN:
        values = values or (False, True)
        tree = _replace_null(raw, False, nullable=nullable)
    direct = Direct(declared, raw)
    return Typed(
        tree, declared.kind, nullable, low, high, values=values, length=length, direct=direct
    )


def _declared_ends(declared: Column) -> tuple[Scalar, Scalar] | None:
    """The lowest and highest value that is declared."""
    match declared.public_domain:
        case Bounds(low=low, high=high):
            return low, high
        case Values(values=values) if declared.kind not in (Kind.TEXT, Kind.BOOLEAN):
            return min(values), max(values)
    return None


def _to_fraction(end: Scalar) -> Fraction:
    """An end as the engine holds it."""
    if isinstance(end, date):
        return Fraction(days_of(end))
    if isinstance(end, Decimal):
        return Fraction(float(end))
    assert isinstance(end, int)
    return Fraction(end)


def _replace_null(tree: exp.Expr, default: Scalar, *, nullable: bool) -> exp.Expr:
    """A value as it is or, where none may be NULL, another one for NULL."""
    if nullable:
        return tree
    return exp.Coalesce(this=tree, expressions=[literal(default)])


def _or_else(case: exp.Case, default: exp.Expr, *, nullable: bool) -> exp.Case:
    """A case that is NULL where nothing fits or, where none may be NULL, another value."""
    return case if nullable else case.else_(default)


def clamp(value: exp.Expr, low: exp.Expr, high: exp.Expr, *, nullable: bool = True) -> exp.Case:
    """A value moved to the nearer end where it is outside; NULL stays NULL, or is the low end."""
    if not nullable:
        reached = exp.GTE(this=value.copy(), expression=low)
        beyond = exp.GT(this=value.copy(), expression=high)
        return exp.case().when(beyond, high.copy()).when(reached, value.copy()).else_(low.copy())
    below = exp.LT(this=value.copy(), expression=low)
    above = exp.GT(this=value.copy(), expression=high)
    case = exp.case().when(below, low.copy()).when(above, high.copy())
    return case.else_(value.copy())


def _make_finite(raw: exp.Expr, ends: tuple[Scalar, Scalar] | None) -> exp.Case:
    """A real that is NULL for NaN and zero when tiny. NaN is above everything on every engine."""
    tiny = exp.Between(this=raw.copy(), low=literal(-SMALLEST), high=literal(SMALLEST))
    zero = literal(Fraction(0))
    case = exp.case()
    if ends is None:
        inside = exp.Between(this=raw.copy(), low=literal(-_LARGEST), high=literal(_LARGEST))
        return case.when(tiny, zero).when(inside, raw.copy())
    first, last = literal(ends[0]), literal(ends[1])
    infinity = exp.cast(exp.Literal.string("Infinity"), exp.DType.DOUBLE)
    case = case.when(exp.LT(this=raw.copy(), expression=first), first.copy())
    if _to_fraction(ends[0]) <= SMALLEST and _to_fraction(ends[1]) >= -SMALLEST:
        case = case.when(tiny, zero)
    case = case.when(exp.LTE(this=raw.copy(), expression=last), raw.copy())
    return case.when(exp.LTE(this=raw.copy(), expression=infinity), last.copy())


def substitute_tables(query: exp.Query, tables: Mapping[str, exp.Table]) -> exp.Query:
    """A query with the tables of these names put in place, under the aliases they had."""
    substituted = query.copy()
    for table in list(substituted.find_all(exp.Table)):
        if table.name in tables:
            replacement = tables[table.name].copy()
            alias = exp.to_identifier(table.alias_or_name, quoted=True)
            replacement.set("alias", exp.TableAlias(this=alias))
            table.replace(replacement)
    return substituted


def measure_fanouts(engine: Engine, schema: Schema) -> dict[str, int]:
    """The largest number of rows that share a value of each column, as joins compare values."""
    relation = declared_table(schema.table, PublicRows(schema), "r")
    fanout_by_column: dict[str, int] = {}
    for name, value in relation.columns.items():
        shared = exp.select(exp.alias_(exp.Count(this=exp.Star()), "shared"))
        shared = shared.from_(relation.item).where(value.sql.is_(exp.Null()).not_())
        groups = shared.group_by(value.sql).subquery("sf_groups")
        largest = exp.select(exp.alias_(exp.Max(this=exp.column("shared")), "most")).from_(groups)
        answer = engine.run(substitute_tables(largest, {schema.table: engine.table}))
        fanout_by_column[name] = max(1, answer.column(0)[0].as_py() or 0)
    return fanout_by_column
