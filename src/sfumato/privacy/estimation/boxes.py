"""Count the rows in boxes: from a tree, assuming that rows lie evenly in leaves, or from cells."""

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

# Queries per batch, and entries of a (nodes, queries) array: they bound memory, not results.
_AT_ONCE = 1024
_ENTRIES = 1 << 22


def estimates(tree: BoxTree, counts: FloatArray, boxes: IntArray) -> FloatArray:
    """Add up the nodes inside each box, and of each leaf it crosses the share of points inside."""
    totals = np.zeros(len(boxes))
    for queries, nodes, share in _intersections(tree, boxes):
        np.add.at(totals, queries, share * counts[nodes])
    return totals


def unevenness(tree: BoxTree, counts: FloatArray, boxes: IntArray) -> FloatArray:
    """The largest error of each estimate: all rows of every crossed leaf lie on one side."""
    errors = np.zeros(len(boxes))
    for queries, nodes, share in _intersections(tree, boxes):
        # A leaf wholly inside is counted exactly; only a crossed one depends on where rows lie.
        crossed = (share > 0) & (share < 1)
        worst = np.maximum(share, 1 - share) * np.maximum(counts[nodes], 0.0)
        np.add.at(errors, queries[crossed], worst[crossed])
    return errors


def _intersections(
    tree: BoxTree, boxes: IntArray
) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Pairs of a box and a node, batch by batch: nodes inside the box, and leaves that it crosses.

    Each batch is (box indices, node indices, share of the node's points in the box).
    """
    for queries in _batches(len(boxes), _AT_ONCE):
        nodes = np.zeros(len(queries), dtype=np.int64)
        while len(nodes):
            share = tree.shares(nodes, boxes[queries])
            # A node that is wholly inside, and a leaf, need no descent.
            is_final = (share == 1) | tree.leaves[nodes]
            yield queries[is_final], nodes[is_final], share[is_final]
            crossed = ~is_final & (share > 0)
            inner, queries = nodes[crossed], queries[crossed]
            fan = tree.children[inner]
            queries = np.repeat(queries, fan)
            siblings = np.arange(len(queries)) - np.repeat(np.cumsum(fan) - fan, fan)
            nodes = np.repeat(tree.firsts[inner], fan) + siblings


def variances(fitted: LeastSquares, boxes: IntArray) -> FloatArray:
    """The noise variance of each estimate, exact for noise that is independent of the tree."""
    result = np.empty(len(boxes))
    tree = fitted.tree
    leaves = np.flatnonzero(tree.leaves)
    for queries in _batches(len(boxes), max(1, _ENTRIES // len(tree))):
        weights = np.zeros((len(tree), len(queries)))
        weights[leaves] = tree.shares(leaves[:, None], boxes[queries])
        result[queries] = fitted.variance(weights)
    return result


def _batches(count: int, size: int) -> Iterator[IntArray]:
    return (np.arange(start, min(start + size, count)) for start in range(0, count, size))


def box_sums(interior: NDArray[Number], boxes: IntArray) -> NDArray[Number]:
    """Add up a dense array over boxes of inclusive codes; a box that ends before it begins is 0.

    Uses a summed-area table: running sums along every axis, read at the 2^d corners of a box with
    alternating signs.
    """
    sums = np.pad(interior, [(1, 0)] * interior.ndim)
    for axis in range(interior.ndim):
        np.cumsum(sums, axis=axis, out=sums)
    # Index i of the padded sums holds the sum of the codes below i.
    before, last = boxes[:, :, 0], np.maximum(boxes[:, :, 1] + 1, boxes[:, :, 0])
    totals = np.zeros(len(boxes), dtype=sums.dtype)
    for corner in product((False, True), repeat=interior.ndim):
        corner_codes = np.where(corner, last, before)
        sign = (-1) ** (interior.ndim - sum(corner))
        totals += sign * sums[tuple(corner_codes.T)]
    return totals
