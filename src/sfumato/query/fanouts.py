"""How many rows of a public table share a value, read once when the table is added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.query.catalogue import Public
from sfumato.query.finish import placed
from sfumato.query.tables import base

if TYPE_CHECKING:
    from sfumato.engines.base import Engine
    from sfumato.schema.schema import Schema


def fanouts(engine: Engine, schema: Schema) -> dict[str, int]:
    """The largest number of rows that share a value of each column, as joins compare values."""
    relation = base(schema.table, Public(schema), "r")
    found: dict[str, int] = {}
    for name, value in relation.columns.items():
        shared = exp.select(exp.alias_(exp.Count(this=exp.Star()), "shared"))
        shared = shared.from_(relation.item).where(value.sql.is_(exp.Null()).not_())
        groups = shared.group_by(value.sql).subquery("sf_groups")
        most = exp.select(exp.alias_(exp.Max(this=exp.column("shared")), "most")).from_(groups)
        answer = engine.run(placed(most, {schema.table: engine.table}))
        found[name] = max(1, answer.column(0)[0].as_py() or 0)
    return found
