"""Uniqueness by every set of quasi-identifiers, and the risk of re-identification.

*Uniqueness.* The frequencies of a set are summed from those of a larger set, so the table is read
once. Sets with too many groups are measured from smaller to larger ones instead: a row that is
unique by fewer columns is unique by more.

*Beyond the memory limit.* Rows that agree in some columns agree in each of them. So rows are split
by a hash of the column with most values: no group of a set with that column is split, each part is
measured by itself, and the figures add up. Sets without that column follow; they have fewer
combinations. Decisions `optimal-search` and `large-releases`.

*Re-identification*: the probability that a row is matched to its person, for three attackers. The
prosecutor knows that the target is in the table. The journalist picks any target of a larger
population from which the table was drawn. The marketer wants as many right matches as possible.
With f_j the size of class j in the table and F_j in the population (F_j = f_j where no population
is given: then the journalist's risk is at most the prosecutor's, which is what is reported):

    prosecutor   highest max 1/f_j       average (number of classes) / n
    journalist   highest max 1/F_j       average sum f_j/F_j / n over classes of the table
    marketer     average sum f_j/F_j / n: the share of rows a linkage of all rows gets right

Reference: El Emam and Dankar, Protecting privacy using k-anonymity, JAMIA 2008; Dankar and
El Emam, A method for evaluating marketer re-identification risk, PAIS 2010.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from math import ceil, comb, prod
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.data.counting.frequencies import Frequencies, count
from sfumato.data.counting.grouping import keys, runs, sums
from sfumato.data.counting.memory_limit import (
    SizeCounts,
    TooManyCombinationsError,
    class_sizes,
    most_combinations,
    smallest_crowds,
)
from sfumato.data.counting.memory_limit import combinations as count_combinations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.data.engines.base import Engine

    Columns = tuple[str, ...]


SMALL = 5
"""A group with fewer rows than this counts as small."""

LARGEST = 4
"""Sets of up to this many quasi-identifiers are examined, and the full set."""

_KEPT_GROUPS = 1 << 23  # tables kept for rolling up further, in all: about 200 MB
_KEPT_ROWS = 1 << 25  # places of combinations in company, in all: 128 MB


@dataclass(frozen=True)
class SetRisk:
    """The uniqueness of a set of columns, for rows or, if people are counted, for people.

    A person with several rows counts once, as unique if alone in one of their groups.
    """

    columns: tuple[str, ...]
    rows: int
    groups: int
    unique_rows: int
    small_rows: int

    def __add__(self, disjoint: SetRisk) -> SetRisk:
        """Return the risk over both sets of rows, which must share no group."""
        return SetRisk(
            self.columns,
            self.rows + disjoint.rows,
            self.groups + disjoint.groups,
            self.unique_rows + disjoint.unique_rows,
            self.small_rows + disjoint.small_rows,
        )

    @property
    def unique_share(self) -> float:
        """The share of rows that no other row equals."""
        return self.unique_rows / self.rows if self.rows else 0.0

    @property
    def small_share(self) -> float:
        """The share of rows in groups of fewer than `SMALL`."""
        return self.small_rows / self.rows if self.rows else 0.0


def set_risk(columns: tuple[str, ...], counts: IntArray) -> SetRisk:
    """Measure one set of columns from the sizes of its groups."""
    return SetRisk(
        columns=columns,
        rows=int(counts.sum()),
        groups=len(counts),
        unique_rows=int((counts == 1).sum()),
        small_rows=int(counts[counts < SMALL].sum()),
    )


def people_risk(columns: tuple[str, ...], least: IntArray, groups: int) -> SetRisk:
    """Measure one set of columns from the smallest group of each person, in people."""
    return SetRisk(
        columns=columns,
        rows=len(least),
        groups=groups,
        unique_rows=int((least == 1).sum()),
        small_rows=int((least < SMALL).sum()),
    )


def smallest_groups(
    table: Frequencies,
    columns: Sequence[str],
    person: str,
    sizes: Callable[[Frequencies], IntArray] = lambda groups: groups.counts,
) -> tuple[IntArray, int]:
    """Return the size, in people, of the smallest group of each person, and the number of groups.

    `sizes` returns the size of each group; unless given, the number of its people in the table.
    """
    pairs = table.marginal([*columns, person])
    key, _ = keys(pairs.codes[:-1], pairs.sizes[:-1])
    _, first, owners, counts = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    codes = tuple(column[first] for column in pairs.codes[:-1])
    people = sizes(Frequencies(pairs.axes[:-1], codes, counts))
    present, persons = np.unique(pairs.codes[-1], return_inverse=True)
    least = np.full(len(present), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(least, persons, people[owners])
    return least, len(people)


def uniqueness(
    frequencies: Frequencies,
    *,
    largest: int = LARGEST,
    progress: Callable[[int, int], None] | None = None,
    person: str | None = None,
    within: str | None = None,
) -> list[SetRisk]:
    """Measure every set of up to `largest` columns and the full set.

    Parameters
    ----------
    frequencies : Frequencies
        The counts over all quasi-identifiers.
    largest : int
        The largest size of a set, besides the full set.
    progress : callable, optional
        Called with the number of sets done and the number in all.
    person : str, optional
        The last column of `frequencies`, if it names a person; then people are counted.
    within : str, optional
        Measure only sets with this column.

    Returns
    -------
    list of SetRisk
        The most identifying sets first.
    """
    names = tuple(name for name in frequencies.columns if name != person)
    width = len(names)
    expected = sum(comb(width, size) for size in range(1, min(largest, width) + 1))
    risks = {names: _risk(names, frequencies, person)}
    rolled = _roll_up(frequencies, min(largest, width), person, within)
    for number, risk in enumerate(rolled, start=1):
        risks[risk.columns] = risk
        if progress is not None:
            progress(number, expected)
    return most_telling_first(risks.values())


def most_telling_first(risks: Iterable[SetRisk]) -> list[SetRisk]:
    """Sort sets of columns, those with most unique rows first."""
    return sorted(risks, key=lambda r: (-r.unique_rows, -r.small_rows, len(r.columns)))


def _risk(columns: tuple[str, ...], table: Frequencies, person: str | None) -> SetRisk:
    """Return the risk of a set of columns from its frequencies, in rows or in people."""
    if person is None:
        return set_risk(columns, table.counts)
    return people_risk(columns, *smallest_groups(table, columns, person))


def _roll_up(
    frequencies: Frequencies, largest: int, person: str | None, within: str | None
) -> Iterator[SetRisk]:
    """Measure from larger to smaller sets, each from the smallest kept table that contains it."""
    above: dict[frozenset[str], Frequencies] = {}
    names = [name for name in frequencies.columns if name != person]
    wide: list[tuple[str, ...]] = []
    for size in range(largest, 0, -1):
        rolled: dict[frozenset[str], Frequencies] = {}
        for columns in combinations(names, size):
            if within is not None and within not in columns:
                continue
            parents = [table for names, table in above.items() if names.issuperset(columns)]
            # The smallest table that holds all columns is the cheapest to add up.
            parent = min(parents, key=len, default=frequencies)
            if person is not None:  # every table needs the column of people, so none is small
                yield _risk(columns, parent, person)
                continue
            sizes = [parent.axis(column).size for column in columns]
            if prod(sizes) + sum(map(len, rolled.values())) <= _KEPT_GROUPS:
                table = parent.marginal(columns)
                rolled[frozenset(columns)] = table
                yield set_risk(columns, table.counts)
            elif parent is frequencies:
                wide.append(columns)
            else:
                codes = [parent.codes[parent.columns.index(column)] for column in columns]
                yield set_risk(columns, sums(codes, sizes, parent.counts))
        above = rolled
    yield from _among_crowds(frequencies, wide)


def _among_crowds(frequencies: Frequencies, sets: Sequence[tuple[str, ...]]) -> Iterator[SetRisk]:
    """Measure from smaller to larger sets, counting only combinations that are not yet unique.

    A combination that is unique by some columns is unique by more columns. So only the indices of
    the other combinations are kept for larger sets.
    """
    largest = max(map(len, sets), default=0)
    crowds: dict[frozenset[str], NDArray[np.int32]] = {}
    for columns in sorted(sets, key=len):
        known = [crowd for names, crowd in crowds.items() if names.issubset(columns)]
        crowd = min(known, key=len, default=None)
        codes = [frequencies.codes[frequencies.columns.index(column)] for column in columns]
        counts = frequencies.counts
        if crowd is not None:
            codes, counts = [column[crowd] for column in codes], counts[crowd]
        groups = runs(codes, [frequencies.axis(column).size for column in columns], counts)
        yield _join_risks(columns, frequencies.counts, counts, groups.counts)
        if len(columns) < largest:
            company = groups.rows_in_company()
            room = _KEPT_ROWS - sum(map(len, crowds.values()))
            if len(company) <= min(room, len(counts) // 2):
                positions = company if crowd is None else crowd[company]
                crowds[frozenset(columns)] = positions.astype(np.int32)


def _join_risks(
    columns: tuple[str, ...],
    every: IntArray,
    crowd: IntArray,
    groups: IntArray,
) -> SetRisk:
    """The risk of the groups of a crowd and of all other combinations, each its own group."""
    all_alone, crowd_alone, grouped = (set_risk(columns, sizes) for sizes in (every, crowd, groups))
    return SetRisk(
        columns,
        all_alone.rows,
        all_alone.groups - crowd_alone.groups + grouped.groups,
        all_alone.unique_rows - crowd_alone.unique_rows + grouped.unique_rows,
        all_alone.small_rows - crowd_alone.small_rows + grouped.small_rows,
    )


@dataclass(frozen=True)
class Attacker:
    """The risk from one kind of attacker: the highest, the average, and the share at risk."""

    highest: float
    average: float
    at_risk: float
    """The share of rows with a risk above 1/`SMALL`."""


@dataclass(frozen=True)
class Reidentification:
    """The risk under all three attackers."""

    prosecutor: Attacker
    journalist: Attacker
    marketer: Attacker


def reidentification(
    table: Frequencies, population: Frequencies | None = None, *, person: str | None = None
) -> Reidentification:
    """Measure the risk of a table, alone or as a sample of a population with the same columns.

    Where a column names the `person`, people are counted, each by the smallest of their classes.
    """
    names = [name for name in table.columns if name != person]
    if person is not None:
        own = smallest_groups(table, names, person)[0]
        rows = np.ones_like(own)
    else:
        own = rows = table.counts
    prosecutor = attacker(rows, own)
    if population is None:
        return Reidentification(prosecutor, prosecutor, prosecutor)
    sizes = partial(_sizes_in, population)
    candidates = sizes(table) if person is None else smallest_groups(table, names, person, sizes)[0]
    journalist = attacker(rows, candidates)
    return Reidentification(prosecutor, journalist, journalist)


def attacker(rows: IntArray, candidates: IntArray) -> Attacker:
    """Return the risk where each row of a class matches one of so many candidates: 1/candidates."""
    total = rows.sum()
    if total == 0:
        return Attacker(0.0, 0.0, 0.0)
    return Attacker(
        highest=float(1 / candidates.min()),
        average=float((rows / candidates).sum() / total),
        at_risk=float(rows[candidates < SMALL].sum() / total),
    )


def _sizes_in(population: Frequencies, table: Frequencies) -> IntArray:
    """The size in the population of each class of the table; never less than in the table."""
    sizes = table.counts.copy()
    known = np.ones(len(table), dtype=bool)
    translated = []
    for column, codes in zip(table.columns, table.codes, strict=True):
        own, population_axis = table.axis(column), population.axis(column)
        values = own.decode(np.arange(own.size))
        code_of = pc.index_in(
            values, value_set=population_axis.decode(np.arange(population_axis.size))
        )
        translated.append(code_of.fill_null(-1).to_numpy()[codes])
        known &= translated[-1] >= 0
    axes = [population.columns.index(column) for column in table.columns]
    key, _ = keys(
        [
            np.concatenate([population.codes[axis], codes[known]])
            for axis, codes in zip(axes, translated, strict=True)
        ],
        [population.sizes[axis] for axis in axes],
    )
    candidates, sought = key[: len(population)], key[len(population) :]
    order = np.argsort(candidates)
    positions = order[np.searchsorted(candidates, sought, sorter=order).clip(max=len(order) - 1)]
    matched = np.where(candidates[positions] == sought, population.counts[positions], 0)
    # The table is part of the population, so no class is smaller there.
    sizes[known] = np.maximum(sizes[known], matched)
    return sizes


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
        """Return the sets of some columns to measure, all or those with a key column."""
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
            risks.append(self._measure_set(columns))
            report_progress(len(risks))
        return risks

    def _measure_set(self, columns: Columns) -> SetRisk:
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
        """Return the sizes of groups, in rows or in people."""
        if self.person is None:
            return class_sizes(self.engine, self.table, columns)
        return smallest_crowds(self.engine, self.table, columns, self.person)
