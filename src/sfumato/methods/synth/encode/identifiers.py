"""Fresh identifiers: running numbers in the form that a column declares. They tell of nobody."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.counting.axes import Grid, declared
from sfumato.data.schema.column import Kind
from sfumato.data.schema.constraints import UniqueKey
from sfumato.data.schema.domain import Bounds, Values
from sfumato.errors import ParameterError
from sfumato.methods.synth.encode.axes import Bins
from sfumato.methods.synth.encode.constraints import repeats
from sfumato.privacy.noise.selection import permutation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.counting.axes import Axis
    from sfumato.data.schema.column import Column
    from sfumato.methods.synth.encode.encoding import Encoding
    from sfumato.privacy.noise.entropy import Entropy


def running_identifiers(column: Column, first: int, rows: int) -> pa.Array:
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


def can_be_numbered(column: Column) -> bool:
    """Whether running numbers, or declared values one after another, can stand for a column."""
    return isinstance(column.public_domain, Values) or column.kind in (Kind.INTEGER, Kind.TEXT)


def room(column: Column) -> int | None:
    """How many different identifiers there are; None if as many as anybody likes."""
    if column.public_domain is not None:
        return column.public_domain.size
    if column.kind is Kind.TEXT and column.length is not None:
        return int(10**column.length) - 1
    return None


# Keys that must not repeat: how many there can be, and which ones are free.

_MOST_LISTED = 1 << 20
"""Up to so many keys are listed to find those that are free."""


def key_room(encoding: Encoding) -> int | None:
    """How many rows can have different keys, by what is declared; None if any number can."""
    keys = [
        constraint.columns
        for constraint in encoding.schema.constraints
        if isinstance(constraint, UniqueKey)
    ]
    sizes = [_size(encoding, columns) for columns in keys]
    return min((size for size in sizes if size is not None), default=None)


def too_many_for_keys(rows: int, most: int) -> ParameterError:
    """Say that a constraint allows fewer rows."""
    return ParameterError(
        "parameter_out_of_range",
        f"A unique key of the schema has {most:,} different values by what is declared, so there "
        f"cannot be {rows:,} rows. Ask for fewer, or leave out the constraint.",
        parameter="rows",
    )


def free_keys(
    encoding: Encoding, columns: Sequence[str], taken: pa.Table, key_count: int, entropy: Entropy
) -> pa.Table | None:
    """At most so many keys that none of the taken ones is, at random; None if all are too many."""
    axes = [axis for axis in encoding.axes if axis.column in columns]
    sizes = [_values(axis) for axis in axes]
    if len(axes) < len(columns) or prod(sizes) > _MOST_LISTED:
        return None
    codes = np.indices(sizes).reshape(len(axes), -1)
    listed = pa.table(
        {axis.column: _fine(axis).decode(code) for axis, code in zip(axes, codes, strict=True)}
    )
    both = pa.concat_tables([taken, listed.select(columns).cast(taken.schema)])
    free = np.flatnonzero(~repeats(both, columns)[taken.num_rows :])
    return listed.take(pa.array(free[permutation(len(free), entropy)[:key_count]]))


def _size(encoding: Encoding, columns: Sequence[str]) -> int | None:
    """How many keys there are; a missing value makes a key that may repeat."""
    axes = {axis.column: axis for axis in encoding.declared_axes}
    sizes = []
    for column in (encoding.schema.column(name) for name in columns):
        if column in encoding.invented:
            sizes.append(room(column))
        elif column.name not in axes or column.nullable:
            return None
        else:
            sizes.append(_values(axes[column.name]))
    return None if None in sizes else prod(size for size in sizes if size is not None)


def _values(axis: Axis) -> int:
    """How many values there are, without missing ones."""
    fine = _fine(axis)
    return fine.points if isinstance(fine, Grid) else fine.size - fine.values.null_count


def _fine(axis: Axis) -> Axis:
    return axis.fine if isinstance(axis, Bins) else axis
