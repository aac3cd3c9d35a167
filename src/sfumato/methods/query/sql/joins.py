"""Joins in which every row still depends on at most one person.

A private table joins public tables on any key, and another private table about the same people on
the person. No outer join may preserve a public row without a match: that row would depend on the
absence of people. Decision `one-source-query`.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.schema.column import Kind
from sfumato.errors import QueryError
from sfumato.methods.query.expressions import compile_value
from sfumato.methods.query.expressions.typed_values import require_kind
from sfumato.methods.query.sql.parse import quote_sql
from sfumato.methods.query.sql.relation import Block, Owner, Relation, RowScope, column, same_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.methods.query.sql.select_blocks import SelectPlanner


def join_relation(
    planner: SelectPlanner, block: Block, join: exp.Join, name: str, right: Relation
) -> Block:
    """Join one more relation to a block."""
    side = _preserved_side(join)
    left = block.relation
    _check_preserved(join, side, left.owner, right.owner)
    both = RowScope((*block.scope.relations, (name, right)), block.scope.merged)
    nodes, merged = _join_conditions(join, block.scope, name, right, both)
    pairs = [pair for node in nodes if (pair := _compared_columns(node, both, name)) is not None]
    # `met` bounds how many rows of the new relation one row of the block matches.
    factors, met, person, once = block.factors, right.rows_per_person, left.person, False
    if left.owner is not None and right.owner is not None:
        _check_same_people(join, left.owner, right.owner, nodes, both)
        # A key that holds by construction, such as that of a GROUP BY, matches each row at most
        # once.
        unique = right.keys_hold and any(key <= {own for _, own in pairs} for key in right.keys)
        once = unique and side != "RIGHT"
        met = 1 if once else right.rows_per_person
        person = right.person if side == "RIGHT" else left.person
    elif right.owner is None and left.owner is not None:
        # A public row may match many private rows, but each private row at most `met` public ones.
        right, met = _bound_fanout(planner, join, right, {key for _, key in pairs})
        both = RowScope((*block.scope.relations, (name, right)), block.scope.merged)
    elif right.owner is not None:
        block, bound = _bound_left_fanout(planner, join, block, [key for key, _ in pairs])
        factors = (bound,)
        both = RowScope((*block.scope.relations, (name, right)), block.scope.merged)
        person = right.person
    conditions = [require_kind(compile_value(node, both), (Kind.BOOLEAN,), node) for node in nodes]
    query = block.query.join(
        right.item.copy(),
        on=exp.and_(*(condition.sql for condition in conditions)),
        join_type=side,
        copy=False,
    )
    relations = list(block.scope.relations)
    if side == "RIGHT":
        relations = [(alias, related.optional()) for alias, related in relations]
    relations.append((name, right.optional() if side == "LEFT" else right))
    factors += (met,)
    joined_relation = replace(
        left,
        owner=left.owner if once else _joined_owner(left.owner, right.owner),
        person=person,
        keys={},
        rows_per_person=None
        if None in factors
        else prod(factor for factor in factors if factor is not None),
        private=left.private | right.private,
        public=left.public | right.public,
    )
    return Block(RowScope(tuple(relations), both.merged | merged), query, joined_relation, factors)


def _preserved_side(join: exp.Join) -> str:
    """The side that is preserved: none, LEFT or RIGHT."""
    kind, side = join.kind.upper(), join.side.upper()
    plain = kind in {"", "INNER", "OUTER"} and side in {"", "LEFT", "RIGHT", "FULL"}
    if not plain or join.method or join.args.get("match_condition"):
        raise QueryError(
            "join_not_allowed",
            f"Cannot use {quote_sql(join)}. Allowed are JOIN and LEFT JOIN with ON or USING.",
        )
    if not join.args.get("on") and not join.args.get("using"):
        raise QueryError(
            "join_not_allowed",
            f"Cannot use {quote_sql(join)}: a join without a condition pairs every row with every "
            "other. Write JOIN ... ON with an equality.",
        )
    return side


def _check_preserved(join: exp.Join, side: str, left: Owner | None, right: Owner | None) -> None:
    """Refuse an outer join that keeps rows which belong to nobody."""
    bare = side == "FULL" or (side == "LEFT" and left is None and right is not None)
    if bare or (side == "RIGHT" and right is None):
        raise QueryError(
            "join_not_allowed",
            f"Cannot use {quote_sql(join)}: it keeps rows that belong to no person. Preserve only "
            "the private side: private LEFT JOIN public.",
        )


def _join_conditions(
    join: exp.Join, before: RowScope, name: str, right: Relation, both: RowScope
) -> tuple[list[exp.Expr], frozenset[tuple[str, str]]]:
    """The conditions of ON or USING, and the columns that USING has merged."""
    condition = join.args.get("on")
    if condition is not None:
        root = condition.unnest()
        return list(root.flatten()) if isinstance(root, exp.And) else [root], frozenset()
    nodes: list[exp.Expr] = []
    merged: set[tuple[str, str]] = set()
    for identifier in join.args["using"]:
        alias, own = before.locate(exp.Column(this=identifier.copy()))
        right_name = same_name(identifier, right.columns)
        if right_name is None:
            both.locate(column(name, identifier.name))
            continue
        nodes.append(exp.EQ(this=column(alias, own), expression=column(name, right_name)))
        merged.add((name, right_name))
    return nodes, frozenset(merged)


def _compared_columns(node: exp.Expr, scope: RowScope, name: str) -> tuple[str | None, str] | None:
    """The columns that an equality of the two sides compares: (one on the left, on the right)."""
    node = node.unnest()
    if not isinstance(node, exp.EQ):
        return None
    for this_side, that_side in ((node.this, node.expression), (node.expression, node.this)):
        this_side, that_side = this_side.unnest(), that_side.unnest()
        if not isinstance(that_side, exp.Column):
            continue
        alias, key = scope.locate(that_side)
        aliases = {scope.locate(node_column)[0] for node_column in this_side.find_all(exp.Column)}
        # A comparison of two kinds converts one of them, and two keys could then equal the same
        # value.
        same_kind = compile_value(this_side, scope).kind is compile_value(that_side, scope).kind
        if alias == name and same_kind and aliases and name not in aliases:
            own = scope.locate(this_side)[1] if isinstance(this_side, exp.Column) else None
            return own, key
    return None


def _check_same_people(
    join: exp.Join, left: Owner, right: Owner, nodes: Iterable[exp.Expr], scope: RowScope
) -> None:
    """Refuse a join of two private tables unless it pairs rows of one person."""
    if not (left.unit.by_person and right.unit.by_person):
        raise QueryError(
            "join_not_allowed",
            f"Cannot use {quote_sql(join)}: where each row is a person of its own, two private "
            "tables share nobody. Declare an entity column as the privacy unit of both.",
        )
    if left.population != right.population or left.unit.relation != right.unit.relation:
        raise QueryError(
            "join_not_allowed",
            f"Cannot use {quote_sql(join)}: the two tables are about different people. Only tables "
            "declared to name the same people alike can be joined.",
        )
    if any(_equates_people(node.unnest(), scope) for node in nodes):
        return
    raise QueryError(
        "join_not_allowed",
        f"Cannot use {quote_sql(join)}: it may pair rows of different people. Add the equality "
        f"of the privacy units to ON: a.{left.unit.column} = b.{right.unit.column}.",
    )


def _equates_people(node: exp.Expr, scope: RowScope) -> bool:
    """Whether a condition equates the person of the last relation with one of an earlier relation.

    The earlier ones are tied to one another, so the person of any of them is that of the block. A
    relation on the optional side of an outer join has none: its columns are no longer the unit.
    """
    if not isinstance(node, exp.EQ):
        return False
    last = scope.relations[-1][0]
    sides = [side.unnest() for side in (node.this, node.expression)]
    columns = [side for side in sides if isinstance(side, exp.Column)]
    people = [side for side in columns if compile_value(side, scope).unit]
    return sorted(scope.locate(side)[0] == last for side in people) == [False, True]


def _bound_fanout(
    planner: SelectPlanner, join: exp.Join, public: Relation, names: set[str]
) -> tuple[Relation, int]:
    """Limit a public relation so that a private row matches at most the declared number of rows."""
    if not names and frozenset() not in public.keys:
        raise QueryError(
            "join_not_allowed",
            f"Cannot use {quote_sql(join)}: ON must compare a column of the public table with the "
            "private one by =.",
        )
    known = [(bound, sorted(key)) for key, bound in public.keys.items() if key <= names]
    if not known:
        raise QueryError(
            "join_not_allowed",
            f"Cannot use {quote_sql(join)}: nobody said how many public rows share a value of "
            f"{', '.join(sorted(names))}. Join with SELECT DISTINCT or GROUP BY on these columns, "
            "or let the owner declare them a key of the public table, or add the table anew, "
            "which counts.",
        )
    # Of several declared keys that the join uses, the one that allows the fewest matches.
    bound, key = min(known)
    if public.keys_hold:
        return public, bound
    return _limit_rows_by_key(planner, public, key, bound), bound


def _bound_left_fanout(
    planner: SelectPlanner, join: exp.Join, block: Block, names: list[str | None]
) -> tuple[Block, int]:
    """The same for a block that is public so far."""
    if len(block.scope.relations) > 1:
        raise QueryError(
            "join_not_allowed",
            f"Cannot use {quote_sql(join)}: write the private table first, then join the public "
            "ones.",
        )
    alias, public = block.scope.relations[0]
    known = {name for name in names if name is not None}
    public, bound = _bound_fanout(planner, join, public, known)
    if public is block.scope.relations[0][1]:
        return block, bound
    return Block(RowScope(((alias, public),)), exp.select().from_(public.item), public), bound


def _limit_rows_by_key(
    planner: SelectPlanner, public: Relation, key: list[str], bound: int
) -> Relation:
    """Keep at most `bound` rows of a key, so that the declaration holds whatever the table has."""
    block = Block(RowScope((("t", public),)), exp.select().from_(public.item), public)
    inner = planner.as_subquery(block, public.columns)
    # Sorted by all columns: which rows stay depends on the public table alone, on every engine.
    order = [exp.Ordered(this=value.sql, nulls_first=True) for value in inner.columns.values()]
    row_number = exp.Window(
        this=exp.RowNumber(),
        partition_by=[inner.columns[name].sql for name in key],
        order=exp.Order(expressions=order),
    )
    alias = inner.item.alias
    counted = exp.select(exp.column(exp.Star(), table=exp.to_identifier(alias, quoted=True)))
    counted = counted.select(exp.alias_(row_number, "place", quoted=True)).from_(inner.item)
    outer = planner.alias()
    moved = {
        name: replace(value, tree=column(outer, value.tree.name), direct=None)
        for name, value in inner.columns.items()
    }
    item = counted.subquery(exp.to_identifier(outer, quoted=True))
    relation = replace(inner, item=item, columns=moved)
    limited = Block(RowScope((("t", relation),)), exp.select().from_(item), relation)
    limited.query = limited.query.where(column(outer, "place") <= exp.convert(bound))
    return planner.as_subquery(limited, moved)


def _joined_owner(left: Owner | None, right: Owner | None) -> Owner | None:
    """The owner of the joined rows, with the wider of two bounds on a person's rows."""
    if left is None or right is None:
        return left or right
    left_unit, right_unit = left.unit, right.unit
    unit = left_unit.bounded(
        max(left_unit.max_rows, right_unit.max_rows), max(left_unit.groups, right_unit.groups)
    )
    return replace(left, unit=unit)
