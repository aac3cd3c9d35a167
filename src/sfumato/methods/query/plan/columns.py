"""The columns of a plan: arguments as integers within public bounds, and the keys of groups.

Decisions `group-keys` and `integer-ranges`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import floor, gcd
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from sfumato.data.counting.axes import Axis, Grid, Listed, nearest_point
from sfumato.data.engines.kinds import STORED
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.toml_document import add_line
from sfumato.errors import QueryError
from sfumato.methods.query.expressions.date_functions import day_number
from sfumato.methods.query.expressions.typed_values import (
    Typed,
    as_integer,
    bounds_advice,
    bracket,
    date_of,
    days_of,
    literal,
    require_kind,
    require_text,
)
from sfumato.methods.query.plan import Argument, Function, Key
from sfumato.methods.query.sql.parse import quote_sql
from sfumato.privacy.mechanisms.quantile import LARGEST_SIZE

if TYPE_CHECKING:
    from datetime import date

    from sfumato.data.schema.domain import Scalar

_POINTS = {
    Function.SUM: 2**30,
    Function.AVERAGE: 2**30,
    Function.VARIANCE: 2**16,
    Function.STDDEV: 2**16,
    Function.QUANTILE: 2**14,
    Function.COUNT_DISTINCT: 2**30,
}
"""The most steps of a real without a declared step, so that sums of squares fit 64 bits."""

_EXACT_INTEGERS = 2**52
_SUMMED = {Function.SUM, Function.AVERAGE}
_LARGEST = 10**18
_DATED = {Function.QUANTILE, Function.COUNT_DISTINCT}


def plan_argument(
    function: Function, value: Typed, node: exp.Expr, column: str
) -> tuple[Argument, exp.Expr]:
    """The argument of an aggregate and the SQL that fills its column."""
    value = as_integer(value)
    kinds = [Kind.INTEGER, Kind.REAL]
    if function in _DATED:
        kinds.append(Kind.DATE)
    if function is Function.COUNT_DISTINCT and value.kind is Kind.TEXT:
        return Argument(column, 0, 0, Fraction(1), Kind.TEXT, value.nullable), value.sql
    require_kind(value, kinds, node)
    if function is Function.COUNT_DISTINCT and value.kind is Kind.INTEGER and not value.bounded:
        return Argument(column, 0, 0, Fraction(1), value.kind, value.nullable), value.sql
    # Sensitivity: without public bounds one person could move the aggregate by any amount.
    if not value.bounded:
        raise QueryError(
            "bounds_missing",
            f"Cannot aggregate {quote_sql(node)}: no bounds of it are declared or follow from "
            "declared "
            f"ones, so what one person adds has no limit. {bounds_advice(value)}, or write "
            "LEAST(GREATEST(x, low), high).",
        )
    tree, low, high, step = _on_grid(function, value)
    if function is Function.QUANTILE and high - low >= LARGEST_SIZE:
        raise QueryError(
            "overflow_possible",
            f"Cannot rank {quote_sql(node)}: by the declared bounds it has more than 2^63 - 1 "
            "values. "
            "Declare narrower bounds or a coarser step, or write LEAST(GREATEST(x, low), high).",
        )
    # Terms beyond 10^18 do not fit the decimals in which engines sum.
    if function in _SUMMED and max(-low, high) > _LARGEST:
        raise QueryError(
            "overflow_possible",
            f"Cannot sum {quote_sql(node)}: by the declared bounds it may reach beyond 1e18. "
            "Declare narrower bounds, or write CAST(x AS DOUBLE).",
        )
    return Argument(column, low, high, step, value.kind, value.nullable), tree


def _on_grid(function: Function, value: Typed) -> tuple[exp.Expr, int, int, Fraction]:
    """A value in steps: those that are declared, or fine ones."""
    bounds = value.direct and value.direct.column.domain
    if isinstance(bounds, Bounds) and _is_grid(bounds):
        return _on_declared_grid(value, bounds)
    if value.kind is not Kind.REAL:
        low, high = (int(end) for end in value.ends)
        tree = value.sql if value.kind is Kind.INTEGER else day_number(value)
        return tree, low, high, Fraction(1)
    first, last = value.ends
    # A sum needs fine steps near zero; an average or quantile only within the declared range.
    reach = value.largest if function is Function.SUM else last - first
    step = fine_step(max(reach, Fraction(1, 10**12)), value.largest, _POINTS[function])
    low, high = (floor(end / step + Fraction(1, 2)) for end in (first, last))
    if value.direct is not None and step <= 1:
        return _clamp_and_count(value.direct.raw, value, low, high, step), low, high, step
    return _clamp_steps(nearest_step(value, step), value, low, high), low, high, step


def _clamp_and_count(raw: exp.Expr, value: Typed, low: int, high: int, step: Fraction) -> exp.Expr:
    """Clamp a column and count it in steps at once. NaN is above infinity, hence missing."""
    first, last = (literal(end) for end in value.ends)
    infinity = exp.cast(exp.Literal.string("Infinity"), exp.DType.DOUBLE)
    # NULL meets no branch and stays NULL; NaN is above infinity on every engine and meets none
    # either.
    case = exp.case().when(exp.LTE(this=raw.copy(), expression=first), literal(low))
    inside = nearest_step(replace(value, tree=raw), step)
    case = case.when(exp.LT(this=raw.copy(), expression=last), inside)
    case = case.when(exp.LTE(this=raw.copy(), expression=infinity), literal(high))
    return case if value.nullable else case.else_(literal(low))


def fine_step(reach: Fraction, largest: Fraction, points: int) -> Fraction:
    """A power of two that divides a reach into at most `points` steps, and no number into more
    than 2^52."""
    step = Fraction(1)
    # A power of two: dividing a double by it is exact, so every engine finds the same step.
    while reach / step > points or largest / step > _EXACT_INTEGERS:
        step *= 2
    while reach / step <= Fraction(points, 2) and 2 * largest / step <= _EXACT_INTEGERS:
        step /= 2
    return step


def _clamp_steps(tree: exp.Expr, value: Typed, low: int, high: int) -> exp.Expr:
    """Steps held inside their bounds without trust in how doubles were rounded."""
    inside = exp.Least(
        this=exp.Greatest(this=tree, expressions=[literal(low)], ignore_nulls=True),
        expressions=[literal(high)],
        ignore_nulls=True,
    )
    if not value.nullable:
        return inside
    return (
        exp.case()
        .when(exp.Is(this=bracket(value.sql), expression=exp.Null()), exp.Null())
        .else_(inside)
    )


def nearest_step(value: Typed, step: Fraction) -> exp.Expr:
    """A real as the nearest whole number of steps."""
    position: exp.Expr = exp.Div(this=bracket(value.sql), expression=literal(step))
    return exp.cast(exp.Floor(this=position + literal(Fraction(1, 2))), exp.DType.BIGINT)


def _on_declared_grid(value: Typed, bounds: Bounds) -> tuple[exp.Expr, int, int, Fraction]:
    """A column on its declared grid, counted in steps that reach zero and the grid alike.

    *Range*: the places i are counted from the first point that is not negative, at r of so many
    steps, 0 <= r < factor. Then i factor is at least 0 or, but for the lowest point, at least low;
    the lowest is written out. So only the ends have to fit 64 bits, and not their distance.
    """
    first, width = exact_value(bounds.low), exact_value(bounds.grid_step or 1)
    step = _common_step(first, width)
    offset, factor = int(first / step), int(width / step)
    points = bounds.size
    assert points is not None
    zero = min(max(-(offset // factor), 0), points - 1)
    tree = lowest = grid_position(value, bounds)
    if zero:
        tree = exp.Paren(this=exp.Sub(this=bracket(tree), expression=literal(zero)))
    if factor != 1:
        tree = exp.Mul(this=bracket(tree), expression=literal(factor))
    remainder = offset + zero * factor
    if remainder:
        tree = exp.Add(this=bracket(tree), expression=literal(remainder))
    if remainder and zero:
        is_lowest = exp.EQ(this=bracket(lowest.copy()), expression=literal(0))
        tree = exp.case().when(is_lowest, literal(offset)).else_(tree)
    return tree, offset, offset + factor * (points - 1), step


def grid_position(value: Typed, bounds: Bounds) -> exp.Expr:
    """The number of the grid point nearest to a clamped value, the upper one of two."""
    step = bounds.grid_step
    assert step is not None
    if value.kind is Kind.REAL:
        points = bounds.size
        assert points is not None
        distance = exp.Paren(this=exp.Sub(this=bracket(value.sql), expression=literal(bounds.low)))
        position = exp.Div(this=distance, expression=literal(Fraction(step)))
        nearest = exp.cast(exp.Floor(this=position + literal(Fraction(1, 2))), exp.DType.BIGINT)
        return _clamp_steps(nearest, value, 0, points - 1)
    tree = day_number(value) if value.kind is Kind.DATE else value.sql
    return nearest_point(bracket(tree), int(exact_value(bounds.low)), int(step))


def exact_value(end: int | Decimal | date) -> Fraction:
    """A declared number, or a date as its day's number, exactly."""
    return Fraction(end) if isinstance(end, int | Decimal) else Fraction(days_of(end))


def _is_grid(bounds: Bounds) -> bool:
    """Whether a step is declared, other than 1; of reals, one that doubles can tell apart."""
    if bounds.step is None or bounds.step == 1 or not isinstance(bounds.low, Decimal):
        return bounds.step not in (None, 1)
    finest = _common_step(exact_value(bounds.low), exact_value(bounds.step))
    return (
        max(abs(exact_value(end)) for end in (bounds.low, bounds.high)) <= _EXACT_INTEGERS * finest
    )


def _common_step(first: Fraction, width: Fraction) -> Fraction:
    """The largest step of which both are multiples."""
    below = first.denominator * width.denominator // gcd(first.denominator, width.denominator)
    return Fraction(gcd(int(first * below), int(width * below)), below)


DECLARED_VALUES_LIMIT = 1_000_000
"""A key with more declared values than this is observed instead."""


@dataclass(frozen=True)
class PlannedKey:
    """A key, the SQL that fills its column, and the SQL that shows it in the answer."""

    key: Key
    tree: exp.Expr
    shown: exp.Expr


def plan_key(value: Typed, node: exp.Expr, column: str, name: str) -> PlannedKey:
    """Plan one key of GROUP BY."""
    noisy: exp.Expr = exp.column(exp.to_identifier(name, quoted=True))
    if value.kind is Kind.TEXT:
        value = require_text(value, node)
    if value.kind is Kind.REAL and not (value.values and value.direct):
        return _real_key(value, node, column, name, noisy)
    axis: Axis | None = None
    tree = value.sql
    if value.values is not None and len(value.values) <= DECLARED_VALUES_LIMIT:
        axis = _listed_axis(column, value)
        # Undeclared values join no group, instead of being moved to the nearest declared one.
        if value.direct is not None and isinstance(value.direct.column.public_domain, Values):
            tree = _unclamped(value.direct.raw, value.kind)
    elif (bounds := _key_bounds(value)) is not None and (
        bounds.size or DECLARED_VALUES_LIMIT + 1
    ) <= DECLARED_VALUES_LIMIT:
        axis = Grid(column, value.kind, bounds, value.nullable)
        tree = _with_missing(grid_position(value, bounds), axis)
    return PlannedKey(Key(column, name, value.kind, axis, value.length), tree, noisy)


def _unclamped(raw: exp.Expr, kind: Kind) -> exp.Expr:
    """The value to look up in a list: unclamped, since values that are not listed are in no group.

    Texts are not cut either, as that would cost more in every row than a look at the groups.
    """
    if kind is not Kind.REAL:
        return raw.copy()
    return exp.Nullif(this=raw.copy(), expression=exp.cast(exp.convert("NaN"), exp.DType.DOUBLE))


def _key_bounds(value: Typed) -> Bounds | None:
    """The bounds of a key: those of its column as declared, or what follows for a computed one."""
    if value.direct is not None:
        domain = value.direct.column.domain
        return domain if isinstance(domain, Bounds) else None
    if not value.bounded or value.kind not in (Kind.INTEGER, Kind.DATE):
        return None
    (low, high), step = value.ends, value.step or 1
    # The upper end moves down onto the grid: no value of the key lies beyond its last point.
    high -= (high - low) % step
    if value.kind is Kind.DATE:
        return Bounds(date_of(low), date_of(high), step)
    return Bounds(int(low), int(high), step)


def _listed_axis(column: str, value: Typed) -> Listed:
    """An axis of values that are written out."""
    entries: list[Scalar | float | None] = list(value.values or ())
    if value.kind is Kind.REAL:
        entries = [float(entry) for entry in entries if isinstance(entry, Decimal)]
    if value.nullable:
        # NULL is a group of its own: whether a value is missing is as private as the value.
        entries.append(None)
    return Listed(column, pa.array(entries, type=STORED[value.kind]), declared=True)


def _with_missing(code: exp.Expr, axis: Grid) -> exp.Expr:
    """A code in which NULL has its own place behind all others."""
    if not axis.nullable:
        return code
    return exp.Coalesce(this=code, expressions=[literal(axis.points)])


def _step_advice(value: Typed) -> str:
    """The line that would give a column steps to group by, where the value is a column."""
    if value.direct is None:
        return "Only columns with a declared step are grouped as they are."
    column = value.direct.column
    stepped = column.domain.stepped() if isinstance(column.domain, Bounds) else None
    step = float(stepped.step) if stepped and stepped.step else 0.5
    bounds = "" if isinstance(column.domain, Bounds) else "bounds = [0.0, 100.0] and "
    return f"Or declare a step. {add_line(column.name, f'{bounds}step = {step}')}"


def _real_key(value: Typed, node: exp.Expr, column: str, name: str, noisy: exp.Expr) -> PlannedKey:
    """A real with a declared step: grouped by whole numbers, shown as reals."""
    bounds = value.direct and value.direct.column.domain
    if (
        not isinstance(bounds, Bounds)
        or bounds.step is None
        or (bounds.size or 0) > DECLARED_VALUES_LIMIT
    ):
        raise QueryError(
            "column_unsuitable",
            f"Cannot group by {quote_sql(node)}: reals have too many values. Round it to whole "
            f"numbers with FLOOR(x / width) * width. {_step_advice(value)}",
        )
    points = bounds.size
    assert points is not None
    axis = Grid(column, Kind.INTEGER, Bounds(0, points - 1), value.nullable)
    tree = _with_missing(grid_position(value, bounds), axis)
    # Shown above the aggregate, from a public code: nothing here touches a row.
    scaled = exp.Mul(
        this=exp.cast(noisy, exp.DType.DOUBLE), expression=literal(Fraction(Decimal(bounds.step)))
    )
    shown = exp.Add(this=bracket(scaled), expression=literal(bounds.low))
    return PlannedKey(Key(column, name, Kind.INTEGER, axis), tree, shown)
