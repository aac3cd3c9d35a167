"""Distinct combinations of quasi-identifiers as points, for algorithms that group points freely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.classes import Cells, Classes
from sfumato.errors import ParameterError
from sfumato.grouping import group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Counts, Original
    from sfumato.anonymize.criteria.base import Criterion
    from sfumato.anonymize.problem import Problem


@dataclass(frozen=True, eq=False)
class Spread:
    """A sensitive column over the points: which point has how many rows of which value."""

    original: Original
    points: NDArray[np.int64]
    values: NDArray[np.integer]
    counts: Counts


@dataclass(frozen=True, eq=False)
class Points:
    """Distinct combinations of leaves, in lexicographic order, and how many rows have each.

    `leaves` has one array per quasi-identifier, in the smallest type that can hold its codes.
    """

    leaves: tuple[NDArray[np.integer], ...]
    counts: Counts
    spreads: tuple[Spread, ...]

    @classmethod
    def of(cls, problem: Problem) -> Points:
        """The points of a problem; the views hold them in the same order."""
        first = problem.views[0]
        # A population adds combinations that no row of the table has.
        rows = np.flatnonzero(first.base.counts)
        counts, spreads = first.base.counts[rows], []
        for view in problem.views:
            if view.original is None or view.values is None:
                continue
            table = view.group(view.base, (0,) * len(problem.quasi))
            assert table.starts is not None
            lengths = np.diff(table.starts, append=len(table.rows))
            owners = np.repeat(np.arange(len(table.starts)), lengths)
            spreads.append(Spread(view.original, owners, view.values[table.rows], table.counts))
            if view is first:
                rows = table.rows[table.starts]
                counts = np.add.reduceat(table.counts, table.starts)
        whole = len(rows) == len(first.base.rows)
        leaves = (codes[0] if whole else codes[0][rows] for codes in first.codes)
        return cls(tuple(leaves), counts, tuple(spreads))

    def __len__(self) -> int:
        return len(self.counts)

    def classes(self, owners: NDArray[np.integer], count: int) -> Classes:
        """Unite points into classes 0 .. count - 1, none empty; owner -1 leaves a point out."""
        inside = owners >= 0
        sizes = np.bincount(owners[inside], self.counts[inside], count).astype(np.int64)
        cells = {
            spread.original.name: cells_of(
                owners[spread.points], spread.values, spread.counts, spread.original
            )
            for spread in self.spreads
        }
        return Classes(sizes, cells)


def cells_of(
    owners: NDArray[np.integer],
    values: NDArray[np.integer],
    counts: Counts,
    original: Original,
) -> Cells:
    """Cells of classes from counts by owner and value; owner -1 leaves a count out."""
    inside = np.flatnonzero(owners >= 0)
    owners, values, counts = owners[inside], values[inside], counts[inside]
    sizes = [int(owners.max(initial=0)) + 1, len(original.totals)]
    groups = group([owners, values], sizes, counts)
    owners = owners[groups.representatives]
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    return Cells(starts, values[groups.representatives], groups.counts, original)


def failing(criteria: Sequence[Criterion], classes: Classes) -> NDArray[np.bool_]:
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
