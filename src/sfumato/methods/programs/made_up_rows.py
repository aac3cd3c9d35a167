"""Made-up rows for rehearsals, from the declarations of the columns alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.data.counting.axes import declared
from sfumato.data.engines.kinds import STORED, stored_schema
from sfumato.data.schema.column import Kind
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.schema.column import Column

_GOLDEN = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: steps by its odd multiples, modulo 2^64, cover the range evenly
and repeat late (Fibonacci hashing)."""
_EVERY = 7
_FIRST_DAY = 11_000
"""Where nothing is declared, days are those from the beginning of 2000 on."""


def made_up(columns: Sequence[Column], rows: int, *, missing: bool = False) -> pa.Table:
    """So many rows of declared values, the same each time; with some cells missing, if asked."""
    arrays = [
        _cells(column, position, rows, missing=missing) for position, column in enumerate(columns)
    ]
    return pa.Table.from_arrays(
        arrays, schema=stored_schema({column.name: column for column in columns})
    )


def _cells(column: Column, position: int, rows: int, *, missing: bool) -> pa.Array:
    stride = (_GOLDEN * (2 * position + 1)) % 2**64
    # The upper 32 bits; the lower ones of such steps repeat after few rows.
    digits = (np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(stride)) >> np.uint64(32)
    values = _values(replace(column, nullable=False), digits.astype(np.int64))
    if missing and column.nullable:
        absent = np.arange(position, rows + position) % _EVERY == 0
        values = pa.compute.if_else(pa.array(absent), pa.scalar(None, values.type), values)
    return values.cast(STORED[column.kind], safe=False)


def _values(column: Column, digits: np.ndarray) -> pa.Array:
    """One value for each word of 32 bits: of the declared ones, or of the plainest there are."""
    try:
        axis = declared(column)
    except SchemaError:  # nothing finite is declared
        numbers = digits % 100
        if column.kind is Kind.TEXT:
            return pa.array([f"text {number}" for number in numbers.tolist()])
        if column.kind is Kind.DATE:
            return pa.array((numbers + _FIRST_DAY).astype(np.int32)).cast(pa.date32())
        return pa.array(numbers)
    # Python's integers, since a domain may have more points than 32 bits count.
    codes = [digit * axis.size >> 32 for digit in digits.tolist()]
    return axis.decode(np.array(codes, dtype=np.int64))
