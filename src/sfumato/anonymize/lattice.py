"""The lattice of generalizations: its nodes, bounds on failing rows, and its floor.

A node has one level per quasi-identifier. The floor is where the levels that fit in memory begin.
Decision `optimal-search`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.classes import Classes
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.cost import Cost, Separable
    from sfumato.anonymize.criteria.base import Criterion
    from sfumato.anonymize.lattice_grouping import GroupedView, Levels
    from sfumato.anonymize.original import Quasi, United
    from sfumato.anonymize.problem import Problem
    from sfumato.arrays import BoolArray, IntArray
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.counting.memory_limit import SizeCounts

    Cube = NDArray[np.float64]

LARGEST = 4_000_000
"""Searches over a whole lattice keep a few numbers per node."""


def check_size(shape: Levels, algorithm: str) -> int:
    """Return the number of nodes; raise if they do not fit into memory."""
    size = prod(shape)
    if size > LARGEST:
        raise ParameterError(
            "problem_too_large",
            f"Algorithm {algorithm!r} keeps the whole lattice in memory, which has {size:,} nodes; "
            f"at most {LARGEST:,} are possible. Take fewer quasi-identifiers or levels, or "
            "'datafly' or 'mondrian'.",
        )
    return size


def heights(shape: Levels) -> IntArray:
    """Return the sum of levels of every node."""
    total = np.zeros(shape, dtype=np.int64)
    for axis, size in enumerate(shape):
        total += np.arange(size).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return total


def below(levels: Levels) -> tuple[slice, ...]:
    """Return the node and everything finer."""
    return tuple(slice(0, level + 1) for level in levels)


def above(levels: Levels) -> tuple[slice, ...]:
    """Return the node and everything coarser."""
    return tuple(slice(level, None) for level in levels)


def count_below(marked: BoolArray) -> NDArray[np.int32]:
    """Count for every node the marked ones that are equal or finer: running sums along each axis.

    Axes are short, so adding whole slices to the next is much faster than a cumulative sum.
    """
    # Inclusion over all axes, one axis at a time (a prefix sum in every dimension).
    counts = marked.astype(np.int32)
    for axis in range(counts.ndim):
        slices = np.moveaxis(counts, axis, 0)
        for level in range(1, len(slices)):
            slices[level] += slices[level - 1]
    return counts


def count_above(marked: BoolArray) -> NDArray[np.int32]:
    """Count for every node the marked ones that are equal or coarser."""
    turned = tuple(slice(None, None, -1) for _ in marked.shape)
    return count_below(marked[turned])[turned]


def nodes_where(marked: BoolArray) -> list[Levels]:
    """Return the marked nodes in lexicographic order."""
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
        """The groups of the first view that have rows; None if all do."""
        table = self.tables[0]
        return None if table.population is None else self._sum_by_group(table.counts) > 0

    def _sum_by_group(self, numbers: Counts) -> Counts:
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
        # A person with several rows in a class counts once among its people.
        sizes, crowds = self._sum_by_group(first.counts), None
        if self.problem.people is not None:
            crowds = self._sum_by_group((first.counts > 0).astype(np.int64))
        if self.occupied is None or first.population is None:
            return Classes(sizes, cells, crowds=crowds)
        people = self._sum_by_group(first.population)[self.occupied]
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
        """The classes that fail the absorbing part of the criteria."""
        return _failing(self.problem.necessary, self.classes)

    @cached_property
    def failing(self) -> int:
        """Rows that fail the absorbing part; no finer node suppresses fewer."""
        return int(self.classes.sizes[self.lacking].sum())

    @cached_property
    def fails(self) -> BoolArray:
        """The classes that fail any criterion."""
        if not self.problem.further:
            return self.lacking
        return self.lacking | _failing(self.problem.further, self.classes)

    @cached_property
    def suppressed(self) -> int:
        """The number of suppressed rows."""
        return int(self.classes.sizes[self.fails].sum()) if self.problem.further else self.failing

    def _people_in(self, classes: BoolArray) -> int:
        """Return how many different people have rows in these classes."""
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
        """The number of people who lose a row; None if people are not counted."""
        return None if self.problem.people is None else self._people_in(self.fails)

    @cached_property
    def fails_when_finer(self) -> bool:
        """Whether this and every finer node suppresses too many rows, or people."""
        allowed, monotone = self.problem.allowed, self.problem.monotone
        if self.problem.people is not None:
            return self._people_in(self.lacking) > allowed
        return self.failing > allowed or (monotone and self.suppressed > allowed)

    @property
    def admissible(self) -> bool:
        """Whether no more rows, or people, are suppressed than allowed."""
        if self.fails_when_finer:
            return False
        people = self.suppressed_people
        return (self.suppressed if people is None else people) <= self.problem.allowed

    @cached_property
    def sizes(self) -> Counts:
        """The sizes of the released classes."""
        sizes: Counts = self.classes.sizes[~self.fails]
        return sizes

    def totals(self, cost: Separable) -> list[float]:
        """Return the total price of each column, released or suppressed."""
        if cost.unit not in self._totals:
            columns = zip(self.problem.quasi, self.levels, self.suppressed_codes, strict=True)
            lost_sizes, totals = self.classes.sizes[self.fails], []
            for column, level, codes in columns:
                profile = cost.profile(column)
                total, prices = profile.sums[level].item(), profile.prices[level]
                if self.suppressed:
                    varies = len(prices) > 1
                    lost = prices[codes] @ lost_sizes if varies else prices[0] * self.suppressed
                    total += self.suppressed * profile.full - lost.item()
                totals.append(total)
            self._totals[cost.unit] = totals
        return self._totals[cost.unit]

    @cached_property
    def suppressed_codes(self) -> list[NDArray[np.integer]]:
        """The label codes of the suppressed combinations, column by column."""
        rows, codes = self.representatives[self.fails], self.problem.views[0].codes
        return [codes[position][level][rows] for position, level in enumerate(self.levels)]


def _failing(criteria: Iterable[Criterion], classes: Classes) -> BoolArray:
    """Return which classes fail any of these criteria."""
    passes = np.ones(len(classes), dtype=bool)
    for criterion in criteria:
        passes &= criterion.holds(classes)
    return ~passes


_MOST_LABELS = 1 << 10
_MOST_CELLS = 1 << 20


def failing_rows(problem: Problem) -> IntArray:
    """Return for every node a lower bound of the rows in too small classes, by sets of columns.

    Pairs of columns exclude nearly all failing nodes if nothing may be suppressed, otherwise
    triples do. A set with too many cells is replaced by its subsets.
    """
    # A class of one row passes where nothing larger is asked: nothing can be ruled out.
    failing = np.zeros(problem.shape, dtype=np.int64)
    if problem.smallest == 1:
        return failing
    columns = [_Steps(column) for column in problem.quasi]
    width = 3 if problem.allowed else 2
    waiting = list(combinations(range(len(columns)), min(width, len(columns))))
    seen = set(waiting)
    for positions in waiting:
        steps = [columns[position] for position in positions]
        if prod(step.labels for step in steps) > _MOST_CELLS:
            smaller = [*combinations(positions, len(positions) - 1)]
            waiting += [subset for subset in smaller if subset and subset not in seen]
            seen.update(smaller)
            continue
        counted = _rows_in_small_classes(_count(problem, positions, steps), steps, problem.smallest)
        known = dict(zip(positions, steps, strict=True))
        region = failing[
            tuple(
                slice(known[position].first if position in known else 0, None)
                for position in range(len(columns))
            )
        ]
        shape = [size if position in known else 1 for position, size in enumerate(region.shape)]
        np.maximum(region, counted.reshape(shape), out=region)
    return failing


class _Steps:
    """The levels of a column from the first with few enough labels, and how each rolls up."""

    def __init__(self, column: Quasi) -> None:
        sizes = [len(labels) for labels in column.taxonomy.labels]
        self.first = next(level for level, size in enumerate(sizes) if size <= _MOST_LABELS)
        self.size = sizes[self.first]
        self.labels = sum(sizes[self.first :])
        self.starts = np.cumsum([0, *sizes[self.first : -1]])
        codes = column.taxonomy.codes
        # A label covers consecutive labels of the level below: it begins where its code changes.
        self.runs = []
        for level in range(self.first + 1, len(sizes)):
            parents = np.zeros(sizes[level - 1], dtype=np.int64)
            parents[codes[:, level - 1]] = codes[:, level]
            self.runs.append(np.flatnonzero(np.diff(parents, prepend=-1)))

    def roll_up(self, cube: Cube, axis: int) -> Cube:
        """Return the counts of the labels of all levels, side by side along an axis."""
        levels = [cube]
        for run in self.runs:
            levels.append(np.add.reduceat(levels[-1], run, axis=axis))
        return np.concatenate(levels, axis=axis)


def _count(problem: Problem, positions: tuple[int, ...], steps: list[_Steps]) -> Cube:
    """Count the rows of each combination of labels at the first levels."""
    view = problem.views[0]
    key = np.zeros(len(view.base.rows), dtype=np.int64)
    for position, step in zip(positions, steps, strict=True):
        key *= step.size
        key += view.codes[position][step.first]
    sizes = [step.size for step in steps]
    counts = np.bincount(key, view.base.counts, prod(sizes))
    return counts.reshape(sizes).astype(np.float64, copy=False)


def _rows_in_small_classes(cube: Cube, steps: list[_Steps], smallest: int) -> IntArray:
    """Count rows in too small classes, for each combination of levels."""
    for axis, step in enumerate(steps):
        cube = step.roll_up(cube, axis)
    # Classes that are large enough have no failing rows; the sum of the others is the bound.
    cube[cube >= smallest] = 0
    for axis, step in enumerate(steps):
        cube = np.add.reduceat(cube, step.starts, axis=axis)
    return cube.astype(np.int64)


_RULED_OUT = "Finer levels could be ruled out without looking at them."
_NOT_LOOKED_AT = "A release at finer levels may lose less; none was looked at."


@dataclass(frozen=True, eq=False)
class Floor:
    """The levels at which counting begins, and the facts about the table below them.

    Combinations are counted at these levels or above. Below them only single columns are known, and
    `sizes`, the class sizes of the original.
    """

    levels: Levels
    columns: Mapping[str, Frequencies]
    united: Mapping[str, United]
    sizes: SizeCounts

    def sentence(self, names: Sequence[str], *, proven: bool) -> str:
        """One sentence about the levels that were not searched."""
        starts = [
            f"{name} from level {level}"
            for name, level in zip(names, self.levels, strict=True)
            if level
        ]
        return (
            f"The table has {len(self.sizes):,} combinations of values, more than memory is kept "
            f"for. The search began where they fit: {', '.join(starts)}. "
            + (_RULED_OUT if proven else _NOT_LOOKED_AT)
        )


def finest_fitting(
    fits: Callable[[Levels], bool], labels: Sequence[Sequence[int]], least: Levels
) -> Levels | None:
    """Return fitting levels of which none can be lowered; None if the roots do not fit in memory.

    `labels` has the number of labels that occur at each level of each column. Columns with most
    labels are raised first. Coarser levels fit as well, so halving finds the first node that fits
    on that way; then columns are lowered again while they fit.
    """
    path = [least]
    while True:
        levels = path[-1]
        rising = [
            position for position, level in enumerate(levels) if level + 1 < len(labels[position])
        ]
        if not rising:
            break
        position = max(rising, key=lambda position: labels[position][levels[position]])
        path.append(_shift_level(levels, position, 1))
    # Coarser levels never have more combinations, so `fits` is monotone along the path.
    low, high = 0, len(path) - 1
    if not fits(path[high]):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(path[middle]) else (middle + 1, high)
    finest = path[high]
    for position in range(len(finest)):
        while finest[position] > least[position] and fits(_shift_level(finest, position, -1)):
            finest = _shift_level(finest, position, -1)
    return finest


def _shift_level(levels: Levels, position: int, step: int) -> Levels:
    return (*levels[:position], levels[position] + step, *levels[position + 1 :])


class UnseenNodes:
    """The nodes below the floor that may be admissible for all that is known."""

    def __init__(self, problem: Problem, cost: Cost) -> None:
        self._nodes = np.zeros(problem.shape, dtype=bool)
        self._lower = np.zeros(problem.shape)
        if problem.floor is not None:
            # Below the floor nodes cannot be grouped: only bounds by column sets are known of them.
            failing = failing_rows(problem)
            self._nodes = failing <= problem.allowed_rows
            self._nodes[above(problem.floor.levels)] = False
            least = np.full(problem.shape, cost.from_sizes(problem, problem.floor.sizes))
            self._lower = cost.floor(problem, below(problem.top), failing, least)

    def learn(self, node: Node) -> None:
        """Exclude the nodes below one that suppresses too much."""
        if node.fails_when_finer:
            self._nodes[below(node.levels)] = False

    @property
    def least(self) -> float:
        """The lower bound of the cost of all these nodes."""
        return float(self._lower[self._nodes].min(initial=np.inf))
