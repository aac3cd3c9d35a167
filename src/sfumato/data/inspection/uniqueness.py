"""Measure uniqueness: the share of unique rows for every set of quasi-identifiers.

The frequencies of a set are summed from those of a larger set, so the table is read once. Sets with
too many groups are measured from smaller to larger ones instead: a row that is unique by fewer
columns is unique by more.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb, prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.counting.grouping import keys, runs, sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray

SMALL = 5
"""A group with fewer rows than this counts as small."""

LARGEST = 4
"""Sets of up to this many quasi-identifiers are examined, and the full set."""

_KEPT_GROUPS = 1 << 23  # tables kept for rolling up further, in all: about 200 MB
_KEPT_ROWS = 1 << 25  # places of combinations in company, in all: 128 MB


@dataclass(frozen=True)
class SetRisk:
    """How well a set of columns singles out rows or, where people are counted, people.

    A person with several rows counts once, as unique if alone in one of their groups.
    """

    columns: tuple[str, ...]
    rows: int
    groups: int
    unique_rows: int
    small_rows: int

    def __add__(self, disjoint: SetRisk) -> SetRisk:
        """The risk over both sets of rows, which must share no group."""
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
    """The size, in people, of the smallest group of each person, and the number of groups.

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
    """The risk of a set of columns from its frequencies, in rows or in people."""
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
        yield _joined(columns, frequencies.counts, counts, groups.counts)
        if len(columns) < largest:
            company = groups.rows_in_company()
            room = _KEPT_ROWS - sum(map(len, crowds.values()))
            if len(company) <= min(room, len(counts) // 2):
                positions = company if crowd is None else crowd[company]
                crowds[frozenset(columns)] = positions.astype(np.int32)


def _joined(
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
