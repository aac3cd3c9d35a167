"""SELECT DISTINCT a, b means SELECT a, b GROUP BY a, b."""

from __future__ import annotations

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.grouped import has_aggregate
from sfumato.query.refusal import part


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
