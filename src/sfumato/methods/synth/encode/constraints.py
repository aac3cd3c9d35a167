"""Which combinations of codes a table's constraints allow, so that a fit keeps to them.

Rows that break a constraint are repaired after drawing, which takes a column away from what was
measured of it. A fit that gives no chance to what is impossible leaves the columns as they are.

Decision `synthetic-rows`.
"""

from __future__ import annotations

from functools import reduce
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.schema.constraints import ImpossibleCombination, OrderedColumns
from sfumato.methods.synth.encode.axes import Bins
from sfumato.privacy.noise.selection import uniform_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.schema.constraints import FunctionalDependency
    from sfumato.data.schema.domain import Scalar
    from sfumato.data.schema.schema import Schema
    from sfumato.methods.synth.encode.encoding import Encoding
    from sfumato.methods.synth.measurement_log import ColumnSet
    from sfumato.privacy.noise.entropy import Entropy

    Allowed = NDArray[np.bool_]
    Broken = NDArray[np.bool_]
    Codes = Mapping[str, NDArray[np.integer]]


_MOST_CELLS = 1 << 16


def possible_codes(encoding: Encoding) -> dict[ColumnSet, Allowed]:
    """Of sets of axes that a constraint ties, which combinations of codes are possible.

    A combination of bins is, where one of their values' is. Large tables are left to repairs.
    """
    possible: dict[ColumnSet, Allowed] = {}
    for axes, allowed in _constrained(encoding):
        positions = [encoding.axes.index(axis) for axis in axes]
        order = np.argsort(positions)
        key = tuple(positions[index] for index in order.tolist())
        possible[key] = possible.get(key, np.True_) & allowed.transpose(order)
    return {tied: allowed for tied, allowed in possible.items() if not allowed.all()}


def _constrained(encoding: Encoding) -> Iterator[tuple[Sequence[Axis], Allowed]]:
    axes = {axis.column: axis for axis in encoding.axes}
    for declared in encoding.schema.constraints:
        match constraint := declared.among(axes):
            case OrderedColumns(columns=columns):
                for lower, upper in _neighbours(columns, encoding.schema):
                    if _fits([axes[lower], axes[upper]]):
                        yield _in_order(axes[lower], axes[upper])
            case ImpossibleCombination(columns=columns):
                tied = [axes[name] for name in columns]
                if _fits(tied):
                    having = [_wholly(axes[name], values) for name, values in constraint.cells]
                    yield tied, ~reduce(np.logical_and.outer, having)
            case _:
                pass


def _neighbours(columns: Sequence[str], schema: Schema) -> Iterator[tuple[str, str]]:
    """The pairs of an order with nothing in between that is always there: all else follows."""
    for (index, lower), (later_index, upper) in combinations(enumerate(columns), 2):
        if all(schema.column(name).nullable for name in columns[index + 1 : later_index]):
            yield lower, upper


def _fits(axes: Sequence[Axis]) -> bool:
    return bool(np.prod([float(axis.size) for axis in axes]) <= _MOST_CELLS)


def _in_order(lower: Axis, upper: Axis) -> tuple[Sequence[Axis], Allowed]:
    low, high = _ends(lower)[0], _ends(upper)[1]
    missing = [
        np.asarray(pc.is_null(values, nan_is_null=True), dtype=bool) for values in (low, high)
    ]
    if pa.types.is_date(low.type):
        low, high = low.cast(pa.int32()), high.cast(pa.int32())
    first, second = (np.nan_to_num(np.asarray(values.fill_null(0))) for values in (low, high))
    allowed = np.less_equal.outer(first, second) | np.logical_or.outer(*missing)
    return (lower, upper), allowed


def _wholly(axis: Axis, values: Sequence[Scalar]) -> Allowed:
    """Which codes stand for one of some values and for nothing else."""
    low, high = _ends(axis)
    listed = [float(value) if pa.types.is_floating(low.type) else value for value in values]  # type: ignore[arg-type]
    alone = np.asarray(pc.equal(low, high).fill_null(False), dtype=bool)
    among = np.asarray(pc.is_in(low, value_set=pa.array(listed, low.type)), dtype=bool)
    return np.asarray(alone & among, dtype=bool)


def _ends(axis: Axis) -> tuple[pa.Array, pa.Array]:
    """The lowest and the highest value of every code."""
    codes = np.arange(axis.size)
    return axis.decode(codes), axis.highest(codes) if isinstance(axis, Bins) else axis.decode(codes)


# Rows that were drawn are brought to keep the constraints: by values of other drawn rows.
#
# Every repair takes a value from a row that keeps the constraint and agrees with the broken one
# in what it is about, so that shares among the rows that keep it stay as they were drawn. Only
# what was drawn is read, never the data: this is post-processing.
#
# Decision `synthetic-rows`.


class NeverTogether:
    """Rows of an impossible combination get another value in its last column."""

    def __init__(self, constraint: ImpossibleCombination) -> None:
        self._cells = constraint.cells

    def broken(self, table: pa.Table) -> Broken:
        """Which rows have the combination."""
        return self._matches(table, [*self._cells])

    def repaired(self, table: pa.Table, codes: Codes, entropy: Entropy) -> pa.Table:  # noqa: ARG002
        """The table with the last column take_values from rows that agree in all others of it."""
        *other_cells, last = self._cells
        agree = self._matches(table, other_cells)
        forbidden = self._matches(table, [last])
        source = np.arange(table.num_rows)
        donors = np.flatnonzero(agree & ~forbidden)
        rows = np.flatnonzero(agree & forbidden)
        if len(donors) and len(rows):
            source[rows] = donors[_uniform(len(donors), len(rows), entropy)]
        return take_values(table, [last[0]], source)

    def _matches(self, table: pa.Table, cells: Sequence[tuple[str, tuple[object, ...]]]) -> Broken:
        matching = np.ones(table.num_rows, dtype=bool)
        for name, values in cells:
            column = table.column(name)
            real = pa.types.is_floating(column.type)
            listed = [float(value) if real else value for value in values]  # type: ignore[arg-type]
            listed_values = pa.array(listed, column.type)
            matching &= np.asarray(pc.is_in(column, value_set=listed_values), dtype=bool)
        return matching


class InOrder:
    """Where a value is above a later column's, one of both is taken from rows where it is not.

    Every pair is looked at: a value between two may be missing. Both stay in their bins where they
    can: the upper one is drawn again, then the lower one, which may be the only one whose bin has
    room. Else the upper one leaves its bin.
    """

    def __init__(self, constraint: OrderedColumns) -> None:
        names = constraint.columns
        self._pairs = [
            (lower, upper) for index, upper in enumerate(names) for lower in reversed(names[:index])
        ]

    def broken(self, table: pa.Table) -> Broken:
        """Which rows are out of order."""
        out = np.zeros(table.num_rows, dtype=bool)
        for lower, upper in self._pairs:
            low, high, present = _ranks(table, lower, upper)
            out |= present & (low > high)
        return out

    def repaired(self, table: pa.Table, codes: Codes, entropy: Entropy) -> pa.Table:
        """The table with values from the same bin if possible, else with upper ones from any."""
        anywhere = np.zeros(table.num_rows, dtype=np.int64)
        for pair in self._pairs:
            lower, upper = pair
            for name, bins in ((upper, codes.get(upper)), (lower, codes.get(lower)),
                               (upper, anywhere)):  # fmt: skip
                if bins is not None:
                    table = self._drawn_anew(table, pair, name, bins.astype(np.int64), entropy)
        return table

    def _drawn_anew(
        self, table: pa.Table, pair: tuple[str, str], name: str, bins: IntArray, entropy: Entropy
    ) -> pa.Table:
        low, high, present = _ranks(table, *pair)
        width = max(int(low.max(initial=0)), int(high.max(initial=0))) + 1
        if name == pair[0]:  # the same upside down
            low, high = width - 1 - high, width - 1 - low
        donors = np.flatnonzero(present & (low <= high))
        key = bins[donors] * width + high[donors]
        order = np.argsort(key, kind="stable")
        donors, key = donors[order], key[order]
        rows = np.flatnonzero(present & (low > high))
        first = np.searchsorted(key, bins[rows] * width + low[rows])
        room = np.searchsorted(key, (bins[rows] + 1) * width) - first
        rows, first, room = rows[room > 0], first[room > 0], room[room > 0]
        source = np.arange(table.num_rows)
        source[rows] = donors[first + uniform_below(room, entropy)]
        return take_values(table, [name], source)


class Determined:
    """Rows that agree in the given columns all get what most of them have; it is remembered."""

    def __init__(self, constraint: FunctionalDependency) -> None:
        self._given, self._determined = constraint.given, constraint.determined
        self._known: pa.Table | None = None

    def broken(self, table: pa.Table) -> Broken:
        """Which rows have something else than what was remembered, or than most."""
        return self._settled(table)[1]

    def repaired(self, table: pa.Table, codes: Codes, entropy: Entropy) -> pa.Table:  # noqa: ARG002
        """The table with one combination of determined values for each of the given ones."""
        source, _, rows, settled = self._settled(table)
        self._known = rows.take(pa.array(settled))
        for name in self._determined:
            position = table.column_names.index(name)
            table = table.set_column(position, name, rows.column(name).take(pa.array(source)))
        return table

    def _settled(self, table: pa.Table) -> tuple[IntArray, Broken, pa.Table, IntArray]:
        """From which row each takes what is determined, which so change, and one row a key."""
        rows = table.select([*self._given, *self._determined])
        known = 0 if self._known is None else self._known.num_rows
        if self._known is not None:
            rows = pa.concat_tables([self._known, rows])
        keys, values = _numbers(rows, self._given), _numbers(rows, self._determined)
        width = int(values.max(initial=0)) + 1
        pairs, firsts, pair_of_row = np.unique(
            keys * width + values, return_index=True, return_inverse=True
        )
        weights = np.ones(rows.num_rows)
        weights[:known] = rows.num_rows
        votes = np.bincount(pair_of_row, weights=weights, minlength=len(pairs))
        order = np.lexsort((pairs, -votes, pairs // width))
        new = np.diff(pairs[order] // width, prepend=-1) != 0
        settled = firsts[order][new]
        source = settled[keys[known:]]
        return source, values[known:] != values[source], rows, settled


Repair = NeverTogether | InOrder | Determined


def take_values(table: pa.Table, names: Sequence[str], source: IntArray) -> pa.Table:
    """The table with some columns take_values from other rows."""
    for name in names:
        position = table.column_names.index(name)
        table = table.set_column(position, name, table.column(name).take(pa.array(source)))
    return table


def repeats(table: pa.Table, names: Sequence[str]) -> Broken:
    """Which rows agree with an earlier one in all of some columns, where none is missing."""
    present = np.ones(table.num_rows, dtype=bool)
    for name in names:
        present &= ~np.asarray(pc.is_null(table.column(name), nan_is_null=True), dtype=bool)
    firsts = np.unique(_numbers(table, names), return_index=True)[1]
    later = np.ones(table.num_rows, dtype=bool)
    later[firsts] = False
    return present & later


def _numbers(table: pa.Table, names: Sequence[str]) -> IntArray:
    """Combinations of values numbered 0, 1, ..., all numbers in use."""
    numbers = np.zeros(table.num_rows, dtype=np.int64)
    for name in names:
        column = pc.dictionary_encode(table.column(name).combine_chunks(), null_encoding="encode")
        codes = np.asarray(column.indices, dtype=np.int64)
        numbers = numbers * (int(codes.max(initial=0)) + 1) + codes
        numbers = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    return numbers


def _ranks(table: pa.Table, lower: str, upper: str) -> tuple[IntArray, IntArray, Broken]:
    """Two columns' values as ranks among both, and where both have one."""
    columns = [table.column(name) for name in (lower, upper)]
    missing = [np.asarray(pc.is_null(column, nan_is_null=True), dtype=bool) for column in columns]
    if pa.types.is_date(columns[0].type):
        columns = [column.cast(pa.int32()) for column in columns]
    values = np.concatenate([np.nan_to_num(np.asarray(column.fill_null(0))) for column in columns])
    ranks = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return ranks[: table.num_rows], ranks[table.num_rows :], ~(missing[0] | missing[1])


def _uniform(limit: int, size: int, entropy: Entropy) -> IntArray:
    return uniform_below(np.full(size, limit), entropy)
