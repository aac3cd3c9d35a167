"""Relations with their owners, and the scopes that resolve names to columns.

Invariant: every private relation carries its person, and each of its rows depends on at most one
person. Every operator of this package preserves it. Decision `one-source-query`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import QueryError
from sfumato.methods.query.expressions import compile_value
from sfumato.methods.query.expressions.typed_values import Direct, Typed
from sfumato.methods.query.sql.parse import check_modifiers, quote_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sfumato.data.schema.unit import Unit
    from sfumato.methods.query.expressions import Scope


PERSON = "person"
"""The column of a subquery that holds the person."""


@dataclass(frozen=True)
class Owner:
    """The privacy unit of rows, and the population that their people belong to."""

    unit: Unit
    population: str


@dataclass(frozen=True)
class Relation:
    """An item of FROM: its SQL, its columns by name, and its owner.

    `person` is the SQL of the person if the unit is an entity. `keys` has the largest number of
    rows that share a value of some columns; `keys_hold` says that it holds by construction and is
    not only declared. `rows_per_person` is None if a person may have any number of rows.
    """

    item: exp.Expr
    columns: Mapping[str, Typed]
    owner: Owner | None
    person: exp.Expr | None = None
    keys: Mapping[frozenset[str], int] = field(default_factory=dict)
    keys_hold: bool = False
    rows_per_person: int | None = 1
    private: frozenset[str] = frozenset()
    public: frozenset[str] = frozenset()

    def optional(self) -> Relation:
        """The same, where a row may be absent: the far side of an outer join."""
        columns = {
            name: replace(value, nullable=True, unit=False) for name, value in self.columns.items()
        }
        return replace(self, columns=columns)


def same_name(identifier: exp.Expr, names: Collection[str]) -> str | None:
    """Find an identifier among names: exactly if quoted, else without regard to case."""
    spelling = identifier.name
    if spelling in names:
        return spelling
    # SQL: a quoted name has exactly the letters that it shows.
    if isinstance(identifier, exp.Identifier) and identifier.quoted:
        return None
    folded = spelling.casefold()
    return next((name for name in names if name.casefold() == folded), None)


@dataclass(frozen=True)
class RowScope:
    """The columns of the relations of one FROM, by the names they go under there."""

    relations: tuple[tuple[str, Relation], ...]
    merged: frozenset[tuple[str, str]] = frozenset()

    def resolve(self, node: exp.Expr) -> Typed | None:
        """The value of a column."""
        if not isinstance(node, exp.Column):
            return None
        if isinstance(node.this, exp.Star):
            raise QueryError(
                "column_not_aggregated", f"Cannot use {quote_sql(node)} here. Name the columns."
            )
        location = self.locate(node)
        return dict(self.relations)[location[0]].columns[location[1]]

    def has_column(self, node: exp.Column) -> bool:
        """Whether a bare name is a column here, and not only the name of an output."""
        return any(same_name(node.this, relation.columns) for _, relation in self.relations)

    def locate(self, node: exp.Column) -> tuple[str, str]:
        """The relation and the column that a name means."""
        relations = dict(self.relations)
        qualifier = node.args.get("table")
        check_modifiers(node, {"this", "table"})
        if qualifier is not None:
            alias = same_name(qualifier, relations)
            if alias is None:
                raise QueryError(
                    "table_unknown",
                    f"Unknown table {quote_sql(qualifier)}; "
                    f"{suggestion(qualifier.name, relations)}",
                )
            relations = {alias: relations[alias]}
        matches = [
            (alias, name)
            for alias, relation in relations.items()
            if (name := same_name(node.this, relation.columns)) is not None
            and (qualifier is not None or (alias, name) not in self.merged)
        ]
        if not matches:
            names = [name for relation in relations.values() for name in relation.columns]
            raise QueryError(
                "column_unknown",
                f"Unknown column {quote_sql(node)}; {suggestion(node.name, names)}",
            )
        if len(matches) > 1:
            tables = " and ".join(quoted(alias) for alias, _ in matches)
            raise QueryError(
                "column_ambiguous",
                f"Column {quote_sql(node)} is in {tables}. Write table.column.",
            )
        return matches[0]


AGGREGATES = (exp.AggFunc, exp.WithinGroup, exp.Filter)


def has_aggregate(node: exp.Expr) -> bool:
    """Whether a node contains an aggregate outside of its subqueries."""
    aggregates = node.find_all(*AGGREGATES)
    return any(aggregate.parent_select is node.parent_select for aggregate in aggregates)


@dataclass(frozen=True)
class GroupedScope:
    """The scope above an aggregate: keys as below and above it, and the aggregates.

    `totals` says that figures are released here, so that they may be added up over all groups.
    """

    below: Scope
    keys: Sequence[tuple[Typed, Typed]]
    aggregate: Callable[[exp.Expr], Typed]
    totals: bool = False

    def resolve(self, node: exp.Expr) -> Typed | None:
        """The value of an aggregate, or of an expression that is a key."""
        if isinstance(node, AGGREGATES) or (self.totals and isinstance(node, exp.Window)):
            return self.aggregate(node)
        if not isinstance(node, exp.Condition) or node.find(*AGGREGATES):
            return None
        if not node.find(exp.Column):
            return None
        value = compile_value(node, self.below)
        for inside, outside in self.keys:
            # A key is recognized by its compiled form, however it is spelled.
            if inside.tree == value.tree:
                return outside
        if isinstance(node, exp.Column):
            raise QueryError(
                "column_not_aggregated",
                f"Cannot show {quote_sql(node)}: only aggregates leave. Put it into GROUP BY, or "
                "aggregate it: COUNT, SUM, AVG, MEDIAN.",
            )
        return None


@dataclass
class Block:
    """FROM, JOIN and WHERE of one SELECT, planned; `relation` owns the joined rows.

    `factors` has, for each relation, the most rows of it that match one row of the others.
    """

    scope: RowScope
    query: exp.Select
    relation: Relation
    factors: tuple[int | None, ...] = ()


def as_subquery_column(value: Typed, alias: str, name: str) -> Typed:
    """A value as the column of a subquery."""
    tree = column(alias, name)
    direct = value.direct and Direct(value.direct.column, tree)
    return replace(value, tree=tree, direct=direct)


def column(alias: str, name: str) -> exp.Column:
    """Refer to a column of a relation by names of our own, or by its exact name in a table."""
    return exp.column(
        exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True)
    )


def output_name(node: exp.Expr, index: int) -> str:
    """The name of an output of a subquery; a computed one without alias cannot be referred to."""
    return node.alias or (node.name if isinstance(node, exp.Column) else f"column {index + 1}")


def add_output(outputs: dict[str, Typed], name: str, value: Typed, node: exp.Expr) -> None:
    """Add an output of a subquery, unless its name is taken."""
    if same_name(exp.to_identifier(name), outputs) is not None:
        raise QueryError(
            "subquery_not_allowed",
            f"Two columns of a subquery have the name of {quote_sql(node)}. Give one an alias.",
        )
    outputs[name] = value
