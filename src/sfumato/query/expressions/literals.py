"""Values that are written out in the question."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError, SchemaError
from sfumato.query.refusal import part
from sfumato.query.typed import Typed, constant
from sfumato.schema.domain import check_value

if TYPE_CHECKING:
    from sfumato.query.expressions.operands import Rules, Value


def literal(node: exp.Expr, _value: Value) -> Typed:
    """A number or a text."""
    assert isinstance(node, exp.Literal)
    if node.is_string:
        return constant(node.name)
    try:
        written: int | Decimal = (
            int(node.name) if node.name.isascii() and node.name.isdigit() else Decimal(node.name)
        )
        check_value(written, "Number")
    except (InvalidOperation, ValueError, SchemaError):
        raise QueryError(
            "number_out_of_range",
            f"Cannot use the number {part(node)}: allowed are whole numbers of 64 bits and "
            "decimals with at most 15 digits before the point and 12 after it.",
        ) from None
    return constant(written)


def truth(node: exp.Expr, _value: Value) -> Typed:
    """TRUE or FALSE."""
    assert isinstance(node, exp.Boolean)
    return constant(bool(node.this))


def brackets(node: exp.Expr, value: Value) -> Typed:
    """What stands in brackets."""
    return value(node.this)


RULES: Rules = {exp.Literal: literal, exp.Boolean: truth, exp.Paren: brackets}
