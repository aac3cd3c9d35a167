"""Counted combinations, prepared for grouping at any node of the lattice.

Decision `optimal-search`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.classes import SensitiveCounts
from sfumato.data.counting.grouping import group as group_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Counts, Original
    from sfumato.anonymize.original import Quasi, SensitiveColumn
    from sfumato.arrays import IntArray
    from sfumato.data.counting.frequencies import Frequencies

    Levels = tuple[int, ...]

# A key and a row number share one int64, whose sign bit stays free.
_KEY_BITS = 63
_DENSE_FACTOR = 4  # a table of this many slots per row is still cheaper to fill than rows to sort

# Codes of neighbouring columns are joined up to this many label combinations (uint16), and only in
# views of at most this many rows, because joined codes are cached for each level.
_JOINED_LABELS = 1 << 16
_JOINED_ROWS = 1 << 21


@dataclass(frozen=True, eq=False)
class GroupedView:
    """Rows of a view grouped at a node: a representative row and the counts of each group.

    With sensitive values, groups are cells, and `starts` has the first cell of each class. If
    people are counted, each person is a group in every class or cell, and `cells` has the first
    group of each cell.
    """

    rows: IntArray
    counts: Counts
    population: Counts | None = None
    starts: IntArray | None = None
    cells: IntArray | None = None

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        arrays = (self.rows, self.counts, self.population, self.starts, self.cells)
        return sum(array.nbytes for array in arrays if array is not None)


@dataclass(frozen=True, eq=False)
class View:
    """Distinct combinations of leaves, with a sensitive value or the count in a population.

    `codes[column][level]` holds the label of each combination, in the smallest type that can. Where
    people are counted, a combination belongs to one of them, whom `persons` numbers below `people`.
    """

    codes: tuple[tuple[NDArray[np.unsignedinteger], ...], ...]
    sizes: tuple[Levels, ...]
    base: GroupedView
    values: NDArray[np.integer] | None = None
    original: Original | None = None
    persons: NDArray[np.integer] | None = None
    people: int = 1
    _known: dict[tuple[int, Levels], tuple[NDArray[np.integer], int]] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def of_rows(
        cls,
        quasi: Sequence[Quasi],
        table: Frequencies,
        population: Frequencies | None,
        person: str | None = None,
    ) -> View:
        """Combinations of quasi-identifiers of a table and of a population, counted apart."""
        sources = [table] if population is None else [table, population]
        leaves = [np.concatenate([column.locate(source) for source in sources]) for column in quasi]
        counts = np.concatenate([source.counts for source in sources])
        # Rows of the table come first, then those of the population: each side counts 0 of the
        # other.
        people = None
        if population is not None:
            people = np.where(np.arange(len(counts)) < len(table), 0, counts)
            counts = counts - people
        # Each row of a population is one person, so all of them share one further number.
        persons = None if person is None else np.full(len(counts), table.axis(person).size)
        if persons is not None and person is not None:
            persons[: len(table)] = table.codes[table.columns.index(person)]
        return cls._of(quasi, leaves, counts, people=people, persons=persons)

    @classmethod
    def of_values(
        cls,
        quasi: Sequence[Quasi],
        table: Frequencies,
        ranked: SensitiveColumn,
        person: str | None = None,
    ) -> View:
        """Combinations of quasi-identifiers and one sensitive column."""
        leaves = [column.locate(table) for column in quasi]
        values = ranked.ranks(table.codes[table.columns.index(ranked.original.name)])
        persons = None if person is None else table.codes[table.columns.index(person)]
        return cls._of(
            quasi,
            leaves,
            table.counts,
            values=values,
            original=ranked.original,
            persons=persons,
        )

    @classmethod
    def _of(
        cls,
        quasi: Sequence[Quasi],
        leaves: Sequence[NDArray[np.int32]],
        counts: Counts,
        *,
        people: Counts | None = None,
        values: IntArray | None = None,
        original: Original | None = None,
        persons: NDArray[np.integer] | None = None,
    ) -> View:
        """Merge equal combinations and look all their labels up once."""
        # Axes may name combinations that no row has; keeping them would make empty classes.
        occurs = counts > 0 if people is None else counts + people > 0
        digits: list[NDArray[np.integer]] = [column[occurs] for column in leaves]
        sizes = [len(column.taxonomy.leaves) for column in quasi]
        if values is not None and original is not None:
            digits, sizes = [*digits, values[occurs]], [*sizes, len(original.totals)]
        if persons is not None:
            digits, sizes = [*digits, persons[occurs]], [*sizes, int(persons.max()) + 1]
        groups = group_rows(digits, sizes, counts[occurs])
        merged = [digit[groups.representatives] for digit in digits]
        if people is not None:
            people = group_rows(digits, sizes, people[occurs]).counts
        codes = tuple(
            tuple(
                column.taxonomy.codes[:, level].astype(_smallest(len(labels)))[leaf]
                for level, labels in enumerate(column.taxonomy.labels)
            )
            for column, leaf in zip(quasi, merged, strict=False)
        )
        label_counts = tuple(tuple(map(len, column.taxonomy.labels)) for column in quasi)
        base = GroupedView(np.arange(len(groups.counts)), groups.counts, people)
        return cls(
            codes,
            label_counts,
            base,
            None if values is None else merged[len(quasi)],
            original,
            None if persons is None else merged[-1],
            1 if persons is None else sizes[-1],
        )

    def group(self, table: GroupedView, levels: Levels) -> GroupedView:
        """Group a table of this view at a node that is nowhere finer."""
        # Three ways to group, from cheapest: keys that are sorted, keys that are dense, any keys.
        key, radix = self._keys(table, levels)
        if (key[1:] >= key[:-1]).all():
            # Tables are sorted by their labels; they stay sorted if the last column gets coarser.
            chosen, counts, people, group_keys = _group_ordered(key, table.counts, table.population)
        elif radix <= _DENSE_FACTOR * len(key):
            chosen, counts, people, group_keys = _group_dense(key, radix, table)
        else:
            chosen, counts, people, group_keys = _group_sorted(key, radix, table)
        starts = cells = None
        if self.original is not None or self.persons is not None:
            values = 1 if self.original is None else len(self.original.totals)
            starts = np.flatnonzero(np.diff(group_keys // (values * self.people), prepend=-1))
        if self.original is not None and self.persons is not None:
            cells = np.flatnonzero(np.diff(group_keys // self.people, prepend=-1))
        return GroupedView(table.rows[chosen], counts, people, starts, cells)

    def cells(self, table: GroupedView) -> SensitiveCounts:
        """Count each value in each class of a table; each person counts once."""
        assert self.original is not None
        assert self.values is not None
        assert table.starts is not None
        if table.cells is None:
            return SensitiveCounts(
                table.starts, self.values[table.rows], table.counts, self.original
            )
        starts = np.searchsorted(table.cells, table.starts)
        # Each row of the table is one person here, so the length of a cell counts people.
        people = np.diff(table.cells, append=len(table.rows))
        return SensitiveCounts(starts, self.values[table.rows[table.cells]], people, self.original)

    def _keys(self, table: GroupedView, levels: Levels) -> tuple[IntArray, int]:
        """Return one integer for each row, and their bound; key and row number fit into 63 bits.

        If they would not fit, the key so far is replaced by its rank among those that occur.
        """
        key = np.zeros(len(table.rows), dtype=np.int64)
        # The row number takes the lower bits of a sorted key.
        room = 1 << (_KEY_BITS - max(len(key), 2).bit_length())
        radix = 1
        digits: list[tuple[NDArray[np.integer], int]] = [
            self._join_codes(block, levels) for block in self._blocks
        ]
        if self.values is not None and self.original is not None:
            digits.append((self.values, len(self.original.totals)))
        if self.persons is not None:
            digits.append((self.persons, self.people))
        for codes, size in digits:
            if size == 1:
                continue
            if radix * size > room:
                present, key = np.unique(key, return_inverse=True)
                radix = len(present)
            if radix > 1:
                key *= size
            key += codes if table is self.base else codes.take(table.rows)
            radix *= size
        return key, radix

    @cached_property
    def _blocks(self) -> tuple[slice, ...]:
        """Runs of columns whose labels are looked up together, where memory allows it."""
        most = _JOINED_LABELS if len(self.base.rows) <= _JOINED_ROWS else 1
        starts, labels = [0], self.sizes[0][0]
        for position, sizes in enumerate(self.sizes[1:], start=1):
            labels *= sizes[0]
            if labels > most:
                starts.append(position)
                labels = sizes[0]
        return tuple(map(slice, starts, [*starts[1:], len(self.sizes)]))

    def _join_codes(self, block: slice, levels: Levels) -> tuple[NDArray[np.integer], int]:
        """Return the labels of neighbouring columns as one code, and the number of such codes.

        They are computed at first use, because a search asks for the same few again and again.
        """
        key = (block.start, levels[block])
        if key not in self._known:
            positions = [*enumerate(levels)][block]
            sizes = [self.sizes[position][level] for position, level in positions]
            codes = tuple(self.codes[position][level] for position, level in positions)
            size = prod(sizes)
            joined = codes[0] if len(codes) == 1 else np.ravel_multi_index(codes, sizes)
            self._known[key] = joined.astype(_smallest(size), copy=False), size
        return self._known[key]


def _smallest(size: int) -> type[np.unsignedinteger]:
    """Return the smallest integer type for codes below a size."""
    if size <= 1 << 8:
        return np.uint8
    return np.uint16 if size <= 1 << 16 else np.uint32


Grouped = tuple["IntArray", "Counts", "Counts | None", "IntArray"]


def _group_dense(key: IntArray, radix: int, table: GroupedView) -> Grouped:
    """Count into one slot per possible key; float64 adds exactly below 2^53 rows."""
    counts = np.bincount(key, table.counts, radix)
    people = None
    if table.population is None:
        group_keys = np.flatnonzero(counts)
    else:
        people = np.bincount(key, table.population, radix)
        group_keys = np.flatnonzero(counts + people)
        people = people[group_keys].astype(np.int64)
    chosen = np.empty(radix, dtype=np.int64)
    # Any row represents its group, so the last one written may win.
    chosen[key] = np.arange(len(key))
    return chosen[group_keys], counts[group_keys].astype(np.int64), people, group_keys


def _group_sorted(key: IntArray, radix: int, table: GroupedView) -> Grouped:
    """Sort key and row number packed into one integer, or apart where both do not fit."""
    bits = max(len(key) - 1, 1).bit_length()
    if radix.bit_length() + bits > _KEY_BITS:
        order = np.argsort(key, kind="stable")
        key = key[order]
    else:
        key <<= bits
        key |= np.arange(len(key))
        key.sort()
        order = key & ((1 << bits) - 1)
        key >>= bits
    people = None if table.population is None else table.population[order]
    starts, counts, people, group_keys = _group_ordered(key, table.counts[order], people)
    return order[starts], counts, people, group_keys


def _group_ordered(key: IntArray, counts: Counts, people: Counts | None) -> Grouped:
    """Add up runs of equal keys."""
    first = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    if people is not None:
        people = np.add.reduceat(people, starts)
    return starts, np.add.reduceat(counts, starts), people, key[starts]
