"""Group keys: declared ones, all of which are answered, or observed ones."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from sfumato.axes import Axis, Grid, Listed
from sfumato.engines.kinds import STORED
from sfumato.errors import QueryError
from sfumato.query.arguments import place
from sfumato.query.expressions.operands import bracket, demand_text
from sfumato.query.plan import Key
from sfumato.query.refusal import part
from sfumato.query.typed import Typed, date_of, literal
from sfumato.schema.column import Kind
from sfumato.schema.domain import Bounds

if TYPE_CHECKING:
    from sfumato.schema.domain import Scalar

LIMIT = 1_000_000
"""A key with more declared values than this is observed instead."""


@dataclass(frozen=True)
class PlannedKey:
    """A key, the SQL that fills its column, and the SQL that shows it in the answer."""

    key: Key
    tree: exp.Expr
    shown: exp.Expr


def planned_key(value: Typed, node: exp.Expr, column: str, name: str) -> PlannedKey:
    """Plan one key of GROUP BY."""
    noisy: exp.Expr = exp.column(exp.to_identifier(name, quoted=True))
    if value.kind is Kind.TEXT:
        value = demand_text(value, node)
    bounds = value.direct and value.direct.column.domain
    if value.kind is Kind.REAL and not (value.values and value.direct):
        return _real_key(value, node, column, name, noisy)
    if value.values is not None and len(value.values) <= LIMIT:
        axis: Axis | None = _listed(column, value)
        # Cutting the text of every row would cost more than counting them: groups are looked at.
        uncut = value.kind is Kind.TEXT and value.direct is not None
        tree = value.direct.raw.copy() if uncut and value.direct else value.sql
        return PlannedKey(Key(column, name, value.kind, axis), tree, noisy)
    if isinstance(bounds, Bounds) and (bounds.size or LIMIT + 1) <= LIMIT:
        axis = Grid(column, value.kind, bounds, value.nullable)
        tree = _with_missing(place(value, bounds), axis)
        return PlannedKey(Key(column, name, value.kind, axis), tree, noisy)
    if value.bounded and value.direct is None and value.kind in (Kind.INTEGER, Kind.DATE):
        derived = _derived_bounds(value)
        if (derived.size or LIMIT + 1) <= LIMIT:
            axis = Grid(column, value.kind, derived, value.nullable)
            tree = _with_missing(place(value, derived), axis)
            return PlannedKey(Key(column, name, value.kind, axis), tree, noisy)
    return PlannedKey(Key(column, name, value.kind, None), value.sql, noisy)


def _listed(column: str, value: Typed) -> Listed:
    """An axis of values that are written out."""
    given: list[Scalar | float | None] = list(value.values or ())
    if value.kind is Kind.REAL:
        given = [float(one) for one in given if isinstance(one, Decimal)]
    if value.nullable:
        given.append(None)
    return Listed(column, pa.array(given, type=STORED[value.kind]), declared=True)


def _derived_bounds(value: Typed) -> Bounds:
    (low, high), step = value.ends, value.step or 1
    high -= (high - low) % step
    if value.kind is Kind.DATE:
        return Bounds(date_of(low), date_of(high), step)
    return Bounds(int(low), int(high), step)


def _with_missing(code: exp.Expr, axis: Grid) -> exp.Expr:
    """A code in which NULL has its own place behind all others."""
    if not axis.nullable:
        return code
    return exp.Coalesce(this=code, expressions=[literal(axis.points)])


def _real_key(value: Typed, node: exp.Expr, column: str, name: str, noisy: exp.Expr) -> PlannedKey:
    """A real with a declared step: grouped by whole numbers, shown as reals."""
    bounds = value.direct and value.direct.column.domain
    if not isinstance(bounds, Bounds) or bounds.step is None or (bounds.size or 0) > LIMIT:
        raise QueryError(
            "key_is_real",
            f"Cannot group by {part(node)}: reals have too many values. Round it to whole numbers "
            "with FLOOR(x / width) * width, or declare a step for the column.",
        )
    points = bounds.size
    assert points is not None
    axis = Grid(column, Kind.INTEGER, Bounds(0, points - 1), value.nullable)
    tree = _with_missing(place(value, bounds), axis)
    scaled = exp.Mul(
        this=exp.cast(noisy, exp.DType.DOUBLE), expression=literal(Fraction(Decimal(bounds.step)))
    )
    shown = exp.Add(this=bracket(scaled), expression=literal(bounds.low))
    return PlannedKey(Key(column, name, Kind.INTEGER, axis), tree, shown)
