"""Subqueries in conditions and expressions become joins, which say plainly whose rows they pair.

A column of a subquery is one of the outer SELECT when it is qualified by a name that the
subquery's FROM does not have. Decision 0091.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.sql.parse import part

_PREFIX = "sf_sub_"


def membership_to_join(select: exp.Select) -> None:
    """WHERE x IN (SELECT y ...) becomes a join with the distinct y."""
    for condition in _conditions(select):
        if isinstance(condition, exp.Not) and _asks_membership(condition.this.unnest()):
            raise QueryError(
                "subquery_misplaced",
                f"Cannot use {part(condition)}: NOT IN is unknown where a value is missing. Write "
                "NOT EXISTS (SELECT ... WHERE inner.key = outer.key).",
            )
        if not _asks_membership(condition):
            continue
        inner = condition.args["query"].this
        if not isinstance(inner, exp.Select) or len(inner.expressions) != 1:
            raise QueryError(
                "subquery_misplaced", f"Cannot use {part(condition)}: select one column in it."
            )
        alias = _alias(select)
        inner.set("expressions", [exp.alias_(inner.expressions[0].unalias(), "member")])
        members = exp.select("member").from_(inner.subquery("members")).group_by("member")
        match = exp.EQ(this=condition.this.copy(), expression=_column(alias, "member"))
        _join(select, members, alias, [match], side=None)
        condition.replace(exp.true())


def _asks_membership(node: exp.Expr) -> bool:
    return isinstance(node, exp.In) and node.args.get("query") is not None


def exists_to_join(select: exp.Select) -> None:
    """WHERE [NOT] EXISTS (SELECT ... WHERE inner.key = outer.key) becomes a join on the key."""
    for condition in _conditions(select):
        negated = isinstance(condition, exp.Not)
        exists = condition.this.unnest() if negated else condition
        if not isinstance(exists, exp.Exists):
            continue
        inner = _correlated(exists, exists.this)
        if not inner.keys or inner.select.args.get("group"):
            raise QueryError(
                "subquery_uncorrelated",
                f"Cannot use {part(exists)}: compare a column inside with one outside, "
                "inner.key = outer.key, and do not group.",
            )
        alias = _alias(select)
        inner.hand_up([])
        _join(select, inner.select, alias, inner.matches(alias), side="LEFT" if negated else None)
        made: exp.Expr = exp.true()
        if negated:
            made = exp.Is(this=_column(alias, "key_0"), expression=exp.Null())
        condition.replace(made)


def scalars_to_join(select: exp.Select) -> None:
    """A subquery that gives one aggregate becomes a column of a left join."""
    places = [*select.expressions, *filter(None, [select.args.get("where")])]
    for node in [found for place in places for found in place.find_all(exp.Subquery)]:
        inner_select = node.this
        if node.find_ancestor(exp.Select) is not select or not isinstance(inner_select, exp.Select):
            continue
        inner = _correlated(node, inner_select)
        outputs = inner.select.expressions
        aggregate = outputs[0].unalias() if len(outputs) == 1 else None
        plain = not inner.select.args.get("group") and not inner.select.args.get("having")
        if not isinstance(aggregate, exp.AggFunc) or not plain:
            raise QueryError(
                "subquery_misplaced",
                f"Cannot use {part(node)} as a value: it must give exactly one aggregate, without "
                "GROUP BY.",
            )
        alias = _alias(select)
        inner.hand_up([exp.alias_(aggregate.copy(), "value")])
        matches = inner.matches(alias) or [exp.true()]
        _join(select, inner.select, alias, matches, side="LEFT")
        value: exp.Expr = _column(alias, "value")
        if isinstance(aggregate, exp.Count):
            value = exp.Coalesce(this=value, expressions=[exp.convert(0)])
        node.replace(value)


@dataclass
class _Correlated:
    """A subquery freed of its outer columns: what it compares, inside and outside."""

    select: exp.Select
    keys: list[tuple[exp.Expr, exp.Expr]]

    def hand_up(self, values: list[exp.Expr]) -> None:
        """Select the keys, grouped by them, and some values."""
        inside = [key for key, _ in self.keys]
        named = [exp.alias_(key.copy(), f"key_{place}") for place, key in enumerate(inside)]
        self.select.set("expressions", [*named, *values])
        self.select.set("distinct", None)
        if inside:
            self.select.set("group", exp.Group(expressions=[key.copy() for key in inside]))

    def matches(self, alias: str) -> list[exp.Expr]:
        """What the join compares."""
        return [
            exp.EQ(this=outside.copy(), expression=_column(alias, f"key_{place}"))
            for place, (_, outside) in enumerate(self.keys)
        ]


def _correlated(node: exp.Expr, inner: exp.Expr) -> _Correlated:
    """Split the conditions of a subquery into its own and those that compare with outside."""
    if not isinstance(inner, exp.Select):
        raise QueryError("subquery_misplaced", f"Cannot use {part(node)}: it must be a SELECT.")
    select = inner.copy()
    own = {
        item.alias_or_name.casefold()
        for item in [select.args.get("from_"), *(select.args.get("joins") or [])]
        if item is not None
        for item in [item.this]
    }
    keys, kept = [], []
    for condition in _conditions(select):
        outer = _outer(condition, own)
        if not outer:
            kept.append(condition.copy())
            continue
        pair = _pair(condition, own)
        if pair is None:
            raise QueryError(
                "subquery_uncorrelated",
                f"Cannot use {part(condition)}: inside a subquery an outer column may only be "
                "compared by = with an expression of inner columns.",
            )
        keys.append(pair)
    select.set("where", exp.Where(this=exp.and_(*kept)) if kept else None)
    return _Correlated(select, keys)


def _pair(condition: exp.Expr, own: set[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """The inner and the outer side of an equality."""
    if not isinstance(condition, exp.EQ):
        return None
    for inside, outside in (
        (condition.this, condition.expression),
        (condition.expression, condition.this),
    ):
        columns = list(outside.find_all(exp.Column))
        if columns and len(_outer(outside, own)) == len(columns) and not _outer(inside, own):
            return inside, outside
    return None


def _outer(node: exp.Expr, own: set[str]) -> list[exp.Column]:
    return [
        column
        for column in node.find_all(exp.Column)
        if column.table and column.table.casefold() not in own
    ]


def _conditions(select: exp.Select) -> list[exp.Expr]:
    """The conditions of WHERE that are joined by AND."""
    where = select.args.get("where")
    if where is None:
        return []
    whole = where.this.unnest()
    parts = whole.flatten() if isinstance(whole, exp.And) else [whole]
    return [one.unnest() for one in parts]


def _alias(select: exp.Select) -> str:
    """A name for one more joined subquery."""
    return f"{_PREFIX}{len(select.args.get('joins') or [])}"


def _column(alias: str, name: str) -> exp.Column:
    return exp.column(name, table=alias)


def _join(
    select: exp.Select, inner: exp.Select, alias: str, matches: list[exp.Expr], *, side: str | None
) -> None:
    join = exp.Join(this=inner.subquery(alias), on=exp.and_(*matches))
    if side is not None:
        join.set("side", side)
    select.append("joins", join)
