"""Rewriting a question into fewer forms before it is planned: one rule after the other.

A rule sees one SELECT whose subqueries are rewritten already, changes it in place and keeps its
meaning. Common table expressions go first, so that no rule needs to know of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.query.rewrite.aggregates import conditional_aggregates, quantiles
from sfumato.query.rewrite.ctes import inline_ctes
from sfumato.query.rewrite.distinct import distinct_to_groups
from sfumato.query.rewrite.subqueries import exists_to_join, membership_to_join, scalars_to_join

if TYPE_CHECKING:
    from collections.abc import Callable

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
