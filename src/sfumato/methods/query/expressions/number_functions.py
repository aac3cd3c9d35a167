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
    check_tree_size,
    compile_number,
    integer,
    integer_literal,
    literal,
    real,
    released_number,
    require_kind,
)
from sfumato.methods.query.sql.parse import quote_sql

if TYPE_CHECKING:
    from sfumato.methods.query.expressions.typed_values import Rules, Value

_LARGEST_INTEGER = Fraction(2) ** 62
_SLACK = Fraction(1, 2**50)
"""Libraries compute logarithms and powers to a few units in the last place, not exactly."""


def magnitude(node: exp.Expr, value: Value) -> Typed:
    """ABS(x)."""
    operand = compile_number(node.this, value)
    tree = exp.Abs(this=operand.sql)
    if operand.noisy:
        return released_number(tree, nullable=operand.nullable)
    low, high = operand.ends
    nearest = Fraction(0) if low <= 0 <= high else min(abs(low), abs(high))
    if operand.kind is Kind.INTEGER:
        return integer(tree, nearest, operand.largest, nullable=operand.nullable)
    return real(tree, nearest, operand.largest, nullable=operand.nullable, least=operand.least)


def sign(node: exp.Expr, value: Value) -> Typed:
    """SIGN(x): -1, 0 or 1."""
    operand = compile_number(node.this, value)
    zero = literal(0) if operand.kind is Kind.INTEGER else literal(Fraction(0))
    case = exp.case()
    for compare, result in ((exp.LT, -1), (exp.EQ, 0), (exp.GT, 1)):
        case = case.when(compare(this=bracket(operand.sql), expression=zero), literal(result))
    tree = check_tree_size(case, node)
    return integer(tree, -1, 1, nullable=operand.nullable)


def floor(node: exp.Expr, value: Value) -> Typed:
    """FLOOR(x) and CEIL(x), which are integers."""
    assert isinstance(node, exp.Floor | exp.Ceil)
    operand = compile_number(node.this, value)
    if operand.kind is Kind.INTEGER:
        return operand
    low, high = operand.ends if operand.bounded else (None, None)
    rounded = math.floor if isinstance(node, exp.Floor) else math.ceil
    ends = (None, None) if low is None or high is None else (rounded(low), rounded(high))
    return _to_integer(node, type(node)(this=operand.sql), operand, ends)


def rounding(node: exp.Expr, value: Value) -> Typed:
    """ROUND(x) to the nearest integer and ROUND(x, n) to n decimals; halves go up."""
    operand = compile_number(node.this, value)
    decimals = node.args.get("decimals")
    decimal_count = (
        integer_literal(decimals, range(10), "The number of decimals") if decimals else 0
    )
    if operand.kind is Kind.INTEGER and not operand.noisy:
        return operand
    return round_to(node, as_real(operand), decimal_count)


def round_to(node: exp.Expr, operand: Typed, decimal_count: int) -> Typed:
    """A real rounded to some decimals; to none it is an integer."""
    factor = literal(Fraction(10**decimal_count))
    inner = bracket(operand.sql)
    scaled = exp.Mul(this=inner, expression=factor) if decimal_count else inner
    tree = exp.Floor(this=exp.Add(this=scaled, expression=literal(Fraction(1, 2))))
    ends: tuple[int | None, int | None] = (None, None)
    if operand.bounded:
        low, high = (math.floor(end * 10**decimal_count + Fraction(1, 2)) for end in operand.ends)
        margin = bool(decimal_count)  # the product may have been rounded across a half
        ends = (low - margin, high + margin)
    rounded = _to_integer(node, tree, operand, ends)
    if not decimal_count:
        return rounded
    back = exp.Div(this=exp.cast(rounded.sql, exp.DType.DOUBLE), expression=factor.copy())
    if rounded.noisy:
        return released_number(back, nullable=rounded.nullable)
    low_end, high_end = (end / 10**decimal_count for end in rounded.ends)
    least = Fraction(1, 10**decimal_count)
    return real(back, low_end, high_end, nullable=rounded.nullable, least=least)


def _to_integer(
    node: exp.Expr, tree: exp.Expr, operand: Typed, ends: tuple[int | None, int | None]
) -> Typed:
    """A whole-valued double as an integer."""
    if operand.noisy:
        return released_number(tree, nullable=operand.nullable)
    low, high = ends
    if low is None or high is None or max(abs(low), abs(high)) > _LARGEST_INTEGER:
        raise QueryError(
            "overflow_possible",
            f"Cannot compute {quote_sql(node)}: by the declared bounds it may leave the integers "
            "of 64 bits. Declare narrower bounds.",
        )
    return integer(exp.cast(tree, exp.DType.BIGINT), low, high, nullable=operand.nullable)


def root(node: exp.Expr, value: Value) -> Typed:
    """SQRT(x); NULL where x is negative."""
    operand = as_real(compile_number(node.this, value))
    low = None if operand.noisy else operand.ends[0]
    argument = operand.sql
    if low is None or low < 0:
        inside = exp.GTE(this=bracket(operand.sql), expression=literal(Fraction(0)))
        argument = check_tree_size(exp.case().when(inside, operand.sql), node)
    tree = exp.Sqrt(this=argument)
    if low is None:
        return released_number(tree, nullable=True)
    # IEEE 754 rounds square roots correctly, so engines and Python agree to the last bit.
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
                f"Cannot use {quote_sql(node)}: engines differ in its base. Write LN(x) or "
                "LOG10(x).",
            )
        base = integer_literal(node.this, range(2, 101), "The base of a logarithm")
    operand = as_real(compile_number(argument, value))
    zero = literal(Fraction(0))
    positive = exp.Nullif(
        this=exp.Greatest(this=operand.sql, expressions=[zero], ignore_nulls=True),
        expression=zero.copy(),
    )
    tree: exp.Expr = exp.Ln(this=positive)
    if base != math.e:
        tree = exp.Div(this=tree, expression=literal(Fraction(math.log(base))))
    if operand.noisy:
        return released_number(tree, nullable=True)
    low, high = (
        Fraction(math.log(max(end, operand.least)) / math.log(base)) for end in operand.ends
    )
    slack = (abs(low) + abs(high) + 1) * _SLACK
    nullable = operand.nullable or operand.ends[0] <= 0
    return real(tree, low - slack, high + slack, nullable=nullable, least=Fraction(1, 10**20))


def exponential(node: exp.Expr, value: Value) -> Typed:
    """EXP(x); NULL where x is beyond 200 in magnitude."""
    operand = as_real(compile_number(node.this, value))
    # exp(200) is about 7e86, within the range that every engine computes in; exp(-200) likewise.
    limit = Fraction(200)
    argument = operand.sql
    within = not operand.noisy and operand.largest <= limit
    if not within:
        ends = {"low": literal(-limit), "high": literal(limit)}
        inside = exp.Between(this=bracket(operand.sql), **ends)
        argument = check_tree_size(exp.case().when(inside, operand.sql), node)
    tree = exp.Exp(this=argument)
    if operand.noisy:
        return released_number(tree, nullable=True)
    low, high = (Fraction(math.exp(min(max(end, -limit), limit))) for end in operand.ends)
    nullable = operand.nullable or not within
    padded_ends = (low * (1 - _SLACK), high * (1 + _SLACK))
    return real(tree, *padded_ends, nullable=nullable, least=padded_ends[0])


def power(node: exp.Expr, value: Value) -> Typed:
    """POWER(x, n) with a whole n from 0 to 8."""
    operand = as_real(compile_number(node.this, value))
    exponent = integer_literal(node.expression, range(9), "The exponent")
    tree = exp.Pow(this=operand.sql, expression=literal(Fraction(exponent)))
    if operand.noisy:
        return released_number(tree, nullable=operand.nullable)
    corners = [end**exponent for end in operand.ends]
    low, high = min(corners), max(corners)
    if exponent and exponent % 2 == 0 and operand.ends[0] <= 0 <= operand.ends[1]:
        # An even power is least at zero, if zero is in the range.
        low = Fraction(0)
    low, high = low - abs(low) * _SLACK, high + abs(high) * _SLACK
    least = operand.least**exponent * (1 - _SLACK)
    return real(tree, low, high, nullable=operand.nullable, least=least)


def bucket(node: exp.Expr, value: Value) -> Typed:
    """WIDTH_BUCKET(x, low, high, n): 1 to n, 0 below and n + 1 above."""
    operand = as_real(compile_number(node.this, value))
    low, high = (
        require_kind(value(node.args[name]), (Kind.INTEGER, Kind.REAL), node)
        for name in ("min_value", "max_value")
    )
    bucket_count = integer_literal(
        node.args["num_buckets"], range(1, 10_001), "The number of buckets"
    )
    if low.values is None or high.values is None or low.ends[0] >= high.ends[0]:
        raise QueryError(
            "literal_invalid",
            f"Cannot use {quote_sql(node)}: write its ends out, the lower one first.",
        )
    first, last = low.ends[0], high.ends[0]
    inner = bracket(operand.sql)
    position = exp.Div(
        this=exp.Paren(this=exp.Sub(this=inner, expression=literal(first))),
        expression=literal((last - first) / bucket_count),
    )
    floored = exp.cast(exp.Floor(this=position), exp.DType.BIGINT)
    case = exp.case().when(exp.LT(this=inner.copy(), expression=literal(first)), literal(0))
    case = case.when(
        exp.GTE(this=inner.copy(), expression=literal(last)), literal(bucket_count + 1)
    )
    # Rounding may put a value just below `high` into bucket n + 1.
    inside = exp.Least(this=floored, expressions=[literal(bucket_count - 1)], ignore_nulls=True)
    case = case.when(
        exp.GTE(this=inner.copy(), expression=literal(first)),
        exp.Add(this=inside, expression=literal(1)),
    )
    return integer(check_tree_size(case, node), 0, bucket_count + 1, nullable=operand.nullable)


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
