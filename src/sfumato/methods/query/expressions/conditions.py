"""Comparisons, logic with three values, and choices by them: CASE, COALESCE, LEAST and their like.

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
    alike,
    boolean,
    bracket,
    common_step,
    demand,
    repeating,
)
from sfumato.methods.query.sql.parse import part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.methods.query.expressions.typed_values import Rules, Value


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
            "subquery_not_allowed",
            f"Cannot use {part(node)} here. IN (SELECT ...) must be a condition of its own in "
            "WHERE, joined by AND.",
        )
    nodes = [node.this, *node.expressions]
    if any(not isinstance(one.unnest(), exp.Literal | exp.Boolean | exp.Neg) for one in nodes[1:]):
        raise QueryError(
            "literal_invalid", f"Cannot use {part(node)}: the list of IN must hold plain values."
        )
    operand, *listed = alike([value(one) for one in nodes], nodes)
    tree = exp.In(this=bracket(operand.sql), expressions=[one.sql for one in listed])
    return boolean(tree, nullable=operand.nullable, noisy=operand.noisy)


def pattern(node: exp.Expr, value: Value) -> Typed:
    """x LIKE 'abc%'."""
    operand = demand(value(node.this), (Kind.TEXT,), node.this)
    wanted = node.expression
    if not isinstance(wanted, exp.Literal) or not wanted.is_string:
        raise QueryError("literal_invalid", f"Cannot use {part(node)}: write the pattern out.")
    if "\\" in wanted.name or wanted.name.count("%") > _WILDCARDS:
        raise QueryError(
            "expression_not_allowed",
            f"Cannot use the pattern {part(wanted)}: at most {_WILDCARDS} signs % and no "
            "backslash are allowed.",
        )
    tree = exp.Like(this=bracket(operand.sql), expression=wanted.copy())
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
    return _chosen(node, conditions, [*results, node.args.get("default")], value)


def choice(node: exp.Expr, value: Value) -> Typed:
    """IF(condition, x, y)."""
    results = [node.args["true"], node.args.get("false")]
    return _chosen(node, [node.this], results, value)


def _chosen(
    node: exp.Expr,
    conditions: Sequence[exp.Expr],
    results: Sequence[exp.Expr | None],
    value: Value,
) -> Typed:
    """The first result whose condition holds, the last one where none does."""
    held = [demand(value(one), (Kind.BOOLEAN,), one) for one in conditions]
    given = [(place, one) for place, one in enumerate(results) if not _missing(one)]
    nodes = [one for _, one in given if one is not None]
    if not nodes:
        raise QueryError("expression_not_allowed", f"{part(node)} is always NULL. Give it a value.")
    values = alike([value(one) for one in nodes], nodes)
    by_place = {place: typed for (place, _), typed in zip(given, values, strict=True)}
    tree = exp.Case(ifs=[])
    for place, condition in enumerate(held):
        tree = tree.when(condition.sql, _sql(by_place.get(place)), copy=False)
    last = by_place.get(len(held))
    if last is not None:
        tree = tree.else_(last.sql, copy=False)
    nullable = len(values) < len(results) or any(one.nullable for one in values)
    return hull(tree, values, nullable=nullable)


def _missing(node: exp.Expr | None) -> bool:
    return node is None or isinstance(node.unnest(), exp.Null)


def _sql(value: Typed | None) -> exp.Expr:
    return exp.Null() if value is None else value.sql


def hull(tree: exp.Expr, values: Sequence[Typed], *, nullable: bool) -> Typed:
    """What is known of whatever is one of several values."""
    first = values[0]
    lows = [one.low for one in values]
    highs = [one.high for one in values]
    listed: tuple[object, ...] = ()
    known = all(one.values is not None for one in values)
    for one in values:
        listed += tuple(entry for entry in one.values or () if entry not in listed)
    return Typed(
        tree,
        first.kind,
        nullable,
        min((low for low in lows if low is not None), default=None) if None not in lows else None,
        max((h for h in highs if h is not None), default=None) if None not in highs else None,
        common_step(values) if first.kind in (Kind.INTEGER, Kind.DATE) else 1,
        min(one.least for one in values),
        listed if known else None,  # type: ignore[arg-type]  # each entry is a scalar
        _longest(values),
        noisy=any(one.noisy for one in values),
    )


def _longest(values: Sequence[Typed]) -> int | None:
    """The length of whatever is one of several texts."""
    lengths = [one.length for one in values if one.length is not None]
    return max(lengths) if len(lengths) == len(values) else None


def coalesce(node: exp.Expr, value: Value) -> Typed:
    """COALESCE(x, y, ...): the first that is not NULL."""
    nodes = [one for one in (node.this, *node.expressions) if not _missing(one)]
    if not nodes:
        raise QueryError("expression_not_allowed", f"{part(node)} is always NULL. Give it a value.")
    values = alike([value(one) for one in nodes], nodes)
    tree = exp.Coalesce(this=values[0].sql, expressions=[one.sql for one in values[1:]])
    return hull(tree, values, nullable=all(one.nullable for one in values))


def null_if(node: exp.Expr, value: Value) -> Typed:
    """NULLIF(x, y): NULL where they are equal."""
    nodes = [node.this, node.expression]
    left, right = alike([value(one) for one in nodes], nodes)
    tree = exp.Nullif(this=left.sql, expression=right.sql)
    return replace(left, tree=tree, nullable=True, direct=None, unit=False)


def extreme(node: exp.Expr, value: Value) -> Typed:
    """LEAST and GREATEST; NULL where any argument is."""
    assert isinstance(node, exp.Least | exp.Greatest)
    nodes = [node.this, *node.expressions]
    values = alike([value(one) for one in nodes], nodes)
    demand(values[0], ORDERED, node.this)
    pick = min if isinstance(node, exp.Least) else max
    lows = [one.low for one in values if one.low is not None]
    highs = [one.high for one in values if one.high is not None]
    # The least is below every upper end that is known, but above all lower ends only if all are.
    sure_low = isinstance(node, exp.Greatest) or len(lows) == len(values)
    sure_high = isinstance(node, exp.Least) or len(highs) == len(values)
    tree: exp.Expr = type(node)(
        this=values[0].sql, expressions=[one.sql for one in values[1:]], ignore_nulls=True
    )
    open_ended = [one for one in values if one.nullable]
    if open_ended:
        # Every engine leaves NULL out of LEAST, which would turn a missing value into a bound.
        missing = [exp.Is(this=bracket(one.sql), expression=exp.Null()) for one in open_ended]
        tree = repeating(exp.case().when(exp.or_(*missing), exp.Null()).else_(tree), node)
    return Typed(
        tree,
        values[0].kind,
        bool(open_ended),
        pick(lows) if lows and sure_low else None,
        pick(highs) if highs and sure_high else None,
        common_step(values) if values[0].kind is not Kind.REAL else 1,
        min(one.least for one in values),
        length=_longest(values),
        noisy=any(one.noisy for one in values),
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
