"""Permutation: quasi-identifiers as they are, sensitive values shuffled inside groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.dealing import as_they_are, deal, rows_of
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.partition import Partition, Shares, released_classes
from sfumato.anonymize.points import Points
from sfumato.grouping import keys
from sfumato.noise.entropy import SystemEntropy
from sfumato.noise.uniform import permutation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.outcome import Outcome
    from sfumato.anonymize.problem import Problem
    from sfumato.frequencies import Frequencies
    from sfumato.noise.entropy import Entropy
    from sfumato.recoding import ByRow

    Ints = NDArray[np.int64]
    Shuffle = Callable[[Ints], Ints]


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
    released = np.flatnonzero(groups >= 0)
    rows, groups = rows[released], groups[released]
    given = []
    for name in table.columns:
        column = as_they_are(table, name, rows)
        if name in sensitive:
            column = column._replace(codes=column.codes[draw(groups)])
        given.append(column)
    return deal(table, rows, given, unchanged)


def shuffled(groups: Ints, entropy: Entropy) -> Ints:
    """A uniformly random order of the rows inside each group."""
    order = permutation(len(groups), entropy)
    found = np.empty(len(groups), dtype=np.int64)
    found[np.argsort(groups, kind="stable")] = order[np.argsort(groups[order], kind="stable")]
    return found


def alike(table: Frequencies, outcome: Outcome, column: str) -> tuple[int, int]:
    """How many groups have one value of a column only, where no shuffle hides it, and their rows.

    A point that is dealt to several groups counts in the last of them.
    """
    shares = shares_of(outcome)
    group_of = np.full(len(shares.points), -1, dtype=np.int64)
    group_of[shares.point] = shares.group
    groups = group_of[_points(outcome_problem(outcome), shares.points, table)]
    released = (groups >= 0) & (table.counts > 0)
    place = table.columns.index(column)
    groups, codes = groups[released], table.codes[place][released].astype(np.int64)
    size = table.axes[place].size
    values = np.bincount(np.unique(groups * size + codes) // size, minlength=shares.count)
    rows = np.bincount(groups, table.counts[released], shares.count)
    return int((values == 1).sum()), int(rows[values == 1].sum())


def outcome_problem(outcome: Outcome) -> Problem:
    """The problem that a search solved."""
    if isinstance(outcome, Generalization):
        return outcome.node.problem
    assert isinstance(outcome, Partition)
    return outcome.release.problem


def shares_of(outcome: Outcome) -> Shares:
    """The groups of any outcome, its failing classes left out."""
    if isinstance(outcome, Partition):
        return outcome.release.shares
    assert isinstance(outcome, Generalization)
    points = Points.of(outcome.node.problem)
    numbers = released_classes(outcome.node, points.leaves)
    kept = np.flatnonzero(numbers >= 0)
    return Shares(points, kept, points.counts[kept], numbers[kept])


def _points(problem: Problem, points: Points, table: Frequencies) -> Ints:
    """The point of each combination of a table."""
    sizes = [len(column.taxonomy.leaves) for column in problem.quasi]
    both = [
        np.concatenate([leaves.astype(np.int64), column.locate(table)])
        for column, leaves in zip(problem.quasi, points.leaves, strict=True)
    ]
    key, _ = keys(both, sizes)
    return np.searchsorted(key[: len(points)], key[len(points) :])


def _dealt(point: Ints, shares: Shares, entropy: Entropy) -> Ints:
    """The group of each row: the shares of its point dealt out at random; -1 where none is left."""
    order = permutation(len(point), entropy)
    order = order[np.argsort(point[order], kind="stable")]
    by_point = np.argsort(shares.point, kind="stable")
    queue = np.repeat(shares.group[by_point], shares.rows[by_point])
    places = np.repeat(shares.point[by_point], shares.rows[by_point])
    starts = np.searchsorted(places, np.arange(len(shares.points)))
    have = np.bincount(places, minlength=len(shares.points))
    ordered = point[order]
    rank = np.arange(len(point)) - np.searchsorted(ordered, ordered)
    inside = rank < have[ordered]
    groups = np.full(len(point), -1, dtype=np.int64)
    groups[order[inside]] = queue[(starts[ordered] + rank)[inside]]
    return groups
