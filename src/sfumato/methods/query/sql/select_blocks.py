"""A SELECT below the aggregate: FROM, JOIN, WHERE and its output columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import suggestion
from sfumato.errors import QueryError
from sfumato.methods.query.expressions import compile_value
from sfumato.methods.query.expressions.typed_values import require_kind
from sfumato.methods.query.sql.joins import join_relation
from sfumato.methods.query.sql.parse import quote_sql
from sfumato.methods.query.sql.relation import (
    PERSON,
    Block,
    Relation,
    RowScope,
    add_output,
    as_subquery_column,
    column,
    output_name,
    same_name,
)
from sfumato.methods.query.sql.subqueries import is_aggregated, plan_aggregated
from sfumato.methods.query.sql.tables import declared_table
from sfumato.methods.query.sql.work_limits import cap_rows, check_texts, row_caps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sfumato.methods.query.expressions.typed_values import Typed
    from sfumato.methods.query.sql.tables import Catalogue
    from sfumato.methods.query.sql.work_limits import Cap

JOINS = 8
_CLAUSES = {
    "expressions", "from_", "joins", "where", "group", "having", "distinct", "order", "limit",
    "offset",
}  # fmt: skip


@dataclass
class SelectPlanner:
    """Plans SELECTs against the declared tables, under aliases of its own.

    `caps` has, by the alias of a relation, how many rows of a person are kept before a join;
    `smallest_cap` is the smallest of these numbers as written into the query.
    """

    catalogue: Catalogue
    caps: dict[str, Cap] = field(default_factory=dict)
    smallest_cap: int | None = None
    aliases: Iterator[int] = field(default_factory=count)

    def alias(self) -> str:
        """A new name for a relation."""
        return f"r{next(self.aliases)}"

    def block(self, select: exp.Select) -> Block:
        """Plan FROM, JOIN and WHERE."""
        check_clauses(select)
        origin = select.args.get("from_")
        if origin is None:
            raise QueryError(
                "clause_not_allowed", f"{quote_sql(select)} has no FROM. Name a table."
            )
        joins = select.args.get("joins") or []
        if len(joins) > JOINS:
            raise QueryError(
                "sql_too_complex", f"Cannot join {len(joins)} tables; at most {JOINS} are allowed."
            )
        items = [self._from_item(node) for node in (origin.this, *(join.this for join in joins))]
        block = self._join_all(items, joins)
        # The joins are planned once to learn their factors, and again with capped relations.
        most = row_caps([relation for _, relation in block.scope.relations], block.factors)
        if any(most):
            capped_items = [
                (name, relation if cap is None else cap_rows(self, relation, cap))
                for (name, relation), cap in zip(items, most, strict=True)
            ]
            block = self._join_all(capped_items, joins)
        condition = select.args.get("where")
        if condition is not None:
            condition_value = compile_value(condition.this, block.scope)
            require_kind(condition_value, (Kind.BOOLEAN,), condition.this)
            block.query = block.query.where(condition_value.sql, copy=False)
        return block

    def _join_all(self, items: list[tuple[str, Relation]], joins: list[exp.Join]) -> Block:
        """Join relations, one after the other."""
        name, relation = items[0]
        start = exp.select().from_(relation.item)
        block = Block(RowScope(((name, relation),)), start, relation, (relation.rows_per_person,))
        for join, (name, relation) in zip(joins, items[1:], strict=True):
            if same_name(exp.to_identifier(name), dict(block.scope.relations)):
                raise QueryError(
                    "subquery_not_allowed",
                    f"Two tables are called {quote_sql(join.this)}. Give one an alias.",
                )
            block = join_relation(self, block, join, name, relation)
        return block

    def _from_item(self, node: exp.Expr) -> tuple[str, Relation]:
        """A table or a subquery of FROM, and the name it goes under."""
        extras = {key for key, value in node.args.items() if value} - {"this", "alias"}
        alias = node.args.get("alias")
        renamed = alias is not None and alias.args.get("columns")
        if (
            isinstance(node, exp.Subquery)
            and isinstance(node.this, exp.Select)
            and not (extras or renamed)
        ):
            if not node.alias:
                raise QueryError(
                    "subquery_not_allowed", f"Give the subquery {quote_sql(node)} an alias."
                )
            return node.alias, self.relation(node.this)
        plain = isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)
        if not plain or extras or renamed:
            raise QueryError(
                "clause_not_allowed",
                f"Cannot read from {quote_sql(node)}. Allowed are declared tables by their plain "
                "name and subqueries that are a SELECT.",
            )
        name = same_name(node.this, self.catalogue)
        if name is None:
            raise QueryError(
                "table_unknown",
                f"Unknown table {quote_sql(node)}; {suggestion(node.name, self.catalogue)}",
            )
        return node.alias_or_name, declared_table(name, self.catalogue[name], self.alias())

    def relation(self, select: exp.Select) -> Relation:
        """Plan a subquery."""
        for clause, name in (("limit", "LIMIT"), ("offset", "OFFSET"), ("order", "ORDER BY")):
            if select.args.get(clause):
                raise QueryError(
                    "aggregate_not_allowed",
                    f"Cannot use {name} in the subquery {quote_sql(select)}: which rows it keeps "
                    "depends on other people. Use it only at the end of the whole question.",
                )
        if select.args.get("distinct"):
            raise QueryError("clause_not_allowed", f"Cannot use DISTINCT in {quote_sql(select)}.")
        block = self.block(select)
        if is_aggregated(select):
            return plan_aggregated(self, select, block)
        values = select_outputs(select, block.scope)
        check_texts(values.values())
        return self.as_subquery(block, values)

    def as_subquery(self, block: Block, values: Mapping[str, Typed]) -> Relation:
        """A block as a subquery that hands up some values."""
        alias, rows = self.alias(), block.relation
        query = block.query
        # Names of our own: the asker's could hide a column of ours, such as that of the person.
        names = {name: f"c{index}" for index, name in enumerate(values)}
        for name, value in values.items():
            query = query.select(exp.alias_(value.sql, names[name], quoted=True), copy=False)
        person = None
        if rows.person is not None:
            person = column(alias, PERSON)
            # The invariant of this package: every private relation hands up the person of each
            # row.
            query = query.select(exp.alias_(rows.person.copy(), PERSON, quoted=True), copy=False)
        if not query.expressions:
            query = query.select(exp.convert(1), copy=False)
        item = query.subquery(exp.to_identifier(alias, quoted=True), copy=False)
        columns = {
            name: as_subquery_column(value, alias, names[name]) for name, value in values.items()
        }
        return replace(rows, item=item, columns=columns, person=person, keys={}, keys_hold=False)


def select_outputs(select: exp.Select, scope: RowScope) -> dict[str, Typed]:
    """What a subquery without aggregates hands up, by name."""
    values: dict[str, Typed] = {}
    for index, node in enumerate(select.expressions):
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(star, exp.Star):
            if any(star.args.values()):
                raise QueryError(
                    "column_not_aggregated", f"Cannot use {quote_sql(node)}. Name the columns."
                )
            _add_star(values, node, scope)
            continue
        add_output(values, output_name(node, index), compile_value(node.unalias(), scope), node)
    return values


def _add_star(values: dict[str, Typed], star: exp.Expr, scope: RowScope) -> None:
    """All columns of all tables, or of the named one."""
    qualifier = star.args.get("table")
    for alias, relation in scope.relations:
        if qualifier is not None and same_name(qualifier, [alias]) is None:
            continue
        for name, value in relation.columns.items():
            if (alias, name) not in scope.merged:
                add_output(values, name, value, star)


def check_clauses(select: exp.Select) -> None:
    """Refuse clauses of SELECT that have no private meaning."""
    extra = {key for key, value in select.args.items() if value} - _CLAUSES
    if extra:
        names = ", ".join(sorted(name.strip("_").upper() for name in extra))
        raise QueryError(
            "clause_not_allowed",
            f"Cannot use {names} in {quote_sql(select)}. Allowed are SELECT, FROM, JOIN, WHERE, "
            "GROUP BY, HAVING, ORDER BY, LIMIT and OFFSET.",
        )
