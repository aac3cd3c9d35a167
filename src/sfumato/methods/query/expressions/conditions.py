"""Comparisons, three-valued logic, and choices: CASE, COALESCE, LEAST, GREATEST and NULLIF.

Texts are compared for equality only: their order depends on the engine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.schema.column import Kind
from sfumato.errors import QueryError
from sfumato.methods.query.expressions.typed_values import (
    Typed,
    boolean,
    bracket,
    check_tree_size,
    common_step,
    require_kind,
    unify_kinds,
)
from sfumato.methods.query.sql.parse import quote_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.methods.query.expressions.typed_values import Rules, Value


def connective(node: exp.Expr, value: Value) -> Typed:
    """AND and OR."""
    assert isinstance(node, exp.Connector)
    left = require_kind(value(node.this), (Kind.BOOLEAN,), node.this)
    right = require_kind(value(node.expression), (Kind.BOOLEAN,), node.expression)
    tree = type(node)(this=bracket(left.sql), expression=bracket(right.sql))
    return boolean(tree, nullable=left.nullable or right.nullable, noisy=left.noisy or right.noisy)


def negation(node: exp.Expr, value: Value) -> Typed:
    """NOT."""
    operand = require_kind(value(node.this), (Kind.BOOLEAN,), node.this)
    tree = exp.Not(this=bracket(operand.sql))
    return boolean(tree, nullable=operand.nullable, noisy=operand.noisy)


def state(node: exp.Expr, value: Value) -> Typed:
    """IS NULL, IS TRUE, IS FALSE."""
    operand, state_node = value(node.this), node.expression
    if isinstance(state_node, exp.Null):
        return boolean(
            exp.Is(this=bracket(operand.sql), expression=exp.Null()),
            nullable=False,
            noisy=operand.noisy,
        )
    if isinstance(state_node, exp.Boolean):
        require_kind(operand, (Kind.BOOLEAN,), node.this)
        is_state = operand.sql if state_node.this else exp.Not(this=bracket(operand.sql))
        # IS TRUE in words that every engine knows: NULL is neither true nor false.
        tree = exp.Coalesce(this=is_state, expressions=[exp.false()])
        return boolean(tree, nullable=False, noisy=operand.noisy)
    raise QueryError(
        "expression_not_allowed",
        f"Cannot use {quote_sql(node)}. Allowed are IS NULL, IS TRUE and IS FALSE.",
    )


_WILDCARDS = 4
ORDERED = (Kind.INTEGER, Kind.REAL, Kind.DATE)


def comparison(node: exp.Expr, value: Value) -> Typed:
    """=, <>, <, <=, >, >=."""
    assert isinstance(node, exp.Binary)
    nodes = [node.this, node.expression]
    left, right = unify_kinds([value(operand) for operand in nodes], nodes)
    if not isinstance(node, exp.EQ | exp.NEQ):
        require_kind(left, ORDERED, node.this)
    tree = type(node)(
        this=bracket(_unclamped_column(left, right)),
        expression=bracket(_unclamped_column(right, left)),
    )
    return boolean(tree, nullable=left.nullable or right.nullable, noisy=left.noisy or right.noisy)


def _unclamped_column(value: Typed, constant: Typed) -> exp.Expr:
    """A column before it was clamped, where that compares alike: engines can then skip rows.

    Where no NULL is declared, only what was clamped is sure to be none.
    """
    if value.direct is None or value.kind is Kind.REAL or constant.values is None:
        return value.sql
    if not value.nullable:
        return value.sql
    if not value.bounded or constant.low is None or constant.low != constant.high:
        return value.sql
    low, high = value.ends
    # Inside the bounds clamping changes no comparison: both sides of an end stay on their side.
    return value.direct.raw.copy() if low < constant.low < high else value.sql


def between(node: exp.Expr, value: Value) -> Typed:
    """x BETWEEN low AND high."""
    assert isinstance(node, exp.Between)
    nodes = [node.this, node.args["low"], node.args["high"]]
    operands = unify_kinds([value(operand) for operand in nodes], nodes)
    require_kind(operands[0], ORDERED, node.this)
    subject, low, high = (bracket(operand.sql) for operand in operands)
    return boolean(
        exp.Between(this=subject, low=low, high=high),
        nullable=any(operand.nullable for operand in operands),
        noisy=any(operand.noisy for operand in operands),
    )


def membership(node: exp.Expr, value: Value) -> Typed:
    """x IN (a, b, ...), a list that is written out."""
    if node.args.get("query"):
        raise QueryError(
            "subquery_not_allowed",
            f"Cannot use {quote_sql(node)} here. IN (SELECT ...) must be a condition of its own in "
            "WHERE, joined by AND.",
        )
    nodes = [node.this, *node.expressions]
    if any(
        not isinstance(entry.unnest(), exp.Literal | exp.Boolean | exp.Neg) for entry in nodes[1:]
    ):
        raise QueryError(
            "literal_invalid",
            f"Cannot use {quote_sql(node)}: the list of IN must hold plain values.",
        )
    operand, *listed = unify_kinds([value(entry) for entry in nodes], nodes)
    tree = exp.In(this=bracket(operand.sql), expressions=[value.sql for value in listed])
    return boolean(tree, nullable=operand.nullable, noisy=operand.noisy)


def pattern(node: exp.Expr, value: Value) -> Typed:
    """x LIKE 'abc%'."""
    operand = require_kind(value(node.this), (Kind.TEXT,), node.this)
    pattern_node = node.expression
    if not isinstance(pattern_node, exp.Literal) or not pattern_node.is_string:
        raise QueryError("literal_invalid", f"Cannot use {quote_sql(node)}: write the pattern out.")
    # Each % may backtrack over the whole text: the time of a match must not depend on a person's
    # value.
    if "\\" in pattern_node.name or pattern_node.name.count("%") > _WILDCARDS:
        raise QueryError(
            "expression_not_allowed",
            f"Cannot use the pattern {quote_sql(pattern_node)}: at most {_WILDCARDS} signs % and "
            "no backslash are allowed.",
        )
    tree = exp.Like(this=bracket(operand.sql), expression=pattern_node.copy())
    return boolean(tree, nullable=operand.nullable)


def case(node: exp.Expr, value: Value) -> Typed:
    """CASE WHEN ... and CASE x WHEN ...."""
    subject = node.args.get("this")
    conditions = []
    for branch in node.args["ifs"]:
        condition = branch.this
        if subject is not None:
            condition = exp.EQ(this=subject.copy(), expression=condition.copy())
        conditions.append(condition)
    results = [branch.args["true"] for branch in node.args["ifs"]]
    return _choose(node, conditions, [*results, node.args.get("default")], value)


def choice(node: exp.Expr, value: Value) -> Typed:
    """IF(condition, x, y)."""
    results = [node.args["true"], node.args.get("false")]
    return _choose(node, [node.this], results, value)


def _choose(
    node: exp.Expr,
    conditions: Sequence[exp.Expr],
    results: Sequence[exp.Expr | None],
    value: Value,
) -> Typed:
    """The first result whose condition holds, the last one where none does."""
    condition_values = [
        require_kind(value(condition), (Kind.BOOLEAN,), condition) for condition in conditions
    ]
    present = [(index, result) for index, result in enumerate(results) if not _is_null(result)]
    nodes = [result for _, result in present if result is not None]
    if not nodes:
        raise QueryError(
            "expression_not_allowed", f"{quote_sql(node)} is always NULL. Give it a value."
        )
    values = unify_kinds([value(result) for result in nodes], nodes)
    by_index = {index: typed for (index, _), typed in zip(present, values, strict=True)}
    tree = exp.Case(ifs=[])
    for index, condition in enumerate(condition_values):
        tree = tree.when(condition.sql, _sql(by_index.get(index)), copy=False)
    default = by_index.get(len(condition_values))
    if default is not None:
        tree = tree.else_(default.sql, copy=False)
    nullable = len(values) < len(results) or any(value.nullable for value in values)
    return hull(tree, values, nullable=nullable)


def _is_null(node: exp.Expr | None) -> bool:
    return node is None or isinstance(node.unnest(), exp.Null)


def _sql(value: Typed | None) -> exp.Expr:
    return exp.Null() if value is None else value.sql


def hull(tree: exp.Expr, values: Sequence[Typed], *, nullable: bool) -> Typed:
    """What is known of a value that is one of several."""
    first = values[0]
    lows = [value.low for value in values]
    highs = [value.high for value in values]
    listed: tuple[object, ...] = ()
    known = all(value.values is not None for value in values)
    for value in values:
        listed += tuple(entry for entry in value.values or () if entry not in listed)
    return Typed(
        tree,
        first.kind,
        nullable,
        min((low for low in lows if low is not None), default=None) if None not in lows else None,
        max((h for h in highs if h is not None), default=None) if None not in highs else None,
        common_step(values) if first.kind in (Kind.INTEGER, Kind.DATE) else 1,
        min(value.least for value in values),
        listed if known else None,  # type: ignore[arg-type]  # each entry is a scalar
        _longest_length(values),
        noisy=any(value.noisy for value in values),
    )


def _longest_length(values: Sequence[Typed]) -> int | None:
    """The length of whatever is one of several texts."""
    lengths = [value.length for value in values if value.length is not None]
    return max(lengths) if len(lengths) == len(values) else None


def coalesce(node: exp.Expr, value: Value) -> Typed:
    """COALESCE(x, y, ...): the first that is not NULL."""
    nodes = [argument for argument in (node.this, *node.expressions) if not _is_null(argument)]
    if not nodes:
        raise QueryError(
            "expression_not_allowed", f"{quote_sql(node)} is always NULL. Give it a value."
        )
    values = unify_kinds([value(argument) for argument in nodes], nodes)
    tree = exp.Coalesce(this=values[0].sql, expressions=[value.sql for value in values[1:]])
    return hull(tree, values, nullable=all(value.nullable for value in values))


def null_if(node: exp.Expr, value: Value) -> Typed:
    """NULLIF(x, y): NULL where they are equal."""
    nodes = [node.this, node.expression]
    left, right = unify_kinds([value(operand) for operand in nodes], nodes)
    tree = exp.Nullif(this=left.sql, expression=right.sql)
    return replace(left, tree=tree, nullable=True, direct=None, unit=False)


def extreme(node: exp.Expr, value: Value) -> Typed:
    """LEAST and GREATEST; NULL where any argument is."""
    assert isinstance(node, exp.Least | exp.Greatest)
    nodes = [node.this, *node.expressions]
    values = unify_kinds([value(argument) for argument in nodes], nodes)
    require_kind(values[0], ORDERED, node.this)
    pick = min if isinstance(node, exp.Least) else max
    lows = [value.low for value in values if value.low is not None]
    highs = [value.high for value in values if value.high is not None]
    # The least is below every upper end that is known, but above all lower ends only if all are.
    sure_low = isinstance(node, exp.Greatest) or len(lows) == len(values)
    sure_high = isinstance(node, exp.Least) or len(highs) == len(values)
    tree: exp.Expr = type(node)(
        this=values[0].sql, expressions=[value.sql for value in values[1:]], ignore_nulls=True
    )
    open_ended = [value for value in values if value.nullable]
    if open_ended:
        # Every engine leaves NULL out of LEAST, which would turn a missing value into a bound.
        missing = [exp.Is(this=bracket(value.sql), expression=exp.Null()) for value in open_ended]
        tree = check_tree_size(exp.case().when(exp.or_(*missing), exp.Null()).else_(tree), node)
    return Typed(
        tree,
        values[0].kind,
        bool(open_ended),
        pick(lows) if lows and sure_low else None,
        pick(highs) if highs and sure_high else None,
        common_step(values) if values[0].kind is not Kind.REAL else 1,
        min(value.least for value in values),
        length=_longest_length(values),
        noisy=any(value.noisy for value in values),
    )


RULES: Rules = {
    exp.And: connective,
    exp.Or: connective,
    exp.Not: negation,
    exp.Is: state,
    exp.EQ: comparison,
    exp.NEQ: comparison,
    exp.LT: comparison,
    exp.LTE: comparison,
    exp.GT: comparison,
    exp.GTE: comparison,
    exp.Between: between,
    exp.In: membership,
    exp.Like: pattern,
    exp.Case: case,
    exp.If: choice,
    exp.Coalesce: coalesce,
    exp.Nullif: null_if,
    exp.Least: extreme,
    exp.Greatest: extreme,
}
