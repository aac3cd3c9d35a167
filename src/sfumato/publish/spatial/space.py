"""The space that boxes lie in: ordered columns, and the ways in which values can be missing.

A point with a missing value has no place in the order. Such rows are counted apart, in one block
for each combination of present and missing values: a few blocks, however fine the columns are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.axes import Grid
from sfumato.errors import ParameterError
from sfumato.publish.domain import points
from sfumato.publish.spatial.growth import Growth
from sfumato.publish.spatial.tree import Tree
from sfumato.schema.names import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.axes import Axis
    from sfumato.frequencies import Frequencies

FINEST = 1 << 40
"""The most points of one column: with the number of a box beside it a code still has 64 bits."""
_MOST_COLUMNS = 4
_PRESENT = ("present", "missing", "not a number")


@dataclass(frozen=True)
class Space:
    """The columns of a decomposition."""

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        if len(self.axes) > _MOST_COLUMNS:
            raise ParameterError(
                "too_many_columns",
                f"Boxes lie in at most {_MOST_COLUMNS} columns, not {len(self.axes)}: each more "
                "doubles the parts of every box. Name fewer, or publish 'marginals'.",
            )
        for axis, size in zip(self.axes, self.shape, strict=True):
            if not 1 <= size <= FINEST:
                raise ParameterError(
                    "column_too_fine",
                    f"Column {quoted(axis.column)} has {size:,} points; boxes need from 1 to "
                    f"{FINEST:,}. Declare a coarser step.",
                )

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The points of each column."""
        return tuple(points(axis) for axis in self.axes)

    @cached_property
    def patterns(self) -> list[tuple[int, ...]]:
        """For each block of missing values, whether each column is present (0), NULL or NaN."""
        ways = [range(1 + axis.size - points(axis)) for axis in self.axes]
        return list(product(*ways))[1:]

    def plant(self, counts: Frequencies) -> Growth:
        """One box with all rows in it, from which a tree grows."""
        codes = np.stack([one.astype(np.int64) for one in counts.codes], axis=1)
        ways = np.maximum(codes - np.array(self.shape) + 1, 0)
        inside = ~ways.any(axis=1)
        sizes = [1 + axis.size - points(axis) for axis in self.axes]
        missing = np.zeros(int(np.prod(sizes)), dtype=np.int64)
        np.add.at(missing, np.ravel_multi_index(tuple(ways.T), sizes), counts.counts)
        return Growth(self, codes[inside], counts.counts[inside], missing[1:])

    def table(
        self, tree: Tree, counts: NDArray[np.float64], variances: NDArray[np.float64] | None
    ) -> pa.Table:
        """One row for each box, the root first: where it lies, in whom, and how many are in it.

        Where no variances are known the deviations are null.
        """
        columns: dict[str, pa.Array] = {}
        for place, axis in enumerate(self.axes):
            columns[f"{axis.column}_low"] = axis.decode(tree.lows[:, place])
            columns[f"{axis.column}_high"] = axis.decode(tree.highs[:, place])
        columns["level"] = pa.array(tree.depths)
        columns["parent"] = pa.array(tree.parents, mask=tree.parents < 0)
        columns["leaf"] = pa.array(tree.leaves)
        columns["count"] = pa.array(counts)
        columns["sd"] = _deviations(variances, len(counts))
        return pa.table(columns)

    def read(self, table: pa.Table) -> tuple[Tree, NDArray[np.float64]]:
        """The tree and the counts of a table that `table` made."""
        lows = self._codes(table, "low")
        parents = np.asarray(table.column("parent").fill_null(-1), dtype=np.int64)
        counts = np.asarray(table.column("count"), dtype=np.float64)
        return Tree(lows, self._codes(table, "high"), parents), counts

    def _codes(self, table: pa.Table, end: str) -> NDArray[np.int64]:
        """The codes of the values at one end of each box."""
        found = [_code(axis, table.column(f"{axis.column}_{end}")) for axis in self.axes]
        return np.stack(found, axis=1)

    def missing(self, counts: NDArray[np.float64], variance: float | None) -> pa.Table:
        """One row for each way in which values can be missing."""
        words: list[Sequence[str]] = [[_PRESENT[way] for way in one] for one in self.patterns]
        names = [f"{axis.column}_is" for axis in self.axes]
        arrays = [pa.array(column) for column in zip(*words, strict=True)]
        spread = None if variance is None else np.full(len(counts), variance)
        deviations = _deviations(spread, len(counts))
        return pa.Table.from_arrays(
            [*arrays, pa.array(counts), deviations], names=[*names, "count", "sd"]
        )


def _deviations(variances: NDArray[np.float64] | None, size: int) -> pa.Array:
    return pa.nulls(size, pa.float64()) if variances is None else pa.array(np.sqrt(variances))


def _code(axis: Axis, values: pa.ChunkedArray) -> NDArray[np.int64]:
    if not isinstance(axis, Grid):
        import pyarrow.compute as pc

        return np.asarray(pc.index_in(values, value_set=axis.values), dtype=np.int64)
    ends = values.combine_chunks()
    first = axis.decode(np.zeros(1, dtype=np.int64))
    if pa.types.is_date(ends.type):
        ends, first = ends.cast(pa.int32()), first.cast(pa.int32())
    step = float(axis.bounds.grid_step or 1)
    # Fewer than 2^40 points, so the nearest whole number is the code.
    codes: NDArray[np.int64] = np.rint((np.asarray(ends) - np.asarray(first)) / step).astype(
        np.int64
    )
    return codes
