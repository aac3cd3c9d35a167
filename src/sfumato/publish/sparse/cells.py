"""Cells of a huge domain by number: of those in use, of the empty ones between, and back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.axes import Grid
from sfumato.errors import ParameterError
from sfumato.grouping import keys
from sfumato.publish.domain import figure_name
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.axes import Axis
    from sfumato.frequencies import Frequencies

LARGEST = 1 << 60
"""The most cells of a sparse release."""

_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class Cells:
    """All cells of some declared axes, numbered in lexicographic order of their codes."""

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        if self.count > LARGEST:
            raise ParameterError(
                "too_many_cells",
                f"{' x '.join(axis.column for axis in self.axes)} has {self.count:,} cells; at "
                f"most {LARGEST:,} can be numbered. Take fewer columns or a coarser step.",
            )

    @cached_property
    def count(self) -> int:
        """How many cells there are, those of missing values included."""
        return prod(axis.size for axis in self.axes)

    def numbers(self, counts: Frequencies) -> NDArray[np.int64]:
        """The cells that occur, in order."""
        return keys(counts.codes, counts.sizes)[0]

    def table(self, numbers: NDArray[np.int64], figures: NDArray[Any]) -> pa.Table:
        """One row for each of these cells, in their order: values and a count."""
        order = np.argsort(numbers)
        rest, arrays = numbers[order], []
        for axis in reversed(self.axes):
            rest, codes = np.divmod(rest, axis.size)
            arrays.append(axis.decode(codes))
        names = [axis.column for axis in self.axes]
        return pa.Table.from_arrays(
            [*reversed(arrays), pa.array(figures[order])],
            names=[*names, figure_name(self.axes, "count")],
        )

    def box_sums(self, table: pa.Table, boxes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Add up the counts of a table of `table` over boxes of inclusive codes."""
        codes = [_codes(axis, table.column(axis.column)) for axis in self.axes]
        counted = table.column(figure_name(self.axes, "count"))
        figures = np.asarray(counted, dtype=np.float64)
        sums = np.empty(len(boxes))
        at_once = max(1, _AT_ONCE // max(len(figures), 1))
        for first in range(0, len(boxes), at_once):
            part = boxes[first : first + at_once]
            inside = np.ones((len(part), len(figures)), dtype=bool)
            for place, column in enumerate(codes):
                inside &= (column >= part[:, place, :1]) & (column <= part[:, place, 1:])
            sums[first : first + at_once] = inside @ figures
        return sums


def empty_cells(occupied: NDArray[np.int64], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The cells at these ranks among those that are not occupied; both in order, ranks from 0."""
    # Before occupied cell c_j there are c_j - j others.
    others_before = occupied - np.arange(len(occupied))
    return np.asarray(ranks + np.searchsorted(others_before, ranks, side="right"))


def _codes(axis: Axis, values: pa.ChunkedArray) -> NDArray[np.int64]:
    """The codes of released values, of which missing ones are beyond all others."""
    if not isinstance(axis, Grid):
        return np.asarray(pc.index_in(values, value_set=axis.values), dtype=np.int64)
    first = axis.decode(np.zeros(1, dtype=np.int64))
    step = axis.bounds.grid_step or 1
    missing = np.asarray(pc.is_null(values, nan_is_null=True))
    if axis.kind is Kind.REAL:
        reals = np.nan_to_num(np.asarray(values.fill_null(0.0)))
        points = np.rint((reals - first[0].as_py()) / float(step)).astype(np.int64)
    else:
        if axis.kind is Kind.DATE:
            values, first = values.cast(pa.int32()), first.cast(pa.int32())
        # Differences of 64-bit integers fit 64 bits without a sign.
        whole = np.asarray(values.fill_null(0), dtype=np.int64).view(np.uint64)
        low = np.asarray(first, dtype=np.int64).view(np.uint64)
        points = ((whole - low) // np.uint64(step)).astype(np.int64)
    return np.where(missing, axis.points, points)
