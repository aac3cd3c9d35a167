"""Tables as a method will release them, but without a row: what is known before any is spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.axes import Axis


def cells(axes: Sequence[Axis], figure: str = "count") -> pa.Table:
    """A table of cells: the values of the columns, and a figure."""
    return pa.table({**{axis.column: _none(axis) for axis in axes}, figure: _numbers()})


def boxes(axes: Sequence[Axis]) -> pa.Table:
    """A table of boxes: the first and the last value of each column, and a count."""
    ends = {f"{axis.column}_{end}": _none(axis) for axis in axes for end in ("low", "high")}
    return pa.table({**ends, "count": _numbers()})


def figures(*names: str) -> pa.Table:
    """A table of numbers alone."""
    return pa.table({name: _numbers() for name in names})


def _none(axis: Axis) -> pa.Array:
    return axis.decode(np.zeros(0, dtype=np.int64))


def _numbers() -> pa.Array:
    return pa.array([], pa.float64())
