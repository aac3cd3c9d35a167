"""Counts by one and by two columns as any release has them, its labels spread evenly.

A release is read as its user would read it who has to count: a row counts in all bins that its
labels cover. In a release of two tables values go with the rows of their group. Published counts
are taken from a table that has both columns; without one, two columns are taken as independent.
What a release does not tell of a column is spread over all that the column can hold.

Decision 0294.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from sfumato.anonymize.buckets import COUNT, GROUP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.attack.case import HeldRelease, HeldTable
    from sfumato.attack.comparison.bins import ColumnBins
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.hierarchy.base import Leaf


_BLOCK = 1 << 16
"""So many combinations are spread at once."""


class Countable(Protocol):
    """A release that can be asked for counts by bins."""

    def labels(self, name: str) -> list[Leaf]:
        """What stands in a column; nothing where it does not have it."""
        ...

    def single(self, bins: ColumnBins) -> FloatArray:
        """The shares of rows by the bins of a column."""
        ...

    def pair(self, one: ColumnBins, other: ColumnBins) -> FloatArray:
        """The shares of rows by the bins of two columns."""
        ...


@dataclass(frozen=True, eq=False)
class CountedRows:
    """Rows of people, or made up ones; values may lie apart in buckets."""

    release: HeldRelease
    _spread: dict[str, tuple[dict[Leaf, int], FloatArray]] = field(default_factory=dict, repr=False)

    def labels(self, name: str) -> list[Leaf]:
        """What stands in a column; nothing where it does not have it."""
        held = self._holder(name)
        return [] if held is None else _values(self._counted(held, [name]), name)

    def pair(self, one: ColumnBins, other: ColumnBins) -> FloatArray:
        """The shares of rows by the bins of two columns."""
        names = one.column.name, other.column.name
        holders = [self._holder(name) for name in names]
        if None in holders:
            return np.outer(self.single(one), self.single(other))
        if holders[0] is holders[1] and holders[0] is not None:
            counted = self._counted(holders[0], names)
            return _shares(counted.counts, self._rows(counted, one), self._rows(counted, other))
        return self._across(one, other)

    def _holder(self, name: str) -> HeldTable | None:
        """The table that has a column."""
        found = (self.release.table, self.release.buckets)
        return next((one for one in found if one is not None and name in one.names), None)

    def _counted(self, held: HeldTable, names: Sequence[str]) -> Frequencies:
        weight = COUNT if held is self.release.buckets else None
        return held.counted(names, weight=weight)

    def single(self, bins: ColumnBins) -> FloatArray:
        """The shares of rows by the bins of a column."""
        held = self._holder(bins.column.name)
        if held is None:
            return bins.anywhere
        counted = self._counted(held, [bins.column.name])
        return _shares(counted.counts, self._rows(counted, bins)).reshape(-1)

    def _across(self, one: ColumnBins, other: ColumnBins) -> FloatArray:
        """A column of the rows with one of the values, by the groups that both have."""
        sides = []
        for bins in (one, other):
            held = self._holder(bins.column.name)
            assert held is not None
            counted = self._counted(held, [GROUP, bins.column.name])
            groups = _codes(counted, GROUP)
            sides.append((_values(counted, GROUP), groups, counted.counts, bins, counted))
        known = {group: place for place, group in enumerate(sides[0][0])}
        made = []
        for names, groups, counts, bins, counted in sides:
            places = np.array([known.get(name, len(known)) for name in names])
            by_group = np.zeros((len(known) + 1, bins.size))
            np.add.at(by_group, places[groups], counts[:, None] * self._rows(counted, bins))
            made.append(by_group)
        sizes = made[1].sum(axis=1, keepdims=True)
        joined = made[0].T @ np.divide(made[1], sizes, out=np.zeros_like(made[1]), where=sizes > 0)
        return _normal(joined)

    def _rows(self, counted: Frequencies, bins: ColumnBins) -> FloatArray:
        """The shares of bins of each combination."""
        name = bins.column.name
        if name not in self._spread:
            labels = self.labels(name)
            places = {_key(label): place for place, label in enumerate(labels)}
            self._spread[name] = places, bins.spread(labels)
        places, shares = self._spread[name]
        found = np.array([places[_key(label)] for label in _values(counted, name)], dtype=np.int64)
        rows: FloatArray = shares[found[_codes(counted, name)]]
        return rows


@dataclass(frozen=True, eq=False)
class CountedTables:
    """Published tables of counts, each by some columns; labels stand where bins would."""

    tables: Sequence[pa.Table]
    count: str = "count"

    def labels(self, name: str) -> list[Leaf]:
        """What stands in a column; nothing where it does not have it."""
        return [
            label
            for table in self.tables
            if name in table.column_names
            for label in table[name].unique().to_pylist()
        ]

    def pair(self, one: ColumnBins, other: ColumnBins) -> FloatArray:
        """The shares of rows by the bins of two columns."""
        names = one.column.name, other.column.name
        both = [table for table in self.tables if {*names} <= {*table.column_names}]
        if not both:
            return np.outer(self.single(one), self.single(other))
        table = min(both, key=lambda found: found.num_columns)
        return _shares(self._counts(table), *(_spread(table, bins) for bins in (one, other)))

    def single(self, bins: ColumnBins) -> FloatArray:
        """The shares of rows by the bins of a column."""
        having = [table for table in self.tables if bins.column.name in table.column_names]
        if not having:
            return bins.anywhere
        table = min(having, key=lambda found: found.num_columns)
        return _shares(self._counts(table), _spread(table, bins)).reshape(-1)

    def _counts(self, table: pa.Table) -> FloatArray:
        """Counts that noise has brought below zero are none."""
        numbers = table[self.count].cast(pa.float64()).fill_null(0.0)
        return np.asarray(numbers, dtype=np.float64).clip(min=0.0)


def _spread(table: pa.Table, bins: ColumnBins) -> FloatArray:
    cells = table[bins.column.name].combine_chunks().dictionary_encode(null_encoding="encode")
    codes = cells.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    rows: FloatArray = bins.spread(cells.dictionary.to_pylist())[codes]
    return rows


def _shares(
    counts: IntArray | FloatArray, one: FloatArray, other: FloatArray | None = None
) -> FloatArray:
    """Combinations added up by the bins of one column, or of two."""
    right = np.ones((len(counts), 1)) if other is None else other
    found = np.zeros((one.shape[1], right.shape[1]))
    for start in range(0, len(counts), _BLOCK):
        part = slice(start, start + _BLOCK)
        found += (counts[part, None] * one[part]).T @ right[part]
    return _normal(found)


def _normal(found: FloatArray) -> FloatArray:
    """As shares; of nothing at all, nothing is known, and all bins are alike."""
    total = float(found.sum())
    return found / total if total else np.full(found.shape, 1.0 / found.size)


def _codes(counted: Frequencies, name: str) -> IntArray:
    codes: IntArray = counted.codes[counted.columns.index(name)].astype(np.int64)
    return codes


def _values(counted: Frequencies, name: str) -> list[Leaf]:
    axis = counted.axis(name)
    values: list[Leaf] = axis.decode(np.arange(axis.size)).to_pylist()
    return values


def _key(label: Leaf) -> Leaf:
    """A label to be looked up by; no NaN is equal to another."""
    return "nan" if isinstance(label, float) and label != label else label
