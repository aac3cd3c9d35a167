"""Encode batches of values from an engine as codes, dictionaries and counts.

Integers, dates and booleans in a short range are looked up in a table as long as the range, which
costs a fraction of hashing; texts and reals are hashed. No array held here is a view into a batch:
it would keep all columns of the batch in memory. Decision `large-releases`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.counting.axes import Grid, Listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.data.counting.axes import Axis

    Coded = tuple[tuple[Axis, ...], list[NDArray[np.integer]], IntArray]

OUTSIDE = -1
"""The code of a value that is not on a declared axis."""

# A lookup table of up to this many slots, or this many slots per value, is cheaper than hashing.
_SHORT_RANGE = 1 << 16
_RANGE_FACTOR = 4


def encode(reader: pa.RecordBatchReader, columns: Sequence[str | Axis]) -> Coded:
    """Encode batches of (values of each column, count).

    Parameters
    ----------
    reader : pa.RecordBatchReader
        One column of values for each of `columns`, then a column of counts.
    columns : sequence of str or Axis
        A name for an observed axis, or a declared axis whose codes are used.

    Returns
    -------
    tuple
        The axes, an array of codes for each, and the counts.
    """
    # An empty first batch, so that a result without rows still has its types.
    empty = pa.RecordBatch.from_pylist([], schema=reader.schema)
    chunks: list[list[Any]] = [[] for _ in columns]
    counts: list[IntArray] = []
    for batch in chain([empty], reader):
        counted = batch.column(len(columns)).fill_null(0)
        counts.append(counted.to_numpy(zero_copy_only=False).astype(np.int64))
        for position, held in enumerate(chunks):
            held.append(_held(batch.column(position)))
    axes: list[Axis] = []
    codes: list[NDArray[np.integer]] = []
    for position, column in enumerate(columns):
        axis, coded = _code(chunks[position], column)
        chunks[position] = []
        axes.append(axis)
        codes.append(coded)
    return tuple(axes), codes, np.concatenate(counts)


@dataclass(frozen=True)
class _Integers:
    """Values of one batch that are stored as integers, and which of them are NULL."""

    kind: pa.DataType
    numbers: NDArray[np.integer]
    missing: BoolArray | None


def _held(values: pa.Array) -> pa.Array | _Integers:
    """Copy a column of a batch; text types become one, and -0.0 becomes 0.0, which it equals."""
    kind = values.type
    if pa.types.is_date32(kind):
        return _integers(values.cast(pa.int32()), kind)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return _integers(values.cast(pa.int64()), kind if pa.types.is_boolean(kind) else pa.int64())
    if pa.types.is_floating(kind):
        return pc.add(values.cast(pa.float64()), 0.0).dictionary_encode()  # -0.0 + 0.0 is 0.0
    return values.cast(pa.string()).dictionary_encode()


def _integers(values: pa.Array, kind: pa.DataType) -> _Integers:
    """Copy integers, as 32 bits where they fit, which halves the memory."""
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.array([numbers.min(initial=0), numbers.max(initial=0)])
    narrow = np.array_equal(ends.astype(np.int32), ends)
    missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return _Integers(kind, numbers.astype(np.int32 if narrow else np.int64), missing)


def _code(chunks: list[Any], column: str | Axis) -> tuple[Axis, NDArray[np.integer]]:
    """The axis and the codes of one column."""
    if isinstance(column, Grid):
        numbers, missing = _joined(chunks)
        if missing is not None:
            numbers[missing] = OUTSIDE
        return column, _narrow(numbers, column.size)
    numbered = _numbered if isinstance(chunks[0], _Integers) else _unified
    dictionary, indices = numbered(chunks)
    if isinstance(column, str):
        order = pc.sort_indices(dictionary)
        has_missing = len(indices) > 0 and indices.max() == len(dictionary)
        missing_value = pa.nulls(int(has_missing), type=dictionary.type)
        values = pa.concat_arrays([dictionary.take(order), missing_value])
        axis: Axis = Listed(column, values, declared=False)
        code_of = np.empty(len(dictionary) + 1, dtype=np.int64)
        code_of[order.to_numpy()] = np.arange(len(dictionary))
        code_of[-1] = len(dictionary)
    else:
        axis = column
        with_missing = pa.concat_arrays([dictionary, pa.nulls(1, type=dictionary.type)])
        codes = pc.index_in(with_missing.cast(column.values.type), value_set=column.values)
        code_of = codes.fill_null(OUTSIDE).to_numpy()
    return axis, _narrow(code_of, axis.size)[indices]


def _unified(chunks: list[pa.Array]) -> tuple[pa.Array, NDArray[np.integer]]:
    """The distinct values, and for each value its position among them; past the end for NULL."""
    unified = pa.chunked_array(chunks).unify_dictionaries()
    dictionary = unified.chunk(0).dictionary
    positions = [chunk.indices.fill_null(len(dictionary)).to_numpy() for chunk in unified.chunks]
    return dictionary, np.concatenate(positions)


def _numbered(chunks: list[_Integers]) -> tuple[pa.Array, NDArray[np.integer]]:
    """The same as `_unified` for integers."""
    kind = chunks[0].kind
    numbers, missing = _joined(chunks)
    present = numbers if missing is None else numbers[~missing]
    low, high = (int(present.min()), int(present.max())) if len(present) else (0, -1)
    if high - low >= max(_SHORT_RANGE, _RANGE_FACTOR * len(numbers)):
        coded = pa.array(numbers, mask=missing).dictionary_encode()
        distinct = coded.dictionary
        positions = coded.indices.fill_null(len(distinct)).to_numpy()
    else:
        used = np.zeros(high - low + 2, dtype=bool)
        used[present - low] = True
        distinct = pa.array(np.flatnonzero(used) + low)
        position_of = np.cumsum(used, dtype=np.int32) - 1
        # The slot after that of the highest number stands for NULL.
        position_of[-1] = len(distinct)
        slots = numbers - low
        if missing is not None:
            slots = np.where(missing, len(used) - 1, slots)
        positions = position_of[slots]
    return _stored(distinct, kind), positions


def _stored(distinct: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert integers back to dates or booleans."""
    if pa.types.is_date32(kind):
        distinct = distinct.cast(pa.int32())
    return distinct.cast(kind)


def _joined(chunks: Sequence[_Integers]) -> tuple[NDArray[np.integer], BoolArray | None]:
    """All numbers, and a mask of NULL where there is any."""
    numbers = np.concatenate([chunk.numbers for chunk in chunks])
    if all(chunk.missing is None for chunk in chunks):
        return numbers, None
    masks = [
        np.zeros(len(chunk.numbers), dtype=bool) if chunk.missing is None else chunk.missing
        for chunk in chunks
    ]
    return numbers, np.concatenate(masks)


def _narrow(codes: NDArray[np.integer], size: int) -> NDArray[np.integer]:
    return codes.astype(np.int32 if size < 1 << 31 else np.int64)
