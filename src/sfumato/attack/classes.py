"""Read a release as an attacker does: classes of equal rows, and the values that labels cover.

Labels are values, ranges, sets or names of a hierarchy. Each covers leaves of its column, and a
class is the box of the leaves that its labels cover. The classes of an anatomy are its groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.anonymize.buckets import COUNT, GROUP
from sfumato.anonymize.taxonomy import grow, read_labels, universe
from sfumato.data.counting.grouping import keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.anonymize.taxonomy import Covers
    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.attack.case import HeldRelease
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.hierarchy import Leaf, Taxonomy


@dataclass(frozen=True, eq=False)
class BoxColumn:
    """One quasi-identifier of some classes: the label of each, and what labels cover."""

    column: Column
    covers: Covers
    labels: IntArray
    """The index of each class's label in `covers`."""

    @property
    def taxonomy(self) -> Taxonomy:
        """The leaves of the column, and its hierarchy."""
        return self.covers.taxonomy

    def over_leaves(self, numbers: FloatArray) -> FloatArray:
        """Give each leaf the sum of the numbers of all labels that cover it."""
        covers = self.covers
        runs = np.repeat(numbers, np.diff(covers.starts, append=len(covers.first)), axis=0)
        # Prefix sums: a label adds its number where a run begins and takes it away behind its
        # end.
        edges = np.zeros((len(self.taxonomy.leaves) + 1, *runs.shape[1:]))
        np.add.at(edges, covers.first, runs)
        np.subtract.at(edges, covers.last + 1, runs)
        # Rounding can leave a sum of differences just below 0.
        added: FloatArray = np.cumsum(edges, axis=0)[:-1].clip(min=0)
        return added

    def locate(self, table: Frequencies) -> IntArray:
        """Return the leaf of each combination of a table; -1 if no label covers its value."""
        axis, codes = (
            table.axis(self.column.name),
            table.codes[_axis_index(table, self.column.name)],
        )
        present, numbers = np.unique(codes, return_inverse=True)
        leaves = self.taxonomy.positions(axis.decode(present).to_pylist())
        located: IntArray = leaves.astype(np.int64)[numbers]
        return located


@dataclass(frozen=True, eq=False)
class Boxes:
    """Classes by their quasi-identifiers, and how many released rows each has."""

    columns: tuple[BoxColumn, ...]
    sizes: IntArray

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def rows(self) -> int:
        """How many rows were released."""
        return int(self.sizes.sum())

    def locate(self, table: Frequencies) -> list[IntArray]:
        """Return the leaf of each combination of a table in every column."""
        return [column.locate(table) for column in self.columns]


@dataclass(frozen=True, eq=False)
class ClassValues:
    """How many rows of each class have each value of a sensitive column: counts above zero."""

    owners: IntArray
    values: IntArray
    counts: IntArray
    names: list[Any]
    described: Frequencies | None = None
    by: tuple[str, ...] = ()
    people: IntArray | None = None
    """The person of each row, in the order of the cells; None if each row is a person."""

    def labels(self, cells: IntArray) -> list[dict[str, Any]]:
        """Return the labels of the classes of some cells, for people to read."""
        if self.described is None:
            return [{} for _ in cells]
        shown = {
            name: self.described.axis(name).decode(
                self.described.codes[_axis_index(self.described, name)][cells]
            )
            for name in self.by
        }
        rows: list[dict[str, Any]] = pa.table(shown).to_pylist()
        return rows

    @property
    def sizes(self) -> IntArray:
        """The rows of each class."""
        return np.bincount(self.owners, self.counts).astype(np.int64)

    def hit(self, cells: BoolArray) -> int:
        """Return how many people have a row in some of the cells."""
        if self.people is None:
            return int(self.counts[cells].sum())
        return len(np.unique(self.people[np.repeat(cells, self.counts)]))

    @property
    def totals(self) -> IntArray:
        """The rows with each value."""
        return np.bincount(self.values, self.counts, len(self.names)).astype(np.int64)

    @property
    def rows(self) -> int:
        """All rows."""
        return int(self.counts.sum())


def boxes(
    release: HeldRelease, columns: Sequence[Column], extra: Iterable[Frequencies] = ()
) -> Boxes:
    """Read the classes of a release by some columns; values of `extra` tables become leaves."""
    table = release.table.counted([column.name for column in columns])
    return boxes_of(table, columns, extra)


def boxes_of(
    table: Frequencies, columns: Sequence[Column], extra: Iterable[Frequencies] = ()
) -> Boxes:
    """Read counted combinations as classes, one class for each combination."""
    (classes,) = boxes_together([table], columns, extra)
    return classes


def boxes_together(
    tables: Sequence[Frequencies], columns: Sequence[Column], extra: Iterable[Frequencies] = ()
) -> list[Boxes]:
    """Read several tables as classes that are boxes over the same leaves."""
    known, box_columns = list(extra), []
    for column in columns:
        # Values of people that no released row has need leaves of their own, or the label that
        # covers them could not be found.
        values = [value for counted in known for value in _values(counted, column.name)]
        labels = tuple(tuple(_values(table, column.name)) for table in tables)
        covers = _read(column, labels, tuple(dict.fromkeys(values)))
        label_numbers = [
            np.unique(t.codes[_axis_index(t, column.name)], return_inverse=True)[1] for t in tables
        ]
        box_columns.append(
            [
                BoxColumn(column, counted, numbered.astype(np.int64))
                for counted, numbered in zip(covers, label_numbers, strict=True)
            ]
        )
    return [
        Boxes(tuple(column[number] for column in box_columns), table.counts)
        for number, table in enumerate(tables)
    ]


def class_values(
    release: HeldRelease, quasi: Sequence[Column], sensitive: Column, person: Sequence[str] = ()
) -> ClassValues:
    """Return the classes of a release and their values, in the order of the classes' labels.

    `person` names the column of the release that identifies the person of a row, if there is one.
    """
    people = None
    if release.buckets is not None:
        by, names = [GROUP], [GROUP, sensitive.name]
        table = release.buckets.counted(names, weight=COUNT)
    else:
        by = [column.name for column in quasi]
        names = [*by, sensitive.name] if sensitive.name not in by else by
        table = release.table.counted(names)
        if person:
            every = release.table.counted([*names, *person])
            table, people = every.marginal(names), _people(every, names, person[0])
    axes = [_axis_index(table, name) for name in by]
    key, _ = keys([table.codes[axis] for axis in axes], [table.sizes[axis] for axis in axes])
    owners = np.unique(key, return_inverse=True)[1]
    codes = table.codes[_axis_index(table, sensitive.name)]
    present, values = np.unique(codes, return_inverse=True)
    names_of = table.axis(sensitive.name).decode(present).to_pylist()
    return ClassValues(owners, values, table.counts, names_of, table, tuple(by), people)


def _people(table: Frequencies, names: Sequence[str], person: str) -> IntArray:
    """Return the person of each row; rows are in the order of their combinations of `names`."""
    axes = [_axis_index(table, name) for name in names]
    key, _ = keys([table.codes[axis] for axis in axes], [table.sizes[axis] for axis in axes])
    order = np.argsort(key, kind="stable")
    owners: IntArray = np.unique(table.codes[_axis_index(table, person)], return_inverse=True)[1]
    return np.repeat(owners[order], table.counts[order])


@lru_cache(maxsize=32)  # attacks on one release read the same labels, and hierarchies grow slowly
def _read(
    column: Column, labels: tuple[tuple[Any, ...], ...], values: tuple[Leaf, ...]
) -> list[Covers]:
    """Return what the labels of some tables cover, over the same leaves."""
    taxonomy = _grown(
        column, [label for labels_of_table in labels for label in labels_of_table], values
    )
    return [read_labels(column, taxonomy, label) for label in labels]


def forget_labels() -> None:
    """Empty the cache of labels, which is large for columns with many values."""
    _read.cache_clear()


def _grown(column: Column, texts: Sequence[Any], values: Sequence[Leaf]) -> Taxonomy:
    """Return a taxonomy of the leaves that labels can cover and of the values of other tables."""
    grown = universe(column, [*texts, *values])
    if column.hierarchy is not None and column.hierarchy.declared is not None:
        return grown  # a declared hierarchy lists every value that can occur
    lacking = [values[index] for index in np.flatnonzero(grown.positions(values) < 0).tolist()]
    return grow(column, [*grown.leaves, *lacking]) if lacking else grown


def _values(table: Frequencies, name: str) -> list[Any]:
    values: list[Any] = (
        table.axis(name).decode(np.unique(table.codes[_axis_index(table, name)])).to_pylist()
    )
    return values


def _axis_index(table: Frequencies, name: str) -> int:
    return table.columns.index(name)
