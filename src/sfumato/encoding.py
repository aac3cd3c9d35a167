"""Turning batches of values from an engine into integer codes, dictionaries and counts."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.axes import Axis, Grid, Listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Coded = tuple[tuple[Axis, ...], list[NDArray[np.integer]], NDArray[np.int64]]

OUTSIDE = -1
"""The code of a value for which a declared axis has no place."""


def encode(reader: pa.RecordBatchReader, columns: Sequence[str | Axis]) -> Coded:
    """Code batches of (values of each column, count), holding codes and dictionaries only."""
    nothing = pa.RecordBatch.from_pylist([], schema=reader.schema)
    chunks: list[list[pa.Array]] = [[] for _ in columns]
    counts: list[NDArray[np.int64]] = []
    for batch in chain([nothing], reader):
        counts.append(batch.column(len(columns)).fill_null(0).to_numpy(zero_copy_only=False))
        for place, column in enumerate(columns):
            values = batch.column(place)
            chunks[place].append(values if isinstance(column, Grid) else _dictionary(values))
    axes: list[Axis] = []
    codes: list[NDArray[np.integer]] = []
    for place, column in enumerate(columns):
        axis, coded = _code(chunks[place], column)
        chunks[place] = []
        axes.append(axis)
        codes.append(coded)
    return tuple(axes), codes, np.concatenate(counts).astype(np.int64)


def _dictionary(values: pa.Array) -> pa.Array:
    """Encode one batch; texts of every width become one type, and -0.0 becomes 0.0."""
    if pa.types.is_floating(values.type):
        values = pc.add(values.cast(pa.float64()), 0.0)
    elif pa.types.is_integer(values.type):
        values = values.cast(pa.int64())
    elif not (pa.types.is_boolean(values.type) or pa.types.is_date32(values.type)):
        values = values.cast(pa.string())
    return values.dictionary_encode()


def _code(chunks: list[pa.Array], column: str | Axis) -> tuple[Axis, NDArray[np.integer]]:
    """One column's axis and codes from its batches."""
    if isinstance(column, Grid):
        grid_codes = pa.chunked_array(chunks).fill_null(OUTSIDE).to_numpy()
        return column, _narrow(grid_codes, column.size)
    unified = pa.chunked_array(chunks).unify_dictionaries()
    dictionary = unified.chunk(0).dictionary
    indices = np.concatenate(
        [chunk.indices.fill_null(len(dictionary)).to_numpy() for chunk in unified.chunks]
    )
    if isinstance(column, str):
        order = pc.sort_indices(dictionary)
        missing = pa.nulls(int(unified.null_count > 0), type=dictionary.type)
        values = pa.concat_arrays([dictionary.take(order), missing])
        axis = Listed(column, values, declared=False)
        code_of = np.empty(len(dictionary) + 1, dtype=np.int64)
        code_of[order.to_numpy()] = np.arange(len(dictionary))
        code_of[-1] = len(dictionary)
    else:
        axis = column
        with_missing = pa.concat_arrays([dictionary, pa.nulls(1, type=dictionary.type)])
        found = pc.index_in(with_missing.cast(axis.values.type), value_set=axis.values)
        code_of = found.fill_null(OUTSIDE).to_numpy()
    return axis, _narrow(code_of[indices], axis.size)


def _narrow(codes: NDArray[np.integer], size: int) -> NDArray[np.integer]:
    return codes.astype(np.int32 if size < 1 << 31 else np.int64)
