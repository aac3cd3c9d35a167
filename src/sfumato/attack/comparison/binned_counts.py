"""Counts of any release by bins of its columns: rows with labels, anatomies and published tables.

*Bins* are runs of a column's values in the order of its hierarchy, or by size: one for each value
if there are few, else with about equally many rows of the original. A label is divided among the
bins that it covers: in proportion to the number of values, for numbers and dates to the length. No
label covers missing values. Values outside the column have the last bin. So the figures of a
release do not depend on the releases that it is compared with.
*Rows* count in all bins that their labels cover. In an anatomy, values go with the rows of their
group. *Published counts* come from a table with both columns; otherwise two columns count as
independent. A box of a tree or a grid has two columns, A_low and A_high, which become a range
label. A column that a release does not have is spread over all its values. Decision `release-gate`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from sfumato.anonymize.buckets import COUNT, GROUP
from sfumato.anonymize.labels import numeric, ordered, positions
from sfumato.anonymize.taxonomy import declared, grow, read_labels, universe
from sfumato.data.schema.column import Kind
from sfumato.data.schema.hierarchy import stands_for_itself
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.anonymize.taxonomy import Covers
    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.attack.case import HeldRelease, HeldTable
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.hierarchy import Leaf, Taxonomy
    from sfumato.data.schema.schema import Schema
    from sfumato.release.release import Release


MOST_BINS = 20


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """A column in bins; `edges` has the first leaf of each bin, and one after the last."""

    column: Column
    taxonomy: Taxonomy
    edges: IntArray
    lengths: FloatArray
    """Cumulative lengths of the leaves, starting with 0."""

    @property
    def size(self) -> int:
        """The number of bins, including the one of values outside the column."""
        return len(self.edges)

    @property
    def shares_if_unknown(self) -> FloatArray:
        """The shares of the bins for rows whose value is unknown, by length."""
        shares = np.append(np.diff(self.lengths[self.edges]), 0.0)
        return np.asarray(shares / shares.sum()) if shares.any() else np.eye(self.size)[-1]

    def spread(self, labels: Sequence[Leaf]) -> FloatArray:
        """Return the shares of bins of each label, one row for each label."""
        shares = np.zeros((len(labels), self.size))
        leaves = self.taxonomy.positions(labels)
        # Texts that may be labels may cover other values than their own text.
        may_cover = [isinstance(label, str) and not stands_for_itself(label) for label in labels]
        leaves[may_cover] = -1
        values = np.flatnonzero(leaves >= 0)
        shares[values, np.searchsorted(self.edges, leaves[values], side="right") - 1] = 1.0
        for indexes, covers in self._read(labels, np.flatnonzero(leaves < 0).tolist()):
            shares[indexes, :-1] = self._shares_of_runs(covers)
        # Rows must add up to 1; the rest are values outside the column.
        shares[:, -1] = 1.0 - shares[:, :-1].sum(axis=1)
        return shares.clip(min=0.0)

    def _shares_of_runs(self, covers: Covers) -> FloatArray:
        """Return the shares of bins of labels that cover runs of leaves."""
        low = np.maximum(covers.first[:, None], self.edges[:-1])
        high = np.minimum(covers.last[:, None] + 1, self.edges[1:])
        inside = np.where(low < high, self.lengths[high] - self.lengths[low], 0.0)
        by_label = np.add.reduceat(inside, covers.starts, axis=0)
        empty = by_label.sum(axis=1) == 0  # values that only other releases have
        leaves = np.add.reduceat((high - low).clip(min=0), covers.starts, axis=0)
        by_label[empty] = leaves[empty]
        return np.asarray(by_label / by_label.sum(axis=1, keepdims=True))

    def _read(
        self, labels: Sequence[Leaf], indexes: Sequence[int]
    ) -> Iterator[tuple[Sequence[int], Covers]]:
        """Yield what labels cover; unreadable labels are isolated by halving, and skipped."""
        waiting = [indexes] if indexes else []
        while waiting:
            portion = waiting.pop()
            try:
                yield (
                    portion,
                    read_labels(self.column, self.taxonomy, [labels[index] for index in portion]),
                )
            except SchemaError:
                middle = len(portion) // 2
                waiting += [portion[:middle], portion[middle:]] if middle else []


def bins_of(column: Column, labels: Sequence[Leaf], original: Frequencies) -> ColumnBins:
    """Cut a column into bins by its counts in the original."""
    values = original.axes[0].decode(original.codes[0]).to_pylist()
    taxonomy = universe(column, [*labels, *values])
    leaves = taxonomy.positions(values)
    if (leaves < 0).any() and not _lists_all_values(column):
        lacking = [values[index] for index in np.flatnonzero(leaves < 0)]
        taxonomy = grow(column, [*taxonomy.leaves, *lacking])
        leaves = taxonomy.positions(values)
    count = len(taxonomy.leaves)
    known = leaves >= 0
    rows = np.bincount(leaves[known], original.counts[known], minlength=count).astype(np.float64)
    own = rows > 0
    own[taxonomy.positions(list(declared(column)))] = True
    lengths = np.concatenate([[0.0], np.cumsum(_lengths(taxonomy, own))])
    return ColumnBins(column, taxonomy, _edges(rows), lengths)


def _edges(rows: FloatArray) -> IntArray:
    """Return where bins begin: at each leaf, or after about equally many rows."""
    if len(rows) <= MOST_BINS:
        return np.arange(len(rows) + 1)
    before = np.concatenate([[0.0], np.cumsum(rows)])
    # Quantiles of the original's rows, so that every bin has about equally many.
    marks = before[-1] * np.arange(1, MOST_BINS) / MOST_BINS
    inner = np.searchsorted(before, marks, side="left")
    return np.unique(np.concatenate([[0], inner, [len(rows)]]))


def _lengths(taxonomy: Taxonomy, own: BoolArray) -> FloatArray:
    """Return the length of each leaf: 1 for each own value; numbers reach half way to the next."""
    lengths = own.astype(np.float64)
    if taxonomy.leaves and numeric(taxonomy):
        placed = np.array([ordered(leaf) for leaf in taxonomy.leaves])
        halves = np.diff(positions(taxonomy)[placed]) / 2
        if len(halves):
            lengths[:] = 0.0
            lengths[placed] = np.append(halves[0], halves) + np.append(halves, halves[-1])
    missing = [number for number, leaf in enumerate(taxonomy.leaves) if leaf is None]
    lengths[missing] = 0.0
    return lengths


def _lists_all_values(column: Column) -> bool:
    """Return whether the hierarchy lists every value that can occur."""
    return column.hierarchy is not None and column.hierarchy.declared is not None


_BLOCK = 1 << 16
"""Combinations spread over bins at once, to bound memory."""


class Countable(Protocol):
    """A release that returns counts by bins."""

    def labels(self, name: str) -> list[Leaf]:
        """Return the distinct cells of a column; none if the release lacks it."""
        ...

    def single(self, bins: ColumnBins) -> FloatArray:
        """Return the shares of rows by the bins of a column."""
        ...

    def pair(self, first: ColumnBins, second: ColumnBins) -> FloatArray:
        """Return the shares of rows by the bins of two columns."""
        ...


@dataclass(frozen=True, eq=False)
class CountedRows:
    """Rows of people or synthetic rows; sensitive values may be in buckets."""

    release: HeldRelease
    _spread: dict[str, tuple[dict[Leaf, int], FloatArray]] = field(default_factory=dict, repr=False)

    def labels(self, name: str) -> list[Leaf]:
        """Return the distinct cells of a column; none if the release lacks it."""
        held = self._table_with(name)
        return [] if held is None else _values(self._count(held, [name]), name)

    def pair(self, first: ColumnBins, second: ColumnBins) -> FloatArray:
        """Return the shares of rows by the bins of two columns."""
        names = first.column.name, second.column.name
        holders = [self._table_with(name) for name in names]
        if None in holders:
            return np.outer(self.single(first), self.single(second))
        if holders[0] is holders[1] and holders[0] is not None:
            counted = self._count(holders[0], names)
            return _shares(counted.counts, self._rows(counted, first), self._rows(counted, second))
        return self._across(first, second)

    def _table_with(self, name: str) -> HeldTable | None:
        """Return the table that has a column."""
        holders = (self.release.table, self.release.buckets)
        return next((table for table in holders if table is not None and name in table.names), None)

    def _count(self, held: HeldTable, names: Sequence[str]) -> Frequencies:
        weight = COUNT if held is self.release.buckets else None
        return held.counted(names, weight=weight)

    def single(self, bins: ColumnBins) -> FloatArray:
        """Return the shares of rows by the bins of a column."""
        held = self._table_with(bins.column.name)
        if held is None:
            return bins.shares_if_unknown
        counted = self._count(held, [bins.column.name])
        return _shares(counted.counts, self._rows(counted, bins)).reshape(-1)

    def _across(self, first: ColumnBins, second: ColumnBins) -> FloatArray:
        """Count a column of the rows with one of the buckets, joined by their groups."""
        sides = []
        for bins in (first, second):
            held = self._table_with(bins.column.name)
            assert held is not None
            counted = self._count(held, [GROUP, bins.column.name])
            groups = _codes(counted, GROUP)
            sides.append((_values(counted, GROUP), groups, counted.counts, bins, counted))
        known = {group: number for number, group in enumerate(sides[0][0])}
        by_side = []
        for names, groups, counts, bins, counted in sides:
            positions = np.array([known.get(name, len(known)) for name in names])
            by_group = np.zeros((len(known) + 1, bins.size))
            np.add.at(by_group, positions[groups], counts[:, None] * self._rows(counted, bins))
            by_side.append(by_group)
        # Inside a group of an anatomy, values are independent of quasi-identifiers: n_ga * n_gb /
        # n_g.
        sizes = by_side[1].sum(axis=1, keepdims=True)
        joined = by_side[0].T @ np.divide(
            by_side[1], sizes, out=np.zeros_like(by_side[1]), where=sizes > 0
        )
        return _normal(joined)

    def _rows(self, counted: Frequencies, bins: ColumnBins) -> FloatArray:
        """Return the shares of bins of each combination."""
        name = bins.column.name
        if name not in self._spread:
            labels = self.labels(name)
            position_of = {_key(label): number for number, label in enumerate(labels)}
            self._spread[name] = position_of, bins.spread(labels)
        position_of, shares = self._spread[name]
        positions = np.array(
            [position_of[_key(label)] for label in _values(counted, name)], dtype=np.int64
        )
        rows: FloatArray = shares[positions[_codes(counted, name)]]
        return rows


@dataclass(frozen=True, eq=False)
class CountedTables:
    """Published tables of counts, each by some columns."""

    tables: Sequence[pa.Table]
    count: str = "count"

    def labels(self, name: str) -> list[Leaf]:
        """Return the distinct cells of a column; none if the release lacks it."""
        return [
            label
            for table in self.tables
            if name in table.column_names
            for label in table[name].unique().to_pylist()
        ]

    def pair(self, first: ColumnBins, second: ColumnBins) -> FloatArray:
        """Return the shares of rows by the bins of two columns."""
        names = first.column.name, second.column.name
        both = [table for table in self.tables if {*names} <= {*table.column_names}]
        if not both:
            return np.outer(self.single(first), self.single(second))
        # The smallest table adds up the fewest noisy cells.
        table = min(both, key=lambda candidate: candidate.num_columns)
        return _shares(self._counts(table), *(_spread(table, bins) for bins in (first, second)))

    def single(self, bins: ColumnBins) -> FloatArray:
        """Return the shares of rows by the bins of a column."""
        having = [table for table in self.tables if bins.column.name in table.column_names]
        if not having:
            return bins.shares_if_unknown
        table = min(having, key=lambda candidate: candidate.num_columns)
        return _shares(self._counts(table), _spread(table, bins)).reshape(-1)

    def _counts(self, table: pa.Table) -> FloatArray:
        """Return the counts of a table; negative noisy counts become 0."""
        numbers = table[self.count].cast(pa.float64()).fill_null(0.0)
        return np.asarray(numbers, dtype=np.float64).clip(min=0.0)


def _spread(table: pa.Table, bins: ColumnBins) -> FloatArray:
    cells = table[bins.column.name].combine_chunks().dictionary_encode(null_encoding="encode")
    codes = cells.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    rows: FloatArray = bins.spread(cells.dictionary.to_pylist())[codes]
    return rows


def _shares(
    counts: IntArray | FloatArray, first: FloatArray, second: FloatArray | None = None
) -> FloatArray:
    """Add combinations up by the bins of one column, or of two."""
    right = np.ones((len(counts), 1)) if second is None else second
    summed = np.zeros((first.shape[1], right.shape[1]))
    for start in range(0, len(counts), _BLOCK):
        block = slice(start, start + _BLOCK)
        summed += (counts[block, None] * first[block]).T @ right[block]
    return _normal(summed)


def _normal(summed: FloatArray) -> FloatArray:
    """Return counts as shares; equal shares if all counts are 0."""
    total = float(summed.sum())
    return summed / total if total else np.full(summed.shape, 1.0 / summed.size)


def _codes(counted: Frequencies, name: str) -> IntArray:
    codes: IntArray = counted.codes[counted.columns.index(name)].astype(np.int64)
    return codes


def _values(counted: Frequencies, name: str) -> list[Leaf]:
    axis = counted.axis(name)
    values: list[Leaf] = axis.decode(np.arange(axis.size)).to_pylist()
    return values


def _key(label: Leaf) -> Leaf:
    """Return a label as a dictionary key; NaN needs one because it is not equal to itself."""
    return "nan" if isinstance(label, float) and label != label else label


_COUNT, _LEAF = "count", "leaf"


_RANGED = (Kind.INTEGER, Kind.REAL, Kind.DATE)


def published_counts(release: Release, schema: Schema) -> CountedTables:
    """Return the tables of a publication that count rows by declared columns."""
    labelled = (_label_table(table, schema) for table in release.tables.values())
    return CountedTables([counted for counted in labelled if counted is not None], _COUNT)


def _label_table(table: pa.Table, schema: Schema) -> pa.Table | None:
    """Return a table with the columns of the schema that it has, and its counts."""
    if _COUNT not in table.column_names:
        return None
    if _LEAF in table.column_names:  # the others are sums of these
        table = table.filter(table[_LEAF])
    columns = {}
    for column in schema.columns:
        if column.name in table.column_names:
            columns[column.name] = table[column.name]
        elif column.kind in _RANGED and f"{column.name}_low" in table.column_names:
            columns[column.name] = _ranges(table, column)
    return pa.table({**columns, _COUNT: table[_COUNT]}) if columns else None


def _ranges(table: pa.Table, column: Column) -> pa.ChunkedArray:
    ends = [table[f"{column.name}_{end}"].to_pylist() for end in ("low", "high")]
    return pa.chunked_array([[f"[{low}, {high}]" for low, high in zip(*ends, strict=True)]])
