"""The smallest boxes of a release, whatever kind it is of: a partition of the space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa


def smallest(tables: Mapping[str, pa.Table], columns: Sequence[str]) -> pa.Table | None:
    """Boxes with a count, from `<column>_low` to `<column>_high`; None if there are none.

    Of a tree they are its leaves; a cell is a box of one value. Missing values lie nowhere.
    """
    table = next(iter(tables.values()))
    if not {"count", *(f"{one}_low" for one in columns)} <= {*table.column_names}:
        if not {"count", *columns} <= {*table.column_names}:
            return None
        for column in columns:
            values = table.column(column)
            table = table.append_column(f"{column}_low", values)
            table = table.append_column(f"{column}_high", values).drop_columns(column)
    if "leaf" in table.column_names:
        table = table.filter(table.column("leaf"))
    for column in columns:
        lows = table.column(f"{column}_low")
        table = table.filter(pc.invert(pc.is_null(lows, nan_is_null=True)))
    return table
