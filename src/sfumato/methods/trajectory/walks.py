"""Drawing trajectories from noisy tables: random walks over cells that reach a drawn goal.

A path draws its first and last cell and its length, which together determine the class of speed it
needs. Each step then draws a pace, given the last one, and a move, given the cell and the heading.
Both are weighted by the probability to reach the goal in the steps left (the bridge). Where a tree
was pruned, moves come from all cells of its system together and from the density of neighbours. A
move between large cells ends in one of the finest cells. All of it is post-processing of noisy
tables and costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.trajectory.measurement import (
    distance_classes,
    draw_indices,
    draw_per_row,
    length_edges,
    nonnegative_counts,
)
from sfumato.methods.trajectory.paths import Paths

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.trajectory.cells import CellSystem, ReferenceSystems
    from sfumato.methods.trajectory.measurement import Lengths, Measuring
    from sfumato.methods.trajectory.prefix_tree import PrefixTree
    from sfumato.privacy.noise.entropy import Entropy

    Float32Array = NDArray[np.float32]


# Paces: the system that expresses a step, and whether the step leaves its cell.
#
# The next pace depends on the last one and on the class of speed that the whole path needs: the
# distance between the cells of its ends divided by its steps. So a pedestrian keeps walking, and a
# bus that stands goes on as a bus. The class is a function of the path's own ends and length, so
# each step still counts in one cell of one table.


# Sides of the finest cells that a path must come nearer to its end with every step.
_EDGES = np.array([0.4, 0.8, 1.2, 1.8, 2.7, 5.0])
CLASSES = len(_EDGES) + 1
# A pace follows another where its count is so many deviations above 0: few are there by chance.
_CERTAIN = 4.0


def pace_classes(
    grid: CellSystem, start: IntArray, end: IntArray, lengths: IntArray, side: float
) -> IntArray:
    """Return how fast paths must be that lead from one cell to another with so many points."""
    apart = np.hypot(*(grid.centres[start] - grid.centres[end]).T)
    sides_per_step = apart / np.maximum(lengths - 1, 1) / side
    return np.asarray(np.searchsorted(_EDGES, sides_per_step, side="right"))


def pace_numbers(system: IntArray, move: IntArray) -> IntArray:
    """The pace of each step: 2 * system if it stays in its cell, 2 * system + 1 if it leaves."""
    return 2 * system + (move > 0)


def pace_transitions(counts: FloatArray, stddev: float) -> FloatArray:
    """Transition probabilities between paces, (classes, paces and none, paces).

    Counts within `_CERTAIN` standard deviations of 0 are dropped. A row without counts falls back
    to its class, a class without counts to all classes.
    """
    certain = np.where(counts > _CERTAIN * stddev, counts, 0.0)
    of_class = certain.sum(axis=1, keepdims=True)
    of_all = of_class.sum(axis=0, keepdims=True)
    if of_all.sum() <= 0:
        of_all = np.maximum(counts, 0).sum(axis=(0, 1), keepdims=True) + _LEAST
    of_class = np.where(of_class.sum(axis=2, keepdims=True) > 0, of_class, of_all)
    mixed = certain + 2 * stddev * of_class / of_class.sum(axis=2, keepdims=True)
    return np.asarray(mixed / mixed.sum(axis=2, keepdims=True))


# The bridge: the probability that a walk reaches its goal, by cell and by number of steps left.
#
# It is the backward recursion of a Markov chain with the transitions of the trees. A walk draws
# each step in proportion to this probability, so it follows the streets that others take and
# reaches its goal without a jump. The state of the chain is the cell and the last pace, not the
# heading. All of it is computed from noisy tables.


_LEAST_WEIGHT = 1e-30
# The weight of a goal that no chain leads to, relative to being there.
_LOST_WEIGHT = 1e-6
# Probabilities are stored for a system of at most so many cells, and for so many steps left.
_MOST_CELLS = 1 << 10
_FARTHEST = 200


@dataclass(frozen=True)
class Chain:
    """The moves of each chosen system, and how often cells are visited."""

    systems: ReferenceSystems
    chosen: tuple[int, ...]
    moves: list[SystemMoves]
    visits: FloatArray
    """The density of visits, per finest cell."""


class BaseChain:
    """The transitions between the cells of the finest system with at most 1024 cells."""

    def __init__(self, chain: Chain) -> None:
        systems = chain.systems
        number = next(n for n, system in enumerate(systems.systems) if system.size <= _MOST_CELLS)
        self.base = systems.above[number]
        """The base cell of each finest cell."""
        self.size = systems.systems[number].size
        self.centres = systems.systems[number].centres
        visits = chain.visits + 1e-9 * max(float(chain.visits.mean()), _LEAST_WEIGHT)
        self.crowd = np.bincount(self.base, visits, minlength=self.size)
        self.lifts: list[AveragingMatrix] = []
        self.onward: list[tuple[AveragingMatrix, ...]] = []
        """For each pace, the matrices that lead back over one step, in order of application."""
        self.near = np.zeros((2 * len(chain.chosen), self.size))
        for index, system in enumerate(chain.chosen):
            above, cells = systems.above[system], systems.systems[system].size
            lift = AveragingMatrix.of(above, self.base, visits, (cells, self.size))
            fall = AveragingMatrix.of(self.base, above, visits, (self.size, cells))
            known = chain.moves[index]
            for pace, factor in ((2 * index, known.stay), (2 * index + 1, known.leave)):
                self.near[pace] = fall.applied((known.near * factor)[:, None])[:, 0]
            self.lifts.append(lift)
            around, chances = known.around, _leaving_probabilities(known.around, known.chances)
            stays = np.zeros_like(chances)
            stays[:, 0] = 1
            for moved in (stays, chances):
                rows = np.repeat(np.arange(cells), around.shape[1])
                step = AveragingMatrix.of(
                    rows, np.maximum(around, 0).ravel(), moved.ravel(), (cells, cells)
                )
                self.onward.append((lift, step, fall))

    def up(self, pace: int, chances: Float32Array) -> Float32Array:
        """Average probabilities of base cells over the cells of a pace's system."""
        return np.asarray(self.lifts[pace // 2].applied(chances))

    def back(
        self, chances_after: Float32Array, used: IntArray, follow: Float32Array
    ) -> Float32Array:
        """Return the probabilities one step earlier, (used paces, base cells, goals)."""
        onward = np.zeros_like(chances_after)
        for index, pace in enumerate(used):
            chances = chances_after[index]
            for average in self.onward[pace]:
                chances = average.applied(chances)
            onward[index] = chances
        # For each base cell, (paces, paces) by (paces, goals).
        earlier: Float32Array = np.matmul(follow, onward.transpose(1, 0, 2)).transpose(1, 0, 2)
        return earlier


@dataclass(frozen=True)
class AveragingMatrix:
    """A sparse matrix with rows that sum to 1."""

    columns: IntArray
    shares: Float32Array
    starts: IntArray

    @classmethod
    def of(
        cls, rows: IntArray, columns: IntArray, weights: FloatArray, shape: tuple[int, int]
    ) -> AveragingMatrix:
        """Make the matrix of entries in any order; equal positions are added up."""
        pairs, pair_index = np.unique(rows * shape[1] + columns, return_inverse=True)
        summed = np.bincount(pair_index, weights)
        into, out_of = np.divmod(pairs, shape[1])
        total = np.bincount(into, summed, minlength=shape[0])
        share = summed / np.maximum(total[into], _LEAST_WEIGHT)
        # Every row has an entry: every cell holds finest cells and can be stayed in. So `reduceat`
        # meets no empty slice.
        starts = np.searchsorted(into, np.arange(shape[0]))
        return cls(out_of, share.astype(np.float32), starts)

    def applied(self, values: Any) -> Any:
        """Return the product of the matrix and `values`."""
        if len(self.starts) == len(self.columns):  # one entry per row, and it is 1
            return values[self.columns]
        return np.add.reduceat(self.shares[:, None] * values[self.columns], self.starts, axis=0)


@dataclass(frozen=True)
class Bridge:
    """Probabilities to reach each goal, stored for some numbers of steps left."""

    steps_left: IntArray
    reached: list[list[Float32Array]]
    """[stored index][pace]: (cells of its system, goals), averaged over visits."""
    ending: list[list[Float32Array]]
    """[stored index][pace]: (base cells, goals)"""

    @classmethod
    def of(
        cls,
        base_chain: BaseChain,
        follow: FloatArray,
        ends: FloatArray,
        goals: IntArray,
        goal_count: int,
        most: int,
    ) -> Bridge:
        """Compute backward from the last step, for one class of paces; cells of no goal have -1."""
        used = np.flatnonzero(follow.sum(axis=0) > 0)
        transitions = follow[used][:, used, None] * base_chain.near[used] + _LEAST_WEIGHT
        transitions = (
            (transitions / transitions.sum(axis=1, keepdims=True))
            .transpose(2, 0, 1)
            .astype(np.float32)
        )
        last = _ending_chances(base_chain, ends, goals, goal_count)
        far = _apart(base_chain, goals, goal_count)
        current = np.repeat((last / last.max(axis=0) + far)[None], len(used), axis=0)
        stored = np.concatenate([[0], length_edges(max(min(most, _FARTHEST), 1))])
        reached, ending = [], []
        for steps_left in range(int(stored[-1]) + 1):
            if steps_left in stored:
                chances_of_pace = {int(pace): current[index] for index, pace in enumerate(used)}
                by_pace = [chances_of_pace.get(pace, current[0]) for pace in range(follow.shape[1])]
                ending.append(by_pace)
                reached.append(
                    [base_chain.up(pace, chances) for pace, chances in enumerate(by_pace)]
                )
            current = base_chain.back(current, used, transitions)
            current = current / np.maximum(current.max(axis=(0, 1)), _LEAST_WEIGHT) + far
        return cls(stored, reached, ending)

    def stored_index(self, steps_left: IntArray) -> IntArray:
        """Return the index of the largest stored number of steps that is at most `steps_left`."""
        return np.searchsorted(self.steps_left, steps_left, side="right") - 1


def _ending_chances(
    base_chain: BaseChain, ends: FloatArray, goals: IntArray, goal_count: int
) -> Float32Array:
    """The frequency of ends in a base cell, per goal, relative to the frequency of visits."""
    held = goals >= 0
    weight = np.bincount(
        base_chain.base[held] * goal_count + goals[held],
        ends[held] + _LEAST_WEIGHT,
        minlength=base_chain.size * goal_count,
    )
    relative_weight = (
        weight.reshape(base_chain.size, goal_count)
        / np.maximum(base_chain.crowd, _LEAST_WEIGHT)[:, None]
    )
    return np.asarray(relative_weight.astype(np.float32))


def _apart(base_chain: BaseChain, goals: IntArray, goal_count: int) -> Float32Array:
    """A small probability that decreases with the distance to the goal: nothing is impossible."""
    held = goals >= 0
    counts = np.bincount(goals[held], minlength=goal_count)
    middles = [
        np.bincount(goals[held], coordinates[base_chain.base[held]], minlength=goal_count) / counts
        for coordinates in base_chain.centres.T
    ]
    distances = np.hypot(
        *(base_chain.centres[:, None] - np.stack(middles, axis=1)).transpose(2, 0, 1)
    )
    wide = max(float(distances.max()), _LEAST_WEIGHT) / 16
    return np.asarray((_LOST_WEIGHT * np.exp(-distances / wide)).astype(np.float32))


def _leaving_probabilities(around: IntArray, moves: FloatArray) -> FloatArray:
    """Return the probabilities of moves that leave the cell; a cell without any keeps the walk."""
    held = np.where(around >= 0, moves, 0.0)
    held[:, 0] = 0
    held[:, 0] = held.sum(axis=1) <= 0
    return np.asarray(held)


_WALKS_AT_ONCE = 1 << 15
_LEAST = 1e-12
_TINY = 1e-300
# The weight of the prior of a move, in standard deviations of noise.
_DOUBT = 2.0
# The finest cells that are tried for a move by larger ones.
_TRIED = 8
_UNLIKELY = 1e-6
_MOST_GOALS = 256


def uniform(count: int, entropy: Entropy) -> FloatArray:
    """Uniform numbers from 0 to below 1."""
    return np.asarray((entropy.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


@dataclass(frozen=True)
class SystemMoves:
    """The moves of one system, estimated from its tree."""

    above: IntArray
    around: IntArray
    chances: FloatArray
    """(cells, moves), of the first order."""
    lift: FloatArray
    """(headings, moves): the factor by which a heading makes a move more likely."""
    after: FloatArray
    """(cells, headings, moves): noisy counts."""
    doubt: float
    stay: FloatArray
    """Per cell: how much more likely a step stays there than in an average cell."""
    leave: FloatArray
    near: FloatArray
    """Per cell: the share of the system's steps that start there, per finest cell."""
    below: FinestCells

    @classmethod
    def of(
        cls,
        systems: ReferenceSystems,
        number: int,
        tree: PrefixTree,
        deviations: tuple[float, float, float],
        turns: FloatArray,
        visits: FloatArray,
    ) -> SystemMoves:
        """Estimate from noisy counts, with priors in proportion to their noise."""
        grid, above = systems.systems[number], systems.above[number]
        crowd = np.bincount(above, visits, minlength=grid.size)
        held = grid.neighbours >= 0
        near = np.where(held, crowd[grid.neighbours], 0) + _LEAST * held
        turns = turns + _LEAST
        plain = turns.sum(axis=0) / turns.sum()
        prior = near / near.sum(axis=1, keepdims=True) * plain
        prior /= np.maximum(prior.sum(axis=1, keepdims=True), _LEAST)
        moves = (tree.moves + _DOUBT * deviations[1] * prior) * held
        moves /= np.maximum(moves.sum(axis=1, keepdims=True), _LEAST)
        cells = tree.cells + deviations[0]
        return cls(
            above, grid.neighbours, moves, turns / turns.sum(axis=1, keepdims=True) / plain,
            tree.after, _DOUBT * deviations[2],
            moves[:, 0] / max(plain[0], 1e-3), (1 - moves[:, 0]) / max(1 - plain[0], 1e-3),
            cells / cells.sum() / np.maximum(systems.fine_cells(number), 1),
            FinestCells.of(above, visits, grid.size),
        )  # fmt: skip

    def weights(
        self, cell: IntArray, heading: IntArray, stay_chance: FloatArray, leave_chance: FloatArray
    ) -> tuple[FloatArray, IntArray]:
        """The weight and target of each move, given the probabilities to stay and to leave."""
        at = self.above[cell]
        chance = self.chances[at] * self.lift[heading]
        chance /= np.maximum(chance.sum(axis=1, keepdims=True), _LEAST)
        chance = self.after[at, heading] + self.doubt * chance
        chance[:, 0] = 0
        chance /= np.maximum(chance.sum(axis=1, keepdims=True), _LEAST)
        chance *= (leave_chance * self.leave[at])[:, None]
        chance[:, 0] = stay_chance * self.stay[at]
        target = self.around[at]
        return chance * (target >= 0) * self.near[at][:, None], np.maximum(target, 0)


@dataclass(frozen=True)
class WalkModel:
    """The parts of the model that all walks share, whatever their pace and goal."""

    systems: ReferenceSystems
    chosen: tuple[int, ...]
    moves: list[SystemMoves]
    base_chain: BaseChain
    goal: IntArray
    """The goal of each finest cell: a cell of the finest system with at most 256 cells."""

    @classmethod
    def of(
        cls,
        systems: ReferenceSystems,
        chosen: tuple[int, ...],
        trees: list[PrefixTree],
        deviations: tuple[float, float, float],
        turns: list[FloatArray],
        visits: FloatArray,
    ) -> WalkModel:
        """Combine all noisy tables of steps."""
        moves = [
            SystemMoves.of(systems, number, tree, deviations, turn, visits)
            for number, tree, turn in zip(chosen, trees, turns, strict=True)
        ]
        base_chain = BaseChain(Chain(systems, chosen, moves, visits))
        goals = next(n for n, system in enumerate(systems.systems) if system.size <= _MOST_GOALS)
        return cls(systems, chosen, moves, base_chain, systems.above[goals])

    def finest_candidates(
        self, index: int, reached: IntArray, cell: IntArray, entropy: Entropy
    ) -> tuple[IntArray, FloatArray]:
        """Draw finest cells within those reached, with weights: (walks, tried) both."""
        tried = np.repeat(reached, _TRIED)
        option = self.moves[index].below.within(tried, uniform(len(tried), entropy))
        # A step that a finer system can express was counted there, so it is unlikely here.
        system, _ = self.systems.assign(np.repeat(cell, _TRIED), option, self.chosen[: index + 1])
        weight = np.where(system < index, _UNLIKELY, 1.0)
        return option.reshape(-1, _TRIED), weight.reshape(-1, _TRIED)


@dataclass(frozen=True)
class PathWalk:
    """Walks of one class of pace to their goals."""

    model: WalkModel
    follow: FloatArray
    """(paces and none, paces)"""
    goals: IntArray
    """The goal of each walk, as an index of the bridge."""
    bridge: Bridge

    @classmethod
    def to(
        cls, model: WalkModel, follow: FloatArray, ends: FloatArray, last: IntArray, most: int
    ) -> PathWalk:
        """Prepare walks to the goals of the finest cells `last`."""
        goal_cells, goals = np.unique(model.goal[last], return_inverse=True)
        goal_index = np.full(int(model.goal.max()) + 1, -1)
        goal_index[goal_cells] = np.arange(len(goal_cells))
        bridge = Bridge.of(
            model.base_chain, follow, ends, goal_index[model.goal], len(goal_cells), most
        )
        return cls(model, follow, goals, bridge)

    def cells(self, first: IntArray, lengths: IntArray, entropy: Entropy) -> IntArray:
        """Draw the finest cells of each walk, (walks, steps); 0 beyond its length."""
        walked = np.zeros((len(first), int(lengths.max())), dtype=np.int64)
        walked[:, 0] = first
        pace = np.full(len(first), self.follow.shape[1])
        heading = np.zeros(len(first), dtype=np.int64)
        for step in range(1, walked.shape[1]):
            walking = np.flatnonzero(lengths > step)
            for low in range(0, len(walking), _WALKS_AT_ONCE):
                chunk = walking[low : low + _WALKS_AT_ONCE]
                stored = self.bridge.stored_index(lengths[chunk] - 1 - step)
                walked[chunk, step], pace[chunk], heading[chunk] = self._step(
                    walked[chunk, step - 1], pace[chunk], heading[chunk], self.goals[chunk], stored,
                    entropy,
                )  # fmt: skip
        return walked

    def _step(
        self,
        cell: IntArray,
        pace: IntArray,
        heading: IntArray,
        goal: IntArray,
        stored: IntArray,
        entropy: Entropy,
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Draw the next cells, paces and headings."""
        rates, weights, targets = self.follow[pace], [], []
        alike = [
            (int(stored_index), np.flatnonzero(stored == stored_index))
            for stored_index in np.unique(stored)
        ]
        for system_index, moves in enumerate(self.model.moves):
            stay_chance, leave_chance = rates[:, 2 * system_index], rates[:, 2 * system_index + 1]
            weight, target = moves.weights(cell, heading, stay_chance, leave_chance)
            for stored_index, mine in alike:
                resting, leaving = self.bridge.reached[stored_index][
                    2 * system_index : 2 * system_index + 2
                ]
                weight[mine, 0] *= resting[target[mine, 0], goal[mine]]
                weight[mine, 1:] *= leaving[target[mine, 1:], goal[mine][:, None]]
            weights.append(weight)
            targets.append(target)
        picked_moves, _ = draw_per_row(
            np.concatenate(weights, axis=1) + _TINY, uniform(len(cell), entropy)
        )
        ends = np.cumsum([stored_index.shape[1] for stored_index in weights])
        system = np.searchsorted(ends, picked_moves, side="right")
        move = picked_moves - np.concatenate([[0], ends])[system]
        next_pace, result = pace_numbers(system, move), cell.copy()
        for system_index, target in enumerate(targets):
            mine = np.flatnonzero(system == system_index)
            if len(mine):
                reached = target[mine, move[mine]]
                result[mine] = self._choose_finest(
                    system_index,
                    reached,
                    cell[mine],
                    next_pace[mine],
                    goal[mine],
                    stored[mine],
                    entropy,
                )
        return result, next_pace, np.where(move > 0, move, heading)

    def _choose_finest(
        self,
        system_index: int,
        reached: IntArray,
        cell: IntArray,
        pace: IntArray,
        goal: IntArray,
        stored: IntArray,
        entropy: Entropy,
    ) -> IntArray:
        """Draw a finest cell within each reached cell, weighted by the bridge."""
        if len(self.model.moves[system_index].around) == len(self.model.goal):
            return reached
        option, weight = self.model.finest_candidates(system_index, reached, cell, entropy)
        base = self.model.base_chain.base[option]
        for stored_index in np.unique(stored):
            for own in (2 * system_index, 2 * system_index + 1):
                mine = np.flatnonzero((stored == stored_index) & (pace == own))
                weight[mine] *= self.bridge.ending[stored_index][own][
                    base[mine], goal[mine][:, None]
                ]
        chosen, _ = draw_per_row(weight + _TINY, uniform(len(reached), entropy))
        finest: IntArray = option[np.arange(len(reached)), chosen]
        return finest


@dataclass(frozen=True)
class FinestCells:
    """The finest cells in the order of the coarser cells that hold them, with summed weights."""

    order: IntArray
    summed: FloatArray
    first: IntArray

    @classmethod
    def of(cls, belongs: IntArray, weights: FloatArray, size: int) -> FinestCells:
        """Sort by `belongs`, the coarser cell of each finest cell."""
        order = np.argsort(belongs, kind="stable")
        summed = np.concatenate([[0.0], np.cumsum(weights[order] + _LEAST)])
        return cls(order, summed, np.searchsorted(belongs[order], np.arange(size + 1)))

    def within(self, cells: IntArray, drawn: FloatArray) -> IntArray:
        """Draw a finest cell within each coarser cell, from uniform numbers."""
        begin, end = self.first[cells], self.first[cells + 1]
        low, high = self.summed[begin], self.summed[end]
        at = np.searchsorted(self.summed, low + drawn * (high - low), side="right") - 1
        finest_cells: IntArray = self.order[np.clip(at, begin, end - 1)]
        return finest_cells


# Synthetic paths from a private model: walks with a goal.
#
# A path draws its first and its last place and its length, which together say how fast it must
# be; then it walks (`walking`), and its points are placed within the cells that it came through.
# All of it is done to what was measured and costs nothing.


# How many points are drawn at once, at most.
_POINTS_AT_ONCE = 1 << 25
# The parts that the time is told by.
HOURS = 24


def start_hours(
    measuring: Measuring, paths: Paths, first: float, last: float, share: Fraction, cap: int
) -> FloatArray:
    """Measure how many paths begin in each of 24 equal parts of the declared time."""
    slot = np.floor((paths.times[paths.first] - first) / (last - first) * HOURS)
    cells = np.clip(slot, 0, HOURS - 1).astype(np.int64)
    return nonnegative_counts(measuring.table(cells, HOURS, paths.owners, share, cap=cap))


@dataclass(frozen=True)
class PathModel:
    """All noisy tables of paths, from which any number of paths is drawn."""

    systems: ReferenceSystems
    chosen: tuple[int, ...]
    trees: list[PrefixTree]
    deviations: tuple[float, float, float]
    turns: list[FloatArray]
    """For each chosen system, (headings, moves)."""
    paces: FloatArray
    """(classes, paces and none, paces): transition probabilities."""
    visits: FloatArray
    """The density of visits, per finest cell."""
    starts: FloatArray
    ends: FloatArray
    pairs: int
    """The system whose cells `trips` counts."""
    trips: FloatArray
    """(cells, cells) of that system."""
    lengths: Lengths
    hours: FloatArray
    first_time: float
    hour: float
    """The length of each of the parts that `hours` counts, in seconds."""
    every: float

    @property
    def people(self) -> float:
        """The noisy number of paths."""
        return float(self.lengths.counts.sum())

    @cached_property
    def walk_model(self) -> WalkModel:
        """The model of steps."""
        return WalkModel.of(
            self.systems, self.chosen, self.trees, self.deviations, self.turns, self.visits
        )

    def draw(self, count: int, entropy: Entropy) -> Paths:
        """Draw `count` paths, each of its own person."""
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
        pair = draw_indices(self.trips.ravel() + _LEAST, uniform(count, entropy))
        start, end = np.divmod(pair, grid.size)
        classes = distance_classes(grid.centres, start, end)
        lengths = self.lengths.draw(classes, uniform(count, entropy))
        first, last = (
            FinestCells.of(belongs, weights, grid.size).within(cells, uniform(count, entropy))
            for weights, cells in ((self.starts, start), (self.ends, end))
        )
        fast = pace_classes(grid, start, end, lengths, systems.side)
        cells = np.zeros((count, int(lengths.max())), dtype=np.int64)
        for speed_class in np.unique(fast):
            mine = np.flatnonzero(fast == speed_class)
            walk = PathWalk.to(
                self.walk_model, self.paces[speed_class], self.ends, last[mine], self.lengths.most
            )
            walked = walk.cells(first[mine], lengths[mine], entropy)
            cells[mine, : walked.shape[1]] = walked
        at = cells[np.arange(count), lengths - 1]
        missed = self.walk_model.goal[at] != self.walk_model.goal[last]
        middle = systems.systems[0].centres
        short = np.where((missed & (lengths > 1))[:, None], middle[last] - middle[at], 0.0)
        return self._draw_points(cells, lengths, short, entropy)

    def _draw_points(
        self, cells: IntArray, lengths: IntArray, short: FloatArray, entropy: Entropy
    ) -> Paths:
        """Draw points within cells, and times. `short` is the vector from each end to its goal."""
        count = len(lengths)
        path = np.repeat(np.arange(count), lengths)
        number = np.arange(len(path)) - (np.cumsum(lengths) - lengths)[path]
        # A path keeps its relative position within cells. Drawn anew for each point, it would jump
        # to and fro where the path rests.
        within = uniform(2 * count, entropy).reshape(-1, 2)
        points = self.systems.systems[0].within(cells[path, number], within[path])
        points = _smooth_points(points, number, lengths[path])
        # The distance to the goal is added along the path, most of it late.
        points += short[path] * ((number / np.maximum(lengths[path] - 1, 1)) ** 2)[:, None]
        start_slots = draw_indices(self.hours + _LEAST, uniform(count, entropy)) + uniform(
            count, entropy
        )
        times = self.first_time + self.hour * start_slots[path] + self.every * number
        return Paths(np.arange(count), lengths, times, *self.systems.box.inside(*points.T))


def _smooth_points(points: FloatArray, number: IntArray, lengths: IntArray) -> FloatArray:
    """Average points with their neighbours, as positions within cells were drawn independently."""
    inner = (number > 0) & (number < lengths - 1)
    where = np.flatnonzero(inner)
    result = points.copy()
    result[where] = points[where] / 2 + (points[where - 1] + points[where + 1]) / 4
    return result
