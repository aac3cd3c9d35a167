"""What both algorithms of Aggarwal et al. share: the guard, the blocks and the factor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.partition import Partition, Shares
from sfumato.anonymize.points import Points, only_crowds
from sfumato.anonymize.search import mondrian
from sfumato.anonymize.search.base import unreachable
from sfumato.anonymize.search.forest import Digit, bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.partition import Style
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search.base import Watch

    Digits = Callable[[Problem, Points], Sequence[Digit]]

MOST_ROWS = 50_000
BLOCK_ROWS = 10_000


def grouped(
    name: str, problem: Problem, cost: Cost, watch: Watch, *, digits: Digits, style: Style
) -> Partition:
    """Bundle near rows, block by block where the table is large; then no factor is claimed."""
    k = only_crowds(problem, name)
    if problem.rows < k:
        raise unreachable(problem, suppresses=False)
    points = Points.of(problem)
    coded = digits(problem, points)
    group = np.empty(problem.rows, dtype=np.int64)
    first = np.cumsum(points.counts) - points.counts
    groups = 0
    for block in _blocks(problem, points, watch):
        mine = [Digit(digit.codes[block], digit.weight) for digit in coded]
        found = bundle(mine, points.counts[block], k, watch) + groups
        starts = np.cumsum(points.counts[block]) - points.counts[block]
        within = np.arange(len(found)) - np.repeat(starts, points.counts[block])
        group[np.repeat(first[block], points.counts[block]) + within] = found
        groups = int(found.max()) + 1
    shares = Shares.of_rows(points, group)
    whole = problem.rows <= MOST_ROWS and watch.ended is None
    factor = float(max(1, 3 * (k - 1))) if whole else None
    return Partition.of(name, problem, shares, style, weights=cost.weights, factor=factor)


def _blocks(problem: Problem, points: Points, watch: Watch) -> Iterator[NDArray[np.int64]]:
    """All points, or parts that Mondrian found, united in order up to the size of a block."""
    if problem.rows <= MOST_ROWS:
        yield np.arange(len(points))
        return
    parts = mondrian.partition(problem, points, watch)
    order = np.argsort(parts, kind="stable")
    sizes = np.bincount(parts, points.counts).astype(np.int64)
    block = np.zeros(len(sizes), dtype=np.int64)
    number, filled = 0, 0
    for part, size in enumerate(sizes.tolist()):
        if filled and filled + size > BLOCK_ROWS:
            number, filled = number + 1, 0
        block[part] = number
        filled += size
    ends = np.searchsorted(block[parts[order]], np.arange(1, number + 1))
    yield from np.split(order, ends)
