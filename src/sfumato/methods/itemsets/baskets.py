"""Baskets in memory as pairs of an owner and an item, and the supports of itemsets in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.counting.grouping import ragged
from sfumato.data.engines.kinds import STORED
from sfumato.data.schema.domain import Values
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema import Items
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.data.counting.axes import Grid
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.unit import Entity
    from sfumato.methods.publish.request import FormRequest, FormRows


_BLOCK = 1 << 23
"""Itemsets that are listed at a time, to bound memory."""
_DENSE = 1 << 25
"""Up to so many possible itemsets are counted in one array."""
MOST_SETS = 1 << 27
"""The most itemsets in memory: the supports of more would take gigabytes."""


@dataclass(frozen=True, eq=False)
class Baskets:
    """Pairs of an owner and an item, each once, by owner and then by item.

    Owners are numbered from 0 to `count` - 1, items from 0 to `kinds` - 1. An owner without an
    item has no pair.
    """

    owners: IntArray
    items: IntArray
    count: int
    kinds: int

    @classmethod
    def of(cls, owners: IntArray, items: IntArray, count: int, kinds: int) -> Baskets:
        """Make baskets from pairs in any order, perhaps with duplicates."""
        pairs = distinct(owners * np.int64(kinds) + items)
        return cls(pairs // max(kinds, 1), pairs % max(kinds, 1), count, kinds)

    @classmethod
    def from_lists(cls, baskets: Sequence[Sequence[int]], kinds: int) -> Baskets:
        """Make baskets from lists of items."""
        owners = np.repeat(np.arange(len(baskets)), [len(basket) for basket in baskets])
        items = np.array([item for basket in baskets for item in basket], dtype=np.int64)
        return cls.of(owners, items, len(baskets), kinds)

    def recoded(self, names: IntArray, kinds: int) -> Baskets:
        """The same baskets with `names[item]` in place of each item."""
        return Baskets.of(self.owners, names[self.items], self.count, kinds)

    def merged_with(self, other: Baskets, pairs: BoolArray) -> Baskets:
        """These baskets and some pairs of `other`, which must belong to other owners."""
        keys = [
            owners * np.int64(self.kinds) + items
            for owners, items in (
                (self.owners, self.items),
                (other.owners[pairs], other.items[pairs]),
            )
        ]
        # Both parts are sorted, so that a stable sort (timsort) only merges them.
        merged = np.sort(np.concatenate(keys), kind="stable")
        return Baskets(merged // self.kinds, merged % self.kinds, self.count, self.kinds)

    def occurring_supports(self, size: int) -> tuple[IntArray, IntArray]:
        """Return the supports of itemsets, faster if only few of the kinds occur."""
        occurs = np.bincount(self.items, minlength=self.kinds) > 0
        kinds, dense_code = np.flatnonzero(occurs), np.cumsum(occurs) - 1
        dense = Baskets(self.owners, dense_code[self.items], self.count, max(len(kinds), 1))
        sets, counts = dense.supports(size, most=MOST_SETS)
        return kinds[sets], counts

    def of_owners(self, owners: IntArray) -> Baskets:
        """Return the baskets of some owners, numbered in the given order."""
        new_number = np.full(self.count, -1, dtype=np.int64)
        new_number[owners] = np.arange(len(owners))
        selected = new_number[self.owners] >= 0
        return Baskets.of(
            new_number[self.owners[selected]], self.items[selected], len(owners), self.kinds
        )

    @cached_property
    def sizes(self) -> IntArray:
        """The number of items of each owner."""
        return np.bincount(self.owners, minlength=self.count)

    def supports(self, size: int, *, most: int | None = None) -> tuple[IntArray, IntArray]:
        """Count every itemset of `size` items that occurs, and the owners who have it.

        Itemsets are rows of items in rising order. None is pruned, because k^m-anonymity looks for
        the rare ones. More than `most` are refused.
        """
        if most is not None and (self.kinds**size >= 1 << 63 or self._work(size).sum() > 64 * most):
            raise _too_many(size)
        if size == 1:
            counts = np.bincount(self.items, minlength=self.kinds)
            occurring = np.flatnonzero(counts)
            return occurring[:, None], counts[occurring]
        cells = self.kinds**size
        if cells >= 1 << 63:
            return self._wide(size)
        keys, counts = self._dense(size, cells) if cells <= _DENSE else self._sorted(size, most)
        columns = [keys // self.kinds**digit % self.kinds for digit in reversed(range(size))]
        return np.stack(columns, axis=1), counts

    def _wide(self, size: int) -> tuple[IntArray, IntArray]:
        """Count itemsets by two 64-bit keys, if one cannot distinguish them.

        Each key holds at most two of up to four items, and there are fewer than 2^31 items.
        """
        half = size - size // 2
        keys, counts = np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.int64)
        for block in self._keys(size, half):
            new, block_counts = np.unique(np.stack(block, axis=1), axis=0, return_counts=True)
            keys, positions = np.unique(np.concatenate([keys, new]), axis=0, return_inverse=True)
            merged = np.zeros(len(keys), dtype=np.int64)
            np.add.at(merged, positions.ravel(), np.concatenate([counts, block_counts]))
            counts = merged
        columns = [
            keys[:, half_index] // self.kinds**digit % self.kinds
            for half_index, digits in enumerate((half, size - half))
            for digit in reversed(range(digits))
        ]
        return np.stack(columns, axis=1), counts

    def _dense(self, size: int, cells: int) -> tuple[IntArray, IntArray]:
        counts = np.zeros(cells, dtype=np.int64)
        for (keys,) in self._keys(size, size):
            counts += np.bincount(keys, minlength=cells)
        occurring = np.flatnonzero(counts)
        return occurring, counts[occurring]

    def _sorted(self, size: int, most: int | None) -> tuple[IntArray, IntArray]:
        keys, counts = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        for (block,) in self._keys(size, size):
            new, block_counts = np.unique(block, return_counts=True)
            merged, positions = np.unique(np.concatenate([keys, new]), return_inverse=True)
            counts = np.bincount(
                positions, np.concatenate([counts, block_counts]), minlength=len(merged)
            ).astype(np.int64)
            keys = merged
            if most is not None and len(keys) > most:
                raise _too_many(size)
        return keys, counts

    def _work(self, size: int) -> FloatArray:
        """Return the number of itemsets of each owner: binomial(items, size)."""
        work = np.ones(self.count)
        for drawn in range(size):
            work *= (self.sizes - drawn).clip(min=0) / (drawn + 1)
        return work

    def _keys(self, size: int, half: int) -> Iterator[list[IntArray]]:
        """List every itemset of every owner as keys, a block of owners at a time.

        The first `half` items form one key; the others, if any, form a second one.
        """
        ends = np.cumsum(self.sizes)
        cumulative, start = np.cumsum(self._work(size)), 0
        while start < self.count:
            before = cumulative[start - 1] if start else 0.0
            # At least one owner, even if that one alone has more itemsets than a block.
            end = max(int(np.searchsorted(cumulative, before + _BLOCK, side="right")), start + 1)
            first, last = (int(ends[start - 1]) if start else 0), int(ends[end - 1])
            positions = np.arange(first, last)
            keys = [self.items[positions]]
            for length in range(1, size):
                stop = ends[self.owners[positions]]
                later_items = stop - positions - 1
                positions, keys = (
                    ragged(positions + 1, later_items),
                    [np.repeat(key, later_items) for key in keys],
                )
                if length == half:
                    keys.append(self.items[positions])
                else:
                    # A key is the itemset as digits in base `kinds`.
                    keys[-1] = keys[-1] * self.kinds + self.items[positions]
            yield keys
            start = end


def distinct(numbers: IntArray) -> IntArray:
    """Sorted distinct numbers; several times as fast as numpy.unique for millions of them."""
    ordered = np.sort(numbers)
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def _too_many(size: int) -> ParameterError:
    return ParameterError(
        "problem_too_large",
        f"There are too many sets of {size} items to count them all. Take a smaller m, or a "
        "hierarchy whose lower levels have fewer groups.",
    )


# Reading the items of people, bounded by person.


@dataclass(frozen=True)
class ItemFacts:
    """The public facts of a table of items: its form, its privacy unit and its item column."""

    form: Items
    unit: Entity
    item: Column

    @classmethod
    def of(cls, request: FormRequest) -> ItemFacts:
        """Return the facts of a request; a unit without a person column is refused."""
        assert isinstance(request.form, Items)
        if not request.unit.by_person:
            raise ParameterError(
                "unit_unsupported",
                f"The unit of {quoted(request.dataset)} names no person for an item. Declare it "
                f'as unit = {{ column = "{request.form.owner}", max_rows = 20 }}.',
            )
        unit = cast("Entity", request.unit)
        return cls(request.form, unit, request.schema.column(request.form.item))

    @property
    def items_per_person(self) -> int:
        """The most distinct items of a person that count."""
        return min(self.unit.groups, self.unit.max_rows)

    @property
    def values(self) -> pa.Array | None:
        """The items if they are public, else None."""
        domain = self.item.public_domain
        if not isinstance(domain, Values):
            return None
        return pa.array(domain.values, STORED[self.item.kind])


@dataclass(frozen=True, eq=False)
class BoundedItems:
    """The rows of people as codes, bounded by person. Private."""

    people: IntArray
    items: IntArray
    rows: pa.Table
    """The rows that the codes belong to."""
    count: int
    values: pa.Array
    """The items by code: the public ones, else the observed ones in order of value."""

    @property
    def baskets(self) -> Baskets:
        """The baskets of people."""
        return Baskets.of(self.people, self.items, self.count, len(self.values))


def read_items(
    facts: ItemFacts, rows: FormRows, *, distinct: bool = True, ratings: Grid | None = None
) -> BoundedItems:
    """Read the items of all people, with at most the rows and items that the unit allows.

    With `distinct`, the bound is on distinct items of a person, however often each occurs. The
    sample of a person's rows depends on these rows and a secret salt alone, so that one person does
    not change the sample of another. With a grid of `ratings`, ratings become points of that grid.
    """
    form, person = facts.form, facts.unit.column
    columns = [person, form.item, *(() if form.rating is None else (form.rating,))]
    groups = [form.item] if distinct else ()
    table = rows.read(columns, groups=groups, grids=() if ratings is None else (ratings,))
    # Items are compared in the widest type of their kind: a database may store narrower integers,
    # to which a declared value may not convert.
    item_values = table.column(form.item).combine_chunks().cast(STORED[facts.item.kind])
    values = facts.values
    # Observed items are private: only `KeyNoise` with a threshold may release them.
    if values is None:
        values = pc.unique(item_values)
        values = values.take(pc.sort_indices(values))
    codes = pc.index_in(item_values, values)
    is_known = pc.is_valid(codes)
    table, codes = table.filter(is_known), codes.filter(is_known)
    owners = table.column(person).combine_chunks().dictionary_encode()
    return BoundedItems(
        people=owners.indices.to_numpy().astype(np.int64),
        items=codes.to_numpy().astype(np.int64),
        rows=table,
        count=len(owners.dictionary),
        values=values,
    )
