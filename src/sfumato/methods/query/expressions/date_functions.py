"""Dates: parts of them, beginnings of periods, distances in days."""

from __future__ import annotations

from datetime import date, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.schema.column import Kind
from sfumato.errors import QueryError
from sfumato.methods.query.expressions.typed_values import (
    FIRST_DAY,
    LAST_DAY,
    Typed,
    date_literal,
    date_of,
    day,
    days_of,
    integer,
    integer_literal,
    require_kind,
)
from sfumato.methods.query.sql.parse import quote_sql

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.methods.query.expressions.typed_values import Rules, Value

_PERIODS = 10_000
"""The most starts of periods that are listed as declared values."""

_FIELDS: dict[str, tuple[int, int]] = {
    "YEAR": (1, 9999),
    "QUARTER": (1, 4),
    "MONTH": (1, 12),
    "DAY": (1, 31),
    "DOY": (1, 366),
    "ISODOW": (1, 7),
}
_DAYS = {"DAY": 1, "WEEK": 7}

_STARTS: dict[str, Callable[[date], date]] = {
    "YEAR": lambda date_: date_.replace(month=1, day=1),
    "QUARTER": lambda date_: date_.replace(month=date_.month - (date_.month - 1) % 3, day=1),
    "MONTH": lambda date_: date_.replace(day=1),
    "WEEK": lambda date_: date_ - timedelta(days=date_.weekday()),
}
_LENGTHS = {"YEAR": 366, "QUARTER": 92, "MONTH": 31, "WEEK": 7}


def extraction(node: exp.Expr, value: Value) -> Typed:
    """EXTRACT(part FROM date)."""
    return _extract(
        node, node.name.upper(), require_kind(value(node.expression), (Kind.DATE,), node)
    )


def named_field(node: exp.Expr, value: Value) -> Typed:
    """YEAR(date) and its like."""
    return _extract(
        node, _NAMED_FIELDS[type(node)], require_kind(value(node.this), (Kind.DATE,), node.this)
    )


def _extract(node: exp.Expr, name: str, operand: Typed) -> Typed:
    if name not in _FIELDS:
        raise QueryError(
            "expression_not_allowed",
            f"Cannot take {quote_sql(node)}; allowed are {', '.join(_FIELDS)}.",
        )
    low, high = _FIELDS[name]
    if name == "YEAR" and operand.bounded:
        low, high = (date_of(end).year for end in operand.ends)
    tree: exp.Expr = exp.Extract(this=exp.var(name), expression=operand.sql)
    if name == "ISODOW":
        # Engines number and name the days of the week differently; 1970-01-05 was a Monday.
        distance = exp.Paren(this=_days_between(operand.sql, exp.convert("1969-12-29")))
        # Adding 7 before the second remainder: the first one is negative for days before the
        # epoch.
        monday_first = exp.Paren(this=distance % 7 + 7)
        tree = exp.Paren(this=monday_first % 7) + 1
    return integer(exp.cast(tree, exp.DType.BIGINT), low, high, nullable=operand.nullable)


def truncation(node: exp.Expr, value: Value) -> Typed:
    """DATE_TRUNC('month', date): the first day of the period."""
    operand = require_kind(value(node.this), (Kind.DATE,), node.this)
    unit = node.text("unit").upper()
    # WEEK(MONDAY) of some dialects; weeks begin on Monday here in any case.
    unit = unit.split("(")[0]
    if unit == "DAY":
        return operand
    if unit not in _STARTS:
        raise QueryError(
            "expression_not_allowed",
            f"Cannot use {quote_sql(node)}; allowed are 'day', {', '.join(map(repr, _names()))}.",
        )
    tree = exp.cast(
        exp.TimestampTrunc(this=exp.cast(operand.sql, exp.DType.TIMESTAMP), unit=exp.var(unit)),
        "DATE",
    )
    low, high = (_STARTS[unit](date_of(end)) for end in operand.ends)
    values = _starts(unit, low, high)
    return Typed(
        tree,
        Kind.DATE,
        operand.nullable,
        Fraction(days_of(low)),
        Fraction(days_of(high)),
        values=values,
    )


def _names() -> list[str]:
    return [name.lower() for name in _STARTS]


def _starts(unit: str, low: date, high: date) -> tuple[date, ...] | None:
    """Every beginning of a period between two, unless there are too many."""
    if (high - low).days // _LENGTHS[unit] > _PERIODS:
        return None
    starts = [low]
    while starts[-1] < high:
        # A start plus the longest length lies in the next period, whose start is taken.
        starts.append(_STARTS[unit](starts[-1] + timedelta(days=_LENGTHS[unit])))
    return tuple(starts)


def difference(node: exp.Expr, value: Value) -> Typed:
    """DATEDIFF(later, earlier), in days."""
    if node.text("unit").upper() not in {"", "DAY"}:
        raise QueryError(
            "expression_not_allowed",
            f"Cannot use {quote_sql(node)}; write DATEDIFF(later, earlier) or later - earlier for "
            "days.",
        )
    later = require_kind(value(node.this), (Kind.DATE,), node.this)
    return _distance(later, require_kind(value(node.expression), (Kind.DATE,), node.expression))


def date_sum(node: exp.Expr, left: Typed, right: Typed) -> Typed:
    """Date - date in days; dates are shifted by intervals."""
    if isinstance(node, exp.Sub) and isinstance(node.expression, exp.Literal):
        right = right if right.kind is not Kind.TEXT else date_literal(node.expression)
    if isinstance(node, exp.Sub) and left.kind is right.kind is Kind.DATE:
        return _distance(left, right)
    raise QueryError(
        "kind_mismatch",
        f"Cannot compute {quote_sql(node)}. Write date - date for days between, or "
        "date + INTERVAL '7' DAY.",
    )


def shift_date(node: exp.Expr, operand: Typed) -> Typed:
    """Date + INTERVAL 'n' DAY."""
    assert isinstance(node, exp.Add | exp.Sub)
    require_kind(operand, (Kind.DATE,), node.this)
    interval = node.expression
    count = exp.Literal.number(interval.this.name if interval.this else "")
    unit = interval.text("unit").upper()
    if unit not in _DAYS:
        raise QueryError(
            "expression_not_allowed",
            f"Cannot shift by {quote_sql(interval)}; allowed are DAY and WEEK.",
        )
    days = _DAYS[unit] * integer_literal(count, range(100_000), "The length of an interval")
    ends = [end + (days if isinstance(node, exp.Add) else -days) for end in operand.ends]
    if not FIRST_DAY <= ends[0] <= ends[1] <= LAST_DAY:
        raise QueryError(
            "overflow_possible",
            f"Cannot compute {quote_sql(node)}: it may leave the years 1 to 9999. Declare bounds "
            "for the date.",
        )
    span = exp.Interval(this=exp.Literal.string(str(days)), unit=exp.var("DAY"))
    tree = exp.cast(type(node)(this=operand.sql, expression=span), exp.DType.DATE)
    return day(tree, *ends, nullable=operand.nullable, step=operand.step)


def _distance(later: Typed, earlier: Typed) -> Typed:
    tree = _days_between(later.sql, earlier.sql)
    (a, b), (c, d) = later.ends, earlier.ends
    return integer(tree, a - d, b - c, nullable=later.nullable or earlier.nullable)


def _days_between(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    if isinstance(earlier, exp.Literal):
        earlier = exp.cast(earlier, exp.DType.DATE)
    return exp.cast(
        exp.DateDiff(this=later, expression=earlier, unit=exp.var("DAY")), exp.DType.BIGINT
    )


def day_number(operand: Typed) -> exp.Expr:
    """A date as the number of its day, as SQL."""
    return _days_between(operand.sql, exp.convert("1970-01-01"))


_NAMED_FIELDS: dict[type[exp.Expr], str] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.DayOfYear: "DOY",
    exp.DayOfWeekIso: "ISODOW",
}

RULES: Rules = {
    exp.Extract: extraction,
    exp.DateTrunc: truncation,
    exp.TimestampTrunc: truncation,
    exp.DateDiff: difference,
    **dict.fromkeys(_NAMED_FIELDS, named_field),
}
