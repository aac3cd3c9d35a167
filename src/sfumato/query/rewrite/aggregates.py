"""Aggregates in fewer forms: conditions inside the argument, quantiles under one name."""

from __future__ import annotations

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.refusal import part

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
