"""The baseline model of trajectories: one grid and one Markov chain."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.trajectory.measurement import Measuring, PathCost, draw_indices
from sfumato.methods.trajectory.paths import Paths
from sfumato.methods.trajectory.walks import start_hours, uniform

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray
    from sfumato.methods.trajectory.cells import Squares
    from sfumato.privacy.noise.entropy import Entropy


SHARES = {"starts": Fraction(17, 100), "moves": Fraction(80, 100), "hours": Fraction(3, 100)}
_LEAST = 1e-12


@dataclass(frozen=True, kw_only=True)
class OneLevel:
    """Learn how often each cell of a grid follows another, or ends a path.

    *Guarantee*: the price in full, for the three tables measured.
    *Sensitivity*: a person's moves, each path's end among them, weigh one item together.
    *Error*: of each table known beforehand (`PathCost.stddev`); of paths drawn, not known.
    *Edges*: points beyond the box count as at its edge. No paths at all give noise.
    *Reference*: the baseline of He et al. 2015, section 6.
    """

    grid: Squares
    cost: PathCost
    most: int
    every: float
    first_time: float
    last_time: float

    def learn(self, paths: Paths, entropy: Entropy) -> OneLevelModel:
        """Measure the three tables. No other step reads the paths."""
        measuring, size = Measuring(self.cost, entropy), self.grid.size
        cells = self.grid.locate(paths.x, paths.y)
        after = np.full(len(cells), size)
        after[paths.steps] = cells[paths.steps + 1]
        owners = paths.owners[paths.path_of]
        moves = measuring.table(
            cells * (size + 1) + after, size * (size + 1), owners, SHARES["moves"]
        )
        starts = measuring.table(cells[paths.first], size, paths.owners, SHARES["starts"])
        hours = start_hours(measuring, paths, self.first_time, self.last_time, SHARES["hours"], 1)
        return OneLevelModel(
            self,
            np.maximum(moves, 0).reshape(size, size + 1),
            np.maximum(starts, 0),
            hours,
        )


@dataclass(frozen=True)
class OneLevelModel:
    """The noisy counts, from which any number of paths is drawn."""

    of: OneLevel
    moves: FloatArray
    starts: FloatArray
    hours: FloatArray

    @property
    def people(self) -> float:
        """The noisy number of paths."""
        return float(self.starts.sum())

    def draw(self, count: int, entropy: Entropy) -> Paths:
        """Draw `count` paths, each of its own person."""
        grid = self.of.grid
        ends = np.cumsum(self.moves + _LEAST, axis=1)
        ladder = (ends / ends[:, -1:] + np.arange(grid.size)[:, None]).ravel()
        cells = np.full((count, self.of.most), -1, dtype=np.int64)
        cells[:, 0] = draw_indices(self.starts + _LEAST, uniform(count, entropy))
        alive = np.arange(count)
        for step in range(1, self.of.most):
            current = cells[alive, step - 1]
            next_cells = np.searchsorted(
                ladder, current + uniform(len(current), entropy), side="right"
            )
            next_cells = np.minimum(next_cells - current * (grid.size + 1), grid.size)
            alive, next_cells = alive[next_cells < grid.size], next_cells[next_cells < grid.size]
            cells[alive, step] = next_cells
        path, number = np.nonzero(cells >= 0)
        lengths = np.bincount(path, minlength=count)
        points = grid.within(cells[path, number], uniform(2 * len(path), entropy).reshape(-1, 2))
        hour = (self.of.last_time - self.of.first_time) / len(self.hours)
        start = draw_indices(self.hours + _LEAST, uniform(count, entropy)) + uniform(count, entropy)
        times = self.of.first_time + hour * start[path] + self.of.every * number
        return Paths(np.arange(count), lengths, times, *points.T)
