"""Trees of noisy counts: least squares, and nonnegative integer counts from the root down.

*Consistency*: parents become the sums of their children, in two passes, each linear in the nodes.
Upwards, a node's own measurement is averaged with the sum of its children, by their precisions.
Downwards, the difference between a node and the sum of its children is distributed among them in
proportion to their variances. The result is that of generalised least squares. Nodes may have any
number of children and unequal precisions; inner nodes need no measurement.

*From the root down*: projecting all noisy cells onto nonnegative counts at once takes from every
full cell what it leaves in the empty ones, and a range over many cells adds up that bias. Here
blocks come before their cells: the children of a block become the nearest counts that sum to the
block's. A correction stays within its family, so blocks of every size keep nearly the error of
their own noise.

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
    Parents = NDArray[np.int64]
    Line = Sequence[Parents]
    """The parents of one axis: an array for each generation of blocks, from the root down."""


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
        levels, start, stop = [], 0, 1
        while stop > start:
            levels.append(slice(start, stop))
            start, stop = stop, int(np.searchsorted(self.parents, stop))
        return levels

    @cached_property
    def depths(self) -> IntArray:
        """The depth of each node; 0 for the root."""
        sizes = [nodes.stop - nodes.start for nodes in self.generations]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def children(self) -> IntArray:
        """The number of children of each node."""
        return np.bincount(self.parents[1:], minlength=len(self))

    @cached_property
    def firsts(self) -> IntArray:
        """The first child of each node; meaningless for a leaf."""
        return 1 + np.cumsum(self.children) - self.children

    @cached_property
    def leaves(self) -> BoolArray:
        """Which nodes have no children."""
        return np.asarray(self.children == 0)

    def sums(self, values: FloatArray) -> FloatArray:
        """The sum of the leaves below each node; values of inner nodes are ignored."""
        totals = np.where(self.leaves, values, 0.0)
        for nodes in reversed(self.generations[1:]):
            np.add.at(totals, self.parents[nodes], totals[nodes])
        return totals

    def shares(self, nodes: IntArray, boxes: IntArray) -> FloatArray:
        """The share of each node's points that lies in the paired box, (pairs, columns, 2)."""
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
    """1 / variance of each node's measurement; 0 where there is none."""

    @cached_property
    def _upward(self) -> FloatArray:
        """The variance of each node's estimate from its own subtree."""
        variances: FloatArray = np.divide(
            1.0, self.precisions, out=np.full(len(self.tree), np.inf), where=self.precisions > 0
        )
        for nodes in reversed(self.tree.generations[1:]):
            parents, firsts = self._families(nodes)
            below = np.add.reduceat(variances[nodes], firsts)
            variances[parents] = 1 / (self.precisions[parents] + 1 / below)
        return variances

    def _families(self, nodes: slice) -> tuple[IntArray, IntArray]:
        """The parents of one generation, and the index of each one's first child in it."""
        above = self.tree.parents[nodes]
        firsts = np.flatnonzero(np.diff(above, prepend=-1))
        return above[firsts], firsts

    def _variance_shares(self, nodes: slice) -> FloatArray:
        """Each node's share in the variance of the sum over its family."""
        parents, firsts = self._families(nodes)
        below = np.add.reduceat(self._upward[nodes], firsts)
        return np.asarray(self._upward[nodes] / np.repeat(below, self.tree.children[parents]))

    def solve(self, values: FloatArray) -> FloatArray:
        """The estimates from measurements of shape (nodes,) or (nodes, problems)."""
        shape = (-1,) + (1,) * (values.ndim - 1)
        upward, precisions = self._upward.reshape(shape), self.precisions.reshape(shape)
        estimates = values.astype(np.float64)
        for nodes in reversed(self.tree.generations[1:]):
            parents, firsts = self._families(nodes)
            below = np.add.reduceat(estimates[nodes], firsts, axis=0)
            spread = np.add.reduceat(upward[nodes], firsts, axis=0)
            own = precisions[parents] * estimates[parents]
            estimates[parents] = upward[parents] * (own + below / spread)
        for nodes in self.tree.generations[1:]:
            parents, firsts = self._families(nodes)
            lacking = estimates[parents] - np.add.reduceat(estimates[nodes], firsts, axis=0)
            per_child = np.repeat(lacking, self.tree.children[parents], axis=0)
            estimates[nodes] += self._variance_shares(nodes).reshape(shape) * per_child
        return estimates

    @cached_property
    def variances(self) -> FloatArray:
        """The variance of each estimate.

        With z a child's estimate from its own subtree, v the variance of z, s the sum of z over
        the family and p the child's share in the variance of s, the final estimate is
        (z - p s) + p (parent's estimate). The two terms are independent, so its variance is
        v (1 - p) + p^2 (parent's variance).
        """
        result = self._upward.copy()
        for nodes in self.tree.generations[1:]:
            share = self._variance_shares(nodes)
            above = result[self.tree.parents[nodes]]
            result[nodes] = self._upward[nodes] * (1 - share) + share**2 * above
        return result

    def variance(self, weights: FloatArray) -> FloatArray:
        """The variance of weighted sums of leaves, (nodes, sums); weights are 0 at inner nodes.

        Least squares maps the measurements v w (v the variance of each leaf, w the weights, 0 at
        inner nodes) to the covariance matrix of the estimates times w.
        """
        leaves = self.tree.leaves
        measured = np.zeros_like(weights)
        measured[leaves] = weights[leaves] / self.precisions[leaves, None]
        return np.asarray((weights * self.solve(measured)).sum(axis=0))


MAX_FAMILY, GROUP_SIZE = 16, 4
"""A family of more than 16 children is grouped by fours, in one or more extra generations: the
projection onto nonnegative counts has less bias in small families."""


class Generation(NamedTuple):
    """Blocks of one depth: noisy counts, their variances up to a factor, and their parents."""

    values: FloatArray
    variances: FloatArray
    parents: Parents
    """The index of each block's parent in the generation above."""


def flat_line(cells: int) -> Line:
    """An axis without blocks: all cells are children of the root."""
    return [np.zeros(cells, dtype=np.int64)]


def dyadic_line(cells: int) -> Line:
    """A binary tree over an axis: neighbours are joined in pairs, up to the root."""
    sizes = [cells]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 2))
    return [np.arange(size) // 2 for size in sizes[-2::-1]]


def generations(
    values: FloatArray, variances: FloatArray, lines: Sequence[Line]
) -> list[Generation]:
    """The sums of all blocks below the root, generation by generation, from the sums of the cells.

    All axes reach their cells in the last generation; a shorter axis stays whole at first.
    """
    result: list[Generation] = []
    flat, spread = values.ravel(), variances.ravel()
    for maps in zip_longest(*(reversed(line) for line in lines), fillvalue=np.zeros(1, np.int64)):
        parents, blocks = np.zeros(1, dtype=np.int64), 1
        for axis_parents in maps:
            size = int(axis_parents.max()) + 1
            parents, blocks = np.add.outer(parents * size, axis_parents).ravel(), blocks * size
        result.append(Generation(flat, spread, parents))
        flat, spread = _sums(flat, parents, blocks), _sums(spread, parents, blocks)
    return result[::-1]


def in_small_families(generation: Generation) -> list[Generation]:
    """Insert generations before one with large families, so that none exceeds `MAX_FAMILY`.

    Siblings must be neighbours.
    """
    values, variances, parents = generation
    firsts = np.flatnonzero(np.diff(parents, prepend=-1))
    sizes = np.diff(np.append(firsts, len(parents)))
    if sizes.max() <= MAX_FAMILY:
        return [generation]
    ranks = np.arange(len(parents)) - np.repeat(firsts, sizes)
    begins = np.where(np.repeat(sizes > MAX_FAMILY, sizes), ranks % GROUP_SIZE, ranks) == 0
    groups = np.cumsum(begins) - 1
    group_count = int(groups[-1]) + 1
    above = Generation(
        _sums(values, groups, group_count), _sums(variances, groups, group_count), parents[begins]
    )
    return [*in_small_families(above), Generation(values, variances, groups)]


def distribute_down(
    below: Iterable[Generation], goals: FloatArray, *, nonnegative: bool, integer: bool
) -> FloatArray:
    """Fit generation after generation to the sums of the one above; return the last.

    Parameters
    ----------
    below : iterable of Generation
        From the root down.
    goals : array
        The final counts of the generation above the first. Where the result is to be nonnegative
        or integer, these must be so too.
    nonnegative, integer : bool
        The constraints on the result.
    """
    for values, variances, parents in below:
        if nonnegative:
            fitted = nearest(values, variances, parents, goals)
        else:
            lacking = goals - _sums(values, parents, len(goals))
            room = _sums(variances, parents, len(goals))
            fitted = values + variances * (lacking[parents] / room[parents])
        goals = rounded(fitted, parents, goals) if integer else fitted
    return goals


def nearest(
    values: FloatArray, variances: FloatArray, parents: Parents, goals: FloatArray
) -> FloatArray:
    """Project each family onto x >= 0 with sum `goals`, minimising sum (x - values)^2 / variances.

    By the optimality conditions x = max(values - t variances, 0), with the one t that gives the
    sum. So the children above 0 are a prefix of the family in the order of values / variances.
    """
    ratios = values / variances
    order = np.lexsort((-ratios, parents))
    family, firsts = _families(parents[order])
    excess = _running(values[order], firsts) - goals[family]
    above = ratios[order] * _running(variances[order], firsts) > excess
    # The last child that stays above 0; the first one where none does, which then becomes 0.
    lasts = np.maximum.reduceat(np.where(above, np.arange(len(order)), -1), firsts)
    is_positive = np.arange(len(order)) <= np.repeat(lasts, np.diff(np.append(firsts, len(order))))
    chosen = order[is_positive]
    blocks = len(goals)
    # Summed again, family by family: rounding errors are far smaller than in one running sum.
    over = _sums(values[chosen], parents[chosen], blocks) - goals
    room = _sums(variances[chosen], parents[chosen], blocks)
    steps = np.divide(over, room, out=np.full(blocks, np.inf), where=room > 0)
    return np.asarray(np.maximum(values - steps[parents] * variances, 0.0))


def rounded(values: FloatArray, parents: Parents, goals: FloatArray) -> FloatArray:
    """Round to integers with the family sums `goals`, by the largest-remainder method."""
    floors = np.floor(values)
    needed = np.rint(goals - _sums(floors, parents, len(goals)))
    order = np.lexsort((floors - values, parents))
    family, firsts = _families(parents[order])
    ranks = np.arange(len(order)) - np.repeat(firsts, np.diff(np.append(firsts, len(order))))
    floors[order[ranks < needed[family]]] += 1.0
    return floors


def _sums(values: FloatArray, parents: Parents, size: int) -> FloatArray:
    """The sum of each family."""
    return np.bincount(parents, values, size).astype(np.float64, copy=False)


def _families(parents: Parents) -> tuple[Parents, Parents]:
    """Sorted parents, unchanged, and the index at which each family begins."""
    return parents, np.flatnonzero(np.diff(parents, prepend=-1))


def _running(values: FloatArray, firsts: Parents) -> FloatArray:
    """Running sums that restart with every family."""
    sums = np.cumsum(values)
    before = np.concatenate([[0.0], sums])[firsts]
    return np.asarray(sums - np.repeat(before, np.diff(np.append(firsts, len(values)))))
