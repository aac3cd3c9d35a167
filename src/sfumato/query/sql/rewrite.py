"""Rewriting a question into fewer forms before it is planned: one rule after the other.

A rule sees one SELECT whose subqueries are rewritten already, changes it in place and keeps its
meaning. Common table expressions go first, so that no rule needs to know of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.sql.parse import part
from sfumato.query.sql.relation import has_aggregate
from sfumato.query.sql.subqueries import exists_to_join, membership_to_join, scalars_to_join

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EXPANSIONS = 64

Named = tuple[exp.Select, int]
"""What a name stands for, and how many uses of names it is made of."""


def inline_ctes(select: exp.Select) -> exp.Select:
    """Put the meaning of every name of WITH where it is used."""
    whole = select.copy()
    _inline(whole, {})
    return whole


def _inline(select: exp.Select, outer: Mapping[str, Named]) -> int:
    """Expand names inside a SELECT in place; give the number of expansions."""
    names, spent = dict(outer), 0
    clause = select.args.get("with_")
    if clause is not None:
        if clause.args.get("recursive"):
            raise QueryError(
                "cte_recursive", f"Cannot use WITH RECURSIVE in {part(select)}. Write it out."
            )
        for entry in clause.expressions:
            names[entry.alias.casefold()] = _named(entry, names)
        select.set("with_", None)
    for node in _own(select):
        if isinstance(node, exp.Select):
            spent += _inline(node, names)
        elif isinstance(node, exp.Table) and not node.args.get("db"):
            meaning = names.get(node.name.casefold())
            if meaning is not None:
                spent += 1 + meaning[1]
                _check(spent)
                alias = exp.to_identifier(node.alias_or_name, quoted=True)
                joins = node.args.get("joins")
                subquery = meaning[0].copy().subquery(alias, copy=False)
                subquery.set("joins", joins)
                node.replace(subquery)
    _check(spent)
    return spent


def _named(entry: exp.Expr, names: Mapping[str, Named]) -> Named:
    """One entry of WITH, with the names before it expanded."""
    body = entry.this
    alias = entry.args["alias"]
    if not isinstance(body, exp.Select) or alias.args.get("columns"):
        raise QueryError(
            "cte_not_select",
            f"Cannot use {part(entry)}: an entry of WITH is name AS (SELECT ...).",
        )
    body = body.copy()
    return body, _inline(body, names)


def _own(select: exp.Select) -> list[exp.Expr]:
    """The tables of a SELECT and the SELECTs directly inside it, but not what is inside those."""
    found: list[exp.Expr] = []
    waiting: list[exp.Expr] = list(select.iter_expressions())
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Select | exp.Table):
            found.append(node)
        else:
            waiting.extend(node.iter_expressions())
    return found


def _check(spent: int) -> None:
    if spent > EXPANSIONS:
        raise QueryError(
            "cte_expansions",
            f"Cannot plan the question: its WITH names are used more than {EXPANSIONS} times when "
            "written out. Use them less often.",
        )


_QUANTILES = {"quantile_cont", "quantile_disc", "approx_percentile", "percentile"}


def conditional_aggregates(select: exp.Select) -> None:
    """COUNT(*) FILTER (WHERE c) and COUNT_IF(c) become COUNT(CASE WHEN c THEN 1 END)."""
    for node in list(select.find_all(exp.CountIf)):
        _replace(node, exp.Count(this=_case(node.this, exp.convert(1))))
    for filtered in list(select.find_all(exp.Filter)):
        _replace(filtered, _filtered(filtered))


def _filtered(node: exp.Filter) -> exp.Expr:
    aggregate, condition = node.this.copy(), node.expression.this
    inner = aggregate.this
    if not isinstance(aggregate, exp.AggFunc) or inner is None:
        raise QueryError("aggregate_not_allowed", f"Cannot use {part(node)}.")
    if isinstance(inner, exp.Distinct):
        given = [_case(condition, one) for one in inner.expressions]
        aggregate.set("this", exp.Distinct(expressions=given))
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
                "aggregate_not_allowed", f"Cannot use {part(within)}. Write QUANTILE(x, q)."
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


def _replace(node: exp.Expr, made: exp.Expr) -> None:
    """Put a node in place of another, which keeps its place in the text."""
    made.meta.update(node.meta, name=node.key)
    node.replace(made)


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
            f"Cannot use DISTINCT in {part(select)}. Name its columns, without aggregates, "
            "without GROUP BY and without ON.",
        )
    select.set("distinct", None)
    select.set("group", exp.Group(expressions=[node.copy() for node in outputs]))


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
    whole = inline_ctes(select)
    for one in reversed(list(whole.find_all(exp.Select, bfs=True))):
        for rule in RULES:
            rule(one)
    return whole
