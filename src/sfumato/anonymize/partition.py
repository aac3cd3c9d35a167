"""Releases whose rows are grouped freely: points, the groups they form, and the labels of groups.

Decision `criteria`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sfumato.anonymize.classes import Classes, SensitiveCounts
from sfumato.anonymize.labels import ancestors, natural, numeric, ranges, sets, stars
from sfumato.anonymize.outcome import Outcome, outcome_facts
from sfumato.data.counting.grouping import group as group_rows
from sfumato.data.counting.grouping import keys
from sfumato.errors import ParameterError
from sfumato.release.recoding import ByColumn, ByRow, ColumnMap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Counts, Original
    from sfumato.anonymize.cost import Separable
    from sfumato.anonymize.criteria.base import Criterion
    from sfumato.anonymize.labels import Written
    from sfumato.anonymize.lattice import Node
    from sfumato.anonymize.original import Quasi
    from sfumato.anonymize.problem import Problem
    from sfumato.arrays import BoolArray, IntArray
    from sfumato.release.recoding import Recoding

    Style = Literal["natural", "ancestors", "stars"]


@dataclass(frozen=True, eq=False)
class Spread:
    """A sensitive column over the points: the rows of each value at each point.

    If people are counted, each line is one person.
    """

    original: Original
    points: IntArray
    values: NDArray[np.integer]
    counts: Counts
    persons: NDArray[np.integer] | None = None


class Visits(NamedTuple):
    """The people at each point, each pair of point and person once."""

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
        """Return the points of a problem; the views hold them in the same order."""
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
        # If every combination has rows, the codes need no copy.
        complete = len(rows) == len(first.base.rows)
        leaves = (codes[0] if complete else codes[0][rows] for codes in first.codes)
        return cls(tuple(leaves), counts, tuple(spreads), visits)

    def __len__(self) -> int:
        return len(self.counts)

    def classes(self, owners: NDArray[np.integer], count: int) -> Classes:
        """Group points into classes 0 .. count - 1, none empty; owner -1 leaves a point out."""
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
        """Count the rows, or the people if they are counted, at these points."""
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
    """Return the cells of classes from counts by owner and value; owner -1 leaves a count out.

    With persons, each counts once for each value in each class.
    """
    inside = np.flatnonzero(owners >= 0)
    owners, values, counts = owners[inside], values[inside], counts[inside]
    sizes = [int(owners.max(initial=0)) + 1, len(original.totals)]
    if persons is not None:
        people = int(persons.max(initial=0)) + 1
        once = group_rows(
            [owners, values, persons[inside]], [*sizes, people], counts
        ).representatives
        owners, values, counts = owners[once], values[once], np.ones(len(once), dtype=np.int64)
    groups = group_rows([owners, values], sizes, counts)
    owners = owners[groups.representatives]
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    return SensitiveCounts(starts, values[groups.representatives], groups.counts, original)


def crowds_of(owners: NDArray[np.integer], persons: NDArray[np.integer], count: int) -> IntArray:
    """Count the different people of each class 0 .. count - 1; owner -1 leaves a row out."""
    inside = np.flatnonzero(owners >= 0)
    owners, persons = owners[inside], persons[inside]
    sizes = [count, int(persons.max(initial=0)) + 1]
    once = group_rows(
        [owners, persons], sizes, np.ones(len(inside), dtype=np.int64)
    ).representatives
    return np.bincount(owners[once], minlength=count)


def failing(criteria: Sequence[Criterion], classes: Classes) -> BoolArray:
    """Return which classes fail any of these criteria."""
    fails = np.zeros(len(classes), dtype=bool)
    for criterion in criteria:
        fails |= ~criterion.holds(classes)
    return fails


def refuse_population(problem: Problem, algorithm: str) -> None:
    """Refuse criteria that compare with a population: levels do not tell whom a class fits."""
    for criterion in problem.criteria:
        if criterion.compares_population:
            raise ParameterError(
                "criterion_not_supported",
                f"Algorithm {algorithm!r} cannot reach {criterion}: it does not count the people "
                "of a population under its labels. Take algorithm 'optimal', or drop the "
                "criterion.",
            )


def only_crowds(problem: Problem, algorithm: str) -> int:
    """Return k if k-anonymity is the only criterion; raise otherwise."""
    for criterion in problem.criteria:
        if not criterion.absorbing or criterion.column or criterion.compares_population:
            raise ParameterError(
                "criterion_not_supported",
                f"Algorithm {algorithm!r} is for k-anonymity alone and cannot reach {criterion}. "
                "Take algorithm 'optimal' or 'mondrian', or drop the criterion.",
            )
    return problem.k


@dataclass(frozen=True, eq=False)
class Shares:
    """The assignment of rows to groups: shares of the rows of each point.

    Groups are numbered from 0 and none is empty. A row in no share is suppressed.
    """

    points: DataPoints
    point: NDArray[np.integer]
    rows: Counts
    group: NDArray[np.integer]

    @classmethod
    def of_rows(cls, points: DataPoints, group: IntArray) -> Shares:
        """Return shares from the group of each row; rows are numbered point by point."""
        point = np.repeat(np.arange(len(points)), points.counts)
        unit_counts = np.ones(len(point), dtype=np.int64)
        merged = group_rows([point, group], [len(points), int(group.max()) + 1], unit_counts)
        first = merged.representatives
        return cls(points, point[first], merged.counts, group[first])

    @property
    def undivided(self) -> bool:
        """Whether every share has all rows of its point."""
        return bool((self.rows == self.points.counts[self.point]).all())

    @cached_property
    def count(self) -> int:
        """The number of groups."""
        return int(self.group.max(initial=-1)) + 1

    @cached_property
    def sizes(self) -> Counts:
        """The number of rows of each group."""
        return np.bincount(self.group, self.rows, self.count).astype(np.int64)

    def write(self, problem: Problem, style: Style) -> tuple[Written, ...]:
        """Return the labels of the groups, column by column."""
        order = np.argsort(self.group, kind="stable")
        group = self.group[order].astype(np.int64)
        members = [
            Members(group, leaves[self.point[order]].astype(np.int64))
            for leaves in self.points.leaves
        ]
        return write_members(problem, members, self.count, style)


class Members(NamedTuple):
    """The leaves of a column in each group, sorted by group; pairs may repeat."""

    group: IntArray
    leaves: IntArray


def write_members(
    problem: Problem, members: Sequence[Members], count: int, style: Style
) -> tuple[Written, ...]:
    """Return the labels of groups, column by column, from the leaves that they have."""
    written = []
    for column, (group, mine) in zip(problem.quasi, members, strict=True):
        starts = np.searchsorted(group, np.arange(count))
        low, high = np.minimum.reduceat(mine, starts), np.maximum.reduceat(mine, starts)
        if style == "stars":
            written.append(stars(column, low, high))
        elif style == "ancestors":
            written.append(ancestors(column, low, high))
        else:
            written.append(natural(column, group, mine, low, high))
    if style == "natural":
        return _distinguish_equal_labels(problem, members, written)
    return tuple(written)


def _distinguish_equal_labels(
    problem: Problem, members: Sequence[Members], written: list[Written]
) -> tuple[Written, ...]:
    """Write sets of values for groups that would otherwise have equal labels.

    Groups that a cut separated stay separate in the release: their ancestors may be equal, their
    sets of values are not.
    """
    combination, _ = _combinations(written)
    alike = np.bincount(combination)[combination] > 1
    if not alike.any():
        return tuple(written)
    # Only groups that read the same get sets, so that others keep their shorter labels.
    ambiguous = np.flatnonzero(alike)
    number = np.cumsum(alike) - 1
    for position, (column, (group, leaves)) in enumerate(zip(problem.quasi, members, strict=True)):
        if column.taxonomy.height == 1 or (written[position].covers.level[ambiguous] == 0).all():
            continue
        inside = alike[group]
        own = sets(column, number[group[inside]], leaves[inside], len(ambiguous))
        written[position] = written[position].replaced(ambiguous, own)
    return tuple(written)


def _combinations(written: Sequence[Written]) -> tuple[IntArray, int]:
    """Return the number of each group's combination of labels, and how many there are."""
    key, _ = keys([column.codes for column in written], [len(column.texts) for column in written])
    present, combination = np.unique(key, return_inverse=True)
    return combination, len(present)


class LabelledGroups(ABC):
    """Groups with their labels, as costs see them; groups that read the same are one class."""

    problem: Problem
    labels: tuple[Written, ...]

    @property
    @abstractmethod
    def group_sizes(self) -> Counts:
        """The number of rows of each group."""

    @cached_property
    def sizes(self) -> Counts:
        """The sizes of the released classes."""
        # Groups that read the same cannot be told apart by a receiver: they are one class.
        combination, count = _combinations(self.labels)
        return np.bincount(combination, self.group_sizes, count).astype(np.int64)

    @cached_property
    def suppressed(self) -> int:
        """The number of suppressed rows."""
        return self.problem.rows - int(self.group_sizes.sum())

    @property
    @abstractmethod
    def suppressed_people(self) -> int | None:
        """The number of people who lose a row; None if people are not counted."""

    def totals(self, cost: Separable) -> list[float]:
        """What the cells of each column cost."""
        return [
            (cost.price(column, labels.covers) * self.group_sizes).sum()
            + self.suppressed * cost.full(column)
            for column, labels in zip(self.problem.quasi, self.labels, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class GroupedRelease(LabelledGroups):
    """Groups with their labels, and which rows of which point are in each."""

    problem: Problem
    shares: Shares
    labels: tuple[Written, ...]

    @property
    def group_sizes(self) -> Counts:
        """The number of rows of each group."""
        return self.shares.sizes

    @property
    def suppressed_people(self) -> int | None:
        """The number of people who lose a row; None if people are not counted."""
        if self.problem.people is None:
            return None
        lost = np.ones(len(self.shares.points), dtype=bool)
        lost[self.shares.point] = False  # people are counted where all rows of a point go together
        return self.shares.points.lost(lost)


@dataclass(frozen=True, kw_only=True, eq=False)
class Partition(Outcome):
    """A release in which each group of rows has its own labels."""

    release: GroupedRelease

    @classmethod
    def of(
        cls,
        algorithm: str,
        problem: Problem,
        shares: Shares,
        style: Style,
        *,
        weights: Mapping[str, float] | None = None,
        factor: float | None = None,
        checked: int | None = None,
    ) -> Partition:
        """Return the outcome of a search that grouped the rows."""
        release = GroupedRelease(problem, shares, shares.write(problem, style))
        figures = outcome_facts(algorithm, release, weights)
        return cls(**figures, release=release, factor=factor, checked=checked)

    @property
    def starred(self) -> int:
        """The number of released cells that have the root as label."""
        sizes, quasi = self.release.shares.sizes, self.release.problem.quasi
        return sum(
            int(sizes[labels.covers.level == column.taxonomy.height].sum())
            for column, labels in zip(quasi, self.release.labels, strict=True)
        )

    def recoding(self, unchanged: Sequence[str] = ()) -> Recoding:
        """Return the shares of each combination of values, with their labels."""
        import pyarrow as pa

        shares, quasi = self.release.shares, self.release.problem.quasi
        columns = [pa.array(leaves[shares.point]) for leaves in shares.points.leaves]
        names = [f"code_{position}" for position in range(len(quasi))]
        columns.append(pa.array(shares.rows))
        for labels in self.release.labels:
            texts = pa.array(labels.texts, type=pa.string())
            columns.append(texts.take(pa.array(labels.codes[shares.group])))
        names = [*names, "rows", *(column.name for column in quasi)]
        bottom = self.release.problem.bottom
        maps = tuple(column.held(level) for column, level in zip(quasi, bottom, strict=True))
        table = pa.Table.from_arrays(columns, names=names)
        return ByRow(maps, table, tuple(unchanged), undivided=shares.undivided)


def released_classes(node: Node, leaves: Sequence[NDArray[np.integer]]) -> IntArray:
    """Return the released class of each combination of leaves; -1 for suppressed ones."""
    columns = list(zip(node.problem.quasi, node.levels, leaves, strict=True))
    codes = [column.taxonomy.codes[mine, level] for column, level, mine in columns]
    sizes = [len(column.taxonomy.labels[level]) for column, level, _ in columns]
    # Classes of a node stand in the order of their labels.
    _, owners = np.unique(keys(codes, sizes)[0], return_inverse=True)
    numbers: IntArray = np.where(node.fails, -1, np.cumsum(~node.fails) - 1)[owners]
    return numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class Intervals(Partition):
    """Each column's leaves in intervals, every interval under its label; failing classes are out.

    `interval` has the interval of every leaf, `written` the labels of the intervals, and
    `suppressed_codes` the label codes of the combinations that are not released.
    """

    interval: tuple[IntArray, ...]
    written: tuple[Written, ...]
    suppressed_codes: tuple[IntArray, ...]

    @classmethod
    def cut(
        cls,
        algorithm: str,
        problem: Problem,
        points: DataPoints,
        interval: Sequence[IntArray],
        *,
        owners: IntArray,
        fails: BoolArray,
        checked: int,
        optimal: bool,
        bound: float,
    ) -> Intervals:
        """Return the outcome of a search that cut columns; `owners` has the class of each point."""
        written = tuple(_labels(*pair) for pair in zip(problem.quasi, interval, strict=True))
        numbers = np.where(fails, -1, np.cumsum(~fails) - 1)
        # Classes that fail have no number: their points are in no share, and so suppressed.
        released = np.flatnonzero(numbers[owners] >= 0)
        shares = Shares(points, released, points.counts[released], numbers[owners[released]])
        # Any point of a class shows its intervals.
        member = np.zeros(len(fails), dtype=np.int64)
        member[owners] = np.arange(len(owners))
        class_intervals = [
            cuts[leaves[member]] for cuts, leaves in zip(interval, points.leaves, strict=True)
        ]
        labels = tuple(
            column.select(numbers[~fails])
            for column, numbers in zip(written, class_intervals, strict=True)
        )
        release = GroupedRelease(problem, shares, labels)
        return cls(
            **outcome_facts(algorithm, release),
            release=release,
            checked=checked,
            optimal=optimal,
            bound=bound,
            interval=tuple(interval),
            written=written,
            suppressed_codes=tuple(
                column.codes[numbers[fails]]
                for column, numbers in zip(written, class_intervals, strict=True)
            ),
        )

    def recoding(self, unchanged: Sequence[str] = ()) -> ByColumn:
        """Return value maps for every quasi-identifier, and the suppressed combinations."""
        import pyarrow as pa

        maps = []
        quasi = self.release.problem.quasi
        for column, interval, written in zip(quasi, self.interval, self.written, strict=True):
            codes = pa.array(written.codes[interval[column.leaves]])
            texts = pa.array(written.texts, type=pa.string())
            values = column.axis.decode(column.present)
            maps.append(ColumnMap(column.name, values, texts.take(codes), codes))
        lost_codes = [pa.array(codes) for codes in self.suppressed_codes]
        suppressed = pa.Table.from_arrays(
            lost_codes, names=[column_map.column for column_map in maps]
        )
        return ByColumn(tuple(maps), suppressed, tuple(unchanged))


def _labels(column: Quasi, interval: IntArray) -> Written:
    """Write a label for each interval, over the leaves that occur in it.

    Categories have their ancestor if it covers no other leaf that occurs, else their set.
    """
    leaves = np.flatnonzero(column.rows)
    owners = interval[leaves]
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    low, high = leaves[starts], leaves[np.append(starts[1:], len(leaves)) - 1]
    if numeric(column.taxonomy):
        return ranges(column, low, high)
    above = ancestors(column, low, high)
    # An ancestor that covers rows of another interval would make two intervals overlap.
    wider = np.flatnonzero(above.covers.rows != np.add.reduceat(column.rows[leaves], starts))
    if not len(wider):
        return above
    inside = np.isin(owners, wider)
    own = sets(column, np.searchsorted(wider, owners[inside]), leaves[inside], len(wider))
    return above.replaced(wider, own)
