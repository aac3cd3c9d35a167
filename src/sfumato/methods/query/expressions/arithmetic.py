"""+, -, *, /, DIV and % on bounded numbers: no overflow, no underflow, and x / 0 is NULL.

The exact result of two doubles inside exact bounds, rounded to a double, lies inside the rounded
bounds, because rounding is monotone.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, trunc
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.schema.column import Kind
from sfumato.errors import QueryError
from sfumato.methods.query.expressions.date_functions import date_sum, shift_date
from sfumato.methods.query.expressions.typed_values import (
    Typed,
    as_real,
    bracket,
    compile_number,
    fits_integer,
    integer,
    literal,
    real,
    released_number,
    require_kind,
    require_number,
)
from sfumato.methods.query.sql.parse import quote_sql

if TYPE_CHECKING:
    from sfumato.methods.query.expressions.typed_values import Rules, Value

_ULP = Fraction(1, 2**53)


def addition(node: exp.Expr, value: Value) -> Typed:
    """x + y and x - y, also of dates and days."""
    assert isinstance(node, exp.Add | exp.Sub)
    if isinstance(node.expression, exp.Interval):
        return shift_date(node, value(node.this))
    left, right = value(node.this), value(node.expression)
    if Kind.DATE in (left.kind, right.kind):
        return date_sum(node, left, right)
    left, right = require_number(left, node.this), require_number(right, node.expression)
    if left.noisy or right.noisy:
        return _released(type(node), left, right)
    whole_numbers = left.kind is right.kind is Kind.INTEGER
    if not whole_numbers:
        left, right = as_real(left), as_real(right)
    # Interval arithmetic with exact fractions: [a, b] + [c, d] = [a + c, b + d].
    (a, b), (c, d) = left.ends, right.ends
    ends = (a + c, b + d) if isinstance(node, exp.Add) else (a - d, b - c)
    tree, nullable = _tree(type(node), left, right), left.nullable or right.nullable
    if whole_numbers:
        return _integer(node, tree, ends, nullable, gcd(left.step, right.step))
    # x + y of doubles is a multiple of the smaller unit in the last place, or zero.
    least = min(left.least, right.least) * _ULP
    return real(tree, *ends, nullable=nullable, least=least)


def product(node: exp.Expr, value: Value) -> Typed:
    """x * y."""
    left, right = compile_number(node.this, value), compile_number(node.expression, value)
    if left.noisy or right.noisy:
        return _released(exp.Mul, left, right)
    whole_numbers = left.kind is right.kind is Kind.INTEGER
    if not whole_numbers:
        left, right = as_real(left), as_real(right)
    # A product is extreme at a corner of the box of its factors.
    corners = [a * b for a in left.ends for b in right.ends]
    ends = min(corners), max(corners)
    tree, nullable = _tree(exp.Mul, left, right), left.nullable or right.nullable
    if not whole_numbers:
        return real(tree, *ends, nullable=nullable, least=left.least * right.least)
    # A constant times multiples of a step gives multiples of the product; two variables may give
    # any.
    step = 1
    for factor, cofactor in ((left, right), (right, left)):
        if factor.step == 0:
            step = abs(int(factor.ends[0])) * cofactor.step
    return _integer(node, tree, ends, nullable, step)


def quotient(node: exp.Expr, value: Value) -> Typed:
    """x / y as reals; NULL where y is 0."""
    left, right = as_real(compile_number(node.this, value)), compile_number(node.expression, value)
    is_integer, right = right.kind is Kind.INTEGER, as_real(right)
    divisor = exp.Nullif(this=right.sql, expression=literal(Fraction(0)))
    if left.noisy or right.noisy:
        return released_number(exp.Div(this=bracket(left.sql), expression=divisor), nullable=True)
    low, high = right.ends
    zero = low <= 0 <= high
    tree = exp.Div(this=bracket(left.sql), expression=divisor if zero else bracket(right.sql))
    nullable = left.nullable or right.nullable or zero
    nearest_to_zero = Fraction(1) if is_integer else right.least
    if low == high == 0:
        return real(tree, Fraction(0), Fraction(0), nullable=True, least=left.least)
    least = left.least / right.largest
    # A real divisor may come as near to zero as it likes, so the quotient has no bound.
    if zero and not is_integer:
        return real(tree, None, None, nullable=nullable, least=least)
    # The quotient is extreme at an end of the divisor or at the value nearest to zero on either
    # side.
    divisors = [
        end for end in (low, high, -nearest_to_zero, nearest_to_zero) if end and low <= end <= high
    ]
    corners = [a / b for a in left.ends for b in divisors]
    return real(tree, min(corners), max(corners), nullable=nullable, least=least)


def whole_quotient(node: exp.Expr, value: Value) -> Typed:
    """x DIV y of integers, towards zero; NULL where y is 0."""
    left, right = _integers(node, value)
    tree = exp.IntDiv(this=bracket(left.sql), expression=_nonzero(right))
    nullable = left.nullable or right.nullable or right.ends[0] <= 0 <= right.ends[1]
    return _integer(node, tree, _whole_quotients(left, right), nullable, 1)


def remainder(node: exp.Expr, value: Value) -> Typed:
    """x % y of integers, with the sign of x; NULL where y is 0."""
    left, right = _integers(node, value)
    if not fits_integer(Fraction(0), _whole_quotients(left, right)[1]):
        raise _overflow(node)  # engines divide first, and fail where the quotient is 2^63
    tree = exp.Mod(this=bracket(left.sql), expression=_nonzero(right))
    largest = min(left.largest, max(right.largest - 1, Fraction(0)))
    low, high = left.ends
    ends = (Fraction(0) if low >= 0 else -largest, Fraction(0) if high <= 0 else largest)
    nullable = left.nullable or right.nullable or right.ends[0] <= 0 <= right.ends[1]
    return _integer(node, tree, ends, nullable, 1)


def opposite(node: exp.Expr, value: Value) -> Typed:
    """-x."""
    operand = compile_number(node.this, value)
    tree = exp.Neg(this=bracket(operand.sql))
    if operand.noisy:
        return released_number(tree, nullable=operand.nullable)
    low, high = operand.ends
    if operand.kind is Kind.REAL:
        return real(tree, -high, -low, nullable=operand.nullable, least=operand.least)
    return _integer(node, tree, (-high, -low), operand.nullable, operand.step)


def _integers(node: exp.Expr, value: Value) -> tuple[Typed, Typed]:
    left = require_kind(compile_number(node.this, value), (Kind.INTEGER,), node.this)
    right = require_kind(compile_number(node.expression, value), (Kind.INTEGER,), node.expression)
    if left.noisy or right.noisy:
        raise QueryError(
            "expression_not_allowed",
            f"Cannot use {quote_sql(node)} on released figures. Write FLOOR(x / y) instead.",
        )
    return left, right


def _whole_quotients(left: Typed, right: Typed) -> tuple[Fraction, Fraction]:
    """The least and largest x DIV y: an end of x by an end of y, or by -1 or 1."""
    low, high = right.ends
    divisors = [
        divisor
        for divisor in (low, high, Fraction(-1), Fraction(1))
        if divisor and low <= divisor <= high
    ]
    corners = [Fraction(trunc(end / divisor)) for end in left.ends for divisor in divisors]
    return min(corners, default=Fraction(0)), max(corners, default=Fraction(0))


def _nonzero(divisor: Typed) -> exp.Expr:
    return exp.Nullif(this=divisor.sql, expression=literal(0))


def _tree(operation: type[exp.Binary], left: Typed, right: Typed) -> exp.Expr:
    return operation(this=bracket(left.sql), expression=bracket(right.sql))


def _released(operation: type[exp.Binary], left: Typed, right: Typed) -> Typed:
    tree = _tree(operation, as_real(left), as_real(right))
    return released_number(tree, nullable=left.nullable or right.nullable)


def _integer(
    node: exp.Expr, tree: exp.Expr, ends: tuple[Fraction, Fraction], nullable: bool, step: int
) -> Typed:
    """An integer whose every value fits 64 bits, or a refusal."""
    if not fits_integer(*ends):
        raise _overflow(node)
    return integer(tree, *ends, nullable=nullable, step=step or 1)


def _overflow(node: exp.Expr) -> QueryError:
    return QueryError(
        "overflow_possible",
        f"Cannot compute {quote_sql(node)}: by the declared bounds it may leave the integers of 64 "
        "bits. Declare narrower bounds, or write CAST(x AS DOUBLE).",
    )


RULES: Rules = {
    exp.Add: addition,
    exp.Sub: addition,
    exp.Mul: product,
    exp.Div: quotient,
    exp.IntDiv: whole_quotient,
    exp.Mod: remainder,
    exp.Neg: opposite,
}
