"""Measure uniqueness where the combinations exceed the memory limit: in parts, or in the engine.

Rows that agree in some columns agree in each of them. So rows are split by a hash of the column
with most values: no group of a set with that column is split, each part is measured by itself, and
the figures add up. Sets without that column follow; they have fewer combinations.

Decisions `optimal-search` and `large-releases`.
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

# The approximate number of combinations in the sample that estimates their total.
_SAMPLED = 100_000
# The planned share of the memory limit per part, because a hash does not fill parts equally.
_FILLED = 0.8
# A part that does not fit is halved at most this often: where one value has too many combinations,
# halving does not help.
_MOST_HALVINGS = 6


@dataclass
class UnheldTable:
    """A table in which some sets of columns may have more combinations than memory can hold."""

    engine: Engine
    table: exp.Table
    quasi: Columns
    person: str | None
    rows: int
    largest: int
    """The largest size of the measured sets, besides the full set."""
    # The sizes of groups by all quasi-identifiers, once they are known.
    _classes: list[SizeCounts] = field(default_factory=list)

    def uniqueness(self, progress: Callable[[float, float], None] | None) -> list[SetRisk]:
        """Measure every set; the most identifying sets come first."""
        risks: list[SetRisk] = []
        expected = len(self._sets(self.quasi))

        def report_progress(sets_done: float) -> None:
            if progress is not None:
                progress(len(risks) + sets_done, expected)

        if self.person is not None:
            return most_telling_first(self._measured_each(self._sets(self.quasi), report_progress))
        columns = self.quasi
        while columns:
            part_count, key = self._plan(columns)
            sets = self._sets(columns, key)
            try:
                risks += self._added_up(columns, key, part_count, sets, report_progress)
            except TooManyCombinationsError:
                risks += self._measured_each(sets, report_progress)
            columns = tuple(name for name in columns if key not in (None, name))
        return most_telling_first(risks)

    def reidentification(self) -> Reidentification:
        """The risk by all quasi-identifiers; without a population all attackers are prosecutors."""
        size_counts = self._classes or [self._sizes(self.quasi)]
        rows = [sizes.rows if self.person is None else sizes.classes for sizes in size_counts]
        prosecutor = attacker(
            np.concatenate(rows), np.concatenate([sizes.sizes for sizes in size_counts])
        )
        return Reidentification(prosecutor, prosecutor, prosecutor)

    def _sets(self, columns: Columns, key: str | None = None) -> list[Columns]:
        """The sets of some columns to measure, all or those with a key column."""
        sizes = range(1, min(self.largest, len(columns)) + 1)
        sets = [names for size in sizes for names in combinations(columns, size)]
        if columns == self.quasi and self.largest < len(columns):
            sets.append(columns)
        return [names for names in sets if key is None or key in names]

    def _plan(self, columns: Columns) -> tuple[int, str | None]:
        """The number of parts in which to count, and the column to split by if it is above 1.

        Estimated from a sample of combinations by hash, so that one with many rows counts once.
        """
        step = max(1, self.rows // _SAMPLED)
        sample = self._count_part(columns, columns, step, 0)
        # Aim below the limit, because a hash does not fill all parts equally.
        part_count = ceil(len(sample) * step / (_FILLED * most_combinations(len(columns))))
        widest = max(sample.axes, key=lambda axis: axis.size)
        return max(1, part_count), widest.column if part_count > 1 else None

    def _count_part(
        self,
        columns: Columns,
        by: Columns,
        part_count: int,
        part_index: int,
        most: int | None = None,
    ) -> Frequencies:
        """Count the combinations of one part of the rows, by a hash of columns `by`."""
        cells = [exp.column(name, quoted=True) for name in by]
        hashed = self.engine.traits.hashed("sf_part", cells)
        mine = exp.Mod(this=hashed, expression=exp.convert(part_count)).eq(part_index)
        return count(
            self.engine, self.table, columns, where=mine if part_count > 1 else None, most=most
        )

    def _count_parts(
        self, columns: Columns, key: str | None, part_count: int
    ) -> Iterator[Frequencies]:
        """Count the combinations part by part; halve parts that do not fit."""
        most, by = most_combinations(len(columns)), columns if key is None else (key,)
        waiting = [(part_count, number) for number in reversed(range(part_count))]
        while waiting:
            of, part_index = waiting.pop()
            try:
                yield self._count_part(columns, by, of, part_index, most)
            except TooManyCombinationsError:
                if key is None or of >= part_count << _MOST_HALVINGS:
                    raise
                waiting += [(2 * of, part_index + of), (2 * of, part_index)]

    def _added_up(
        self,
        columns: Columns,
        key: str | None,
        part_count: int,
        sets: Sequence[Columns],
        report_progress: Callable[[float], None],
    ) -> list[SetRisk]:
        """Measure sets part by part, and add up the figures."""
        risks = {columns: SetRisk(columns, 0, 0, 0, 0) for columns in sets}
        classes, rows = [], 0
        for frequencies in self._count_parts(columns, key, part_count):
            for risk in uniqueness(frequencies, largest=self.largest, within=key):
                if risk.columns in risks:
                    risks[risk.columns] += risk
            classes.append(SizeCounts.of(frequencies.counts))
            rows += frequencies.total
            report_progress(len(sets) * rows / self.rows)
        if columns == self.quasi:
            self._classes = classes
        return list(risks.values())

    def _measured_each(
        self, sets: Sequence[Columns], report_progress: Callable[[float], None]
    ) -> list[SetRisk]:
        """Measure sets in the engine, one after the other."""
        risks = []
        for columns in sets:
            risks.append(self._measured(columns))
            report_progress(len(risks))
        return risks

    def _measured(self, columns: Columns) -> SetRisk:
        """Measure a set in the engine."""
        of = self._sizes(columns)
        by_rows = self.person is None
        members = of.rows if by_rows else of.classes
        groups = len(of) if by_rows else count_combinations(self.engine, self.table, columns)
        return SetRisk(
            columns,
            int(members.sum()),
            groups,
            int(members[of.sizes == 1].sum()),
            int(members[of.sizes < SMALL].sum()),
        )

    def _sizes(self, columns: Columns) -> SizeCounts:
        """The sizes of groups, in rows or in people."""
        if self.person is None:
            return class_sizes(self.engine, self.table, columns)
        return smallest_crowds(self.engine, self.table, columns, self.person)
