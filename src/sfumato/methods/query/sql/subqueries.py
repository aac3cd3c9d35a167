"""Subqueries that aggregate rows: private ones only by person, public ones freely."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.schema.column import Kind
from sfumato.errors import QueryError
from sfumato.methods.query.expressions import compile_value
from sfumato.methods.query.expressions.conditions import ORDERED
from sfumato.methods.query.expressions.typed_values import (
    NUMBERS,
    TYPES,
    Typed,
    as_integer,
    literal,
    real,
    require_bounds,
    require_kind,
)
from sfumato.methods.query.plan.columns import fine_step, nearest_step
from sfumato.methods.query.sql.parse import check_modifiers, quote_sql
from sfumato.methods.query.sql.relation import (
    Block,
    GroupedScope,
    Relation,
    RowScope,
    add_output,
    as_subquery_column,
    column,
    has_aggregate,
    output_name,
)
from sfumato.methods.query.sql.work_limits import check_texts

if TYPE_CHECKING:
    from sfumato.methods.query.sql.select_blocks import SelectPlanner

_SUM_LIMIT = 2**62
_SUM_POINTS = 2**40
_SLACK = Fraction(1, 2**50)


def is_aggregated(select: exp.Select) -> bool:
    """Whether a SELECT groups its rows."""
    nodes = [*select.expressions, *filter(None, [select.args.get("having")])]
    return bool(select.args.get("group")) or any(has_aggregate(node) for node in nodes)


def plan_aggregated(planner: SelectPlanner, select: exp.Select, block: Block) -> Relation:
    """Plan a subquery with GROUP BY; of private rows the person must be among its keys."""
    keys = [compile_value(node, block.scope) for node in _plain_keys(select)]
    person = _check_person(select, block, keys)
    alias = planner.alias()
    aggregates: list[exp.Expr] = []

    def aggregate(node: exp.Expr) -> Typed:
        value = _aggregate(node, block.scope, grouped=bool(keys))
        if value.tree not in aggregates:
            aggregates.append(value.tree)
        return replace(value, tree=column(alias, f"a{aggregates.index(value.tree)}"))

    pairs = [(key, as_subquery_column(key, alias, f"k{index}")) for index, key in enumerate(keys)]
    scope = GroupedScope(block.scope, pairs, aggregate)
    values: dict[str, Typed] = {}
    for index, node in enumerate(select.expressions):
        value = compile_value(node.unalias(), scope)
        add_output(values, output_name(node, index), value, node)
    having = select.args.get("having")
    condition = having and require_kind(
        compile_value(having.this, scope), (Kind.BOOLEAN,), having.this
    )
    grouped = replace(
        block.relation,
        item=_group_rows(block.query, keys, aggregates).subquery(
            exp.to_identifier(alias, quoted=True), copy=False
        ),
        person=None if person is None else column(alias, f"k{person}"),
        rows_per_person=1 if all(key.unit for key in keys) else block.relation.rows_per_person,
    )
    outer = exp.select().from_(grouped.item)
    if condition:
        outer = outer.where(condition.sql)
    check_texts(values.values())
    relation = planner.as_subquery(Block(RowScope(()), outer, grouped), values)
    shown = {value.tree: name for name, value in values.items()}
    if not all(outside.tree in shown for _, outside in pairs):
        return relation
    # By construction one row for each combination of keys, so a join on them multiplies nothing.
    unique = frozenset(shown[outside.tree] for _, outside in pairs)
    return replace(relation, keys={unique: 1}, keys_hold=True)


def _check_person(select: exp.Select, block: Block, keys: list[Typed]) -> int | None:
    """The place of the person among the keys; None for public rows."""
    owner = block.relation.owner
    if owner is None:
        return None
    # Grouping by the person keeps the invariant that a row depends on one person.
    person = next((index for index, key in enumerate(keys) if key.unit), None)
    if person is None:
        name = f"{owner.unit.column!r}" if owner.unit.by_person else "an entity column"
        raise QueryError(
            "aggregate_not_allowed",
            f"Cannot aggregate in {quote_sql(select)}: its rows would mix people. Put the privacy "
            f"unit, {name}, into its GROUP BY, or aggregate only at the outermost level.",
        )
    return person


def _group_rows(query: exp.Select, keys: list[Typed], aggregates: list[exp.Expr]) -> exp.Select:
    """Rows grouped by keys, under names of our own."""
    for index, key in enumerate(keys):
        tree = key.sql
        if isinstance(tree, exp.Literal | exp.Boolean):
            tree = exp.cast(tree, TYPES[key.kind])  # bare constants are no keys to some engines
        query = query.select(exp.alias_(tree, f"k{index}", quoted=True), copy=False)
        query = query.group_by(tree.copy(), copy=False)
    for index, tree in enumerate(aggregates):
        query = query.select(exp.alias_(tree.copy(), f"a{index}", quoted=True), copy=False)
    return query if query.expressions else query.select(exp.convert(1))


def _plain_keys(select: exp.Select) -> list[exp.Expr]:
    """The keys of a GROUP BY without ROLLUP and its like."""
    group = select.args.get("group")
    if group is None:
        return []
    extra = {key for key, value in group.args.items() if value} - {"expressions"}
    levels = (exp.Rollup, exp.Cube, exp.GroupingSets)
    if extra or any(isinstance(node, levels) for node in group.expressions):
        raise QueryError(
            "aggregate_not_allowed",
            f"Cannot use {quote_sql(group)} in a subquery; ROLLUP and its like stand outermost.",
        )
    return list(group.expressions)


def _aggregate(node: exp.Expr, scope: RowScope, *, grouped: bool) -> Typed:
    """COUNT, SUM, AVG, MIN or MAX of the rows of a group."""
    inner = node.this
    check_modifiers(node, {"this", "quantile", "big_int"})
    if isinstance(node, exp.Count):
        return _count(node, scope)
    if not isinstance(node, exp.Sum | exp.Avg | exp.Min | exp.Max):
        raise QueryError(
            "aggregate_not_allowed",
            f"Cannot use {quote_sql(node)} in a subquery. Allowed are COUNT, SUM, AVG, MIN and "
            "MAX.",
        )
    value = as_integer(compile_value(inner, scope))
    # Without GROUP BY there is one row even of no rows, and its aggregate is NULL.
    empty = value.nullable or not grouped
    if isinstance(node, exp.Min | exp.Max):
        require_kind(value, ORDERED, inner)
        extreme = type(node)(this=value.sql)
        return replace(value, tree=extreme, nullable=empty, direct=None, unit=False)
    require_bounds(require_kind(value, NUMBERS, inner), inner)
    total, step = _exact_sum(value)
    if isinstance(node, exp.Avg):
        row_count = exp.Nullif(this=exp.Count(this=value.sql), expression=exp.convert(0))
        mean = exp.Div(
            this=exp.Paren(this=_scaled(exp.cast(total, exp.DType.DOUBLE), step)),
            expression=exp.cast(row_count, exp.DType.DOUBLE),
        )
        low, high = value.ends
        # The mean of rounded steps may leave the bounds by a step, and by rounding of the
        # division.
        margin = (abs(low) + abs(high)) * _SLACK + step
        return real(mean, low - margin, high + margin, nullable=empty, least=step / 2**63)
    low_end = Fraction(0) if value.ends[0] >= 0 else None
    high_end = Fraction(0) if value.ends[1] <= 0 else None
    if value.kind is Kind.INTEGER:
        return Typed(total, Kind.INTEGER, empty, low_end, high_end)
    tree = _scaled(exp.cast(total, exp.DType.DOUBLE), step)
    return real(tree, low_end, high_end, nullable=empty, least=step)


def _count(node: exp.Count, scope: RowScope) -> Typed:
    inner: exp.Expr = node.this
    if isinstance(inner, exp.Distinct):
        if len(inner.expressions) != 1:
            raise QueryError(
                "aggregate_not_allowed", f"Cannot use {quote_sql(node)}: one column only."
            )
        counted: exp.Expr = exp.Distinct(
            expressions=[compile_value(inner.expressions[0], scope).sql]
        )
    else:
        counted = exp.Star() if isinstance(inner, exp.Star) else compile_value(inner, scope).sql
    tree = exp.cast(exp.Count(this=counted), exp.DType.BIGINT)
    return Typed(tree, Kind.INTEGER, False, Fraction(0), None)


def _exact_sum(value: Typed) -> tuple[exp.Expr, Fraction]:
    """An exact sum, in whole steps: a sum of doubles would depend on the order of the rows."""
    tree, step = value.sql, Fraction(1)
    if value.kind is Kind.REAL:
        reach = max(value.largest, Fraction(1, 10**12))
        step = fine_step(reach, value.largest, _SUM_POINTS)
        tree = nearest_step(value, step)
    total = exp.Sum(this=exp.cast(tree, "DECIMAL(19, 0)"))
    case = exp.case()
    # Clipped inside the decimal, before the cast: an overflow would be an error that depends on
    # rows.
    for compare, end in ((exp.LT, -_SUM_LIMIT), (exp.GT, _SUM_LIMIT)):
        case = case.when(compare(this=total.copy(), expression=literal(end)), literal(end))
    return exp.cast(case.else_(total), exp.DType.BIGINT), step


def _scaled(tree: exp.Expr, step: Fraction) -> exp.Expr:
    return tree if step == 1 else exp.Mul(this=tree, expression=literal(step))
