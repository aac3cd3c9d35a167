"""Who has which of some items at once, counted where the data lies.

A person, or a row, is one *transaction*: the set of all items that it has. Of some items, a
transaction is a pattern of bits, and what comes here is how many have each pattern. So the work
and the answer do not grow with how many rows a person has, and nobody's rows have to be cut.

Decision `itemsets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow.compute as pc
from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.methods.itemsets.baskets import ItemFacts
    from sfumato.methods.method import Dataset


_BITS = 60
"""So many items share a number of 64 bits, far from its sign."""
_BLOCK = 1 << 16
_PERSON, _MARK, _MANY = "sf_person", "sf_mark", "sf_many"


@dataclass(frozen=True, eq=False)
class Profiles:
    """Patterns of some items, and how many transactions have each."""

    marks: BoolArray
    """(patterns, items): which items each pattern has."""
    counts: IntArray

    @property
    def pairs(self) -> IntArray:
        """How many have both of any two items, those of one item on the diagonal."""
        items = self.marks.shape[1]
        both = np.zeros((items, items), dtype=np.int64)
        for start in range(0, len(self.counts), _BLOCK):
            # Whole numbers below 2^53 are added without rounding, in whatever order.
            part = self.marks[start : start + _BLOCK].astype(np.float64)
            weighted = part * self.counts[start : start + _BLOCK, None]
            both += (weighted.T @ part).astype(np.int64)
        return both

    def bins(self, places: IntArray) -> IntArray:
        """How many have each set of the items at some places: bit i stands for the i-th of them."""
        codes = self.marks[:, places] @ (np.int64(1) << np.arange(len(places), dtype=np.int64))
        counted = np.bincount(codes, self.counts, minlength=1 << len(places))
        return counted.astype(np.int64)


class Transactions(Protocol):
    """Sets of items, of which a person has one or a bounded number."""

    def counts(self) -> IntArray:
        """How many have each of the items that may be chosen."""
        ...

    def profiles(self, items: IntArray) -> Profiles:
        """How many have which of some of these items, by their places."""
        ...


@dataclass(frozen=True, eq=False)
class PersonSets:
    """All that each person has, however much: one transaction a person."""

    facts: ItemFacts
    data: Dataset
    values: pa.Array
    """The items that may be chosen: public, or told of already."""

    def counts(self) -> IntArray:
        """How many people have each item."""
        person, item = self._columns
        people = exp.Count(this=exp.Distinct(expressions=[person]))
        query = self._rows(item, exp.alias_(_integer(people), _MANY)).group_by(item.copy())
        found = self.data.engine.run(query)
        names = found.column(self.facts.form.item).combine_chunks()
        places = pc.index_in(names.cast(self.values.type), self.values)
        known = pc.is_valid(places).to_numpy(zero_copy_only=False)
        counted = np.zeros(len(self.values), dtype=np.int64)
        many = found.column(_MANY).to_numpy()
        counted[places.drop_null().to_numpy()] = many[known]
        return counted

    def profiles(self, items: IntArray) -> Profiles:
        """How many people have which of some items."""
        person, item = self._columns
        named = self.values.take(items).to_pylist()
        parts = [named[start : start + _BITS] for start in range(0, len(named), _BITS)] or [[]]
        marks = [f"{_MARK}_{place}" for place in range(len(parts))]
        used = [
            exp.alias_(exp.BitwiseOrAgg(this=_bit(item, part)), mark)
            for part, mark in zip(parts, marks, strict=True)
        ]
        by_person = self._rows(exp.alias_(person, _PERSON), *used).group_by(person.copy())
        query = (
            exp.select(
                *map(exp.column, marks), exp.alias_(_integer(exp.Count(this=exp.Star())), _MANY)
            )
            .from_(by_person.subquery("sf_people"))
            .group_by(*map(exp.column, marks))
        )
        found = self.data.engine.run(query)
        bits = [
            found.column(mark).to_numpy()[:, None] >> np.arange(len(part)) & 1
            for mark, part in zip(marks, parts, strict=True)
        ]
        counted = found.column(_MANY).to_numpy().astype(np.int64)
        return Profiles(np.concatenate(bits, axis=1).astype(bool), counted)

    @property
    def _columns(self) -> tuple[exp.Column, exp.Column]:
        facts = self.facts
        return exp.column(facts.unit.column, quoted=True), exp.column(facts.form.item, quoted=True)

    def _rows(self, *selected: exp.Expr) -> exp.Select:
        """Of rows that have both a person and an item."""
        there = [one.is_(exp.Null()).not_() for one in self._columns]
        return exp.select(*selected).from_(self.data.table.copy()).where(*there)


@dataclass(frozen=True, eq=False)
class RowSets:
    """Rows of coded columns: each row has the items that are values of it."""

    codes: Sequence[NDArray[np.integer]]
    """The codes of each column, by combination."""
    many: IntArray
    """How many rows have each combination."""
    items: Sequence[tuple[int, int]]
    """What an item is: a column by its place, and a code."""

    def counts(self) -> IntArray:
        """How many rows have each item."""
        held = [self.many[self.codes[place] == code].sum() for place, code in self.items]
        return np.array(held, dtype=np.int64)

    def profiles(self, items: IntArray) -> Profiles:
        """How many rows have which of some items."""
        marks = np.zeros((len(self.many), len(items)), dtype=bool)
        for column, item in enumerate(items.tolist()):
            place, code = self.items[item]
            marks[:, column] = self.codes[place] == code
        return Profiles(marks, self.many)


def _bit(item: exp.Expr, named: list[Any]) -> exp.Expr:
    """The bit of an item among those named; none of another."""
    found = exp.Case()
    for place, value in enumerate(named):
        found = found.when(item.copy().eq(exp.convert(value)), _integer(exp.convert(1 << place)))
    nothing = _integer(exp.convert(0))
    return found.else_(nothing) if named else nothing


def _integer(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType.build("BIGINT"))
