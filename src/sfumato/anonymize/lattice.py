"""The lattice of generalizations: one level per quasi-identifier, arrays over all nodes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.anonymize.views import Levels

LARGEST = 4_000_000
"""Searches over a whole lattice keep a few numbers per node."""


def check_size(shape: Levels, algorithm: str) -> int:
    """The number of nodes, or a refusal when they do not fit memory and patience."""
    size = prod(shape)
    if size > LARGEST:
        raise ParameterError(
            "lattice_too_large",
            f"Algorithm {algorithm!r} keeps the whole lattice in memory, which has {size:,} nodes; "
            f"at most {LARGEST:,} are possible. Take fewer quasi-identifiers or levels, or "
            "'datafly' or 'mondrian'.",
        )
    return size


def heights(shape: Levels) -> NDArray[np.int64]:
    """The sum of levels of every node."""
    total = np.zeros(shape, dtype=np.int64)
    for axis, size in enumerate(shape):
        total += np.arange(size).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return total


def below(levels: Levels) -> tuple[slice, ...]:
    """The node and everything finer."""
    return tuple(slice(0, level + 1) for level in levels)


def above(levels: Levels) -> tuple[slice, ...]:
    """The node and everything coarser."""
    return tuple(slice(level, None) for level in levels)


def count_below(marked: NDArray[np.bool_]) -> NDArray[np.int32]:
    """For every node, how many marked ones are equal or finer: running sums along each axis.

    Axes are short, so adding whole slices to the next is much faster than a running sum.
    """
    counts = marked.astype(np.int32)
    for axis in range(counts.ndim):
        slices = np.moveaxis(counts, axis, 0)
        for level in range(1, len(slices)):
            slices[level] += slices[level - 1]
    return counts


def count_above(marked: NDArray[np.bool_]) -> NDArray[np.int32]:
    """For every node, how many marked ones are equal or coarser."""
    turned = tuple(slice(None, None, -1) for _ in marked.shape)
    return count_below(marked[turned])[turned]


def nodes_where(marked: NDArray[np.bool_]) -> list[Levels]:
    """The marked nodes in lexicographic order."""
    return [tuple(levels) for levels in np.argwhere(marked).tolist()]
