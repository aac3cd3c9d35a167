"""Differentially private trajectories by hierarchical reference systems (DPT)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.trajectory.measurement import (
    Measuring,
    PathCost,
    distance_classes,
    measure_lengths,
    nonnegative_counts,
)
from sfumato.methods.trajectory.prefix_tree import assign_steps, density, measure_trees
from sfumato.methods.trajectory.walks import (
    CLASSES,
    PathModel,
    pace_classes,
    pace_numbers,
    pace_transitions,
    start_hours,
)

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.trajectory.cells import ReferenceSystems
    from sfumato.methods.trajectory.paths import Paths
    from sfumato.methods.trajectory.prefix_tree import PrefixTree, Steps
    from sfumato.privacy.noise.entropy import Entropy


# Private model selection: which reference systems tell paths best, for what noise leaves of them.
#
# A fine system tells steps precisely, but shares them among many cells, each with its noise. What
# is measured for the choice is how many steps each system would tell, one small table for a share
# of the price of its own; the choice follows from that and from public facts. Decision
# `trajectories`.


# The error of a step, in sides of its cell, if noise alone decides its move.
_WANDERING = 0.5


def measure_speeds(
    measuring: Measuring,
    systems: ReferenceSystems,
    start: IntArray,
    end: IntArray,
    owners: IntArray,
    share: Fraction,
    cap: int,
) -> FloatArray:
    """Measure how many steps each system would express if all were chosen; never negative."""
    everything = tuple(range(len(systems.systems)))
    system, _ = systems.assign(start, end, everything)
    return np.maximum(measuring.table(system, len(everything), owners, share, cap=cap), 0)


def choose_systems(systems: ReferenceSystems, speeds: FloatArray, stddev: float) -> tuple[int, ...]:
    """The set of systems with the least expected error of steps; the coarsest is always in it.

    A step is off by about one side of its cell, and by more if noise of standard deviation
    `stddev` in each count hides it. Reads noisy counts alone.
    """
    last = len(systems.systems) - 1
    candidates = [
        (*subset, last) for size in range(last + 1) for subset in combinations(range(last), size)
    ]
    return min(
        candidates, key=lambda candidate: _expected_error(systems, candidate, speeds, stddev)
    )


def _expected_error(
    systems: ReferenceSystems,
    chosen: tuple[int, ...],
    speeds: FloatArray,
    stddev: float,
) -> float:
    off, finest = 0.0, 0
    for number in chosen:
        grid = systems.systems[number]
        steps = float(speeds[finest : number + 1].sum())
        finest = number + 1
        side = (len(systems.above[0]) / grid.size) ** 0.5  # in sides of the finest
        counts = grid.size * grid.neighbours.shape[1]
        drowned = min(steps, counts * stddev)
        # One more system costs its own noise, so one that tells next to nothing is left out.
        off += side * (steps + _WANDERING * drowned + grid.neighbours.shape[1] * stddev)
    return off


# What each table takes of the price; they add up to 1.
SHARES = {
    "selection": Fraction(4, 100),
    "trees": Fraction(36, 100),
    "turns": Fraction(4, 100),
    "paces": Fraction(6, 100),
    "visits": Fraction(10, 100),
    "ends": Fraction(14, 100),
    "trips": Fraction(16, 100),
    "lengths": Fraction(7, 100),
    "hours": Fraction(3, 100),
}


@dataclass(frozen=True, kw_only=True)
class DPT:
    """Learn a model of paths: prefix trees of moves by speed, of systems chosen by noisy gain.

    *Guarantee*: the price in full, for everything measured; the choice of systems is among it.
    Drawing reads what was measured alone.
    *Sensitivity*: a person's steps, points and paths weigh no more than their caps together in any
    table (`measuring`), before anything is counted: so a table moves by the cap, in L1 and L2.
    *Error*: of each table known beforehand (`PathCost.stddev`); of paths drawn, not known.
    *Edges*: points beyond the box count as at its edge; a path of one point has no step. No paths
    at all give noise, and at least one path.
    *Reference*: He, Cormode, Machanavajjhala, Procopiuc & Srivastava 2015; decision `trajectories`.
    """

    systems: ReferenceSystems
    cost: PathCost
    most: int
    """The longest path, in points: longer ones count as of this length."""
    every: float
    first_time: float
    last_time: float
    steps: int = 1
    """The number of a person's steps that count in full."""
    trips: int = 1
    """The number of a person's paths that count in full."""

    def learn(self, paths: Paths, entropy: Entropy) -> PathModel:
        """Choose systems and measure all tables. No other step reads the paths."""
        measuring = Measuring(self.cost, entropy)
        systems, cap = self.systems, self.steps
        finest = systems.locate(paths.x, paths.y)
        of_points, steps = paths.owners[paths.path_of], paths.steps
        share = SHARES["trees"] / 3
        speeds = measure_speeds(
            measuring, systems, finest[steps], finest[steps + 1], of_points[steps],
            SHARES["selection"], cap,
        )  # fmt: skip
        chosen = choose_systems(systems, speeds, self.cost.stddev(share, cap))
        tree_steps = assign_steps(systems, chosen, finest, steps, of_points)
        trees, deviations = measure_trees(
            measuring, systems, chosen, tree_steps, SHARES["trees"], cap
        )
        moves = [systems.systems[system].neighbours.shape[1] for system in chosen]
        widths = np.array([systems.headings * system for system in moves])
        begin = np.cumsum(widths) - widths
        wide = np.array(moves)[tree_steps.system]
        turn = measuring.table(
            begin[tree_steps.system] + tree_steps.heading * wide + tree_steps.move,
            int(widths.sum()), tree_steps.owners,
            SHARES["turns"], cap=cap,
        )  # fmt: skip
        pairs = self._pair_system(float(speeds.sum()) / cap)
        paces = self._measure_paces(measuring, paths, finest, tree_steps, len(chosen), pairs)
        visits = density(measuring, systems, chosen, finest, of_points, SHARES["visits"], cap=cap)
        return self._measure_ends(
            measuring, paths, finest,
            StepModel(chosen, trees, deviations, _turn_tables(turn, begin, moves, systems.headings),
                      paces, visits, pairs),
        )  # fmt: skip

    def _measure_paces(
        self,
        measuring: Measuring,
        paths: Paths,
        finest: IntArray,
        tree_steps: Steps,
        system_count: int,
        pairs: int,
    ) -> FloatArray:
        """Measure which pace follows which, by the class of speed that a path needs."""
        belongs = self.systems.above[pairs][finest]
        last = paths.first + paths.lengths - 1
        fast = pace_classes(
            self.systems.systems[pairs], belongs[paths.first], belongs[last],
            np.minimum(paths.lengths, self.most), self.systems.side,
        )  # fmt: skip
        classes, pace = (
            fast[paths.path_of[paths.steps]],
            pace_numbers(tree_steps.system, tree_steps.move),
        )
        before = np.full(len(pace), 2 * system_count)
        follows = tree_steps.previous < system_count
        before[follows] = pace[np.flatnonzero(follows) - 1]
        counts = measuring.table(
            (classes * (2 * system_count + 1) + before) * 2 * system_count + pace,
            CLASSES * (2 * system_count + 1) * 2 * system_count, tree_steps.owners,
            SHARES["paces"], cap=self.steps,
        )  # fmt: skip
        stddev = self.cost.stddev(SHARES["paces"], self.steps)
        return pace_transitions(
            counts.reshape(CLASSES, 2 * system_count + 1, 2 * system_count), stddev
        )

    def _measure_ends(
        self, measuring: Measuring, paths: Paths, finest: IntArray, known: StepModel
    ) -> PathModel:
        systems = self.systems
        origins, ends = finest[paths.first], finest[paths.first + paths.lengths - 1]
        half_share = SHARES["ends"] / 2
        starts, finish = (
            density(
                measuring, systems, known.chosen, cells, paths.owners, half_share, cap=self.trips
            )
            for cells in (origins, ends)
        )
        pairs = known.pairs
        grid, belongs = systems.systems[pairs], systems.above[pairs]
        trips = measuring.table(
            belongs[origins] * grid.size + belongs[ends], grid.size**2, paths.owners,
            SHARES["trips"], cap=self.trips,
        )  # fmt: skip
        lengths = measure_lengths(
            measuring, paths.lengths,
            distance_classes(grid.centres, belongs[origins], belongs[ends]),
            paths.owners, SHARES["lengths"], most=self.most, cap=self.trips,
        )  # fmt: skip
        hours = start_hours(
            measuring, paths, self.first_time, self.last_time, SHARES["hours"], self.trips
        )
        return PathModel(
            systems, known.chosen, known.trees, known.deviations, known.turns, known.paces,
            known.visits, starts, finish, pairs,
            nonnegative_counts(trips).reshape(grid.size, grid.size), lengths, hours,
            self.first_time, (self.last_time - self.first_time) / len(hours), self.every,
        )  # fmt: skip

    def _pair_system(self, people: float) -> int:
        """Return the finest system whose pairs of cells stand out from their noise."""
        stddev = self.cost.stddev(SHARES["trips"], self.trips)
        worth = [
            number
            for number, grid in enumerate(self.systems.systems)
            if grid.size**2 * stddev <= people * self.trips and grid.size <= MOST_ENDS
        ]
        return worth[0] if worth else len(self.systems.systems) - 1


MOST_ENDS = 1 << 10
"""The most cells of a system whose pairs are counted as trips: 2^20 pairs."""


@dataclass(frozen=True)
class StepModel:
    """The noisy tables of steps."""

    chosen: tuple[int, ...]
    trees: list[PrefixTree]
    deviations: tuple[float, float, float]
    turns: list[FloatArray]
    paces: FloatArray
    visits: FloatArray
    pairs: int


def _turn_tables(
    turn: FloatArray, begin: IntArray, moves: list[int], heading_count: int
) -> list[FloatArray]:
    return [
        np.maximum(turn[first : first + heading_count * move_count], 0).reshape(
            heading_count, move_count
        )
        for first, move_count in zip(begin, moves, strict=True)
    ]
