"""Who has which item, as pairs of codes in memory; and which sets of items occur how often."""

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
"""So many sets are written out at a time."""
_DENSE = 1 << 25
"""Up to so many possible sets each has a counter of its own."""
MOST_SETS = 1 << 27
"""More sets than that are not held: their supports alone would take gigabytes."""


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
        """Baskets of pairs in any order, of which some may come twice."""
        pairs = distinct(owners * np.int64(kinds) + items)
        return cls(pairs // max(kinds, 1), pairs % max(kinds, 1), count, kinds)

    @classmethod
    def listed(cls, baskets: Sequence[Sequence[int]], kinds: int) -> Baskets:
        """Baskets written out one by one."""
        owners = np.repeat(np.arange(len(baskets)), [len(one) for one in baskets])
        items = np.array([item for one in baskets for item in one], dtype=np.int64)
        return cls.of(owners, items, len(baskets), kinds)

    def renamed(self, names: IntArray, kinds: int) -> Baskets:
        """The same baskets with other items: `names[item]` for each."""
        return Baskets.of(self.owners, names[self.items], self.count, kinds)

    def beside(self, other: Baskets, pairs: BoolArray) -> Baskets:
        """These baskets and those pairs of others, which must be of other owners."""
        both = [
            owners * np.int64(self.kinds) + items
            for owners, items in (
                (self.owners, self.items),
                (other.owners[pairs], other.items[pairs]),
            )
        ]
        # Both are sorted, and merging is all that a stable sort then does.
        merged = np.sort(np.concatenate(both), kind="stable")
        return Baskets(merged // self.kinds, merged % self.kinds, self.count, self.kinds)

    def used(self, size: int) -> tuple[IntArray, IntArray]:
        """The supports of sets of items, where only some of the kinds occur."""
        there = np.bincount(self.items, minlength=self.kinds) > 0
        kinds, place = np.flatnonzero(there), np.cumsum(there) - 1
        dense = Baskets(self.owners, place[self.items], self.count, max(len(kinds), 1))
        sets, counts = dense.supports(size, most=MOST_SETS)
        return kinds[sets], counts

    def part(self, owners: IntArray) -> Baskets:
        """The baskets of some owners, numbered as they come."""
        place = np.full(self.count, -1, dtype=np.int64)
        place[owners] = np.arange(len(owners))
        kept = place[self.owners] >= 0
        return Baskets.of(place[self.owners[kept]], self.items[kept], len(owners), self.kinds)

    @cached_property
    def sizes(self) -> IntArray:
        """How many items each owner has."""
        return np.bincount(self.owners, minlength=self.count)

    def supports(self, size: int, *, most: int | None = None) -> tuple[IntArray, IntArray]:
        """The sets of `size` items that some owner has all of, and how many owners have each.

        Sets come as rows of items in rising order. Every one that occurs is counted: a set that
        few owners have is what matters here, so none may be left out. More than `most` are refused.
        """
        if most is not None and (self.kinds**size >= 1 << 63 or self._work(size).sum() > 64 * most):
            raise _too_many(size)
        if size == 1:
            counts = np.bincount(self.items, minlength=self.kinds)
            found = np.flatnonzero(counts)
            return found[:, None], counts[found]
        cells = self.kinds**size
        if cells >= 1 << 63:
            return self._wide(size)
        keys, counts = self._dense(size, cells) if cells <= _DENSE else self._sorted(size, most)
        columns = [keys // self.kinds**place % self.kinds for place in reversed(range(size))]
        return np.stack(columns, axis=1), counts

    def _wide(self, size: int) -> tuple[IntArray, IntArray]:
        """The same where one number of 64 bits does not tell all sets apart: two numbers do.

        Halves have at most two of the up to four items, of which there are fewer than 2^31.
        """
        half = size - size // 2
        keys, counts = np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.int64)
        for block in self._keys(size, half):
            new, many = np.unique(np.stack(block, axis=1), axis=0, return_counts=True)
            keys, places = np.unique(np.concatenate([keys, new]), axis=0, return_inverse=True)
            held = np.zeros(len(keys), dtype=np.int64)
            np.add.at(held, places.ravel(), np.concatenate([counts, many]))
            counts = held
        columns = [
            keys[:, part] // self.kinds**place % self.kinds
            for part, items in enumerate((half, size - half))
            for place in reversed(range(items))
        ]
        return np.stack(columns, axis=1), counts

    def _dense(self, size: int, cells: int) -> tuple[IntArray, IntArray]:
        counts = np.zeros(cells, dtype=np.int64)
        for (keys,) in self._keys(size, size):
            counts += np.bincount(keys, minlength=cells)
        found = np.flatnonzero(counts)
        return found, counts[found]

    def _sorted(self, size: int, most: int | None) -> tuple[IntArray, IntArray]:
        keys, counts = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        for (block,) in self._keys(size, size):
            new, many = np.unique(block, return_counts=True)
            merged, places = np.unique(np.concatenate([keys, new]), return_inverse=True)
            counts = np.bincount(
                places, np.concatenate([counts, many]), minlength=len(merged)
            ).astype(np.int64)
            keys = merged
            if most is not None and len(keys) > most:
                raise _too_many(size)
        return keys, counts

    def _work(self, size: int) -> FloatArray:
        """How many sets of so many items each owner has."""
        work = np.ones(self.count)
        for place in range(size):
            work *= (self.sizes - place).clip(min=0) / (place + 1)
        return work

    def _keys(self, size: int, half: int) -> Iterator[list[IntArray]]:
        """Every set of `size` items of every owner, a block of owners at a time.

        The first `half` items are one number; the others, if any, are a second one.
        """
        ends = np.cumsum(self.sizes)
        done, start = np.cumsum(self._work(size)), 0
        while start < self.count:
            before = done[start - 1] if start else 0.0
            end = max(int(np.searchsorted(done, before + _BLOCK, side="right")), start + 1)
            first, last = (int(ends[start - 1]) if start else 0), int(ends[end - 1])
            places = np.arange(first, last)
            keys = [self.items[places]]
            for number in range(1, size):
                stop = ends[self.owners[places]]
                many = stop - places - 1
                places, keys = ragged(places + 1, many), [np.repeat(one, many) for one in keys]
                if number == half:
                    keys.append(self.items[places])
                else:
                    keys[-1] = keys[-1] * self.kinds + self.items[places]
            yield keys
            start = end


def distinct(numbers: IntArray) -> IntArray:
    """Each number once, in order: NumPy's own way is several times as slow for millions."""
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


# Reading the items of people: whose they are, which are public, and how many count of each.


@dataclass(frozen=True)
class ItemFacts:
    """What is public of a table of items: its people, how much of each counts, and known items."""

    form: Items
    unit: Entity
    item: Column

    @classmethod
    def of(cls, request: FormRequest) -> ItemFacts:
        """The facts of a request; refused where no column says whose an item is."""
        assert isinstance(request.form, Items)
        if not request.unit.by_person:
            raise ParameterError(
                "unit_unsupported",
                f"The unit of {quoted(request.dataset)} does not say whose an item is. Declare it "
                f'as unit = {{ column = "{request.form.owner}", max_rows = 20 }}.',
            )
        unit = cast("Entity", request.unit)
        return cls(request.form, unit, request.schema.column(request.form.item))

    @property
    def most(self) -> int:
        """How many different items of a person count."""
        return min(self.unit.groups, self.unit.max_rows)

    @property
    def values(self) -> pa.Array | None:
        """The items, where they are public."""
        domain = self.item.public_domain
        if not isinstance(domain, Values):
            return None
        return pa.array(domain.values, STORED[self.item.kind])


@dataclass(frozen=True, eq=False)
class HeldItems:
    """The rows of people as codes, bounded by person."""

    people: IntArray
    items: IntArray
    rows: pa.Table
    """The rows that they are of."""
    count: int
    values: pa.Array
    """The items by their codes: those that are public, else those found, in order of value."""

    @property
    def baskets(self) -> Baskets:
        """Who has which item."""
        return Baskets.of(self.people, self.items, self.count, len(self.values))


def held_items(
    facts: ItemFacts, rows: FormRows, *, distinct: bool = True, ratings: Grid | None = None
) -> HeldItems:
    """Read the items of everybody: at most as many rows, of as many items, as the unit allows.

    With `distinct`, different items are what is kept of a person, however often each comes. Which
    ones are kept is a function of the person's own rows and of a secret salt alone. With the grid
    of `ratings`, these are numbers of its points.
    """
    form, person = facts.form, facts.unit.column
    wanted = [person, form.item, *(() if form.rating is None else (form.rating,))]
    groups = [form.item] if distinct else ()
    found = rows.read(wanted, groups=groups, grids=() if ratings is None else (ratings,))
    # Items are compared in the one type of their kind: a database may hold narrower integers, to
    # which a declared value may not convert.
    texts = found.column(form.item).combine_chunks().cast(STORED[facts.item.kind])
    values = facts.values
    if values is None:
        values = pc.unique(texts)
        values = values.take(pc.sort_indices(values))
    codes = pc.index_in(texts, values)
    known = pc.is_valid(codes)
    found, codes = found.filter(known), codes.filter(known)
    owners = found.column(person).combine_chunks().dictionary_encode()
    return HeldItems(
        people=owners.indices.to_numpy().astype(np.int64),
        items=codes.to_numpy().astype(np.int64),
        rows=found,
        count=len(owners.dictionary),
        values=values,
    )
