"""Counts brought to what they may be from the whole down: families of blocks, one after the other.

The nearest counts of at least 0 to noisy ones, all cells at once, take from every full cell what
they leave in the empty ones, and a range over many cells adds that up. Here the blocks that cells
lie in are brought down first: the children of a block become the nearest that add up to what the
block became. What is moved stays within the family, so blocks of every size keep nearly the error
that their noise gave them.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Places = NDArray[np.int64]
    Line = Sequence[Places]
    """Of one axis, for each generation of blocks from the whole down, the parent of each block."""

MANY, TOGETHER = 16, 4
"""More children of a block than these are taken together by fours, in one or more generations."""


class Generation(NamedTuple):
    """Blocks of one depth: noisy counts, their variances up to a factor, and their parents."""

    values: Floats
    variances: Floats
    parents: Places
    """The place of each block's parent in the generation before."""


def flat_line(cells: int) -> Line:
    """An axis without blocks: all of its cells lie in the whole."""
    return [np.zeros(cells, dtype=np.int64)]


def dyadic_line(cells: int) -> Line:
    """An axis whose neighbours are taken together two by two, up to the whole."""
    sizes = [cells]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 2))
    return [np.arange(size) // 2 for size in sizes[-2::-1]]


def generations(values: Floats, variances: Floats, lines: Sequence[Line]) -> list[Generation]:
    """The sums of all blocks below the whole, whose axes reach their cells in step."""
    found: list[Generation] = []
    flat, spread = values.ravel(), variances.ravel()
    for maps in zip_longest(*(reversed(line) for line in lines), fillvalue=np.zeros(1, np.int64)):
        parents, blocks = np.zeros(1, dtype=np.int64), 1
        for one in maps:
            size = int(one.max()) + 1
            parents, blocks = np.add.outer(parents * size, one).ravel(), blocks * size
        found.append(Generation(flat, spread, parents))
        flat, spread = _sums(flat, parents, blocks), _sums(spread, parents, blocks)
    return found[::-1]


def in_small_families(one: Generation) -> list[Generation]:
    """A generation whose siblings are neighbours, after others so that no family has many."""
    values, variances, parents = one
    firsts = np.flatnonzero(np.diff(parents, prepend=-1))
    sizes = np.diff(np.append(firsts, len(parents)))
    if sizes.max() <= MANY:
        return [one]
    ranks = np.arange(len(parents)) - np.repeat(firsts, sizes)
    begins = np.where(np.repeat(sizes > MANY, sizes), ranks % TOGETHER, ranks) == 0
    groups = np.cumsum(begins) - 1
    many = int(groups[-1]) + 1
    above = Generation(_sums(values, groups, many), _sums(variances, groups, many), parents[begins])
    return [*in_small_families(above), Generation(values, variances, groups)]


def descended(
    below: Iterable[Generation], goals: Floats, *, nonnegative: bool, whole: bool
) -> Floats:
    """What becomes of the last generation where that above the first becomes `goals`.

    Goals must be at least 0 and whole where the counts are to be.
    """
    for values, variances, parents in below:
        if nonnegative:
            found = nearest(values, variances, parents, goals)
        else:
            lacking = goals - _sums(values, parents, len(goals))
            room = _sums(variances, parents, len(goals))
            found = values + variances * (lacking[parents] / room[parents])
        goals = rounded(found, parents, goals) if whole else found
    return goals


def nearest(values: Floats, variances: Floats, parents: Places, goals: Floats) -> Floats:
    """For every family the x >= 0 of its sum with the least sum of (x - values)^2 / variances.

    x = max(values - t variances, 0) with the one t that gives the sum: the children above 0 are a
    prefix of the family in the order of values / variances.
    """
    ratios = values / variances
    order = np.lexsort((-ratios, parents))
    family, firsts = _families(parents[order])
    excess = _running(values[order], firsts) - goals[family]
    above = ratios[order] * _running(variances[order], firsts) > excess
    # The last child that stays above 0; the first one where none does, which then becomes 0.
    lasts = np.maximum.reduceat(np.where(above, np.arange(len(order)), -1), firsts)
    kept = np.arange(len(order)) <= np.repeat(lasts, np.diff(np.append(firsts, len(order))))
    chosen = order[kept]
    blocks = len(goals)
    # Summed again, family by family, which rounds far less than one running sum over all.
    over = _sums(values[chosen], parents[chosen], blocks) - goals
    room = _sums(variances[chosen], parents[chosen], blocks)
    steps = np.divide(over, room, out=np.full(blocks, np.inf), where=room > 0)
    return np.asarray(np.maximum(values - steps[parents] * variances, 0.0))


def rounded(values: Floats, parents: Places, goals: Floats) -> Floats:
    """Round down, and in every family up again where remainders are largest, as its goal needs."""
    floors = np.floor(values)
    needed = np.rint(goals - _sums(floors, parents, len(goals)))
    order = np.lexsort((floors - values, parents))
    family, firsts = _families(parents[order])
    ranks = np.arange(len(order)) - np.repeat(firsts, np.diff(np.append(firsts, len(order))))
    floors[order[ranks < needed[family]]] += 1.0
    return floors


def _sums(values: Floats, parents: Places, size: int) -> Floats:
    """The sum of each family."""
    return np.bincount(parents, values, size).astype(np.float64, copy=False)


def _families(parents: Places) -> tuple[Places, Places]:
    """Parents in order, and where each family of theirs begins."""
    return parents, np.flatnonzero(np.diff(parents, prepend=-1))


def _running(values: Floats, firsts: Places) -> Floats:
    """Running sums that begin anew with every family."""
    sums = np.cumsum(values)
    before = np.concatenate([[0.0], sums])[firsts]
    return np.asarray(sums - np.repeat(before, np.diff(np.append(firsts, len(values)))))
