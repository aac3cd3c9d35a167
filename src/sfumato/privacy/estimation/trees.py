"""Trees of noisy counts: least squares over them, and possible counts from the whole down.

*Consistency*: parents become the sums of their children, in two passes, each linear in the nodes.
Upwards, a node's own measurement is averaged with the sum of its children, by their precisions.
Downwards, what a node differs from the sum of its children is shared out among them in proportion
to their variances. The result is that of generalised least squares; nodes may have any number of
children, be measured unequally well or, but for leaves, not at all.

*From the whole down*: the nearest counts of at least 0 to noisy ones, all cells at once, take from
every full cell what they leave in the empty ones, and a range over many cells adds that up. Here
the blocks that cells lie in are brought down first: the children of a block become the nearest that
add up to what the block became. What is moved stays within the family, so blocks of every size
keep nearly the error that their noise gave them.

Decision `postprocessing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray

    # RESHAPE
    Places = NDArray[np.int64]
    Line = Sequence[Places]
    """Of one axis, for each generation of blocks from the whole down, the parent of each block."""


@dataclass(frozen=True)
class BoxTree:
    """Boxes of inclusive codes; the children of a box are a partition of it.

    The root is node 0. Parents come before their children, nodes of one depth are neighbours, and
    so are the children of one parent.
    """

    lows: IntArray
    highs: IntArray
    parents: IntArray
    """The parent of each node; -1 for the root."""

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def generations(self) -> list[slice]:
        """The nodes of each depth."""
        found, start, stop = [], 0, 1
        while stop > start:
            found.append(slice(start, stop))
            start, stop = stop, int(np.searchsorted(self.parents, stop))
        return found

    @cached_property
    def depths(self) -> IntArray:
        """How many nodes lie above each."""
        sizes = [one.stop - one.start for one in self.generations]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def children(self) -> IntArray:
        """How many children each node has."""
        return np.bincount(self.parents[1:], minlength=len(self))

    @cached_property
    def firsts(self) -> IntArray:
        """The first child of each node; of no meaning where there is none."""
        return 1 + np.cumsum(self.children) - self.children

    @cached_property
    def leaves(self) -> BoolArray:
        """Which nodes have no children."""
        return np.asarray(self.children == 0)

    def sums(self, values: FloatArray) -> FloatArray:
        """Give every node the sum of its leaves' values; those of inner nodes are not looked at."""
        found = np.where(self.leaves, values, 0.0)
        for nodes in reversed(self.generations[1:]):
            np.add.at(found, self.parents[nodes], found[nodes])
        return found

    def shares(self, nodes: IntArray, boxes: IntArray) -> FloatArray:
        """What part of the points of each node lies in the box beside it, (pairs, columns, 2)."""
        lows, highs = self.lows[nodes], self.highs[nodes]
        inside = np.minimum(highs, boxes[..., 1]) - np.maximum(lows, boxes[..., 0]) + 1
        return np.asarray((np.maximum(inside, 0) / (highs - lows + 1)).prod(axis=-1))


@dataclass(frozen=True)
class LeastSquares:
    """The best linear unbiased estimate of every node's count from independent measurements.

    *Error*: `variances` of the nodes, exact for noise that is independent of the tree.
    *Edges*: a leaf without a measurement is not allowed; a tree of one node keeps its value.
    *Reference*: Hay, Rastogi, Miklau & Suciu 2010, Theorem 3; Cormode, Procopiuc, Srivastava, Shen
    & Yu 2012 for unequal levels.
    """

    tree: BoxTree
    precisions: FloatArray
    """One over the variance of each node's measurement; 0 where there is none."""

    @cached_property
    def _upward(self) -> FloatArray:
        """The variance of each node's estimate from its own subtree."""
        found: FloatArray = np.divide(
            1.0, self.precisions, out=np.full(len(self.tree), np.inf), where=self.precisions > 0
        )
        for nodes in reversed(self.tree.generations[1:]):
            parents, firsts = self._families(nodes)
            below = np.add.reduceat(found[nodes], firsts)
            found[parents] = 1 / (self.precisions[parents] + 1 / below)
        return found

    def _families(self, nodes: slice) -> tuple[IntArray, IntArray]:
        """The parents of one generation, and the place of the first child of each in it."""
        above = self.tree.parents[nodes]
        firsts = np.flatnonzero(np.diff(above, prepend=-1))
        return above[firsts], firsts

    def _parts(self, nodes: slice) -> FloatArray:
        """Each node's part in the variance of the sum of its siblings and itself."""
        parents, firsts = self._families(nodes)
        below = np.add.reduceat(self._upward[nodes], firsts)
        return np.asarray(self._upward[nodes] / np.repeat(below, self.tree.children[parents]))

    def solve(self, values: FloatArray) -> FloatArray:
        """The estimates from measurements of shape (nodes,) or (nodes, problems)."""
        shape = (-1,) + (1,) * (values.ndim - 1)
        upward, precisions = self._upward.reshape(shape), self.precisions.reshape(shape)
        found = values.astype(np.float64)
        for nodes in reversed(self.tree.generations[1:]):
            parents, firsts = self._families(nodes)
            below = np.add.reduceat(found[nodes], firsts, axis=0)
            spread = np.add.reduceat(upward[nodes], firsts, axis=0)
            own = precisions[parents] * found[parents]
            found[parents] = upward[parents] * (own + below / spread)
        for nodes in self.tree.generations[1:]:
            parents, firsts = self._families(nodes)
            lacking = found[parents] - np.add.reduceat(found[nodes], firsts, axis=0)
            each = np.repeat(lacking, self.tree.children[parents], axis=0)
            found[nodes] += self._parts(nodes).reshape(shape) * each
        return found

    @cached_property
    def variances(self) -> FloatArray:
        """The variance of each estimate.

        A child's estimate is z - p s, which does not depend on the siblings' sum s, plus p times
        the estimate of its parent: v - p v and p^2 times the parent's variance, p its part.
        """
        found = self._upward.copy()
        for nodes in self.tree.generations[1:]:
            part = self._parts(nodes)
            above = found[self.tree.parents[nodes]]
            found[nodes] = self._upward[nodes] * (1 - part) + part**2 * above
        return found

    def variance(self, weights: FloatArray) -> FloatArray:
        """The variance of weighted sums of leaves, (nodes, sums); weights are 0 at inner nodes.

        Measurements of v w at the leaves, v the variance of each one, and 0 elsewhere are solved
        by the covariance matrix times w.
        """
        leaves = self.tree.leaves
        measured = np.zeros_like(weights)
        measured[leaves] = weights[leaves] / self.precisions[leaves, None]
        return np.asarray((weights * self.solve(measured)).sum(axis=0))


MANY, TOGETHER = 16, 4
"""More children of a block than these are taken together by fours, in one or more generations."""


class Generation(NamedTuple):
    """Blocks of one depth: noisy counts, their variances up to a factor, and their parents."""

    values: FloatArray
    variances: FloatArray
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


def generations(
    values: FloatArray, variances: FloatArray, lines: Sequence[Line]
) -> list[Generation]:
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
    below: Iterable[Generation], goals: FloatArray, *, nonnegative: bool, whole: bool
) -> FloatArray:
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


def nearest(
    values: FloatArray, variances: FloatArray, parents: Places, goals: FloatArray
) -> FloatArray:
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


def rounded(values: FloatArray, parents: Places, goals: FloatArray) -> FloatArray:
    """Round down, and in every family up again where remainders are largest, as its goal needs."""
    floors = np.floor(values)
    needed = np.rint(goals - _sums(floors, parents, len(goals)))
    order = np.lexsort((floors - values, parents))
    family, firsts = _families(parents[order])
    ranks = np.arange(len(order)) - np.repeat(firsts, np.diff(np.append(firsts, len(order))))
    floors[order[ranks < needed[family]]] += 1.0
    return floors


def _sums(values: FloatArray, parents: Places, size: int) -> FloatArray:
    """The sum of each family."""
    return np.bincount(parents, values, size).astype(np.float64, copy=False)


def _families(parents: Places) -> tuple[Places, Places]:
    """Parents in order, and where each family of theirs begins."""
    return parents, np.flatnonzero(np.diff(parents, prepend=-1))


def _running(values: FloatArray, firsts: Places) -> FloatArray:
    """Running sums that begin anew with every family."""
    sums = np.cumsum(values)
    before = np.concatenate([[0.0], sums])[firsts]
    return np.asarray(sums - np.repeat(before, np.diff(np.append(firsts, len(values)))))
