"""The codes of values that an axis gave out: what `decode` and `spread` did, undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.counting.axes import Listed
from sfumato.data.schema.column import Kind
from sfumato.methods.synth.encode.bins import Bins
from sfumato.methods.synth.encode.weekdays import Weekdays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Axis, Grid

_EPOCH = 719163
"""The ordinal of 1970-01-01."""


def codes_in(axis: Axis, rows: pa.Table) -> NDArray[np.int32]:
    """The codes of rows that were drawn: of an axis's column, or of days of the week in one."""
    if not isinstance(axis, Weekdays):
        return codes_of(axis, rows.column(axis.column))
    points = codes_of(axis.days, rows.column(axis.days.column))
    return axis.codes(points).astype(np.int32)


def codes_of(axis: Axis, values: pa.ChunkedArray) -> NDArray[np.int32]:
    """The codes of values that are all on the axis; as drawn, with missing values for NaN."""
    if isinstance(axis, Listed):
        found = pc.index_in(values.cast(axis.values.type), value_set=axis.values)
        return np.asarray(found.combine_chunks(), dtype=np.int32)
    grid = axis.fine if isinstance(axis, Bins) else axis
    missing = np.asarray(pc.is_null(values, nan_is_null=True), dtype=bool)
    places = _points(grid, values)
    if isinstance(axis, Bins):
        places = np.searchsorted(axis.starts, places, "right") - 1
    return np.where(missing, axis.points, places).astype(np.int32)


def _points(grid: Grid, values: pa.ChunkedArray) -> IntArray:
    """The numbers of points of a grid; 0 where there is none."""
    low: Any = grid.bounds.low
    step: Any = grid.bounds.grid_step or 1
    if grid.kind is Kind.REAL:
        reals = np.asarray(values.fill_null(float(low)), dtype=np.float64)
        steps = np.nan_to_num(reals - float(low)) / float(step)
        return np.clip(np.rint(steps), 0, grid.points - 1).astype(np.int64)
    if grid.kind is Kind.DATE:
        values, low = values.cast(pa.int32()), low.toordinal() - _EPOCH
    whole = np.asarray(values.cast(pa.int64()).fill_null(int(low)), dtype=np.int64)
    # Distances may need 64 bits without a sign, as where points are decoded.
    distances = whole.astype(np.uint64) - np.full(len(whole), int(low) % 2**64, dtype=np.uint64)
    return (distances // np.uint64(int(step))).astype(np.int64)
