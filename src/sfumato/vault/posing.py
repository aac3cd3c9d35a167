"""Posing the problem of a release: count what the criteria look at, grow the hierarchies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.criteria import KAnonymity
from sfumato.anonymize.leaves import grow
from sfumato.anonymize.order import order_of
from sfumato.anonymize.problem import Problem
from sfumato.errors import CriterionError, SchemaError
from sfumato.frequencies import count
from sfumato.privacy.units import Entity
from sfumato.schema.column import Kind, Role
from sfumato.schema.names import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.criteria import Criterion
    from sfumato.frequencies import Frequencies
    from sfumato.privacy.numbers import Number
    from sfumato.schema.column import Column
    from sfumato.schema.hierarchy.base import Taxonomy
    from sfumato.schema.schema import Schema
    from sfumato.vault.table import Table

_PROPOSED = {
    Kind.INTEGER: "{ widths = [5, 10, 20] }",
    Kind.REAL: "{ widths = [5, 10, 20] }",
    Kind.DATE: '{ dates = ["month", "year", "decade"] }',
    Kind.TEXT: '{ mask = "right" }',
    Kind.BOOLEAN: "{ tree = [true, false] }",
}


def pose(
    table: Table,
    criteria: Sequence[Criterion],
    *,
    suppress: Number,
    population: Table | None = None,
    further: Sequence[str] = (),
) -> tuple[Problem, Frequencies]:
    """Set the problem up, and give the counts of quasi-identifiers, sensitive and further columns.

    Where the unit is a person, their column is counted too: how many people a class has is known
    only from who they are. The population is counted by the quasi-identifiers alone.
    """
    quasi = [column.name for column in table.schema.by_role(Role.QUASI)]
    sensitive = list(dict.fromkeys(c.column for c in criteria if c.column is not None))
    columns = list(dict.fromkeys([*quasi, *sensitive, *further]))
    for name in columns:
        _require_hierarchy(table.schema.column(name), released=table.released)
    person = person_of(table.schema)
    counted = list(dict.fromkeys([*columns, *([] if person is None else [person])]))
    tables = [count(table.engine, table.engine.table, counted)]
    _require_rows(tables[0], person, criteria)
    if population is not None:
        tables.append(count(population.engine, population.engine.table, quasi))
    grown = {name: _grown(table.schema.column(name), tables) for name in columns}
    problem = Problem.build(
        tables[0],
        {name: taxonomy for name, taxonomy in grown.items() if taxonomy is not None},
        quasi,
        criteria,
        suppression_limit=suppress,
        population=None if population is None else tables[1],
        orders={name: order_of(table.schema.column(name)) for name in sensitive},
        person=person,
    )
    return problem, tables[0]


def person_of(schema: Schema) -> str | None:
    """The column that says whose row it is, where the unit is a person."""
    return schema.unit.column if isinstance(schema.unit, Entity) else None


def _require_hierarchy(column: Column, *, released: bool) -> None:
    """Refuse a quasi-identifier that nothing says how to make coarser, with what to write."""
    if column.role is Role.QUASI and column.hierarchy is None:
        if released:
            raise SchemaError(
                "already_released",
                "This table is a release already, as the side-car beside it tells: the hierarchies "
                "of its schema are of the original, not of labels. Anonymize the original.",
            )
        raise SchemaError(
            "quasi_without_hierarchy",
            f"Column {quoted(column.name)} is a quasi-identifier without a hierarchy. Write, for "
            f"example, hierarchy = {_PROPOSED[column.kind]} under [columns.{column.name}], let "
            "`sfumato inspect --write` propose one, or give it another role.",
        )


def _require_rows(table: Frequencies, person: str | None, criteria: Sequence[Criterion]) -> None:
    """Refuse a k above the number of rows, or people, in plain words; no search can reach it."""
    k = max((one.k for one in criteria if isinstance(one, KAnonymity)), default=1)
    many, what = table.total, "rows"
    if person is not None:
        many, what = len(table.marginal([person])), "people"
    if 0 < many < k:
        raise CriterionError(
            "k_above_rows",
            f"No release is {k:,}-anonymous: the table has only {many:,} {what}. Ask for a smaller "
            f"k, or collect more {what}.",
        )


def _grown(column: Column, tables: Sequence[Frequencies]) -> Taxonomy | None:
    """The hierarchy of a column over all values declared or met; its errors name the column."""
    if column.hierarchy is None:
        return None
    axes = [one.axis(column.name) for one in tables if column.name in one.columns]
    values = [value for axis in axes for value in axis.decode(np.arange(axis.size)).to_pylist()]
    try:
        grown = grow(column, values)
        grown.locate(values)
    except SchemaError as error:
        message = f"Column {quoted(column.name)}: {error.message}"
        raise SchemaError(error.code, message, detail=error.detail) from None
    return grown
