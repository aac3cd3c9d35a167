"""Rows that fail already on two or three quasi-identifiers alone.

Uniting classes never makes rows fail the smallest class size that did not, so the rows that fail on
some quasi-identifiers are at most those that fail on all. Their counts are small tables, and all
levels of all columns of one are rolled up together.
"""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.anonymize.original import Quasi
    from sfumato.anonymize.problem import Problem
    from sfumato.arrays import IntArray

    Cube = NDArray[np.float64]

_MOST_LABELS = 1 << 10
_MOST_CELLS = 1 << 20


def failing_rows(problem: Problem) -> IntArray:
    """For every node, how many rows at least are in too small classes, by sets of columns.

    Pairs of columns rule nearly everything out where nothing may be suppressed, else triples do.

    A set of columns tells all that its subsets tell; these stand in where it has too many cells.
    """
    failing = np.zeros(problem.shape, dtype=np.int64)
    if problem.smallest == 1:
        return failing
    columns = [_Steps(column) for column in problem.quasi]
    width = 3 if problem.allowed else 2
    waiting = list(combinations(range(len(columns)), min(width, len(columns))))
    seen = set(waiting)
    for places in waiting:
        steps = [columns[place] for place in places]
        if prod(step.labels for step in steps) > _MOST_CELLS:
            smaller = [*combinations(places, len(places) - 1)]
            waiting += [part for part in smaller if part and part not in seen]
            seen.update(smaller)
            continue
        found = _failing(_count(problem, places, steps), steps, problem.smallest)
        known = dict(zip(places, steps, strict=True))
        part = failing[
            tuple(
                slice(known[place].first if place in known else 0, None)
                for place in range(len(columns))
            )
        ]
        shape = [size if place in known else 1 for place, size in enumerate(part.shape)]
        np.maximum(part, found.reshape(shape), out=part)
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
        """The counts of the labels of all levels, side by side along an axis."""
        levels = [cube]
        for run in self.runs:
            levels.append(np.add.reduceat(levels[-1], run, axis=axis))
        return np.concatenate(levels, axis=axis)


def _count(problem: Problem, places: tuple[int, ...], steps: list[_Steps]) -> Cube:
    """The rows of each combination of labels at the first levels."""
    view = problem.views[0]
    key = np.zeros(len(view.base.rows), dtype=np.int64)
    for place, step in zip(places, steps, strict=True):
        key *= step.size
        key += view.codes[place][step.first]
    sizes = [step.size for step in steps]
    counts = np.bincount(key, view.base.counts, prod(sizes))
    return counts.reshape(sizes).astype(np.float64, copy=False)


def _failing(cube: Cube, steps: list[_Steps], smallest: int) -> IntArray:
    """Rows in classes that are too small, for each combination of levels."""
    for axis, step in enumerate(steps):
        cube = step.roll_up(cube, axis)
    cube[cube >= smallest] = 0
    for axis, step in enumerate(steps):
        cube = np.add.reduceat(cube, step.starts, axis=axis)
    return cube.astype(np.int64)
