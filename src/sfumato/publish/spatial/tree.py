"""Trees of boxes over ordered codes: nodes in order of their depth, siblings side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Tree:
    """Boxes of inclusive codes; the children of a box are a partition of it.

    The root is node 0. Parents come before their children, nodes of one depth are neighbours, and
    so are the children of one parent.
    """

    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    parents: NDArray[np.int64]
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
    def depths(self) -> NDArray[np.int64]:
        """How many nodes lie above each."""
        sizes = [one.stop - one.start for one in self.generations]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def children(self) -> NDArray[np.int64]:
        """How many children each node has."""
        return np.bincount(self.parents[1:], minlength=len(self))

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """The first child of each node; of no meaning where there is none."""
        return 1 + np.cumsum(self.children) - self.children

    @cached_property
    def leaves(self) -> NDArray[np.bool_]:
        """Which nodes have no children."""
        return np.asarray(self.children == 0)

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give every node the sum of its leaves' values; those of inner nodes are not looked at."""
        found = np.where(self.leaves, values, 0.0)
        for nodes in reversed(self.generations[1:]):
            np.add.at(found, self.parents[nodes], found[nodes])
        return found

    def shares(self, nodes: NDArray[np.int64], boxes: NDArray[np.int64]) -> NDArray[np.float64]:
        """What part of the points of each node lies in the box beside it, (pairs, columns, 2)."""
        lows, highs = self.lows[nodes], self.highs[nodes]
        inside = np.minimum(highs, boxes[..., 1]) - np.maximum(lows, boxes[..., 0]) + 1
        return np.asarray((np.maximum(inside, 0) / (highs - lows + 1)).prod(axis=-1))
