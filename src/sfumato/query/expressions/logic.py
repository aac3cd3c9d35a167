"""AND, OR, NOT, IS: logic with three values, alike on every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.expressions.operands import bracket, demand
from sfumato.query.refusal import part
from sfumato.query.typed import Typed, boolean
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    from sfumato.query.expressions.operands import Rules, Value


def connective(node: exp.Expr, value: Value) -> Typed:
    """AND and OR."""
    assert isinstance(node, exp.Connector)
    left = demand(value(node.this), (Kind.BOOLEAN,), node.this)
    right = demand(value(node.expression), (Kind.BOOLEAN,), node.expression)
    tree = type(node)(this=bracket(left.sql), expression=bracket(right.sql))
    return boolean(tree, nullable=left.nullable or right.nullable, noisy=left.noisy or right.noisy)


def negation(node: exp.Expr, value: Value) -> Typed:
    """NOT."""
    operand = demand(value(node.this), (Kind.BOOLEAN,), node.this)
    tree = exp.Not(this=bracket(operand.sql))
    return boolean(tree, nullable=operand.nullable, noisy=operand.noisy)


def state(node: exp.Expr, value: Value) -> Typed:
    """IS NULL, IS TRUE, IS FALSE."""
    operand, asked = value(node.this), node.expression
    if isinstance(asked, exp.Null):
        return boolean(
            exp.Is(this=bracket(operand.sql), expression=exp.Null()),
            nullable=False,
            noisy=operand.noisy,
        )
    if isinstance(asked, exp.Boolean):
        demand(operand, (Kind.BOOLEAN,), node.this)
        held = operand.sql if asked.this else exp.Not(this=bracket(operand.sql))
        tree = exp.Coalesce(this=held, expressions=[exp.false()])
        return boolean(tree, nullable=False, noisy=operand.noisy)
    raise QueryError(
        "expression_not_allowed",
        f"Cannot use {part(node)}. Allowed are IS NULL, IS TRUE and IS FALSE.",
    )


RULES: Rules = {exp.And: connective, exp.Or: connective, exp.Not: negation, exp.Is: state}
