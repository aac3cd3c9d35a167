"""Least squares over any tree of noisy counts: parents become the sums of their children.

Two passes, each linear in the nodes. Upwards, a node's own measurement is averaged with the sum of
its children, by their precisions. Downwards, what a node differs from the sum of its children is
shared out among them in proportion to their variances. The result is that of generalised least
squares; nodes may have any number of children, be measured unequally well or, but for leaves, not
at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.publish.spatial.tree import Tree


@dataclass(frozen=True)
class LeastSquares:
    """The best linear unbiased estimate of every node's count from independent measurements.

    *Error*: `variances` of the nodes, exact for noise that is independent of the tree.
    *Edges*: a leaf without a measurement is not allowed; a tree of one node keeps its value.
    *Reference*: Hay, Rastogi, Miklau & Suciu 2010, Theorem 3; Cormode, Procopiuc, Srivastava, Shen
    & Yu 2012 for unequal levels.
    """

    tree: Tree
    precisions: NDArray[np.float64]
    """One over the variance of each node's measurement; 0 where there is none."""

    @cached_property
    def _upward(self) -> NDArray[np.float64]:
        """The variance of each node's estimate from its own subtree."""
        found: NDArray[np.float64] = np.divide(
            1.0, self.precisions, out=np.full(len(self.tree), np.inf), where=self.precisions > 0
        )
        for nodes in reversed(self.tree.generations[1:]):
            parents, firsts = self._families(nodes)
            below = np.add.reduceat(found[nodes], firsts)
            found[parents] = 1 / (self.precisions[parents] + 1 / below)
        return found

    def _families(self, nodes: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The parents of one generation, and the place of the first child of each in it."""
        above = self.tree.parents[nodes]
        firsts = np.flatnonzero(np.diff(above, prepend=-1))
        return above[firsts], firsts

    def _parts(self, nodes: slice) -> NDArray[np.float64]:
        """Each node's part in the variance of the sum of its siblings and itself."""
        parents, firsts = self._families(nodes)
        below = np.add.reduceat(self._upward[nodes], firsts)
        return np.asarray(self._upward[nodes] / np.repeat(below, self.tree.children[parents]))

    def solve(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
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
    def variances(self) -> NDArray[np.float64]:
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

    def variance(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The variance of weighted sums of leaves, (nodes, sums); weights are 0 at inner nodes.

        Measurements of v w at the leaves, v the variance of each one, and 0 elsewhere are solved
        by the covariance matrix times w.
        """
        leaves = self.tree.leaves
        measured = np.zeros_like(weights)
        measured[leaves] = weights[leaves] / self.precisions[leaves, None]
        return np.asarray((weights * self.solve(measured)).sum(axis=0))
