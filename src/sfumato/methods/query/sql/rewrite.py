"""Rewrite a query into fewer forms before it is planned: one rule after the other.

A rule gets one SELECT whose subqueries are already rewritten, changes it in place and keeps its
meaning. Common table expressions are inlined first, so no rule needs to know them. Subqueries in
conditions and expressions become joins, which show whose rows are paired. A column of a subquery
belongs to the outer SELECT if it is qualified by a name that its own FROM does not have.
Decision `one-source-query`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.methods.query.sql.parse import quote_sql
from sfumato.methods.query.sql.relation import has_aggregate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Names of WITH that use each other double the query at each step: 30 lines could fill the memory.
EXPANSIONS = 64

Expansion = tuple[exp.Select, int]
"""The SELECT behind a name of WITH, and the number of names used in it."""


def inline_ctes(select: exp.Select) -> exp.Select:
    """Put the meaning of every name of WITH where it is used."""
    expanded = select.copy()
    _inline(expanded, {})
    return expanded


def _inline(select: exp.Select, outer: Mapping[str, Expansion]) -> int:
    """Expand names inside a SELECT in place; give the number of expansions."""
    names, expansions = dict(outer), 0
    clause = select.args.get("with_")
    if clause is not None:
        if clause.args.get("recursive"):
            raise QueryError(
                "clause_not_allowed",
                f"Cannot use WITH RECURSIVE in {quote_sql(select)}. Write it out.",
            )
        for entry in clause.expressions:
            # With the names before it only, as in SQL: an entry cannot use itself or a later one.
            names[entry.alias.casefold()] = _expand_entry(entry, names)
        select.set("with_", None)
    for node in _tables_and_selects(select):
        if isinstance(node, exp.Select):
            expansions += _inline(node, names)
        elif isinstance(node, exp.Table) and not node.args.get("db"):
            meaning = names.get(node.name.casefold())
            if meaning is not None:
                expansions += 1 + meaning[1]
                _check_expansions(expansions)
                alias = exp.to_identifier(node.alias_or_name, quoted=True)
                joins = node.args.get("joins")
                subquery = meaning[0].copy().subquery(alias, copy=False)
                subquery.set("joins", joins)
                node.replace(subquery)
    _check_expansions(expansions)
    return expansions


def _expand_entry(entry: exp.Expr, names: Mapping[str, Expansion]) -> Expansion:
    """One entry of WITH, with the names before it expanded."""
    body = entry.this
    alias = entry.args["alias"]
    if not isinstance(body, exp.Select) or alias.args.get("columns"):
        raise QueryError(
            "clause_not_allowed",
            f"Cannot use {quote_sql(entry)}: an entry of WITH is name AS (SELECT ...).",
        )
    body = body.copy()
    return body, _inline(body, names)


def _tables_and_selects(select: exp.Select) -> list[exp.Expr]:
    """The tables of a SELECT and the SELECTs directly inside it, but not what is inside those."""
    sources: list[exp.Expr] = []
    pending: list[exp.Expr] = list(select.iter_expressions())
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Select | exp.Table):
            sources.append(node)
        else:
            pending.extend(node.iter_expressions())
    return sources


def _check_expansions(expansions: int) -> None:
    if expansions > EXPANSIONS:
        raise QueryError(
            "sql_too_complex",
            f"Cannot plan the question: its WITH names are used more than {EXPANSIONS} times when "
            "written out. Use them less often.",
        )


_QUANTILES = {"quantile_cont", "quantile_disc", "approx_percentile", "percentile"}


def conditional_aggregates(select: exp.Select) -> None:
    """COUNT(*) FILTER (WHERE c) and COUNT_IF(c) become COUNT(CASE WHEN c THEN 1 END)."""
    for node in list(select.find_all(exp.CountIf)):
        _replace(node, exp.Count(this=_case(node.this, exp.convert(1))))
    for filtered in list(select.find_all(exp.Filter)):
        _replace(filtered, _move_filter_inside(filtered))


def _move_filter_inside(node: exp.Filter) -> exp.Expr:
    aggregate, condition = node.this.copy(), node.expression.this
    inner = aggregate.this
    if not isinstance(aggregate, exp.AggFunc) or inner is None:
        raise QueryError("aggregate_not_allowed", f"Cannot use {quote_sql(node)}.")
    if isinstance(inner, exp.Distinct):
        values = [_case(condition, value) for value in inner.expressions]
        aggregate.set("this", exp.Distinct(expressions=values))
    else:
        value = exp.convert(1) if isinstance(inner, exp.Star) else inner
        aggregate.set("this", _case(condition, value))
    return aggregate


def _case(condition: exp.Expr, value: exp.Expr) -> exp.Case:
    return exp.case().when(condition.copy(), value.copy())


def quantiles(select: exp.Select) -> None:
    """MEDIAN(x), PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x) and their like become QUANTILE."""
    for within in list(select.find_all(exp.WithinGroup)):
        entries = within.expression.expressions
        shaped = isinstance(within.this, exp.PercentileCont | exp.PercentileDisc)
        if not shaped or len(entries) != 1 or entries[0].args.get("desc"):
            raise QueryError(
                "aggregate_not_allowed", f"Cannot use {quote_sql(within)}. Write QUANTILE(x, q)."
            )
        share = within.this.this
        _replace(within, exp.Quantile(this=entries[0].this.copy(), quantile=share.copy()))
    for node in list(
        select.find_all(
            exp.Median,
            exp.ApproxQuantile,
            exp.PercentileCont,
            exp.PercentileDisc,
            exp.Anonymous,
        )
    ):
        share = node.args.get("quantile") or node.args.get("expression")
        value = node.this
        if isinstance(node, exp.Median):
            share = exp.Literal.number("0.5")
        elif isinstance(node, exp.Anonymous):
            if node.name.casefold() not in _QUANTILES or len(node.expressions) != 2:
                continue
            value, share = node.expressions
        if share is not None:
            _replace(node, exp.Quantile(this=value.copy(), quantile=share.copy()))


def _replace(node: exp.Expr, replacement: exp.Expr) -> None:
    """Put a node in place of another, which keeps its place in the text."""
    replacement.meta.update(node.meta, name=node.key)
    node.replace(replacement)


def distinct_to_groups(select: exp.Select) -> None:
    """Group by every output instead of asking for distinct ones."""
    distinct = select.args.get("distinct")
    if distinct is None:
        return
    outputs = [node.unalias() for node in select.expressions]
    stars = any(isinstance(node, exp.Star) or isinstance(node.this, exp.Star) for node in outputs)
    grouped = select.args.get("group") or any(has_aggregate(node) for node in select.expressions)
    if distinct.args.get("on") or stars or grouped:
        raise QueryError(
            "clause_not_allowed",
            f"Cannot use DISTINCT in {quote_sql(select)}. Name its columns, without aggregates, "
            "without GROUP BY and without ON.",
        )
    select.set("distinct", None)
    select.set("group", exp.Group(expressions=[node.copy() for node in outputs]))


_PREFIX = "sf_sub_"


def membership_to_join(select: exp.Select) -> None:
    """WHERE x IN (SELECT y ...) becomes a join with the distinct y."""
    for condition in _conjuncts(select):
        if isinstance(condition, exp.Not) and _is_subquery_membership(condition.this.unnest()):
            raise QueryError(
                "subquery_not_allowed",
                f"Cannot use {quote_sql(condition)}: NOT IN is unknown where a value is missing. "
                "Write NOT EXISTS (SELECT ... WHERE inner.key = outer.key).",
            )
        if not _is_subquery_membership(condition):
            continue
        inner = condition.args["query"].this
        if not isinstance(inner, exp.Select) or len(inner.expressions) != 1:
            raise QueryError(
                "subquery_not_allowed",
                f"Cannot use {quote_sql(condition)}: select one column in it.",
            )
        alias = _next_alias(select)
        inner.set("expressions", [exp.alias_(inner.expressions[0].unalias(), "member")])
        # Grouped, so that a row matches once however often the subquery contains the value.
        members = exp.select("member").from_(inner.subquery("members")).group_by("member")
        match = exp.EQ(this=condition.this.copy(), expression=_column(alias, "member"))
        _join(select, members, alias, [match], side=None)
        condition.replace(exp.true())


def _is_subquery_membership(node: exp.Expr) -> bool:
    return isinstance(node, exp.In) and node.args.get("query") is not None


def exists_to_join(select: exp.Select) -> None:
    """WHERE [NOT] EXISTS (SELECT ... WHERE inner.key = outer.key) becomes a join on the key."""
    for condition in _conjuncts(select):
        negated = isinstance(condition, exp.Not)
        exists = condition.this.unnest() if negated else condition
        if not isinstance(exists, exp.Exists):
            continue
        inner = _decorrelate(exists, exists.this)
        if not inner.keys or inner.select.args.get("group"):
            raise QueryError(
                "subquery_not_allowed",
                f"Cannot use {quote_sql(exists)}: compare a column inside with one outside, "
                "inner.key = outer.key, and do not group.",
            )
        alias = _next_alias(select)
        inner.select_keys([])
        _join(
            select,
            inner.select,
            alias,
            inner.join_conditions(alias),
            side="LEFT" if negated else None,
        )
        replacement: exp.Expr = exp.true()
        if negated:
            replacement = exp.Is(this=_column(alias, "key_0"), expression=exp.Null())
        condition.replace(replacement)


def scalars_to_join(select: exp.Select) -> None:
    """A subquery that gives one aggregate becomes a column of a left join."""
    clauses = [*select.expressions, *filter(None, [select.args.get("where")])]
    for node in [subquery for clause in clauses for subquery in clause.find_all(exp.Subquery)]:
        inner_select = node.this
        if node.find_ancestor(exp.Select) is not select or not isinstance(inner_select, exp.Select):
            continue
        inner = _decorrelate(node, inner_select)
        outputs = inner.select.expressions
        aggregate = outputs[0].unalias() if len(outputs) == 1 else None
        plain = not inner.select.args.get("group") and not inner.select.args.get("having")
        if not isinstance(aggregate, exp.AggFunc) or not plain:
            raise QueryError(
                "subquery_not_allowed",
                f"Cannot use {quote_sql(node)} as a value: it must give exactly one aggregate, "
                "without GROUP BY.",
            )
        alias = _next_alias(select)
        inner.select_keys([exp.alias_(aggregate.copy(), "value")])
        matches = inner.join_conditions(alias) or [exp.true()]
        _join(select, inner.select, alias, matches, side="LEFT")
        value: exp.Expr = _column(alias, "value")
        if isinstance(aggregate, exp.Count):
            value = exp.Coalesce(this=value, expressions=[exp.convert(0)])
        node.replace(value)


@dataclass
class _Correlated:
    """A decorrelated subquery, with the pairs of inner and outer expressions that it compares."""

    select: exp.Select
    keys: list[tuple[exp.Expr, exp.Expr]]

    def select_keys(self, values: list[exp.Expr]) -> None:
        """Select the keys, grouped by them, and some values."""
        inside = [key for key, _ in self.keys]
        named = [exp.alias_(key.copy(), f"key_{index}") for index, key in enumerate(inside)]
        self.select.set("expressions", [*named, *values])
        self.select.set("distinct", None)
        if inside:
            self.select.set("group", exp.Group(expressions=[key.copy() for key in inside]))

    def join_conditions(self, alias: str) -> list[exp.Expr]:
        """What the join compares."""
        return [
            exp.EQ(this=outside.copy(), expression=_column(alias, f"key_{index}"))
            for index, (_, outside) in enumerate(self.keys)
        ]


def _decorrelate(node: exp.Expr, inner: exp.Expr) -> _Correlated:
    """Split the conditions of a subquery into its own and those that compare with outside."""
    if not isinstance(inner, exp.Select):
        raise QueryError(
            "subquery_not_allowed", f"Cannot use {quote_sql(node)}: it must be a SELECT."
        )
    select = inner.copy()
    own = {
        item.alias_or_name.casefold()
        for item in [select.args.get("from_"), *(select.args.get("joins") or [])]
        if item is not None
        for item in [item.this]
    }
    keys, own_conditions = [], []
    for condition in _conjuncts(select):
        outer = _outer_columns(condition, own)
        if not outer:
            own_conditions.append(condition.copy())
            continue
        pair = _split_equality(condition, own)
        if pair is None:
            raise QueryError(
                "subquery_not_allowed",
                f"Cannot use {quote_sql(condition)}: inside a subquery an outer column may only be "
                "compared by = with an expression of inner columns.",
            )
        keys.append(pair)
    select.set("where", exp.Where(this=exp.and_(*own_conditions)) if own_conditions else None)
    return _Correlated(select, keys)


def _split_equality(condition: exp.Expr, own: set[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """The inner and the outer side of an equality."""
    if not isinstance(condition, exp.EQ):
        return None
    for inside, outside in (
        (condition.this, condition.expression),
        (condition.expression, condition.this),
    ):
        columns = list(outside.find_all(exp.Column))
        if (
            columns
            and len(_outer_columns(outside, own)) == len(columns)
            and not _outer_columns(inside, own)
        ):
            return inside, outside
    return None


def _outer_columns(node: exp.Expr, own: set[str]) -> list[exp.Column]:
    return [
        column
        for column in node.find_all(exp.Column)
        if column.table and column.table.casefold() not in own
    ]


def _conjuncts(select: exp.Select) -> list[exp.Expr]:
    """The conditions of WHERE that are joined by AND."""
    where = select.args.get("where")
    if where is None:
        return []
    root = where.this.unnest()
    conjuncts = root.flatten() if isinstance(root, exp.And) else [root]
    return [conjunct.unnest() for conjunct in conjuncts]


def _next_alias(select: exp.Select) -> str:
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


RULES: tuple[Callable[[exp.Select], None], ...] = (
    conditional_aggregates,
    quantiles,
    membership_to_join,
    exists_to_join,
    scalars_to_join,
    distinct_to_groups,
)


def rewrite(select: exp.Select) -> exp.Select:
    """Apply every rule to every SELECT, the innermost first."""
    rewritten = inline_ctes(select)
    for inner in reversed(list(rewritten.find_all(exp.Select, bfs=True))):
        for rule in RULES:
            rule(inner)
    return rewritten
