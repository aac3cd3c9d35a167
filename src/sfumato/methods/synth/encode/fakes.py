"""Fresh identifiers: running numbers in the form that a column declares. They tell of nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.counting.axes import declared
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds, Values

if TYPE_CHECKING:
    from sfumato.data.schema.column import Column


def fakes(column: Column, first: int, rows: int) -> pa.Array:
    """Identifiers number `first` and following, none missing; different as long as there is room.

    Declared values in their order; else the points of declared bounds; else 1, 2, 3, ..., which as
    text have zeros in front up to the declared length. Then they begin again.
    """
    numbers = first + np.arange(rows, dtype=np.int64)
    if (most := room(column)) is not None and most < 1 << 62:
        numbers %= most
    match column.public_domain:
        case Values() | Bounds():
            return declared(replace(column, nullable=False)).decode(numbers)
    if column.kind is not Kind.TEXT:
        return pa.array(numbers + 1)
    return pc.utf8_lpad(pa.array(numbers + 1).cast(pa.string()), column.length or 1, "0")


def can_be_faked(column: Column) -> bool:
    """Whether running numbers, or declared values one after another, can stand for a column."""
    return isinstance(column.public_domain, Values) or column.kind in (Kind.INTEGER, Kind.TEXT)


def room(column: Column) -> int | None:
    """How many different identifiers there are; None if as many as anybody likes."""
    if column.public_domain is not None:
        return column.public_domain.size
    if column.kind is Kind.TEXT and column.length is not None:
        return int(10**column.length) - 1
    return None
