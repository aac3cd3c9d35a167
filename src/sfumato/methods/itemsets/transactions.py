"""Transactions: sets of items, counted by pattern where the data lies.

A person, or a row, is one *transaction*: the set of all its items. Restricted to selected items, a
transaction is a pattern of bits, and the engine counts the transactions of each pattern. So work
and result do not grow with the rows of one person, and no person's rows have to be sampled.

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
"""The items per 64-bit integer, away from its sign bit."""
_BLOCK = 1 << 16
"""Patterns that are multiplied at a time, to bound memory."""
_PERSON, _MARK, _COUNT = "sf_person", "sf_mark", "sf_count"


@dataclass(frozen=True, eq=False)
class Profiles:
    """Patterns of selected items, and the number of transactions with each pattern."""

    marks: BoolArray
    """(patterns, items): whether a pattern contains an item."""
    counts: IntArray

    @property
    def pairs(self) -> IntArray:
        """How many transactions have both of two items; single items on the diagonal."""
        items = self.marks.shape[1]
        pair_counts = np.zeros((items, items), dtype=np.int64)
        for start in range(0, len(self.counts), _BLOCK):
            # Floats use BLAS; sums of integers below 2^53 are exact in any order.
            marks = self.marks[start : start + _BLOCK].astype(np.float64)
            weighted = marks * self.counts[start : start + _BLOCK, None]
            pair_counts += (weighted.T @ marks).astype(np.int64)
        return pair_counts

    def bins(self, items: IntArray) -> IntArray:
        """How many have each exact subset of `items`; bit i of a bin's number is the i-th item."""
        codes = self.marks[:, items] @ (np.int64(1) << np.arange(len(items), dtype=np.int64))
        counted = np.bincount(codes, self.counts, minlength=1 << len(items))
        return counted.astype(np.int64)


class Transactions(Protocol):
    """Sets of items; a person has one of them, or a bounded number."""

    def counts(self) -> IntArray:
        """Return the number of transactions with each candidate item. Exact and private."""
        ...

    def profiles(self, items: IntArray) -> Profiles:
        """Return the patterns of some candidates, given by position. Exact and private."""
        ...


@dataclass(frozen=True, eq=False)
class PersonSets:
    """One transaction for each person, with all items of the person."""

    facts: ItemFacts
    data: Dataset
    values: pa.Array
    """The candidate items: public, or released already."""

    def counts(self) -> IntArray:
        """Return the number of people with each item."""
        person, item = self._columns
        people = exp.Count(this=exp.Distinct(expressions=[person]))
        query = self._rows(item, exp.alias_(_integer(people), _COUNT)).group_by(item.copy())
        answer = self.data.engine.run(query)
        names = answer.column(self.facts.form.item).combine_chunks()
        positions = pc.index_in(names.cast(self.values.type), self.values)
        is_candidate = pc.is_valid(positions).to_numpy(zero_copy_only=False)
        counted = np.zeros(len(self.values), dtype=np.int64)
        people_counts = answer.column(_COUNT).to_numpy()
        counted[positions.drop_null().to_numpy()] = people_counts[is_candidate]
        return counted

    def profiles(self, items: IntArray) -> Profiles:
        """Return the number of people with each pattern of some items."""
        person, item = self._columns
        values = self.values.take(items).to_pylist()
        blocks = [values[start : start + _BITS] for start in range(0, len(values), _BITS)] or [[]]
        marks = [f"{_MARK}_{index}" for index in range(len(blocks))]
        masks = [
            # A bit per item makes repeated items of a person count once.
            exp.alias_(exp.BitwiseOrAgg(this=_bit(item, block)), mark)
            for block, mark in zip(blocks, marks, strict=True)
        ]
        by_person = self._rows(exp.alias_(person, _PERSON), *masks).group_by(person.copy())
        query = (
            exp.select(
                *map(exp.column, marks), exp.alias_(_integer(exp.Count(this=exp.Star())), _COUNT)
            )
            .from_(by_person.subquery("sf_people"))
            .group_by(*map(exp.column, marks))
        )
        answer = self.data.engine.run(query)
        bits = [
            answer.column(mark).to_numpy()[:, None] >> np.arange(len(block)) & 1
            for mark, block in zip(marks, blocks, strict=True)
        ]
        counted = answer.column(_COUNT).to_numpy().astype(np.int64)
        return Profiles(np.concatenate(bits, axis=1).astype(bool), counted)

    @property
    def _columns(self) -> tuple[exp.Column, exp.Column]:
        facts = self.facts
        return exp.column(facts.unit.column, quoted=True), exp.column(facts.form.item, quoted=True)

    def _rows(self, *selected: exp.Expr) -> exp.Select:
        """A query over the rows that have both a person and an item."""
        present = [column.is_(exp.Null()).not_() for column in self._columns]
        return exp.select(*selected).from_(self.data.table.copy()).where(*present)


@dataclass(frozen=True, eq=False)
class RowSets:
    """One transaction for each row of coded columns; its items are its values."""

    codes: Sequence[NDArray[np.integer]]
    """The codes of each column, by combination."""
    row_counts: IntArray
    """The number of rows with each combination."""
    items: Sequence[tuple[int, int]]
    """An item is a column, by its position, and a code."""

    def counts(self) -> IntArray:
        """Return the number of rows with each item."""
        row_counts = [
            self.row_counts[self.codes[column] == code].sum() for column, code in self.items
        ]
        return np.array(row_counts, dtype=np.int64)

    def profiles(self, items: IntArray) -> Profiles:
        """Return the number of rows with each pattern of some items."""
        marks = np.zeros((len(self.row_counts), len(items)), dtype=bool)
        for position, item in enumerate(items.tolist()):
            code_column, code = self.items[item]
            marks[:, position] = self.codes[code_column] == code
        return Profiles(marks, self.row_counts)


def _bit(item: exp.Expr, values: list[Any]) -> exp.Expr:
    """Return the SQL of an item's bit among `values`; 0 for another item."""
    case = exp.Case()
    for position, value in enumerate(values):
        case = case.when(item.copy().eq(exp.convert(value)), _integer(exp.convert(1 << position)))
    zero = _integer(exp.convert(0))
    return case.else_(zero) if values else zero


def _integer(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType.build("BIGINT"))
