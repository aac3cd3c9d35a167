"""Published statistics as tables of counts by columns: boxes become labels, other tables are left.

A box of a tree or a grid has two columns for its ends, A_low and A_high; together they are the
range that a label would be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.attack.comparison.spread import CountedTables
from sfumato.data.schema.column import Kind

if TYPE_CHECKING:
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.release.release import Release

_COUNT, _LEAF = "count", "leaf"
_RANGED = (Kind.INTEGER, Kind.REAL, Kind.DATE)


def published_counts(release: Release, schema: Schema) -> CountedTables:
    """The tables of a publication that count rows by declared columns."""
    made = (_labelled(table, schema) for table in release.tables.values())
    return CountedTables([one for one in made if one is not None], _COUNT)


def _labelled(table: pa.Table, schema: Schema) -> pa.Table | None:
    """A table with one column for each of the schema's that it has, and its counts."""
    if _COUNT not in table.column_names:
        return None
    if _LEAF in table.column_names:  # the others are sums of these
        table = table.filter(table[_LEAF])
    found = {}
    for column in schema.columns:
        if column.name in table.column_names:
            found[column.name] = table[column.name]
        elif column.kind in _RANGED and f"{column.name}_low" in table.column_names:
            found[column.name] = _ranges(table, column)
    return pa.table({**found, _COUNT: table[_COUNT]}) if found else None


def _ranges(table: pa.Table, column: Column) -> pa.ChunkedArray:
    ends = [table[f"{column.name}_{end}"].to_pylist() for end in ("low", "high")]
    return pa.chunked_array([[f"[{low}, {high}]" for low, high in zip(*ends, strict=True)]])
