"""Values of columns as places on an axis, and as words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.report.numbers import show
from sfumato.report.text_width import cut

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray

_DAY = 86_400
_FARTHEST = 1e15


def is_ordered(kind: pa.DataType) -> bool:
    """Whether values of a type have places on an axis."""
    types = pa.types
    return is_dated(kind) or bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    )


def are_placed(values: pa.ChunkedArray) -> bool:
    """Whether values have an order, and an axis can hold them all and tell them apart."""
    return is_ordered(values.type) and bool((np.abs(numbers_of(values)) < _FARTHEST).all())


def is_dated(kind: pa.DataType) -> bool:
    """Whether values of a type are days, or times of them."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def numbers_of(values: pa.ChunkedArray) -> FloatArray:
    """Values as numbers; dates and times as days since the beginning of 1970."""
    if pa.types.is_timestamp(values.type):
        seconds = values.cast(pa.timestamp("s", values.type.tz), safe=False).cast(pa.int64())
        return np.asarray(seconds, dtype=np.float64) / _DAY
    if pa.types.is_date(values.type):
        values = values.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    return np.asarray(values, dtype=np.float64)


def half_step(lows: FloatArray, highs: FloatArray) -> float:
    """Half of the way from the last point of a box to the first one of the next."""
    starts, ends = np.unique(lows)[1:], np.unique(highs)[:-1]
    return float((starts - ends).min() / 2) if len(starts) else 0.5


def in_words(value: object) -> str:
    """A released value for people; nothing is a dash."""
    if isinstance(value, float):
        return show(value) if math.isfinite(value) else str(value)
    return "–" if value is None else cut(str(value))


def coded(values: pa.ChunkedArray) -> tuple[list[str], IntArray]:
    """The distinct values in words, in the order in which they come, and the place of each."""
    whole = values.combine_chunks().dictionary_encode()
    names = [in_words(one) for one in whole.dictionary.to_pylist()]
    return names, np.asarray(whole.indices, dtype=np.int64)
