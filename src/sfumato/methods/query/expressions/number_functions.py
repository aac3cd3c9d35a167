"""Functions of numbers. Where a function has no value it is NULL."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.schema.column import Kind
from sfumato.errors import QueryError
from sfumato.methods.query.expressions.typed_values import (
    Typed,
    as_real,
    bracket,
    demand,
    integer,
    literal,
    number,
    real,
    released,
    repeating,
    whole_literal,
)
from sfumato.methods.query.sql.parse import part

if TYPE_CHECKING:
    from sfumato.methods.query.expressions.typed_values import Rules, Value

_WHOLE = Fraction(2) ** 62
_SLACK = Fraction(1, 2**50)
"""Libraries compute logarithms and powers to a few units in the last place, not exactly."""


def magnitude(node: exp.Expr, value: Value) -> Typed:
    """ABS(x)."""
    operand = number(node.this, value)
    tree = exp.Abs(this=operand.sql)
    if operand.noisy:
        return released(tree, nullable=operand.nullable)
    low, high = operand.ends
    nearest = Fraction(0) if low <= 0 <= high else min(abs(low), abs(high))
    if operand.kind is Kind.INTEGER:
        return integer(tree, nearest, operand.largest, nullable=operand.nullable)
    return real(tree, nearest, operand.largest, nullable=operand.nullable, least=operand.least)


def sign(node: exp.Expr, value: Value) -> Typed:
    """SIGN(x): -1, 0 or 1."""
    operand = number(node.this, value)
    zero = literal(0) if operand.kind is Kind.INTEGER else literal(Fraction(0))
    case = exp.case()
    for compare, result in ((exp.LT, -1), (exp.EQ, 0), (exp.GT, 1)):
        case = case.when(compare(this=bracket(operand.sql), expression=zero), literal(result))
    tree = repeating(case, node)
    return integer(tree, -1, 1, nullable=operand.nullable)


def floor(node: exp.Expr, value: Value) -> Typed:
    """FLOOR(x) and CEIL(x), which are integers."""
    assert isinstance(node, exp.Floor | exp.Ceil)
    operand = number(node.this, value)
    if operand.kind is Kind.INTEGER:
        return operand
    low, high = operand.ends if operand.bounded else (None, None)
    rounded = math.floor if isinstance(node, exp.Floor) else math.ceil
    ends = (None, None) if low is None or high is None else (rounded(low), rounded(high))
    return _whole(node, type(node)(this=operand.sql), operand, ends)


def rounding(node: exp.Expr, value: Value) -> Typed:
    """ROUND(x) to the nearest integer and ROUND(x, n) to n decimals; halves go up."""
    operand = number(node.this, value)
    decimals = node.args.get("decimals")
    places = whole_literal(decimals, range(10), "The number of decimals") if decimals else 0
    if operand.kind is Kind.INTEGER and not operand.noisy:
        return operand
    return rounded_to(node, as_real(operand), places)


def rounded_to(node: exp.Expr, operand: Typed, places: int) -> Typed:
    """A real rounded to some decimals; to none it is an integer."""
    factor = literal(Fraction(10**places))
    inner = bracket(operand.sql)
    scaled = exp.Mul(this=inner, expression=factor) if places else inner
    tree = exp.Floor(this=exp.Add(this=scaled, expression=literal(Fraction(1, 2))))
    ends: tuple[int | None, int | None] = (None, None)
    if operand.bounded:
        low, high = (math.floor(end * 10**places + Fraction(1, 2)) for end in operand.ends)
        margin = bool(places)  # the product may have been rounded across a half
        ends = (low - margin, high + margin)
    whole = _whole(node, tree, operand, ends)
    if not places:
        return whole
    back = exp.Div(this=exp.cast(whole.sql, exp.DType.DOUBLE), expression=factor.copy())
    if whole.noisy:
        return released(back, nullable=whole.nullable)
    low_end, high_end = (end / 10**places for end in whole.ends)
    least = Fraction(1, 10**places)
    return real(back, low_end, high_end, nullable=whole.nullable, least=least)


def _whole(
    node: exp.Expr, tree: exp.Expr, operand: Typed, ends: tuple[int | None, int | None]
) -> Typed:
    """A whole-valued double as an integer."""
    if operand.noisy:
        return released(tree, nullable=operand.nullable)
    low, high = ends
    if low is None or high is None or max(abs(low), abs(high)) > _WHOLE:
        raise QueryError(
            "overflow_possible",
            f"Cannot compute {part(node)}: by the declared bounds it may leave the integers of 64 "
            "bits. Declare narrower bounds.",
        )
    return integer(exp.cast(tree, exp.DType.BIGINT), low, high, nullable=operand.nullable)


def root(node: exp.Expr, value: Value) -> Typed:
    """SQRT(x); NULL where x is negative."""
    operand = as_real(number(node.this, value))
    low = None if operand.noisy else operand.ends[0]
    argument = operand.sql
    if low is None or low < 0:
        inside = exp.GTE(this=bracket(operand.sql), expression=literal(Fraction(0)))
        argument = repeating(exp.case().when(inside, operand.sql), node)
    tree = exp.Sqrt(this=argument)
    if low is None:
        return released(tree, nullable=True)
    ends = (Fraction(math.sqrt(max(end, Fraction(0)))) for end in operand.ends)
    return real(tree, *ends, nullable=operand.nullable or low < 0, least=operand.least)


def logarithm(node: exp.Expr, value: Value) -> Typed:
    """LN(x), LOG(2, x) and LOG10(x); NULL where x is not positive."""
    base, argument = math.e, node.this
    if isinstance(node, exp.Log):
        argument = node.args.get("expression")
        if argument is None:
            raise QueryError(
                "expression_not_allowed",
                f"Cannot use {part(node)}: engines differ in its base. Write LN(x) or LOG10(x).",
            )
        base = whole_literal(node.this, range(2, 101), "The base of a logarithm")
    operand = as_real(number(argument, value))
    zero = literal(Fraction(0))
    positive = exp.Nullif(
        this=exp.Greatest(this=operand.sql, expressions=[zero], ignore_nulls=True),
        expression=zero.copy(),
    )
    tree: exp.Expr = exp.Ln(this=positive)
    if base != math.e:
        tree = exp.Div(this=tree, expression=literal(Fraction(math.log(base))))
    if operand.noisy:
        return released(tree, nullable=True)
    low, high = (
        Fraction(math.log(max(end, operand.least)) / math.log(base)) for end in operand.ends
    )
    slack = (abs(low) + abs(high) + 1) * _SLACK
    nullable = operand.nullable or operand.ends[0] <= 0
    return real(tree, low - slack, high + slack, nullable=nullable, least=Fraction(1, 10**20))


def exponential(node: exp.Expr, value: Value) -> Typed:
    """EXP(x); NULL where x is beyond 200 in magnitude."""
    operand = as_real(number(node.this, value))
    limit = Fraction(200)
    argument = operand.sql
    within = not operand.noisy and operand.largest <= limit
    if not within:
        ends = {"low": literal(-limit), "high": literal(limit)}
        inside = exp.Between(this=bracket(operand.sql), **ends)
        argument = repeating(exp.case().when(inside, operand.sql), node)
    tree = exp.Exp(this=argument)
    if operand.noisy:
        return released(tree, nullable=True)
    low, high = (Fraction(math.exp(min(max(end, -limit), limit))) for end in operand.ends)
    nullable = operand.nullable or not within
    ends_ = (low * (1 - _SLACK), high * (1 + _SLACK))
    return real(tree, *ends_, nullable=nullable, least=ends_[0])


def power(node: exp.Expr, value: Value) -> Typed:
    """POWER(x, n) with a whole n from 0 to 8."""
    operand = as_real(number(node.this, value))
    exponent = whole_literal(node.expression, range(9), "The exponent")
    tree = exp.Pow(this=operand.sql, expression=literal(Fraction(exponent)))
    if operand.noisy:
        return released(tree, nullable=operand.nullable)
    corners = [end**exponent for end in operand.ends]
    low, high = min(corners), max(corners)
    if exponent and exponent % 2 == 0 and operand.ends[0] <= 0 <= operand.ends[1]:
        low = Fraction(0)
    low, high = low - abs(low) * _SLACK, high + abs(high) * _SLACK
    least = operand.least**exponent * (1 - _SLACK)
    return real(tree, low, high, nullable=operand.nullable, least=least)


def bucket(node: exp.Expr, value: Value) -> Typed:
    """WIDTH_BUCKET(x, low, high, n): 1 to n, 0 below and n + 1 above."""
    operand = as_real(number(node.this, value))
    low, high = (
        demand(value(node.args[name]), (Kind.INTEGER, Kind.REAL), node)
        for name in ("min_value", "max_value")
    )
    many = whole_literal(node.args["num_buckets"], range(1, 10_001), "The number of buckets")
    if low.values is None or high.values is None or low.ends[0] >= high.ends[0]:
        raise QueryError(
            "literal_invalid", f"Cannot use {part(node)}: write its ends out, the lower one first."
        )
    first, last = low.ends[0], high.ends[0]
    inner = bracket(operand.sql)
    place = exp.Div(
        this=exp.Paren(this=exp.Sub(this=inner, expression=literal(first))),
        expression=literal((last - first) / many),
    )
    floored = exp.cast(exp.Floor(this=place), exp.DType.BIGINT)
    case = exp.case().when(exp.LT(this=inner.copy(), expression=literal(first)), literal(0))
    case = case.when(exp.GTE(this=inner.copy(), expression=literal(last)), literal(many + 1))
    inside = exp.Least(this=floored, expressions=[literal(many - 1)], ignore_nulls=True)
    case = case.when(
        exp.GTE(this=inner.copy(), expression=literal(first)),
        exp.Add(this=inside, expression=literal(1)),
    )
    return integer(repeating(case, node), 0, many + 1, nullable=operand.nullable)


RULES: Rules = {
    exp.Abs: magnitude,
    exp.Sign: sign,
    exp.Floor: floor,
    exp.Ceil: floor,
    exp.Round: rounding,
    exp.Sqrt: root,
    exp.Ln: logarithm,
    exp.Log: logarithm,
    exp.Exp: exponential,
    exp.Pow: power,
    exp.WidthBucket: bucket,
}
