"""Which combinations of codes a table's constraints allow, so that a fit keeps to them.

Rows that break a constraint are repaired after drawing, which takes a column away from what was
measured of it. A fit that gives no chance to what is impossible leaves the columns as they are.

Decision `synthesis-fit`.
"""

from __future__ import annotations

from functools import reduce
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.schema.constraints import ImpossibleCombination, OrderedColumns
from sfumato.methods.synth.encode.bins import Bins

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.data.counting.axes import Axis
    from sfumato.data.schema.domain import Scalar
    from sfumato.data.schema.schema import Schema
    from sfumato.methods.synth.encode.encoding import Encoding
    from sfumato.methods.synth.measurement_log import Set

    Allowed = NDArray[np.bool_]

_MOST_CELLS = 1 << 16


def possible_codes(encoding: Encoding) -> dict[Set, Allowed]:
    """Of sets of axes that a constraint ties, which combinations of codes are possible.

    A combination of bins is, where one of their values' is. Large tables are left to repairs.
    """
    found: dict[Set, Allowed] = {}
    for axes, allowed in _constrained(encoding):
        places = [encoding.axes.index(axis) for axis in axes]
        order = np.argsort(places)
        key = tuple(places[place] for place in order.tolist())
        found[key] = found.get(key, np.True_) & allowed.transpose(order)
    return {places: allowed for places, allowed in found.items() if not allowed.all()}


def _constrained(encoding: Encoding) -> Iterator[tuple[Sequence[Axis], Allowed]]:
    axes = {axis.column: axis for axis in encoding.axes}
    for declared in encoding.schema.constraints:
        match one := declared.among(axes):
            case OrderedColumns(columns=columns):
                for lower, upper in _neighbours(columns, encoding.schema):
                    if _fits([axes[lower], axes[upper]]):
                        yield _in_order(axes[lower], axes[upper])
            case ImpossibleCombination(columns=columns):
                tied = [axes[name] for name in columns]
                if _fits(tied):
                    having = [_wholly(axes[name], values) for name, values in one.cells]
                    yield tied, ~reduce(np.logical_and.outer, having)
            case _:
                pass


def _neighbours(columns: Sequence[str], schema: Schema) -> Iterator[tuple[str, str]]:
    """The pairs of an order with nothing in between that is always there: all else follows."""
    for (place, lower), (behind, upper) in combinations(enumerate(columns), 2):
        if all(schema.column(name).nullable for name in columns[place + 1 : behind]):
            yield lower, upper


def _fits(axes: Sequence[Axis]) -> bool:
    return bool(np.prod([float(axis.size) for axis in axes]) <= _MOST_CELLS)


def _in_order(lower: Axis, upper: Axis) -> tuple[Sequence[Axis], Allowed]:
    low, high = _ends(lower)[0], _ends(upper)[1]
    missing = [np.asarray(pc.is_null(one, nan_is_null=True), dtype=bool) for one in (low, high)]
    if pa.types.is_date(low.type):
        low, high = low.cast(pa.int32()), high.cast(pa.int32())
    first, second = (np.nan_to_num(np.asarray(one.fill_null(0))) for one in (low, high))
    allowed = np.less_equal.outer(first, second) | np.logical_or.outer(*missing)
    return (lower, upper), allowed


def _wholly(axis: Axis, values: Sequence[Scalar]) -> Allowed:
    """Which codes stand for one of some values and for nothing else."""
    low, high = _ends(axis)
    listed = [float(one) if pa.types.is_floating(low.type) else one for one in values]  # type: ignore[arg-type]
    alone = np.asarray(pc.equal(low, high).fill_null(False), dtype=bool)
    among = np.asarray(pc.is_in(low, value_set=pa.array(listed, low.type)), dtype=bool)
    return np.asarray(alone & among, dtype=bool)


def _ends(axis: Axis) -> tuple[pa.Array, pa.Array]:
    """The lowest and the highest value of every code."""
    codes = np.arange(axis.size)
    return axis.decode(codes), axis.highest(codes) if isinstance(axis, Bins) else axis.decode(codes)
