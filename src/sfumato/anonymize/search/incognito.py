"""Incognito: all minimal admissible nodes, found by growing sets of quasi-identifiers."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.lattice import above, check_size, heights, nodes_where
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.search.base import Examiner, Incumbent, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.lattice import Node
    from sfumato.anonymize.lattice_grouping import Levels
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search.base import SearchProgress
    from sfumato.arrays import BoolArray

    Columns = tuple[int, ...]

NAME = "incognito"
_LOWEST = 16
"""The number of least general nodes that are compared when time has run out."""


def search(problem: Problem, cost: Cost, watch: SearchProgress) -> Generalization:
    """Find every admissible node below which none is admissible; release the cheapest of them.

    A node can be admissible only if it is on every subset of the quasi-identifiers. That, and that
    nodes above an admissible one are admissible, holds for the absorbing part of the criteria
    always, and for all of them where nothing may be suppressed; otherwise the nodes that survive
    the absorbing part are examined fully.
    """
    lattice = check_size(problem.shape, NAME)
    examiner = Examiner(problem)
    all_columns = tuple(range(len(problem.shape)))
    best = Incumbent(lambda n: (cost.value(n), n.suppressed, sum(n.levels), n.levels))
    seen: list[tuple[int, ...]] = []

    def admissible(node: Node) -> bool:
        if node.admissible:
            seen.append(node.levels)  # costs are computed only if time runs out
        return node.admissible

    survivors = _grow(examiner, admissible if problem.monotone else _hopeful, watch)[all_columns]
    if problem.monotone:
        minimal = _minimal(survivors)
    else:
        passing = np.zeros(problem.shape, dtype=bool)
        minimal = _climb(examiner, all_columns, survivors, passing, admissible, watch)
    checked = examiner.checked
    if watch.ended:
        # What was seen has columns at their roots that were not yet looked into, and is no minimum.
        for levels in sorted(seen, key=sum)[:_LOWEST]:
            best.offer(examiner.examine(levels))
        chosen, minimal = best.or_root(examiner), []
    else:
        for levels in minimal:
            best.offer(examiner.examine(levels))
        chosen = best.best
    if chosen is None:
        raise watch.no_release(NAME) if watch.ended else unreachable(problem)
    return Generalization.of(
        NAME,
        chosen,
        checked=checked,
        lattice=lattice,
        weights=cost.weights,
        minimal=sorted(minimal) or None,
    )


def _hopeful(node: Node) -> bool:
    return not node.fails_when_finer


def _grow(
    examiner: Examiner, passes: Callable[[Node], bool], watch: SearchProgress
) -> dict[Columns, BoolArray]:
    """Return which nodes pass on all columns, from the results on sets with one column less."""
    shape, bottom = examiner.problem.shape, examiner.problem.bottom
    smaller: dict[Columns, BoolArray] = {(): np.ones((), dtype=bool)}
    for width in range(1, len(shape) + 1):
        grown: dict[Columns, BoolArray] = {}
        for columns in combinations(range(len(shape)), width):
            candidates = np.zeros([shape[column] for column in columns], dtype=bool)
            candidates[above(tuple(bottom[column] for column in columns))] = True
            # Subset property (LeFevre et al. 2005): a node that fails on a subset of the columns
            # fails
            # on all of them, so only nodes whose every projection passes are candidates.
            for removed in range(width):
                projection = smaller[columns[:removed] + columns[removed + 1 :]]
                candidates &= np.expand_dims(projection, removed)
            passing = np.zeros_like(candidates)
            _climb(examiner, columns, candidates, passing, passes, watch)
            grown[columns] = passing
        smaller = grown
        watch.report(2**width, 2 ** len(shape))
    return smaller


def _climb(
    examiner: Examiner,
    columns: Columns,
    candidates: BoolArray,
    passing: BoolArray,
    passes: Callable[[Node], bool],
    watch: SearchProgress,
) -> list[Levels]:
    """Search breadth first from the bottom; mark all nodes above a passing one, and return these.

    Columns outside `columns` are at their root, where they separate no rows.
    """
    minimal = []
    height = heights(candidates.shape)
    # By height: a node is examined before all coarser ones, so every passing node reached is
    # minimal.
    order = sorted(nodes_where(candidates), key=lambda levels: (int(height[levels]), levels))
    for levels in order:
        if passing[levels]:
            continue
        if watch.expired:
            break
        full_levels = list(examiner.problem.top)
        for column, level in zip(columns, levels, strict=True):
            full_levels[column] = level
        if passes(examiner.examine(tuple(full_levels))):
            # Generalization property: whatever is above a passing node passes and need not be
            # looked at.
            passing[above(levels)] = True
            minimal.append(levels)
    return minimal


def _minimal(passing: BoolArray) -> list[Levels]:
    """Return the passing nodes none of whose finer neighbours passes."""
    lowest = passing.copy()
    for axis in range(passing.ndim):
        finer = np.zeros_like(passing)
        ahead = [slice(None)] * passing.ndim
        behind = list(ahead)
        ahead[axis], behind[axis] = slice(1, None), slice(None, -1)
        finer[tuple(ahead)] = passing[tuple(behind)]
        lowest &= ~finer
    return nodes_where(lowest)
