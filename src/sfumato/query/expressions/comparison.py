"""Comparisons. Texts are compared for equality only: their order depends on the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.expressions.operands import alike, bracket, demand
from sfumato.query.refusal import part
from sfumato.query.typed import Typed, boolean
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    from sfumato.query.expressions.operands import Rules, Value

_WILDCARDS = 4
ORDERED = (Kind.INTEGER, Kind.REAL, Kind.DATE)


def comparison(node: exp.Expr, value: Value) -> Typed:
    """=, <>, <, <=, >, >=."""
    assert isinstance(node, exp.Binary)
    nodes = [node.this, node.expression]
    left, right = alike([value(one) for one in nodes], nodes)
    if not isinstance(node, exp.EQ | exp.NEQ):
        demand(left, ORDERED, node.this)
    tree = type(node)(this=bracket(_plain(left, right)), expression=bracket(_plain(right, left)))
    return boolean(tree, nullable=left.nullable or right.nullable, noisy=left.noisy or right.noisy)


def _plain(value: Typed, other: Typed) -> exp.Expr:
    """A column before it was clamped, where that compares alike: engines can then skip rows.

    Where no NULL is declared, only what was clamped is sure to be none.
    """
    if value.direct is None or value.kind is Kind.REAL or other.values is None:
        return value.sql
    if not value.nullable:
        return value.sql
    if not value.bounded or other.low is None or other.low != other.high:
        return value.sql
    low, high = value.ends
    return value.direct.raw.copy() if low < other.low < high else value.sql


def between(node: exp.Expr, value: Value) -> Typed:
    """x BETWEEN low AND high."""
    assert isinstance(node, exp.Between)
    nodes = [node.this, node.args["low"], node.args["high"]]
    operands = alike([value(one) for one in nodes], nodes)
    demand(operands[0], ORDERED, node.this)
    this, low, high = (bracket(one.sql) for one in operands)
    return boolean(
        exp.Between(this=this, low=low, high=high),
        nullable=any(one.nullable for one in operands),
        noisy=any(one.noisy for one in operands),
    )


def membership(node: exp.Expr, value: Value) -> Typed:
    """x IN (a, b, ...), a list that is written out."""
    if node.args.get("query"):
        raise QueryError(
            "subquery_misplaced",
            f"Cannot use {part(node)} here. IN (SELECT ...) must be a condition of its own in "
            "WHERE, joined by AND.",
        )
    nodes = [node.this, *node.expressions]
    if any(not isinstance(one.unnest(), exp.Literal | exp.Boolean | exp.Neg) for one in nodes[1:]):
        raise QueryError(
            "literal_needed", f"Cannot use {part(node)}: the list of IN must hold plain values."
        )
    operand, *listed = alike([value(one) for one in nodes], nodes)
    tree = exp.In(this=bracket(operand.sql), expressions=[one.sql for one in listed])
    return boolean(tree, nullable=operand.nullable, noisy=operand.noisy)


def pattern(node: exp.Expr, value: Value) -> Typed:
    """x LIKE 'abc%'."""
    operand = demand(value(node.this), (Kind.TEXT,), node.this)
    wanted = node.expression
    if not isinstance(wanted, exp.Literal) or not wanted.is_string:
        raise QueryError("literal_needed", f"Cannot use {part(node)}: write the pattern out.")
    if "\\" in wanted.name or wanted.name.count("%") > _WILDCARDS:
        raise QueryError(
            "pattern_not_allowed",
            f"Cannot use the pattern {part(wanted)}: at most {_WILDCARDS} signs % and no "
            "backslash are allowed.",
        )
    tree = exp.Like(this=bracket(operand.sql), expression=wanted.copy())
    return boolean(tree, nullable=operand.nullable)


RULES: Rules = {
    exp.EQ: comparison,
    exp.NEQ: comparison,
    exp.LT: comparison,
    exp.LTE: comparison,
    exp.GT: comparison,
    exp.GTE: comparison,
    exp.Between: between,
    exp.In: membership,
    exp.Like: pattern,
}
