"""The lattice of generalizations, one level per quasi-identifier, and its nodes examined."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.classes import Classes
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.cost.base import Separable
    from sfumato.anonymize.criteria.base import Criterion
    from sfumato.anonymize.lattice.views import GroupedView, Levels
    from sfumato.anonymize.problem import Problem
    from sfumato.arrays import BoolArray, IntArray

LARGEST = 4_000_000
"""Searches over a whole lattice keep a few numbers per node."""


def check_size(shape: Levels, algorithm: str) -> int:
    """The number of nodes, or a refusal when they do not fit memory and patience."""
    size = prod(shape)
    if size > LARGEST:
        raise ParameterError(
            "lattice_too_large",
            f"Algorithm {algorithm!r} keeps the whole lattice in memory, which has {size:,} nodes; "
            f"at most {LARGEST:,} are possible. Take fewer quasi-identifiers or levels, or "
            "'datafly' or 'mondrian'.",
        )
    return size


def heights(shape: Levels) -> IntArray:
    """The sum of levels of every node."""
    total = np.zeros(shape, dtype=np.int64)
    for axis, size in enumerate(shape):
        total += np.arange(size).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return total


def below(levels: Levels) -> tuple[slice, ...]:
    """The node and everything finer."""
    return tuple(slice(0, level + 1) for level in levels)


def above(levels: Levels) -> tuple[slice, ...]:
    """The node and everything coarser."""
    return tuple(slice(level, None) for level in levels)


def count_below(marked: BoolArray) -> NDArray[np.int32]:
    """For every node, how many marked ones are equal or finer: running sums along each axis.

    Axes are short, so adding whole slices to the next is much faster than a running sum.
    """
    counts = marked.astype(np.int32)
    for axis in range(counts.ndim):
        slices = np.moveaxis(counts, axis, 0)
        for level in range(1, len(slices)):
            slices[level] += slices[level - 1]
    return counts


def count_above(marked: BoolArray) -> NDArray[np.int32]:
    """For every node, how many marked ones are equal or coarser."""
    turned = tuple(slice(None, None, -1) for _ in marked.shape)
    return count_below(marked[turned])[turned]


def nodes_where(marked: BoolArray) -> list[Levels]:
    """The marked nodes in lexicographic order."""
    return [tuple(levels) for levels in np.argwhere(marked).tolist()]


@dataclass(frozen=True, eq=False)
class Node:
    """One level per quasi-identifier, and the tables of all views grouped there.

    As a release it has every class that passes; the rows of the others are suppressed.
    """

    problem: Problem
    levels: Levels
    tables: tuple[GroupedView, ...]
    _totals: dict[str, list[float]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def occupied(self) -> BoolArray | None:
        """Which groups of the first view have rows; None where all do."""
        table = self.tables[0]
        return None if table.population is None else self._added(table.counts) > 0

    def _added(self, numbers: Counts) -> Counts:
        """Add up a number for each group of the first view, where people have their own."""
        starts = self.tables[0].starts
        return numbers if starts is None else np.add.reduceat(numbers, starts)

    @cached_property
    def classes(self) -> Classes:
        """All classes, in the order of their labels."""
        cells = {
            view.original.name: view.cells(table)
            for view, table in zip(self.problem.views, self.tables, strict=True)
            if view.original is not None
        }
        first = self.tables[0]
        sizes, crowds = self._added(first.counts), None
        if self.problem.people is not None:
            crowds = self._added((first.counts > 0).astype(np.int64))
        if self.occupied is None or first.population is None:
            return Classes(sizes, cells, crowds=crowds)
        people = self._added(first.population)[self.occupied]
        unmatched = int(first.population.sum() - people.sum())
        crowds = None if crowds is None else crowds[self.occupied]
        return Classes(sizes[self.occupied], cells, people, unmatched, crowds)

    @cached_property
    def representatives(self) -> IntArray:
        """A row of the first view for each class."""
        table = self.tables[0]
        rows = table.rows if table.starts is None else table.rows[table.starts]
        return rows if self.occupied is None else rows[self.occupied]

    @cached_property
    def lacking(self) -> BoolArray:
        """Which classes fail the absorbing part of the criteria."""
        return _failing(self.problem.necessary, self.classes)

    @cached_property
    def failing(self) -> int:
        """Rows that fail the absorbing part; no finer node suppresses fewer."""
        return int(self.classes.sizes[self.lacking].sum())

    @cached_property
    def fails(self) -> BoolArray:
        """Which classes fail any criterion."""
        if not self.problem.further:
            return self.lacking
        return self.lacking | _failing(self.problem.further, self.classes)

    @cached_property
    def suppressed(self) -> int:
        """How many rows are suppressed."""
        return int(self.classes.sizes[self.fails].sum()) if self.problem.further else self.failing

    def _people_in(self, classes: BoolArray) -> int:
        """How many different people have rows in these classes."""
        table, view = self.tables[0], self.problem.views[0]
        assert table.starts is not None
        assert view.persons is not None
        inside = np.zeros(len(table.starts), dtype=bool)
        inside[slice(None) if self.occupied is None else self.occupied] = classes
        entries = np.repeat(inside, np.diff(table.starts, append=len(table.rows)))
        persons = view.persons[table.rows[entries & (table.counts > 0)]]
        return int(np.count_nonzero(np.bincount(persons, minlength=1)))

    @cached_property
    def suppressed_people(self) -> int | None:
        """How many people lose a row; None where people are not counted."""
        return None if self.problem.people is None else self._people_in(self.fails)

    @cached_property
    def hopeless(self) -> bool:
        """Whether this and every finer node suppresses too many rows, or people."""
        allowed, monotone = self.problem.allowed, self.problem.monotone
        if self.problem.people is not None:
            return self._people_in(self.lacking) > allowed
        return self.failing > allowed or (monotone and self.suppressed > allowed)

    @property
    def admissible(self) -> bool:
        """Whether no more rows, or people, are suppressed than allowed."""
        if self.hopeless:
            return False
        people = self.suppressed_people
        return (self.suppressed if people is None else people) <= self.problem.allowed

    @cached_property
    def sizes(self) -> Counts:
        """The sizes of the released classes."""
        sizes: Counts = self.classes.sizes[~self.fails]
        return sizes

    def totals(self, cost: Separable) -> list[float]:
        """What the cells of each column cost, released or suppressed."""
        if cost.unit not in self._totals:
            columns = zip(self.problem.quasi, self.levels, self.suppressed_codes, strict=True)
            gone, totals = self.classes.sizes[self.fails], []
            for column, level, codes in columns:
                profile = cost.profile(column)
                total, prices = profile.sums[level].item(), profile.prices[level]
                if self.suppressed:
                    many = len(prices) > 1
                    lost = prices[codes] @ gone if many else prices[0] * self.suppressed
                    total += self.suppressed * profile.full - lost.item()
                totals.append(total)
            self._totals[cost.unit] = totals
        return self._totals[cost.unit]

    @cached_property
    def suppressed_codes(self) -> list[NDArray[np.integer]]:
        """The label codes of the suppressed combinations, column by column."""
        rows, codes = self.representatives[self.fails], self.problem.views[0].codes
        return [codes[place][level][rows] for place, level in enumerate(self.levels)]


def _failing(criteria: Iterable[Criterion], classes: Classes) -> BoolArray:
    """Which classes fail any of these criteria."""
    passes = np.ones(len(classes), dtype=bool)
    for criterion in criteria:
        passes &= criterion.holds(classes)
    return ~passes
