"""Made-up paths by a private model: walks that know where they are going.

A path draws its first and its last place and its length, which together say how fast it must be;
then it walks (`walking`), and its points are placed within the cells that it came through. All of
it is done to what was measured and costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.trajectory.ends import among, distance_classes, settled
from sfumato.methods.trajectory.paths import Paths
from sfumato.methods.trajectory.speeds import pace_classes
from sfumato.methods.trajectory.walks import Descent, WalkModel, PathWalk, uniform

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.trajectory.ends import Lengths
    from sfumato.methods.trajectory.measurement import Measuring
    from sfumato.methods.trajectory.prefix_tree import PrefixTree
    from sfumato.methods.trajectory.reference_systems import ReferenceSystems
    from sfumato.privacy.noise.entropy import Entropy


# How many points are drawn at once, at most.
_POINTS_AT_ONCE = 1 << 25
# The parts that the time is told by.
HOURS = 24


def begun(
    measuring: Measuring, paths: Paths, first: float, last: float, share: Fraction, cap: int
) -> FloatArray:
    """How many paths begin in each of the equal parts of a declared time."""
    slot = np.floor((paths.times[paths.first] - first) / (last - first) * HOURS)
    cells = np.clip(slot, 0, HOURS - 1).astype(np.int64)
    return settled(measuring.table(cells, HOURS, paths.owners, share, cap=cap))


@dataclass(frozen=True)
class PathModel:
    """All that was measured of paths, with noise: a twin of any size is drawn from it."""

    systems: ReferenceSystems
    chosen: tuple[int, ...]
    trees: list[PrefixTree]
    deviations: tuple[float, float, float]
    turns: list[FloatArray]
    """For each chosen system, (headings, moves)."""
    paces: FloatArray
    """(classes, paces and none, paces): the chances of which follows which."""
    visits: FloatArray
    """Of each of the finest cells."""
    starts: FloatArray
    ends: FloatArray
    pairs: int
    """The number of the system whose cells ends are told by."""
    trips: FloatArray
    """(cells, cells) of that system."""
    lengths: Lengths
    hours: FloatArray
    first_time: float
    hour: float
    """How long the time is that each of the hours stands for."""
    every: float

    @property
    def people(self) -> float:
        """How many there are, about."""
        return float(self.lengths.counts.sum())

    @cached_property
    def ground(self) -> WalkModel:
        """What walks go by."""
        return WalkModel.of(
            self.systems, self.chosen, self.trees, self.deviations, self.turns, self.visits
        )

    def drawn(self, count: int, entropy: Entropy) -> Paths:
        """So many paths, each of a person of its own."""
        chunk_size = max(_POINTS_AT_ONCE // max(self.lengths.most, 1), 1)
        chunks = [
            self._draw_chunk(min(chunk_size, count - start), entropy)
            for start in range(0, count, chunk_size)
        ]
        return Paths(
            np.arange(count),
            np.concatenate([chunk.lengths for chunk in chunks]),
            *(
                np.concatenate([getattr(chunk, name) for chunk in chunks])
                for name in ("times", "x", "y")
            ),
        )

    def _draw_chunk(self, count: int, entropy: Entropy) -> Paths:
        systems, grid = self.systems, self.systems.systems[self.pairs]
        belongs = systems.above[self.pairs]
        pair = among(self.trips.ravel() + _LEAST, uniform(count, entropy))
        start, end = np.divmod(pair, grid.size)
        classes = distance_classes(grid.centres, start, end)
        lengths = self.lengths.drawn(classes, uniform(count, entropy))
        first, last = (
            Descent.of(belongs, weights, grid.size).within(cells, uniform(count, entropy))
            for weights, cells in ((self.starts, start), (self.ends, end))
        )
        fast = pace_classes(grid, start, end, lengths, systems.side)
        cells = np.zeros((count, int(lengths.max())), dtype=np.int64)
        for speed_class in np.unique(fast):
            mine = np.flatnonzero(fast == speed_class)
            walk = PathWalk.to(
                self.ground, self.paces[speed_class], self.ends, last[mine], self.lengths.most
            )
            walked = walk.cells(first[mine], lengths[mine], entropy)
            cells[mine, : walked.shape[1]] = walked
        at = cells[np.arange(count), lengths - 1]
        missed = self.ground.goal[at] != self.ground.goal[last]
        middle = systems.systems[0].centres
        short = np.where((missed & (lengths > 1))[:, None], middle[last] - middle[at], 0.0)
        return self._placed(cells, lengths, short, entropy)

    def _placed(
        self, cells: IntArray, lengths: IntArray, short: FloatArray, entropy: Entropy
    ) -> Paths:
        """Points within cells, and when; `short` is what each walk missed its last place by."""
        count = len(lengths)
        path = np.repeat(np.arange(count), lengths)
        number = np.arange(len(path)) - (np.cumsum(lengths) - lengths)[path]
        # A path keeps its place within cells: drawn anew, it would go to and fro where it rests.
        within = uniform(2 * count, entropy).reshape(-1, 2)
        points = self.systems.systems[0].within(cells[path, number], within[path])
        points = _smoothed(points, number, lengths[path])
        # What a walk ended short of its goal by is made up for all along, most of it late.
        points += short[path] * ((number / np.maximum(lengths[path] - 1, 1)) ** 2)[:, None]
        begun = among(self.hours + _LEAST, uniform(count, entropy)) + uniform(count, entropy)
        times = self.first_time + self.hour * begun[path] + self.every * number
        return Paths(np.arange(count), lengths, times, *self.systems.box.inside(*points.T))


def _smoothed(points: FloatArray, number: IntArray, lengths: IntArray) -> FloatArray:
    """Points halfway to the middle of their neighbours: places within cells were drawn apart."""
    inner = (number > 0) & (number < lengths - 1)
    where = np.flatnonzero(inner)
    result = points.copy()
    result[where] = points[where] / 2 + (points[where - 1] + points[where + 1]) / 4
    return result
