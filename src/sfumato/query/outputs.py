"""The query over released figures: arithmetic, HAVING, ORDER BY, LIMIT. It sees no private row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.expressions import compile_value
from sfumato.query.expressions.operands import demand, whole_literal
from sfumato.query.grouped import AGGREGATES
from sfumato.query.plan import NOISY
from sfumato.query.refusal import check_modifiers, part
from sfumato.schema.column import Kind
from sfumato.schema.names import untaken

if TYPE_CHECKING:
    from sfumato.query.grouped import GroupedScope
    from sfumato.query.keys import PlannedKey
    from sfumato.query.measures import Measures
    from sfumato.query.typed import Typed

_ROWS = 10**12


def output_names(select: exp.Select) -> dict[str, exp.Expr]:
    """The outputs by the names they are released under, no two alike but for case."""
    names: dict[str, exp.Expr] = {}
    for node in select.expressions:
        inner = node.unalias()
        star = inner.this if isinstance(inner, exp.Column) else inner
        if isinstance(star, exp.Star):
            raise QueryError(
                "star_misplaced",
                f"Cannot release {part(inner)}: rows never leave. Ask for aggregates: COUNT(*), "
                "SUM, AVG, ...",
            )
        wanted = node.alias or (inner.name if isinstance(inner, exp.Column) else _word(inner))
        names[untaken(wanted, names)] = inner
    return names


def _word(node: exp.Expr) -> str:
    """What an output without a name is called: by its function, as it was written."""
    return str(node.meta.get("name", node.key))


@dataclass(frozen=True)
class Outputs:
    """Builds the query over the noisy table."""

    select: exp.Select
    names: dict[str, exp.Expr]
    scope: GroupedScope
    measures: Measures
    keys: list[PlannedKey]

    def query(self) -> exp.Select:
        """SELECT ... FROM the noisy table, sorted so that the order tells nothing."""
        outputs = {name: self._output(name, node) for name, node in self.names.items()}
        query = exp.select(
            *(exp.alias_(value.sql, name, quoted=True) for name, value in outputs.items())
        ).from_(exp.table_(NOISY))
        above = _Named(self.scope, outputs)
        having = self.select.args.get("having")
        if having is not None:
            condition = demand(compile_value(having.this, above), (Kind.BOOLEAN,), having.this)
            query = query.where(condition.sql)
        order = self._order(above)
        query = query.order_by(*order) if order else query
        for clause in ("limit", "offset"):
            given = self.select.args.get(clause)
            if given is None:
                continue
            check_modifiers(given, {"expression"})
            rows = whole_literal(given.expression, range(_ROWS), clause.upper())
            query = query.limit(rows) if clause == "limit" else query.offset(rows)
        return query

    def _output(self, name: str, node: exp.Expr) -> Typed:
        """An output; an aggregate that stands alone is measured under the output's name."""
        if isinstance(node, AGGREGATES):
            return self.measures.ask(node, name)
        return compile_value(node, self.scope)

    def _order(self, above: _Named) -> list[exp.Expr]:
        """The wanted order, then the keys, so that ties are broken by what is released."""
        order: list[exp.Expr] = []
        clause = self.select.args.get("order")
        for entry in clause.expressions if clause is not None else ():
            if not isinstance(entry, exp.Ordered) or entry.args.get("with_fill"):
                raise QueryError("clause_not_allowed", f"Cannot order by {part(entry)}.")
            flags = {name: entry.args.get(name) for name in ("desc", "nulls_first")}
            order.append(exp.Ordered(this=_ordered(entry.this, above), **flags))
        for key in self.keys:
            name = exp.column(exp.to_identifier(key.key.name, quoted=True))
            order.append(exp.Ordered(this=name, nulls_first=True))
        for found in [one for entry in order for one in entry.find_all(exp.Column)]:
            self._tell_apart(found, above.outputs)
        return order

    def _tell_apart(self, figure: exp.Column, outputs: dict[str, Typed]) -> None:
        """Name the table of a figure where another output has its name, which ORDER BY prefers."""
        folded = {name.casefold(): value.tree for name, value in outputs.items()}
        if folded.get(figure.name.casefold(), figure) != figure:
            figure.set("table", exp.to_identifier(NOISY))


def _ordered(node: exp.Expr, above: _Named) -> exp.Expr:
    """What an entry of ORDER BY means: the place of an output, or a value."""
    if isinstance(node, exp.Literal) and not node.is_string:
        places = range(1, len(above.outputs) + 1)
        place = whole_literal(node, places, "The place in ORDER BY")
        return list(above.outputs.values())[place - 1].sql
    return compile_value(node, above).sql


@dataclass(frozen=True)
class _Named:
    """The scope of HAVING and ORDER BY: outputs by name, then keys and aggregates."""

    scope: GroupedScope
    outputs: dict[str, Typed]

    def find(self, node: exp.Expr) -> Typed | None:
        named = {name.casefold(): value for name, value in self.outputs.items()}
        if isinstance(node, exp.Column):
            found = None if node.table else named.get(node.name.casefold())
            return self.scope.find(node) if found is None else found
        made = any(one.name.casefold() in named for one in node.find_all(exp.Column))
        if made and not isinstance(node, AGGREGATES):
            return None  # it is not a key as a whole, but may be made of outputs
        return self.scope.find(node)
