"""A model of trajectories after AdaTrace: a density grid, a Markov chain, trips and lengths."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.trajectory.cells import Box, Squares
from sfumato.methods.trajectory.measurement import (
    Lengths,
    Measuring,
    PathCost,
    distance_classes,
    draw_indices,
    draw_per_row,
    measure_lengths,
    nonnegative_counts,
)
from sfumato.methods.trajectory.paths import Paths
from sfumato.methods.trajectory.walks import uniform

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy


# The shares of the charge. The paper's allocation; they add up to 1.
SHARES = {
    "grid": Fraction(5, 100),
    "moves": Fraction(35, 100),
    "trips": Fraction(50, 100),
    "lengths": Fraction(10, 100),
}
# The coarse grid has _FIRST x _FIRST cells, each of which is cut into up to _MOST_PARTS squared.
_FIRST = 6
_MOST_PARTS = 3
# Keeps probabilities above 0, so that every draw is defined.
_LEAST = 1e-12
# How many paths take a step together: bounds the memory of their weights.
_AT_ONCE = 1 << 13
# With more steps left than this, the end of a path says nothing about its next step.
_FARTHEST = 24


@dataclass(frozen=True)
class DensityGrid:
    """Coarse cells, each cut into equal parts, more where the noisy density is higher."""

    coarse: Squares
    divisions: IntArray

    @property
    def first(self) -> IntArray:
        """The number of the first part of each coarse cell."""
        return np.cumsum(self.divisions**2) - self.divisions**2

    @property
    def size(self) -> int:
        """The number of cells."""
        return int((self.divisions**2).sum())

    def locate(self, x: FloatArray, y: FloatArray) -> IntArray:
        """Return the cell of each point."""
        cell = self.coarse.locate(x, y)
        x, y = self.coarse.box.inside(x, y)
        corner = self.coarse.centres[cell] - np.array([self.coarse.width, self.coarse.height]) / 2
        divisions = self.divisions[cell]
        east = (
            ((x - corner[:, 0]) / self.coarse.width * divisions)
            .astype(np.int64)
            .clip(0, divisions - 1)
        )
        north = (
            ((y - corner[:, 1]) / self.coarse.height * divisions)
            .astype(np.int64)
            .clip(0, divisions - 1)
        )
        return np.asarray(self.first[cell] + north * divisions + east)

    def within(self, cells: IntArray, drawn: FloatArray) -> FloatArray:
        """Points within cells, from uniform numbers."""
        coarse = np.searchsorted(self.first, cells, side="right") - 1
        divisions = self.divisions[coarse]
        north, east = np.divmod(cells - self.first[coarse], divisions)
        shape = np.array([self.coarse.width, self.coarse.height])
        inner = (np.stack([east, north], axis=1) + drawn) / divisions[:, None]
        return np.asarray(self.coarse.centres[coarse] - shape / 2 + inner * shape)

    @property
    def centres(self) -> FloatArray:
        """The middle of each cell."""
        cells = np.arange(self.size)
        return self.within(cells, np.full((self.size, 2), 0.5))


@dataclass(frozen=True, kw_only=True)
class AdaTrace:
    """Learn an adaptive grid, moves between its cells, trips and lengths.

    *Guarantee*: the price in full, for the four tables measured; the grid is cut by noisy density.
    *Sensitivity*: a person's points, moves and paths weigh no more than their caps in any table.
    *Error*: of each table known beforehand (`PathCost.stddev`); of paths drawn, not known.
    *Edges*: the box is declared, never that of the data; points beyond count as at its edge. When
    paths begin is not measured: any time of the declared ones is as likely.
    *Reference*: Gursoy, Liu, Truex, Yu & Wei 2018.
    """

    box: Box
    cost: PathCost
    most: int
    every: float
    first_time: float
    last_time: float
    trips: int = 1

    def learn(self, paths: Paths, entropy: Entropy) -> AdaTraceModel:
        """Measure all tables. No other step reads the paths."""
        measuring, of_points = Measuring(self.cost, entropy), paths.owners[paths.path_of]
        grid = self._grid(measuring, paths, of_points)
        cells, steps, size = grid.locate(paths.x, paths.y), paths.steps, grid.size
        moves = measuring.table(
            cells[steps] * size + cells[steps + 1], size**2, of_points[steps], SHARES["moves"]
        )
        start, end = cells[paths.first], cells[paths.first + paths.lengths - 1]
        trips = measuring.table(
            start * size + end, size**2, paths.owners, SHARES["trips"], cap=self.trips
        )
        lengths = measure_lengths(
            measuring, paths.lengths, distance_classes(grid.centres, start, end), paths.owners,
            SHARES["lengths"], most=self.most, cap=self.trips,
        )  # fmt: skip
        chain = np.maximum(nonnegative_counts(moves), 0).reshape(size, size) + _LEAST
        return AdaTraceModel(
            self, grid, chain / chain.sum(axis=1, keepdims=True), nonnegative_counts(trips), lengths
        )

    def _grid(self, measuring: Measuring, paths: Paths, owners: IntArray) -> DensityGrid:
        """Cut coarse cells by noisy density, so that each part outweighs the noise of moves."""
        coarse = Squares.of(self.box, _FIRST, _FIRST)
        cells = coarse.locate(paths.x, paths.y)
        density = measuring.table(cells, coarse.size, owners, SHARES["grid"])
        # A part should hold about 30 standard deviations of the noise of a move.
        worth = 30 * self.cost.stddev(SHARES["moves"])
        divisions = np.sqrt(np.maximum(density, 0) / worth).astype(np.int64)
        return DensityGrid(coarse, np.clip(divisions, 1, _MOST_PARTS))


@dataclass(frozen=True)
class AdaTraceModel:
    """The noisy tables, from which any number of paths is drawn."""

    of: AdaTrace
    grid: DensityGrid
    chain: FloatArray
    trips: FloatArray
    lengths: Lengths

    @property
    def people(self) -> float:
        """The noisy number of paths."""
        return float(self.lengths.counts.sum())

    def draw(self, count: int, entropy: Entropy) -> Paths:
        """Draw `count` paths, each of its own person."""
        size = self.grid.size
        pair = draw_indices(self.trips + _LEAST, uniform(count, entropy))
        start, end = np.divmod(pair, size)
        lengths = self.lengths.draw(
            distance_classes(self.grid.centres, start, end), uniform(count, entropy)
        )
        # reaching[n][a, b]: the probability to be in b after n steps from a.
        reaching = [np.eye(size)]
        for _ in range(_FARTHEST):
            reaching.append(self.chain @ reaching[-1])
        cells = np.zeros((count, int(lengths.max())), dtype=np.int64)
        cells[:, 0] = start
        for step in range(1, cells.shape[1]):
            steps_left = np.minimum(lengths - 1 - step, _FARTHEST)
            for remaining in range(_FARTHEST + 1):
                alive = np.flatnonzero((steps_left == remaining) & (lengths > step))
                for low in range(0, len(alive), _AT_ONCE):
                    own = alive[low : low + _AT_ONCE]
                    moves = self.chain[cells[own, step - 1]]
                    # Bayes: the next cell, given the current one and the end of the path.
                    weights = moves * reaching[remaining][:, end[own]].T + _LEAST * moves
                    cells[own, step] = draw_per_row(weights, uniform(len(own), entropy))[0]
        path = np.repeat(np.arange(count), lengths)
        number = np.arange(len(path)) - (np.cumsum(lengths) - lengths)[path]
        drawn = uniform(2 * len(path), entropy).reshape(-1, 2)
        points = self.grid.within(cells[path, number], drawn)
        wide = self.of.last_time - self.of.first_time
        start_times = self.of.first_time + wide * uniform(count, entropy)
        times = start_times[path] + self.of.every * number
        return Paths(np.arange(count), lengths, times, *points.T)
