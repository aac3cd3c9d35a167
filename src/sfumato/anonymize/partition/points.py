"""Distinct combinations of quasi-identifiers as points, for algorithms that group points freely.

Decision 0185.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.anonymize.classes import Classes, SensitiveCounts
from sfumato.data.counting.grouping import group
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Counts, Original
    from sfumato.anonymize.criteria.base import Criterion
    from sfumato.anonymize.problem import Problem
    from sfumato.arrays import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Spread:
    """A sensitive column over the points: which point has how many rows of which value.

    Where people are counted, each line is one person's.
    """

    original: Original
    points: IntArray
    values: NDArray[np.integer]
    counts: Counts
    persons: NDArray[np.integer] | None = None


class Visits(NamedTuple):
    """Who has rows at which point, each pair once."""

    points: IntArray
    persons: NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class DataPoints:
    """Distinct combinations of leaves, in lexicographic order, and how many rows have each.

    `leaves` has one array per quasi-identifier, in the smallest type that can hold its codes.
    """

    leaves: tuple[NDArray[np.integer], ...]
    counts: Counts
    spreads: tuple[Spread, ...]
    visits: Visits | None = None

    @classmethod
    def of(cls, problem: Problem) -> DataPoints:
        """The points of a problem; the views hold them in the same order."""
        first = problem.views[0]
        # A population adds combinations that no row of the table has.
        rows = np.flatnonzero(first.base.counts)
        counts, spreads, visits = first.base.counts[rows], [], None
        for view in problem.views:
            if view.original is None and view.persons is None:
                continue
            table = view.group(view.base, (0,) * len(problem.quasi))
            assert table.starts is not None
            lengths = np.diff(table.starts, append=len(table.rows))
            owners = np.repeat(np.arange(len(table.starts)), lengths)
            persons = None if view.persons is None else view.persons[table.rows]
            if view.original is not None and view.values is not None:
                values = view.values[table.rows]
                spreads.append(Spread(view.original, owners, values, table.counts, persons))
            if view is first:
                rows = table.rows[table.starts]
                counts = np.add.reduceat(table.counts, table.starts)
                visits = None if persons is None else Visits(owners, persons)
        whole = len(rows) == len(first.base.rows)
        leaves = (codes[0] if whole else codes[0][rows] for codes in first.codes)
        return cls(tuple(leaves), counts, tuple(spreads), visits)

    def __len__(self) -> int:
        return len(self.counts)

    def classes(self, owners: NDArray[np.integer], count: int) -> Classes:
        """Unite points into classes 0 .. count - 1, none empty; owner -1 leaves a point out."""
        inside = owners >= 0
        sizes = np.bincount(owners[inside], self.counts[inside], count).astype(np.int64)
        cells = {
            spread.original.name: cells_of(
                owners[spread.points], spread.values, spread.counts, spread.original, spread.persons
            )
            for spread in self.spreads
        }
        crowds = None
        if self.visits is not None:
            crowds = crowds_of(owners[self.visits.points], self.visits.persons, count)
        return Classes(sizes, cells, crowds=crowds)

    def lost(self, points: BoolArray) -> int:
        """How many rows, or people where they are counted, have these points."""
        if self.visits is None:
            return int(self.counts[points].sum())
        return len(np.unique(self.visits.persons[points[self.visits.points]]))


def cells_of(
    owners: NDArray[np.integer],
    values: NDArray[np.integer],
    counts: Counts,
    original: Original,
    persons: NDArray[np.integer] | None = None,
) -> SensitiveCounts:
    """Cells of classes from counts by owner and value; owner -1 leaves a count out.

    Where persons are given, each counts once for each value in each class.
    """
    inside = np.flatnonzero(owners >= 0)
    owners, values, counts = owners[inside], values[inside], counts[inside]
    sizes = [int(owners.max(initial=0)) + 1, len(original.totals)]
    if persons is not None:
        people = int(persons.max(initial=0)) + 1
        once = group([owners, values, persons[inside]], [*sizes, people], counts).representatives
        owners, values, counts = owners[once], values[once], np.ones(len(once), dtype=np.int64)
    groups = group([owners, values], sizes, counts)
    owners = owners[groups.representatives]
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    return SensitiveCounts(starts, values[groups.representatives], groups.counts, original)


def crowds_of(owners: NDArray[np.integer], persons: NDArray[np.integer], count: int) -> IntArray:
    """How many different people each of the classes 0 .. count - 1 has; owner -1 is none."""
    inside = np.flatnonzero(owners >= 0)
    owners, persons = owners[inside], persons[inside]
    sizes = [count, int(persons.max(initial=0)) + 1]
    once = group([owners, persons], sizes, np.ones(len(inside), dtype=np.int64)).representatives
    return np.bincount(owners[once], minlength=count)


def failing(criteria: Sequence[Criterion], classes: Classes) -> BoolArray:
    """Which classes fail any of these criteria."""
    fails = np.zeros(len(classes), dtype=bool)
    for criterion in criteria:
        fails |= ~criterion.holds(classes)
    return fails


def refuse_population(problem: Problem, algorithm: str) -> None:
    """Refuse criteria of a population: whom a label of one class fits is not a matter of levels."""
    for criterion in problem.criteria:
        if criterion.compares_population:
            raise ParameterError(
                "criterion_not_of_algorithm",
                f"Algorithm {algorithm!r} cannot reach {criterion}: it does not count the people "
                "of a population under its labels. Take algorithm 'optimal', or drop the "
                "criterion.",
            )


def only_crowds(problem: Problem, algorithm: str) -> int:
    """The k of a problem that asks for k-anonymity alone; any other is refused."""
    for criterion in problem.criteria:
        if not criterion.absorbing or criterion.column or criterion.compares_population:
            raise ParameterError(
                "criterion_not_of_algorithm",
                f"Algorithm {algorithm!r} is for k-anonymity alone and cannot reach {criterion}. "
                "Take algorithm 'optimal' or 'mondrian', or drop the criterion.",
            )
    return problem.k
