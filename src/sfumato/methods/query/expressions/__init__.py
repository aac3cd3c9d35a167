"""Expressions over one row: an allow-list with the same meaning on every engine.

Each rule turns a node of the question into a value that is total. What no rule knows is refused.
Decision `total-expressions`.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from sfumato.data.schema.domain import check_value
from sfumato.errors import QueryError, SchemaError
from sfumato.methods.query.expressions import (
    arithmetic,
    conditions,
    date_functions,
    number_functions,
    text_functions,
)
from sfumato.methods.query.expressions.typed_values import constant
from sfumato.methods.query.sql.parse import check_modifiers, quote_sql

if TYPE_CHECKING:
    from sfumato.methods.query.expressions.typed_values import Rules, Typed, Value


class Scope(Protocol):
    """Where names get their meaning."""

    def resolve(self, node: exp.Expr) -> Typed | None:
        """What this scope itself knows about a node: its columns, for one."""
        ...


def literal_value(node: exp.Expr, _value: Value) -> Typed:
    """A number or a text."""
    assert isinstance(node, exp.Literal)
    if node.is_string:
        return constant(node.name)
    try:
        parsed: int | Decimal = (
            int(node.name) if node.name.isascii() and node.name.isdigit() else Decimal(node.name)
        )
        check_value(parsed, "Number")
    except (InvalidOperation, ValueError, SchemaError):
        raise QueryError(
            "literal_invalid",
            f"Cannot use the number {quote_sql(node)}: allowed are whole numbers of 64 bits and "
            "decimals with at most 15 digits before the point and 12 after it.",
        ) from None
    return constant(parsed)


def boolean_value(node: exp.Expr, _value: Value) -> Typed:
    """TRUE or FALSE."""
    assert isinstance(node, exp.Boolean)
    return constant(bool(node.this))


def bracketed_value(node: exp.Expr, value: Value) -> Typed:
    """The value in brackets."""
    return value(node.this)


RULES: Rules = {
    exp.Literal: literal_value,
    exp.Boolean: boolean_value,
    exp.Paren: bracketed_value,
    **conditions.RULES,
    **arithmetic.RULES,
    **number_functions.RULES,
    **text_functions.RULES,
    **date_functions.RULES,
}

_ALTERNATIVES: dict[type[exp.Expr], str] = {
    exp.BitwiseXor: "Write POWER(x, n) for powers",
    exp.Concat: "Write a || b to join texts",
    exp.ILike: "Write LOWER(x) LIKE '...'",
    exp.Window: "Windows see other people's rows; the one allowed stands above the aggregates, as "
    "in SELECT COUNT(*) / SUM(COUNT(*)) OVER () for shares of a total",
    exp.Null: "Write x IS NULL to ask for missing values",
    exp.Subquery: "A subquery must stand alone on one side of a comparison, or in IN or EXISTS",
    exp.Exists: "EXISTS must be a condition of its own in WHERE, joined by AND",
    exp.AnyValue: "Ask for an aggregate such as COUNT, SUM, AVG or MEDIAN",
}


_ALLOWED = {"this", "expression", "expressions"}
_MODIFIERS: dict[type[exp.Expr], set[str]] = {
    exp.Literal: {"is_string"},
    exp.Case: {"ifs", "default"},
    exp.If: {"true", "false"},
    exp.Between: {"low", "high"},
    exp.In: {"query"},
    exp.Round: {"decimals"},
    exp.Substring: {"start", "length"},
    exp.Cast: {"to"},
    exp.TryCast: {"to", "safe"},
    exp.DateTrunc: {"unit"},
    exp.TimestampTrunc: {"unit"},
    exp.DateDiff: {"unit"},
    exp.DPipe: {"safe"},
    exp.Least: {"ignore_nulls"},
    exp.Greatest: {"ignore_nulls"},
    exp.WidthBucket: {"min_value", "max_value", "num_buckets"},
}


def compile_value(node: exp.Expr | None, scope: Scope) -> Typed:
    """Give a node its meaning, or refuse it."""
    if node is None:
        raise QueryError("sql_syntax", "A function or operator lacks an argument. Add it.")
    # The scope first: a key of GROUP BY or an aggregate is known as a whole, whatever it is made
    # of.
    resolved = scope.resolve(node)
    if resolved is not None:
        return resolved
    rule = RULES.get(type(node))
    if rule is not None:
        # A modifier that a rule does not know could change the meaning on one engine and not on
        # another.
        check_modifiers(node, _ALLOWED | _MODIFIERS.get(type(node), set()))
        return rule(node, lambda child: compile_value(child, scope))
    if isinstance(node, exp.AggFunc):
        raise QueryError(
            "aggregate_not_allowed",
            f"Cannot use the aggregate {quote_sql(node)} here. Aggregates stand in SELECT, HAVING "
            "or ORDER BY, not inside WHERE, GROUP BY or other aggregates.",
        )
    alternative = _ALTERNATIVES.get(type(node), "The reference of SQL lists what is allowed")
    raise QueryError(
        "expression_not_allowed",
        f"Cannot use {quote_sql(node)}: it is not on the list of expressions that are safe and "
        f"mean the same on every engine. {alternative}.",
    )
