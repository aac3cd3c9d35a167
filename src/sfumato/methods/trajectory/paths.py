"""Paths as arrays: whose each is, and its points in the order of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Self

    from sfumato.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Paths:
    """Points of paths, path after path and in order of time within each."""

    owners: IntArray
    """Whose each path is, numbered from 0."""
    lengths: IntArray
    """How many points each path has, at least one."""
    times: FloatArray
    x: FloatArray
    y: FloatArray

    @classmethod
    def of(
        cls, owners: IntArray, paths: IntArray, times: FloatArray, x: FloatArray, y: FloatArray
    ) -> Self:
        """Gather points that lie in any order: what tells paths apart is owner and path."""
        order = np.lexsort((y, x, times, paths, owners))
        owners, paths = owners[order], paths[order]
        new = np.ones(len(owners), dtype=bool)
        new[1:] = (np.diff(owners) != 0) | (np.diff(paths) != 0)
        first = np.flatnonzero(new)
        _, people = np.unique(owners[first], return_inverse=True)
        lengths = np.diff(first, append=len(owners))
        return cls(people, lengths, times[order], x[order], y[order])

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def first(self) -> IntArray:
        """Where the points of each path begin."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def path_of(self) -> IntArray:
        """The path of each point."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def steps(self) -> IntArray:
        """The points that are not the last of their path: from each a step leads to the next."""
        inner = np.ones(len(self.x), dtype=bool)
        inner[self.first + self.lengths - 1] = False
        return np.flatnonzero(inner)

    def thinned(self, every: float) -> Paths:
        """The same with the first point alone of each stretch of time that is so long.

        Stretches are counted from the path's own first point, so each path is thinned by itself.
        """
        if not len(self.x):
            return self
        path = self.path_of
        slot = np.floor((self.times - self.times[self.first][path]) / every)
        is_kept = np.ones(len(path), dtype=bool)
        is_kept[1:] = (np.diff(path) != 0) | (np.diff(slot) != 0)
        lengths = np.bincount(path[is_kept], minlength=len(self.lengths)).astype(np.int64)
        return Paths(self.owners, lengths, self.times[is_kept], self.x[is_kept], self.y[is_kept])

    def subset(self, chosen: BoolArray) -> Paths:
        """Those paths alone that are chosen."""
        points = np.repeat(chosen, self.lengths)
        return Paths(
            self.owners[chosen],
            self.lengths[chosen],
            self.times[points],
            self.x[points],
            self.y[points],
        )
