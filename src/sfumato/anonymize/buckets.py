"""Quasi-identifiers as they are, sensitive values by group: anatomy and permutation.

Decision `partitions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.anonymize.criteria.base import whole_number
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.partition import DataPoints, Partition, Shares, released_classes
from sfumato.data.counting.grouping import group, keys
from sfumato.errors import CriterionError, SchemaError, SourceError
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.privacy.noise.selection import permutation, uniform_integers
from sfumato.release.recoding import ByRow, ColumnMap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.outcome import Outcome
    from sfumato.anonymize.problem import Problem
    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.privacy.noise.entropy import Entropy

    Shuffle = Callable[[IntArray], IntArray]


class ReleasedCodes(NamedTuple):
    """A released column: a code for each row, and the values that the codes stand for."""

    name: str
    codes: NDArray[np.integer]
    values: pa.Array


def rows_of(table: Frequencies) -> IntArray:
    """Return the combination of each single row."""
    return np.repeat(np.arange(len(table)), table.counts)


def as_they_are(table: Frequencies, name: str, combination: IntArray) -> ReleasedCodes:
    """Return a column that is released unchanged."""
    index = table.columns.index(name)
    present, codes = np.unique(table.codes[index], return_inverse=True)
    return ReleasedCodes(name, codes[combination], table.axes[index].decode(present))


def deal(
    table: Frequencies,
    combination: IntArray,
    released_columns: Sequence[ReleasedCodes],
    unchanged: Sequence[str] = (),
) -> ByRow:
    """Release the rows of each combination under the given values; other rows are suppressed."""
    codes = [combination, *(column.codes for column in released_columns)]
    sizes = [len(table), *(len(column.values) for column in released_columns)]
    # Rows of one combination that are released alike become one share with a count.
    groups = group(codes, sizes, np.ones(len(combination), dtype=np.int64))
    first = groups.representatives
    columns = [pa.array(axis_codes[combination[first]]) for axis_codes in table.codes]
    columns.append(pa.array(groups.counts))
    columns += [column.values.take(pa.array(column.codes[first])) for column in released_columns]
    names = [*(f"code_{number}" for number in range(len(table.axes))), "rows"]
    shares = pa.Table.from_arrays(
        columns, names=[*names, *(column.name for column in released_columns)]
    )
    maps = tuple(map(_raw, table.axes, table.codes))
    undivided = bool((groups.counts == table.counts[combination[first]]).all())
    return ByRow(maps, shares, tuple(unchanged), undivided=undivided)


def _raw(axis: Axis, codes: NDArray[np.integer]) -> ColumnMap:
    """Return the map from the values that occur to their own codes."""
    present = np.unique(codes)
    values = axis.decode(present)
    return ColumnMap(axis.column, values, values.cast(pa.string()), pa.array(present))


GROUP, COUNT = "group", "count"


@dataclass(frozen=True, eq=False)
class Anatomy:
    """A release in two tables: rows with their group, and the counts of values in each group."""

    groups: int
    rows: int
    quasi: ByRow
    sensitive: pa.Table


def anatomize(
    table: Frequencies,
    sensitive: str,
    *,
    l: int,  # noqa: E741  # the name of the parameter in the literature
    unchanged: Sequence[str] = (),
    entropy: Entropy | None = None,
) -> Anatomy:
    """Put rows into groups of l or a few more, no two of which share a sensitive value.

    *Guarantee*: in every group each value has at most 1/l of the rows (folk l-diversity), and no
    group has a value twice; k-anonymity does not apply, because quasi-identifiers are released.
    *Edges*: impossible where a value has more than 1/l of all rows; NULL counts as a value.
    *Reference*: Xiao and Tao 2006. Rows are dealt out by value, so many groups as there
    are l rows each, which makes the same number of groups of the same sizes as taking the l
    commonest values again and again.
    """
    source = SystemEntropy() if entropy is None else entropy
    # The names of the two added columns must be free, because receivers join the tables by them.
    names = [name for name in table.columns if name != sensitive]
    if {GROUP, COUNT} & {*table.columns, *unchanged}:
        raise SchemaError(
            "name_taken",
            f"Anatomy adds columns named {GROUP!r} and {COUNT!r}, but the table has one of that "
            "name. Rename it.",
        )
    if not table.total:
        raise SourceError("table_empty", "The table has no rows: there is nothing to anonymize.")
    combination = rows_of(table)
    value = as_they_are(table, sensitive, combination)
    groups = _groups(value.codes.astype(np.int64), whole_number(l, "l"), sensitive, source)
    count = int(groups.max()) + 1
    released_columns = [as_they_are(table, name, combination) for name in names]
    numbers = ReleasedCodes(GROUP, groups, pa.array(np.arange(1, count + 1)))
    return Anatomy(
        count,
        table.total,
        deal(table, combination, [*released_columns, numbers], unchanged),
        _buckets(value, groups, count),
    )


def _groups(values: IntArray, least: int, name: str, entropy: Entropy) -> IntArray:
    """Assign each row to a group: random rows of one value after the other are dealt in turn.

    A value has at most as many rows as there are groups, so no group gets it twice.
    """
    counts = np.bincount(values)
    # Eligibility (Xiao and Tao 2006): no value has more than 1/l of the rows.
    count = len(values) // least
    if counts.max() > count:
        raise CriterionError(
            "criterion_not_reachable",
            f"No buckets reach {least}-diversity of {name}: its commonest value has "
            f"{int(counts.max()):,} of {len(values):,} rows, more than one in {least}. Ask for "
            "less.",
        )
    order = permutation(len(values), entropy)
    # A random order first, then stable by value: rows of a value are in random order.
    order = order[np.argsort(values[order], kind="stable")]
    # Group numbers are shuffled, so that they do not tell the value that was dealt first.
    names = permutation(count, entropy)
    groups = np.empty(len(values), dtype=np.int64)
    dealt = count * least
    groups[order[:dealt]] = names[np.arange(dealt) % count]
    for position in range(dealt, len(values)):
        mine = values[order[position]]
        used = groups[order[:position]][values[order[:position]] == mine]
        # Fewer than l rows are left over; each joins a group that lacks its value.
        free = np.setdiff1d(np.arange(count), used)
        groups[order[position]] = free[uniform_integers(len(free), 1, entropy)[0]]
    return groups


def _buckets(value: ReleasedCodes, groups: IntArray, count: int) -> pa.Table:
    """Group, value and count, in order."""
    unit_counts = np.ones(len(groups), dtype=np.int64)
    cells = group([groups, value.codes], [count, len(value.values)], unit_counts)
    first = cells.representatives
    columns = [
        pa.array(groups[first] + 1),
        value.values.take(pa.array(value.codes[first])),
        pa.array(cells.counts),
    ]
    return pa.Table.from_arrays(columns, names=[GROUP, value.name, COUNT])


def permute(
    table: Frequencies,
    outcome: Outcome,
    sensitive: Sequence[str],
    *,
    unchanged: Sequence[str] = (),
    entropy: Entropy | None = None,
    shuffle: Shuffle | None = None,
) -> ByRow:
    """Shuffle each sensitive column inside the groups that a search formed.

    *Guarantee*: inside a group every assignment of its values to its rows is equally likely, each
    column on its own; the search's criteria hold for the groups.
    *Edges*: rows that the search suppresses are not released. `shuffle` says, for the group of each
    row, from which row of the group each takes its value; it is drawn uniformly unless given.
    *Reference*: Zhang et al. 2007.
    """
    source = SystemEntropy() if entropy is None else entropy
    draw = shuffle or (lambda groups: shuffled(groups, source))
    shares = shares_of(outcome)
    rows = rows_of(table)
    groups = _dealt(_points(outcome_problem(outcome), shares.points, table)[rows], shares, source)
    # Rows of failing classes have no group and are suppressed.
    released = np.flatnonzero(groups >= 0)
    rows, groups = rows[released], groups[released]
    released_columns = []
    for name in table.columns:
        column = as_they_are(table, name, rows)
        if name in sensitive:
            column = column._replace(codes=column.codes[draw(groups)])
        released_columns.append(column)
    return deal(table, rows, released_columns, unchanged)


def shuffled(groups: IntArray, entropy: Entropy) -> IntArray:
    """Return a uniformly random order of the rows inside each group."""
    order = permutation(len(groups), entropy)
    source_rows = np.empty(len(groups), dtype=np.int64)
    source_rows[np.argsort(groups, kind="stable")] = order[np.argsort(groups[order], kind="stable")]
    return source_rows


def alike(table: Frequencies, outcome: Outcome, column: str) -> tuple[int, int]:
    """Count the groups that have only one value of a column, and their rows.

    No shuffle hides such a value. A point in several groups counts in the last of them.
    """
    shares = shares_of(outcome)
    # A later assignment overwrites an earlier one: only a count for a warning depends on it.
    group_of = np.full(len(shares.points), -1, dtype=np.int64)
    group_of[shares.point] = shares.group
    groups = group_of[_points(outcome_problem(outcome), shares.points, table)]
    released = (groups >= 0) & (table.counts > 0)
    index = table.columns.index(column)
    groups, codes = groups[released], table.codes[index][released].astype(np.int64)
    size = table.axes[index].size
    values = np.bincount(np.unique(groups * size + codes) // size, minlength=shares.count)
    rows = np.bincount(groups, table.counts[released], shares.count)
    return int((values == 1).sum()), int(rows[values == 1].sum())


def outcome_problem(outcome: Outcome) -> Problem:
    """Return the problem that a search solved."""
    if isinstance(outcome, Generalization):
        return outcome.node.problem
    assert isinstance(outcome, Partition)
    return outcome.release.problem


def shares_of(outcome: Outcome) -> Shares:
    """Return the groups of any outcome, its failing classes left out."""
    if isinstance(outcome, Partition):
        return outcome.release.shares
    assert isinstance(outcome, Generalization)
    points = DataPoints.of(outcome.node.problem)
    numbers = released_classes(outcome.node, points.leaves)
    released = np.flatnonzero(numbers >= 0)
    return Shares(points, released, points.counts[released], numbers[released])


def _points(problem: Problem, points: DataPoints, table: Frequencies) -> IntArray:
    """Return the point of each combination of a table."""
    sizes = [len(column.taxonomy.leaves) for column in problem.quasi]
    both = [
        np.concatenate([leaves.astype(np.int64), column.locate(table)])
        for column, leaves in zip(problem.quasi, points.leaves, strict=True)
    ]
    key, _ = keys(both, sizes)
    return np.searchsorted(key[: len(points)], key[len(points) :])


def _dealt(point: IntArray, shares: Shares, entropy: Entropy) -> IntArray:
    """Deal the rows of each point to its groups at random; -1 for rows beyond the shares."""
    # Which rows of a point go to which of its groups is random, and uniformly so.
    order = permutation(len(point), entropy)
    order = order[np.argsort(point[order], kind="stable")]
    by_point = np.argsort(shares.point, kind="stable")
    queue = np.repeat(shares.group[by_point], shares.rows[by_point])
    queue_points = np.repeat(shares.point[by_point], shares.rows[by_point])
    starts = np.searchsorted(queue_points, np.arange(len(shares.points)))
    queued_counts = np.bincount(queue_points, minlength=len(shares.points))
    ordered = point[order]
    rank = np.arange(len(point)) - np.searchsorted(ordered, ordered)
    inside = rank < queued_counts[ordered]
    groups = np.full(len(point), -1, dtype=np.int64)
    groups[order[inside]] = queue[(starts[ordered] + rank)[inside]]
    return groups
