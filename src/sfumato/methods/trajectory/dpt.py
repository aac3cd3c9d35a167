"""Differentially private trajectories by hierarchical reference systems (DPT)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.trajectory.ends import distance_classes, measured_lengths, settled
from sfumato.methods.trajectory.measurement import Measuring, PathCost
from sfumato.methods.trajectory.prefix_tree import measured_trees, steps_of
from sfumato.methods.trajectory.pruning import density
from sfumato.methods.trajectory.sampling import PathModel, begun
from sfumato.methods.trajectory.selection import best_systems, measured_speeds
from sfumato.methods.trajectory.speeds import CLASSES, following, pace_classes, paced

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.trajectory.paths import Paths
    from sfumato.methods.trajectory.prefix_tree import PrefixTree, Steps
    from sfumato.methods.trajectory.reference_systems import ReferenceSystems
    from sfumato.privacy.noise.entropy import Entropy


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
    """How many steps of a person count in full."""
    trips: int = 1
    """How many paths of a person count in full."""

    def learn(self, paths: Paths, entropy: Entropy) -> PathModel:
        """Choose and measure: the only step that sees paths."""
        measuring = Measuring(self.cost, entropy)
        systems, cap = self.systems, self.steps
        finest = systems.locate(paths.x, paths.y)
        of_points, steps = paths.owners[paths.path_of], paths.steps
        share = SHARES["trees"] / 3
        speeds = measured_speeds(
            measuring, systems, finest[steps], finest[steps + 1], of_points[steps],
            SHARES["selection"], cap,
        )  # fmt: skip
        chosen = best_systems(systems, speeds, self.cost.stddev(share, cap))
        tree_steps = steps_of(systems, chosen, finest, steps, of_points)
        trees, deviations = measured_trees(
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
        paces = self._paces(measuring, paths, finest, tree_steps, len(chosen), pairs)
        visits = density(measuring, systems, chosen, finest, of_points, SHARES["visits"], cap=cap)
        return self._with_ends(
            measuring, paths, finest,
            StepModel(chosen, trees, deviations, _turn_tables(turn, begin, moves, systems.headings),
                      paces, visits, pairs),
        )  # fmt: skip

    def _paces(
        self,
        measuring: Measuring,
        paths: Paths,
        finest: IntArray,
        tree_steps: Steps,
        system_count: int,
        pairs: int,
    ) -> FloatArray:
        """Which pace follows which, by how fast a path must be."""
        belongs = self.systems.above[pairs][finest]
        last = paths.first + paths.lengths - 1
        fast = pace_classes(
            self.systems.systems[pairs], belongs[paths.first], belongs[last],
            np.minimum(paths.lengths, self.most), self.systems.side,
        )  # fmt: skip
        classes, pace = fast[paths.path_of[paths.steps]], paced(tree_steps.system, tree_steps.move)
        before = np.full(len(pace), 2 * system_count)
        follows = tree_steps.previous < system_count
        before[follows] = pace[np.flatnonzero(follows) - 1]
        counts = measuring.table(
            (classes * (2 * system_count + 1) + before) * 2 * system_count + pace,
            CLASSES * (2 * system_count + 1) * 2 * system_count, tree_steps.owners,
            SHARES["paces"], cap=self.steps,
        )  # fmt: skip
        stddev = self.cost.stddev(SHARES["paces"], self.steps)
        return following(counts.reshape(CLASSES, 2 * system_count + 1, 2 * system_count), stddev)

    def _with_ends(
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
        lengths = measured_lengths(
            measuring, paths.lengths,
            distance_classes(grid.centres, belongs[origins], belongs[ends]),
            paths.owners, SHARES["lengths"], most=self.most, cap=self.trips,
        )  # fmt: skip
        hours = begun(
            measuring, paths, self.first_time, self.last_time, SHARES["hours"], self.trips
        )
        return PathModel(
            systems, known.chosen, known.trees, known.deviations, known.turns, known.paces,
            known.visits, starts, finish, pairs, settled(trips).reshape(grid.size, grid.size),
            lengths, hours, self.first_time, (self.last_time - self.first_time) / len(hours),
            self.every,
        )  # fmt: skip

    def _pair_system(self, people: float) -> int:
        """The finest system whose pairs of cells stand out of their noise, for so many people."""
        stddev = self.cost.stddev(SHARES["trips"], self.trips)
        worth = [
            number
            for number, grid in enumerate(self.systems.systems)
            if grid.size**2 * stddev <= people * self.trips and grid.size <= MOST_ENDS
        ]
        return worth[0] if worth else len(self.systems.systems) - 1


MOST_ENDS = 1 << 10


@dataclass(frozen=True)
class StepModel:
    """What was measured of steps."""

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
