"""The exact tables of sets of columns. Private: only the workbench asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.counting.grouping import keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.arrays import IntArray
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.synth.measurement_log import Set, TableShape

_TOGETHER = 1 << 20
"""Cells of a table of which several are added up: one passage over the data."""
_KEPT = 1 << 25
"""Cells of tables that are kept for the next choice."""


class ExactTables:
    """Tables asked of a counter, each counted once; several small ones in one passage."""

    def __init__(self, shape: TableShape, counter: Counter) -> None:
        self._shape, self._counter = shape, counter
        self._tables: dict[Set, IntArray] = {}
        self._counted: tuple[Set, Frequencies] | None = None
        self._room = _KEPT
        if isinstance(counter, Frequencies):
            self._counted = shape.columns, counter.of(shape.names)

    def of(self, places: Set) -> IntArray:
        """The table of some columns, every cell of it."""
        table = self._tables.get(places)
        if table is None:
            table = self._table(places)
            if table.size <= self._room:
                self._tables[places] = table
                self._room -= table.size
        return table

    def expect(self, sets: Iterable[Set]) -> None:
        """Count sets that will be asked for, as many as possible in each passage."""
        new = [one for one in dict.fromkeys(sets) if one not in self._tables]
        if isinstance(self._counter, Frequencies):
            return
        while new:
            cover = new[0]
            for one in new[1:]:
                union = tuple(sorted({*cover, *one}))
                if self._shape.cells(union) <= _TOGETHER:
                    cover = union
            self._counted = cover, self._ask(cover)
            for one in [one for one in new if set(one) <= set(cover)]:
                self.of(one)
            new = [one for one in new if not set(one) <= set(cover)]
        self._counted = None

    def _ask(self, places: Set) -> Frequencies:
        return self._counter.of([self._shape.names[place] for place in places])

    def _table(self, places: Set) -> IntArray:
        if self._counted is None or not set(places) <= set(self._counted[0]):
            return self._ask(places).dense()
        columns, counted = self._counted
        return _summed(counted, [columns.index(place) for place in places])


def _summed(counts: Frequencies, places: Sequence[int]) -> IntArray:
    """The table of some columns of what was counted."""
    sizes = [counts.sizes[place] for place in places]
    table = np.zeros(sizes, dtype=np.int64)
    if not places:
        table[...] = counts.total
        return table
    key, _ = keys([counts.codes[place] for place in places], sizes)
    if counts.total < 1 << 53:  # sums of floats are exact
        summed = np.bincount(key, weights=counts.counts, minlength=table.size)
        return summed.astype(np.int64).reshape(sizes)
    np.add.at(table.reshape(-1), key, counts.counts)
    return table
