"""CASE, IF, COALESCE, NULLIF, LEAST, GREATEST."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.expressions.comparison import ORDERED
from sfumato.query.expressions.operands import alike, bracket, demand
from sfumato.query.refusal import part
from sfumato.query.typed import Typed, common_step, repeating
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.query.expressions.operands import Rules, Value


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
    exp.Case: case,
    exp.If: choice,
    exp.Coalesce: coalesce,
    exp.Nullif: null_if,
    exp.Least: extreme,
    exp.Greatest: extreme,
}
