"""Plan a query from declarations alone; no row is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.counting.contribution import PERSON
from sfumato.errors import QueryError
from sfumato.methods.query.builder import built_tree
from sfumato.methods.query.expressions import compile_value
from sfumato.methods.query.plan import Plan
from sfumato.methods.query.plan.columns import PlannedKey, plan_key
from sfumato.methods.query.plan.outputs import Outputs, QuestionMeasures, output_names
from sfumato.methods.query.sql.parse import PrivacyClause, check_depth, parse, quote_sql
from sfumato.methods.query.sql.relation import GroupedScope, has_aggregate
from sfumato.methods.query.sql.rewrite import rewrite
from sfumato.methods.query.sql.select_blocks import SelectPlanner
from sfumato.methods.query.sql.work_limits import check_texts, write_caps

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from sfumato.methods.query.expressions.typed_values import Typed
    from sfumato.methods.query.sql.relation import Block
    from sfumato.methods.query.sql.tables import Catalogue

_KEYS, _LEVELS = 20, 64


@dataclass(frozen=True)
class PlannedQuestion:
    """A plan, and the cost that BigQuery's clause asked for, if it did."""

    plan: Plan
    epsilon: Fraction | None = None
    delta: Fraction | None = None


def plan_question(question: object, catalogue: Catalogue) -> PlannedQuestion:
    """Plan a question, given as SQL or built, against declared tables; or refuse it."""
    if isinstance(question, str):
        parsed = parse(question)
        tree, options = parsed.tree, parsed.options
    else:
        tree, options = built_tree(question), PrivacyClause()
        check_depth(tree)
    try:
        plan = _plan(rewrite(tree), catalogue)
    except RecursionError:
        raise QueryError(
            "sql_too_complex", "Cannot plan the question: it is nested too deeply. Make it flatter."
        ) from None
    return PlannedQuestion(_narrow_unit(plan, options), options.epsilon, options.delta)


def _plan(select: exp.Select, catalogue: Catalogue) -> Plan:
    planner = SelectPlanner(catalogue)
    block = planner.block(select)
    owner = block.relation.owner
    if owner is None:
        raise QueryError(
            "nothing_private",
            "Cannot plan the question: it reads only public tables, which need no privacy. Read "
            "them directly.",
        )
    names = output_names(select)
    nodes, levels = _grouping(select, block, names)
    measures = QuestionMeasures(block.scope, len(levels))
    keys = _keys(nodes, block, names, measures)
    optional = len(levels) > 1
    pairs = [(inside, _key_above_aggregate(inside, key, optional=optional)) for inside, key in keys]
    scope = GroupedScope(block.scope, pairs, measures.collect, totals=True)
    outputs = Outputs(select, names, scope, measures, [key for _, key in keys])
    finish = outputs.query()
    if not measures.measures:
        raise QueryError(
            "column_not_aggregated",
            f"Cannot release {quote_sql(select)}: it shows rows, not aggregates. Ask for COUNT(*), "
            "SUM, AVG, MEDIAN, ...",
        )
    unit = owner.unit
    return Plan(
        datasets=tuple(sorted(block.relation.private)),
        source=_source(planner, block, keys, measures),
        unit=unit,
        # Rows of a person are bounded after the joins; a row that is a person multiplies with them.
        multiplicity=1 if unit.by_person else block.relation.rows_per_person or 1,
        keys=tuple(key.key for _, key in keys),
        levels=levels,
        measures=tuple(measures.measures),
        finish=finish,
        columns=tuple(names),
        public=tuple(sorted(block.relation.public)),
        joined_row_cap=planner.smallest_cap,
    )


def _grouping(
    select: exp.Select, block: Block, names: dict[str, exp.Expr]
) -> tuple[list[exp.Expr], tuple[tuple[int, ...], ...]]:
    """The expressions of GROUP BY, each once, and the sets of them to group by."""
    group = select.args.get("group")
    if group is None:
        return [], ((),)
    if {key for key, value in group.args.items() if value} - {"expressions"}:
        raise QueryError(
            "clause_not_allowed",
            f"Cannot use {quote_sql(group)}. Write GROUP BY with columns, expressions, "
            "ROLLUP(...), CUBE(...) or GROUPING SETS(...).",
        )
    nodes: list[exp.Expr] = []
    trees: list[exp.Expr] = []

    def position(node: exp.Expr) -> int:
        expression = _resolve_key(node, block, names)
        # Compared as compiled: two spellings of one key are one key.
        tree = compile_value(expression, block.scope).tree
        if tree not in trees:
            trees.append(tree)
            nodes.append(expression)
        return trees.index(tree)

    alternatives = [_key_sets(node, position) for node in group.expressions]
    if len(nodes) > _KEYS or prod(map(len, alternatives)) > _LEVELS:
        raise QueryError(
            "sql_too_complex",
            f"Cannot group by {quote_sql(group)}: at most {_KEYS} keys and {_LEVELS} sets of them.",
        )
    levels = [tuple(sorted(set().union(*chosen))) for chosen in product(*alternatives)]
    return nodes, tuple(dict.fromkeys(levels))


def _key_sets(node: exp.Expr, position: Callable[[exp.Expr], int]) -> list[frozenset[int]]:
    """The sets of keys that one element of GROUP BY means."""

    def together(entry: exp.Expr) -> frozenset[int]:
        members = entry.expressions if isinstance(entry, exp.Tuple) else [entry]
        return frozenset(position(member.unnest()) for member in members)

    if isinstance(node, exp.GroupingSets):
        return [key_set for entry in node.expressions for key_set in _key_sets(entry, position)]
    if isinstance(node, exp.Rollup):
        entries = [together(entry) for entry in node.expressions]
        return [frozenset().union(*entries[:end]) for end in range(len(entries), -1, -1)]
    if isinstance(node, exp.Cube):
        sets = [frozenset[int]()]
        for entry in node.expressions[:7]:  # seven give more sets than are allowed
            sets += [key_set | together(entry) for key_set in sets]
        return sets[::-1]
    return [together(node)]


def _resolve_key(node: exp.Expr, block: Block, names: dict[str, exp.Expr]) -> exp.Expr:
    """What an element of GROUP BY means: an expression, the place or the name of an output."""
    outputs = list(names.values())
    expression = node
    if isinstance(node, exp.Literal) and not node.is_string:
        position = int(node.name) if node.name.isdigit() and len(node.name) < 5 else 0
        if not 1 <= position <= len(outputs):
            raise QueryError(
                "literal_invalid",
                f"GROUP BY {quote_sql(node)} names no output; there are {len(outputs)}.",
            )
        expression = outputs[position - 1]
    elif isinstance(node, exp.Column) and not node.table and not block.scope.has_column(node):
        expression = names.get(node.name, node)
    if has_aggregate(expression):
        raise QueryError(
            "aggregate_not_allowed",
            f"Cannot group by {quote_sql(expression)}, which is an aggregate.",
        )
    return expression


def _keys(
    nodes: list[exp.Expr], block: Block, names: dict[str, exp.Expr], measures: QuestionMeasures
) -> list[tuple[Typed, PlannedKey]]:
    """Plan the keys, each under the name of the output that shows it."""
    keys = []
    for index, node in enumerate(nodes):
        output_names_ = [name for name, output in names.items() if output == node]
        requested = (output_names_ or [node.name or f"key_{index + 1}"])[0]
        value = compile_value(node, block.scope)
        name = measures.reserve(requested)
        keys.append((value, plan_key(value, node, f"sf_key_{index}", name)))
    return keys


def _key_above_aggregate(value: Typed, key: PlannedKey, *, optional: bool) -> Typed:
    """A key as it stands above the aggregate."""
    nullable = value.nullable or optional
    return replace(value, tree=key.shown, nullable=nullable, direct=None, unit=False)


def _source(
    planner: SelectPlanner,
    block: Block,
    keys: list[tuple[Typed, PlannedKey]],
    measures: QuestionMeasures,
) -> exp.Select:
    """The query that yields the rows to aggregate."""
    query = block.query
    if block.relation.person is not None:
        query = query.select(exp.alias_(block.relation.person.copy(), PERSON), copy=False)
    for _, key in keys:
        query = query.select(exp.alias_(key.tree.copy(), key.key.column), copy=False)
    for tree, argument in measures.arguments.items():
        query = query.select(exp.alias_(tree.copy(), argument.column), copy=False)
    if not query.expressions:
        # SELECT needs an output, also where only rows are counted.
        query = query.select(exp.alias_(exp.convert(1), "sf_one"))
    check_texts(value for value, _ in keys)
    return write_caps(planner, query)


def _narrow_unit(plan: Plan, options: PrivacyClause) -> Plan:
    """A plan with the bounds that the question itself asks for; never wider than declared."""
    unit = plan.unit
    # The clause may repeat the declared unit, as BigQuery's users write it, and not choose
    # another.
    column = options.privacy_unit_column
    if column is not None and (unit.column is None or unit.column.casefold() != column.casefold()):
        raise QueryError(
            "clause_not_allowed",
            f"The privacy unit is declared by the owner, not by the question. {unit.sentence()}",
        )
    rows, groups = options.max_rows_contributed, options.max_groups_contributed
    if rows is None and groups is None:
        return plan
    if not unit.by_person:
        raise QueryError(
            "clause_not_allowed", f"Nothing is to be bounded per person. {unit.sentence()}"
        )
    rows = unit.max_rows if rows is None else rows
    groups = unit.groups if groups is None else groups
    # A question may narrow the bounds and so its noise, but never widen what the owner declared.
    if not (1 <= rows <= unit.max_rows and 1 <= groups <= unit.groups):
        raise QueryError(
            "parameter_out_of_range",
            f"A question may use from 1 to {unit.max_rows} rows in 1 to {unit.groups} groups of "
            f"each person, not {rows} and {groups}.",
            parameter="max_rows",
            given=rows,
        )
    return replace(plan, unit=unit.bounded(rows, groups))
