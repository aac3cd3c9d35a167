"""The cells of declared columns: the interior, where no value is missing, and all others.

Missing values (NULL, NaN) have no position in an order, so ranges, trees and maps cover only the
interior: one dense array of points. The cells in which some value is missing are few and are
counted one by one. *Invariant*: the blocks of a partition of the interior and these cells together
are a partition of all rows, so the sensitivity of a histogram holds for both together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.counting.axes import Grid
from sfumato.data.schema.names import untaken
from sfumato.errors import ParameterError
from sfumato.privacy.estimation.boxes import box_sums

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Counter

# The most cells of a dense release.
MAX_CELLS = 1 << 26


def figure_name(axes: Sequence[Axis], name: str) -> str:
    """Return the name of a figure beside these columns; numbered where a column has the name."""
    return untaken(name, [axis.column for axis in axes])


def points(axis: Axis) -> int:
    """Return the number of codes of an axis that stand for present values; they come first."""
    return axis.points if isinstance(axis, Grid) else axis.size - axis.values.null_count


@dataclass(frozen=True)
class Domain:
    """All cells of some declared axes."""

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        cells = prod(axis.size for axis in self.axes)
        if cells > MAX_CELLS:
            raise ParameterError(
                "problem_too_large",
                f"{' x '.join(axis.column for axis in self.axes)} has {cells:,} cells; at most "
                f"{MAX_CELLS:,} can be released one by one. Take fewer columns or a coarser "
                "step, or publish as 'sparse'.",
            )

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The points of each axis."""
        return tuple(points(axis) for axis in self.axes)

    @cached_property
    def missing_codes(self) -> tuple[IntArray, ...]:
        """The codes of the cells of missing values, in lexicographic order."""
        missing = np.ones([axis.size for axis in self.axes], dtype=bool)
        missing[tuple(slice(size) for size in self.shape)] = False
        return np.nonzero(missing)

    def split(self, counter: Counter) -> tuple[IntArray, IntArray]:
        """The dense counts of the interior, and the counts of the cells of missing values."""
        dense = counter.of([axis.column for axis in self.axes]).dense()
        interior = dense[tuple(slice(size) for size in self.shape)]
        return np.ascontiguousarray(interior), dense[self.missing_codes]

    def table(
        self, interior: NDArray[np.generic], nulls: NDArray[np.generic], name: str = "count"
    ) -> pa.Table:
        """A table of all cells, the interior first: the values of the columns, and a figure."""
        inside = np.indices(self.shape, dtype=np.int32).reshape(len(self.axes), -1)
        arrays = [
            axis.decode(np.concatenate([codes, missing]))
            for axis, codes, missing in zip(self.axes, inside, self.missing_codes, strict=True)
        ]
        figures = np.concatenate([interior.ravel(), nulls])
        names = [axis.column for axis in self.axes]
        names.append(figure_name(self.axes, name))
        return pa.Table.from_arrays([*arrays, pa.array(figures)], names=names)

    def interior(self, table: pa.Table, name: str = "count") -> FloatArray:
        """Return the interior of a table made by `table`."""
        figures = np.asarray(table.column(figure_name(self.axes, name)), dtype=np.float64)
        return figures[: prod(self.shape)].reshape(self.shape)


def holds_values(boxes: IntArray) -> BoolArray:
    """Return whether each box (queries, columns, ends) of inclusive codes holds any value."""
    return np.asarray((boxes[:, :, 0] <= boxes[:, :, 1]).all(axis=1))


def range_columns(axes: Sequence[Axis], boxes: IntArray) -> dict[str, pa.Array]:
    """The first and the last value of each column of some ranges; NULL for an empty range."""
    empty = ~holds_values(boxes)
    columns: dict[str, pa.Array] = {}
    for column, axis in enumerate(axes):
        for end, suffix in enumerate(("from", "to")):
            codes = np.clip(boxes[:, column, end], 0, max(points(axis) - 1, 0)).astype(np.int64)
            values = axis.decode(codes)
            columns[f"{axis.column}_{suffix}"] = pc.if_else(pa.array(empty), None, values)
    return columns


class CellsMethod:
    """A method that releases one table of all cells, and answers ranges by sums of cells."""

    domain: Domain
    table: ClassVar[str]
    """The name of the table."""

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released table without rows: its name and columns."""
        return {self.table: blank_cells(self.domain.axes)}

    @property
    def released_cells(self) -> int:
        """The number of released cells, from public facts."""
        return prod(axis.size for axis in self.domain.axes)

    def ranges(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Estimate the rows in each box by adding up its cells."""
        return box_sums(self.domain.interior(tables[self.table]), boxes)


def blank_cells(axes: Sequence[Axis], figure: str = "count") -> pa.Table:
    """An empty table of cells: the values of the columns, and a figure."""
    return pa.table(
        {**{axis.column: _empty_column(axis) for axis in axes}, figure: _empty_floats()}
    )


def blank_boxes(axes: Sequence[Axis]) -> pa.Table:
    """An empty table of boxes: the first and the last value of each column, and a count."""
    ends = {f"{axis.column}_{end}": _empty_column(axis) for axis in axes for end in ("low", "high")}
    return pa.table({**ends, "count": _empty_floats()})


def blank_figures(*names: str) -> pa.Table:
    """An empty table of numbers."""
    return pa.table({name: _empty_floats() for name in names})


def _empty_column(axis: Axis) -> pa.Array:
    return axis.decode(np.zeros(0, dtype=np.int64))


def _empty_floats() -> pa.Array:
    return pa.array([], pa.float64())
