"""Who is unique where not all combinations fit in memory: part by part, or in the engine.

Rows that agree in some columns agree in each of them. So rows are parted by a hash of the column
with most values, each part is counted and held by itself, and the figures of every set with that
column are added up; then come the sets without it, which have fewer combinations.

Decisions 0248 and 0252.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from sfumato.data.counting.frequencies import count
from sfumato.data.counting.memory_limit import (
    SizeCounts,
    TooManyCombinationsError,
    class_sizes,
    most_combinations,
    smallest_crowds,
)
from sfumato.data.counting.memory_limit import combinations as count_combinations
from sfumato.data.inspection.reidentification import Reidentification, attacker
from sfumato.data.inspection.uniqueness import SMALL, SetRisk, most_telling_first, uniqueness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.base import Engine

    Columns = tuple[str, ...]

_SAMPLED = 100_000  # about so many combinations tell how many there are in all
_FILLED = 0.8  # how full a part is meant to be: a hash does not fill all alike
_MOST_HALVINGS = 6  # of a part that does not fit: where one value has too many, none helps


@dataclass
class UnheldTable:
    """A table of so many rows that some sets of its columns may have too many combinations."""

    engine: Engine
    table: exp.Table
    quasi: Columns
    person: str | None
    rows: int
    largest: int
    """Sets of up to so many columns are measured, and the full set."""
    _classes: list[SizeCounts] = field(default_factory=list)
    """The sizes of groups by all quasi-identifiers, once they are known."""

    def uniqueness(self, progress: Callable[[float, float], None] | None) -> list[SetRisk]:
        """Measure every set, most telling first."""
        found: list[SetRisk] = []
        expected = len(self._sets(self.quasi))

        def tell(done: float) -> None:
            if progress is not None:
                progress(len(found) + done, expected)

        if self.person is not None:
            return most_telling_first(self._measured_each(self._sets(self.quasi), tell))
        columns = self.quasi
        while columns:
            parts, key = self._plan(columns)
            sets = self._sets(columns, key)
            try:
                found += self._added_up(columns, key, parts, sets, tell)
            except TooManyCombinationsError:
                found += self._measured_each(sets, tell)
            columns = tuple(name for name in columns if key not in (None, name))
        return most_telling_first(found)

    def reidentification(self) -> Reidentification:
        """The risk by all quasi-identifiers, of whoever knows that the target is there."""
        found = self._classes or [self._sizes(self.quasi)]
        rows = [one.rows if self.person is None else one.classes for one in found]
        prosecutor = attacker(np.concatenate(rows), np.concatenate([one.sizes for one in found]))
        return Reidentification(prosecutor, prosecutor, prosecutor)

    def _sets(self, columns: Columns, key: str | None = None) -> list[Columns]:
        """The sets of some columns that are asked for, all or those with a key."""
        sizes = range(1, min(self.largest, len(columns)) + 1)
        sets = [one for size in sizes for one in combinations(columns, size)]
        if columns == self.quasi and self.largest < len(columns):
            sets.append(columns)
        return [one for one in sets if key is None or key in one]

    def _plan(self, columns: Columns) -> tuple[int, str | None]:
        """In how many parts to count combinations, and by which column if not at once.

        Looked at is an even sample of the combinations themselves, so that one with many rows
        counts once.
        """
        step = max(1, self.rows // _SAMPLED)
        sample = self._part(columns, columns, step, 0)
        parts = ceil(len(sample) * step / (_FILLED * most_combinations(len(columns))))
        widest = max(sample.axes, key=lambda axis: axis.size)
        return max(1, parts), widest.column if parts > 1 else None

    def _part(
        self, columns: Columns, by: Columns, parts: int, place: int, most: int | None = None
    ) -> Frequencies:
        """Combinations of the rows that a hash of some columns puts into one of some parts."""
        cells = [exp.column(name, quoted=True) for name in by]
        hashed = self.engine.traits.hashed("sf_part", cells)
        mine = exp.Mod(this=hashed, expression=exp.convert(parts)).eq(place)
        return count(self.engine, self.table, columns, where=mine if parts > 1 else None, most=most)

    def _parts(self, columns: Columns, key: str | None, parts: int) -> Iterator[Frequencies]:
        """Combinations of some columns part by part, those that do not fit halved."""
        most, by = most_combinations(len(columns)), columns if key is None else (key,)
        waiting = [(parts, place) for place in reversed(range(parts))]
        while waiting:
            of, place = waiting.pop()
            try:
                yield self._part(columns, by, of, place, most)
            except TooManyCombinationsError:
                if key is None or of >= parts << _MOST_HALVINGS:
                    raise
                waiting += [(2 * of, place + of), (2 * of, place)]

    def _added_up(
        self,
        columns: Columns,
        key: str | None,
        parts: int,
        sets: Sequence[Columns],
        tell: Callable[[float], None],
    ) -> list[SetRisk]:
        """Measure sets part by part."""
        found = {one: SetRisk(one, 0, 0, 0, 0) for one in sets}
        classes, rows = [], 0
        for part in self._parts(columns, key, parts):
            for one in uniqueness(part, largest=self.largest, within=key):
                if one.columns in found:
                    found[one.columns] += one
            classes.append(SizeCounts.of(part.counts))
            rows += part.total
            tell(len(sets) * rows / self.rows)
        if columns == self.quasi:
            self._classes = classes
        return list(found.values())

    def _measured_each(
        self, sets: Sequence[Columns], tell: Callable[[float], None]
    ) -> list[SetRisk]:
        """Measure sets in the engine, one after the other."""
        found = []
        for one in sets:
            found.append(self._measured(one))
            tell(len(found))
        return found

    def _measured(self, columns: Columns) -> SetRisk:
        """Measure a set in the engine."""
        of = self._sizes(columns)
        by_rows = self.person is None
        many = of.rows if by_rows else of.classes
        groups = len(of) if by_rows else count_combinations(self.engine, self.table, columns)
        return SetRisk(
            columns,
            int(many.sum()),
            groups,
            int(many[of.sizes == 1].sum()),
            int(many[of.sizes < SMALL].sum()),
        )

    def _sizes(self, columns: Columns) -> SizeCounts:
        """How many rows, or people, have which number of them in their groups."""
        if self.person is None:
            return class_sizes(self.engine, self.table, columns)
        return smallest_crowds(self.engine, self.table, columns, self.person)
