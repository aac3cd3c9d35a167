"""Values above an aggregate: they may name keys and aggregates, and no other column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.expressions import compile_value
from sfumato.query.refusal import part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.query.expressions import Scope
    from sfumato.query.typed import Typed

AGGREGATES = (exp.AggFunc, exp.WithinGroup, exp.Filter)


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate stands anywhere in a node, subqueries apart."""
    found = node.find_all(*AGGREGATES)
    return any(one.parent_select is node.parent_select for one in found)


@dataclass(frozen=True)
class GroupedScope:
    """Keys, each as it was below the aggregate and as it is above, and a way to ask aggregates."""

    below: Scope
    keys: Sequence[tuple[Typed, Typed]]
    aggregate: Callable[[exp.Expr], Typed]

    def find(self, node: exp.Expr) -> Typed | None:
        """The value of an aggregate, or of an expression that is a key."""
        if isinstance(node, AGGREGATES):
            return self.aggregate(node)
        if not isinstance(node, exp.Condition) or node.find(*AGGREGATES):
            return None
        if not node.find(exp.Column):
            return None
        value = compile_value(node, self.below)
        for inside, outside in self.keys:
            if inside.tree == value.tree:
                return outside
        if isinstance(node, exp.Column):
            raise QueryError(
                "column_not_grouped",
                f"Cannot show {part(node)}: only aggregates leave. Put it into GROUP BY, or "
                "aggregate it: COUNT, SUM, AVG, MEDIAN.",
            )
        return None
