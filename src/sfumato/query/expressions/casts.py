"""CAST and TRY_CAST, which are the same: what cannot be converted is NULL."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.expressions.numeric import rounded_to
from sfumato.query.expressions.operands import (
    as_integer,
    as_real,
    bracket,
    demand_bounds,
    demand_text,
    written_date,
)
from sfumato.query.refusal import part
from sfumato.query.typed import Typed, boolean, integer, literal, real, repeating, text
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    from sfumato.query.expressions.operands import Rules, Value

DType = exp.DType

_KINDS = {
    **dict.fromkeys((DType.TINYINT, DType.SMALLINT, DType.INT, DType.BIGINT), Kind.INTEGER),
    **dict.fromkeys((DType.FLOAT, DType.DOUBLE), Kind.REAL),
    **dict.fromkeys((DType.TEXT, DType.VARCHAR), Kind.TEXT),
    DType.DATE: Kind.DATE,
    DType.BOOLEAN: Kind.BOOLEAN,
}
_DIGITS = "0123456789"
_INTEGER_DIGITS, _REAL_SIGNS = 18, 17
_SPELLED = 20
"""Characters of an integer of 64 bits with its sign; dates and truth values have fewer."""


def cast(node: exp.Expr, value: Value) -> Typed:
    """CAST(x AS type)."""
    wanted = _KINDS.get(node.args["to"].this)
    inner = node.this
    if wanted is None or node.args["to"].expressions:
        raise QueryError(
            "cast_not_allowed",
            f"Cannot use {part(node)}. Allowed are CAST to BIGINT, DOUBLE, TEXT, DATE and BOOLEAN.",
        )
    if wanted is Kind.DATE and isinstance(inner, exp.Literal) and inner.is_string:
        return written_date(inner)
    operand = value(inner)
    if operand.kind is wanted:
        return operand
    match operand.kind, wanted:
        case (Kind.REAL, Kind.INTEGER):
            return rounded_to(node, demand_bounds(operand, inner), 0)
        case (Kind.INTEGER, Kind.REAL):
            return as_real(demand_bounds(operand, inner))
        case (Kind.BOOLEAN, Kind.INTEGER):
            return as_integer(operand)
        case (Kind.INTEGER, Kind.BOOLEAN):
            tree = exp.NEQ(this=bracket(operand.sql), expression=literal(0))
            return boolean(tree, nullable=operand.nullable)
        case (Kind.INTEGER | Kind.DATE | Kind.BOOLEAN, Kind.TEXT):
            spelled = exp.cast(operand.sql, exp.DType.TEXT)
            return text(spelled, nullable=operand.nullable, length=_SPELLED)
        case (Kind.TEXT, Kind.INTEGER | Kind.REAL):
            return _read(node, demand_text(operand, inner), wanted)
    raise QueryError(
        "cast_not_allowed",
        f"Cannot use {part(node)}: from {operand.kind} to {wanted} engines differ. "
        "Declare the column as what it is.",
    )


def _read(node: exp.Expr, operand: Typed, wanted: Kind) -> Typed:
    """The number that a text spells: an optional sign, digits and, in reals, a point."""
    rest = exp.Substring(this=operand.sql, start=exp.convert(2), length=exp.convert(20))
    first = exp.Substring(this=operand.sql, start=exp.convert(1), length=exp.convert(1))
    strangers = ["", "."] if wanted is Kind.REAL else [""]
    longest = _REAL_SIGNS if wanted is Kind.REAL else _INTEGER_DIGITS
    spelled = exp.and_(
        exp.LTE(this=exp.Length(this=operand.sql), expression=exp.convert(longest)),
        _one_of(_without_digits(first), ["", "-"]),
        _one_of(_without_digits(rest), strangers),
        exp.NEQ(this=_without_digits(operand.sql), expression=operand.sql),
    )
    # The text is chosen inside the cast: an engine may cast a constant before it asks for CASE.
    tree = exp.cast(repeating(exp.case().when(spelled, operand.sql), node), _SQL[wanted])
    high = Fraction(10) ** longest
    if wanted is Kind.INTEGER:
        return integer(tree, -high, high, nullable=True)
    return real(tree, -high, high, nullable=True, least=1 / high)


_SQL = {Kind.INTEGER: exp.DType.BIGINT, Kind.REAL: exp.DType.DOUBLE}


def _without_digits(tree: exp.Expr) -> exp.Expr:
    return exp.Translate(this=tree, from_=exp.Literal.string(_DIGITS), to=exp.Literal.string(""))


def _one_of(tree: exp.Expr, texts: list[str]) -> exp.Expr:
    return exp.In(this=tree, expressions=[exp.Literal.string(one) for one in texts])


RULES: Rules = {exp.Cast: cast, exp.TryCast: cast}
