"""Classes of rows that a release makes equal: their sizes and their counts of sensitive values.

This is all that a criterion sees, whatever formed the classes: a node of a generalization lattice,
a cut of Mondrian, a bucket.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.data.schema.hierarchy import Taxonomy

    Counts = NDArray[np.int64]
    Exact = NDArray[np.int64] | NDArray[np.object_]

# The first integer that int64 cannot hold.
LARGEST = 1 << 63


def exact(array: Counts, largest: int) -> Exact:
    """Return numbers as Python integers if results up to `largest` could overflow int64."""
    return array if largest < LARGEST else array.astype(object)


@dataclass(frozen=True, eq=False)
class Original:
    """A sensitive column in the original table, before anything was suppressed.

    `totals` counts each value that occurs, in the order of the values, which `order` names.
    `taxonomy` and `leaves`, the leaf of each value, are there where the column has a hierarchy.
    """

    name: str
    totals: Counts
    taxonomy: Taxonomy | None = None
    leaves: NDArray[np.int32] | None = None
    order: str = ""

    @cached_property
    def rows(self) -> int:
        """The number of rows of the original."""
        return int(self.totals.sum())


@dataclass(frozen=True, eq=False)
class SensitiveCounts:
    """The counts above zero of each value of a sensitive column in each class.

    Cells are sorted by class, then by value; `starts` has the first cell of each class. Every class
    has at least one cell.
    """

    starts: IntArray
    values: NDArray[np.integer]
    counts: Counts
    original: Original

    @cached_property
    def lengths(self) -> IntArray:
        """The number of different values of each class."""
        lengths: IntArray = np.diff(self.starts, append=len(self.counts))
        return lengths

    @cached_property
    def owners(self) -> IntArray:
        """The class of each cell."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    @cached_property
    def sizes(self) -> Counts:
        """The size of each class: rows, or people once for each of their values."""
        return np.add.reduceat(self.counts, self.starts)

    def sums(self, numbers: Exact) -> Exact:
        """Add up, class by class, a number for each cell."""
        totals: Exact = np.add.reduceat(numbers, self.starts)
        return totals


@dataclass(frozen=True, eq=False)
class Classes:
    """All classes of a release: sizes, cells of each sensitive column, matches in a population.

    `sizes` counts rows and `crowds`, where people are counted, different people; cells then count
    each person once for each value. `population` counts the rows of a public table that fall into
    each class, and `unmatched` those that fall into none.
    """

    sizes: Counts
    cells: Mapping[str, SensitiveCounts] = field(default_factory=dict)
    population: Counts | None = None
    unmatched: int = 0
    crowds: Counts | None = None

    @property
    def counted(self) -> Counts:
        """The size of each class in people if people are counted, else in rows."""
        return self.sizes if self.crowds is None else self.crowds

    def __len__(self) -> int:
        return len(self.sizes)

    def of(self, column: str) -> SensitiveCounts:
        """Return the cells of a sensitive column."""
        if column not in self.cells:
            raise ParameterError(
                "column_unknown",
                f"A criterion names column {column!r}, which was not counted; counted "
                f"{'are ' + ', '.join(map(repr, self.cells)) if self.cells else 'is none'}. "
                "Name a sensitive column of the table.",
            )
        return self.cells[column]

    def matches(self) -> Counts:
        """Return how many rows of the population fall into each class."""
        if self.population is None:
            raise ParameterError(
                "parameter_missing",
                "A criterion compares the release with a population, but no population table was "
                "given. Give one, or drop k-map and delta-presence.",
                parameter="population",
            )
        return self.population


def from_matrix(counts: Counts, original: Original) -> SensitiveCounts:
    """Return cells from a dense table of classes by values; every class must have a row."""
    # np.nonzero lists cells class by class, which is the order that SensitiveCounts promises.
    owners, values = np.nonzero(counts)
    # A class begins where the owner changes.
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    return SensitiveCounts(starts, values, counts[owners, values], original)
