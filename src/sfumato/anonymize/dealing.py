"""Single rows dealt to released values, as a recoding that the engine can apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.grouping import group
from sfumato.recoding import ByRow, ColumnMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.axes import Axis
    from sfumato.frequencies import Frequencies

    Ints = NDArray[np.int64]


class Given(NamedTuple):
    """A released column: a code for each row, and the values that the codes stand for."""

    name: str
    codes: NDArray[np.integer]
    values: pa.Array


def rows_of(table: Frequencies) -> Ints:
    """The combination of each single row."""
    return np.repeat(np.arange(len(table)), table.counts)


def as_they_are(table: Frequencies, name: str, combination: Ints) -> Given:
    """A column released as it is."""
    place = table.columns.index(name)
    present, codes = np.unique(table.codes[place], return_inverse=True)
    return Given(name, codes[combination], table.axes[place].decode(present))


def deal(
    table: Frequencies, combination: Ints, given: Sequence[Given], unchanged: Sequence[str] = ()
) -> ByRow:
    """Release each row of a combination under the values given; rows left out are suppressed."""
    codes = [combination, *(one.codes for one in given)]
    sizes = [len(table), *(len(one.values) for one in given)]
    groups = group(codes, sizes, np.ones(len(combination), dtype=np.int64))
    first = groups.representatives
    columns = [pa.array(axis_codes[combination[first]]) for axis_codes in table.codes]
    columns.append(pa.array(groups.counts))
    columns += [one.values.take(pa.array(one.codes[first])) for one in given]
    names = [*(f"code_{place}" for place in range(len(table.axes))), "rows"]
    shares = pa.Table.from_arrays(columns, names=[*names, *(one.name for one in given)])
    maps = tuple(map(_raw, table.axes, table.codes))
    return ByRow(maps, shares, tuple(unchanged))


def _raw(axis: Axis, codes: NDArray[np.integer]) -> ColumnMap:
    """The map of the values that occur to their own codes."""
    present = np.unique(codes)
    values = axis.decode(present)
    return ColumnMap(axis.column, values, values.cast(pa.string()), pa.array(present))
