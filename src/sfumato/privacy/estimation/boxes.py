"""How many rows lie in boxes, from a tree, inside whose leaves they lie evenly, or from cells."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.privacy.estimation.trees import BoxTree, LeastSquares

    Number = TypeVar("Number", np.float64, np.int64)

_AT_ONCE = 1024
_ENTRIES = 1 << 22


def estimates(tree: BoxTree, counts: FloatArray, boxes: IntArray) -> FloatArray:
    """Add up the nodes inside each box, and of leaves that it crosses the part of their points."""
    found = np.zeros(len(boxes))
    for queries, nodes, share in _met(tree, boxes):
        np.add.at(found, queries, share * counts[nodes])
    return found


def unevenness(tree: BoxTree, counts: FloatArray, boxes: IntArray) -> FloatArray:
    """The most that each estimate is off where all rows of crossed leaves lie on one side."""
    found = np.zeros(len(boxes))
    for queries, nodes, share in _met(tree, boxes):
        crossed = (share > 0) & (share < 1)
        most = np.maximum(share, 1 - share) * np.maximum(counts[nodes], 0.0)
        np.add.at(found, queries[crossed], most[crossed])
    return found


def _met(tree: BoxTree, boxes: IntArray) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Boxes, with the nodes inside them and the leaves that they meet, and the part of these."""
    for queries in _batches(len(boxes), _AT_ONCE):
        nodes = np.zeros(len(queries), dtype=np.int64)
        while len(nodes):
            share = tree.shares(nodes, boxes[queries])
            # A node that is wholly inside, and a leaf, need no looking into.
            done = (share == 1) | tree.leaves[nodes]
            yield queries[done], nodes[done], share[done]
            crossed = ~done & (share > 0)
            inner, queries = nodes[crossed], queries[crossed]
            fan = tree.children[inner]
            queries = np.repeat(queries, fan)
            siblings = np.arange(len(queries)) - np.repeat(np.cumsum(fan) - fan, fan)
            nodes = np.repeat(tree.firsts[inner], fan) + siblings


def variances(fitted: LeastSquares, boxes: IntArray) -> FloatArray:
    """The variance that noise gives each estimate, exact for noise independent of the tree."""
    found = np.empty(len(boxes))
    tree = fitted.tree
    leaves = np.flatnonzero(tree.leaves)
    for queries in _batches(len(boxes), max(1, _ENTRIES // len(tree))):
        weights = np.zeros((len(tree), len(queries)))
        weights[leaves] = tree.shares(leaves[:, None], boxes[queries])
        found[queries] = fitted.variance(weights)
    return found


def _batches(count: int, size: int) -> Iterator[IntArray]:
    return (np.arange(start, min(start + size, count)) for start in range(0, count, size))


def box_sums(interior: NDArray[Number], boxes: IntArray) -> NDArray[Number]:
    """Add up a dense array over boxes of inclusive codes; a box that ends before it begins is 0.

    By running sums along every axis, of which each box needs those at its corners.
    """
    sums = np.pad(interior, [(1, 0)] * interior.ndim)
    for axis in range(interior.ndim):
        np.cumsum(sums, axis=axis, out=sums)
    # The sum up to a code, included, is one place further on.
    before, last = boxes[:, :, 0], np.maximum(boxes[:, :, 1] + 1, boxes[:, :, 0])
    found = np.zeros(len(boxes), dtype=sums.dtype)
    for corner in product((False, True), repeat=interior.ndim):
        places = np.where(corner, last, before)
        sign = (-1) ** (interior.ndim - sum(corner))
        found += sign * sums[tuple(places.T)]
    return found
