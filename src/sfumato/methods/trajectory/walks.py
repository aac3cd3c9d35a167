"""One walk after another through the cells of reference systems, all steps of a kind at once.

Each step draws a pace by the one before, and a move by the trees: by the cell, and by where the
path is heading. Both are weighed by the chance to end where the path must (`bridge`). What a tree
does not know, where it was pruned, is told by all cells of its system together and by how crowded
the neighbours are. A move by large cells is then settled to one of the finest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.trajectory.bridge import Bridge, Chain, BaseChain
from sfumato.methods.trajectory.ends import picked
from sfumato.methods.trajectory.speeds import paced

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.trajectory.prefix_tree import PrefixTree
    from sfumato.methods.trajectory.reference_systems import ReferenceSystems
    from sfumato.privacy.noise.entropy import Entropy


_WALKS_AT_ONCE = 1 << 15
_LEAST = 1e-12
_NEVER = 1e-300
# How many deviations of noise the prior of a move weighs.
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
    """What is known of the moves of one system."""

    above: IntArray
    around: IntArray
    chances: FloatArray
    """(cells, moves), of the first order."""
    lift: FloatArray
    """(headings, moves): how much likelier a move is for a heading."""
    after: FloatArray
    """(cells, headings, moves): noisy counts."""
    doubt: float
    stay: FloatArray
    """Of each cell: how much likelier one stays there than elsewhere."""
    leave: FloatArray
    near: FloatArray
    """Of each cell: the share of the system's steps that start there, a finest cell."""
    below: Descent

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
        """From noisy counts, with priors where noise drowns them."""
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
            Descent.of(above, visits, grid.size),
        )  # fmt: skip

    def weights(
        self, cell: IntArray, heading: IntArray, stay_chance: FloatArray, leave_chance: FloatArray
    ) -> tuple[FloatArray, IntArray]:
        """How likely each move is and where it leads, for the chances to rest and to leave."""
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
    """All that walks go by, whatever their pace and wherever to."""

    systems: ReferenceSystems
    chosen: tuple[int, ...]
    moves: list[SystemMoves]
    grounds: BaseChain
    goal: IntArray
    """For each of the finest cells the goal that it belongs to."""

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
        """From all noisy tables of steps."""
        moves = [
            SystemMoves.of(systems, number, tree, deviations, turn, visits)
            for number, tree, turn in zip(chosen, trees, turns, strict=True)
        ]
        grounds = BaseChain(Chain(systems, chosen, moves, visits))
        goals = next(n for n, system in enumerate(systems.systems) if system.size <= _MOST_GOALS)
        return cls(systems, chosen, moves, grounds, systems.above[goals])

    def settled(
        self, index: int, reached: IntArray, cell: IntArray, entropy: Entropy
    ) -> tuple[IntArray, FloatArray]:
        """Finest cells to try within those reached, and weights: (walks, tried) both."""
        tried = np.repeat(reached, _TRIED)
        option = self.moves[index].below.within(tried, uniform(len(tried), entropy))
        # What a finer system could have told would have been told by it.
        system, _ = self.systems.assign(np.repeat(cell, _TRIED), option, self.chosen[: index + 1])
        weight = np.where(system < index, _UNLIKELY, 1.0)
        return option.reshape(-1, _TRIED), weight.reshape(-1, _TRIED)


@dataclass(frozen=True)
class PathWalk:
    """Walks of one class of pace to their goals."""

    ground: WalkModel
    follow: FloatArray
    """(paces and none, paces)"""
    goals: IntArray
    """Of each walk, by its place among those of the bridge."""
    bridge: Bridge

    @classmethod
    def to(
        cls, ground: WalkModel, follow: FloatArray, ends: FloatArray, last: IntArray, most: int
    ) -> PathWalk:
        """To the goals of these finest cells."""
        goal_cells, goals = np.unique(ground.goal[last], return_inverse=True)
        goal_index = np.full(int(ground.goal.max()) + 1, -1)
        goal_index[goal_cells] = np.arange(len(goal_cells))
        bridge = Bridge.of(
            ground.grounds, follow, ends, goal_index[ground.goal], len(goal_cells), most
        )
        return cls(ground, follow, goals, bridge)

    def cells(self, first: IntArray, lengths: IntArray, entropy: Entropy) -> IntArray:
        """The finest cells of each walk, (walks, steps); 0 beyond its length."""
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
        """The next cells, paces and headings."""
        rates, weights, targets = self.follow[pace], [], []
        alike = [
            (int(stored_index), np.flatnonzero(stored == stored_index))
            for stored_index in np.unique(stored)
        ]
        for system_index, moves in enumerate(self.ground.moves):
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
        picked_moves, _ = picked(
            np.concatenate(weights, axis=1) + _NEVER, uniform(len(cell), entropy)
        )
        ends = np.cumsum([stored_index.shape[1] for stored_index in weights])
        system = np.searchsorted(ends, picked_moves, side="right")
        move = picked_moves - np.concatenate([[0], ends])[system]
        next_pace, result = paced(system, move), cell.copy()
        for system_index, target in enumerate(targets):
            mine = np.flatnonzero(system == system_index)
            if len(mine):
                reached = target[mine, move[mine]]
                result[mine] = self._settled(
                    system_index,
                    reached,
                    cell[mine],
                    next_pace[mine],
                    goal[mine],
                    stored[mine],
                    entropy,
                )
        return result, next_pace, np.where(move > 0, move, heading)

    def _settled(
        self,
        system_index: int,
        reached: IntArray,
        cell: IntArray,
        pace: IntArray,
        goal: IntArray,
        stored: IntArray,
        entropy: Entropy,
    ) -> IntArray:
        """One of the finest cells within each that was reached, from which the end is near."""
        if len(self.ground.moves[system_index].around) == len(self.ground.goal):
            return reached
        option, weight = self.ground.settled(system_index, reached, cell, entropy)
        base = self.ground.grounds.base[option]
        for stored_index in np.unique(stored):
            for own in (2 * system_index, 2 * system_index + 1):
                mine = np.flatnonzero((stored == stored_index) & (pace == own))
                weight[mine] *= self.bridge.ending[stored_index][own][
                    base[mine], goal[mine][:, None]
                ]
        chosen, _ = picked(weight + _NEVER, uniform(len(reached), entropy))
        finest: IntArray = option[np.arange(len(reached)), chosen]
        return finest


@dataclass(frozen=True)
class Descent:
    """The finest cells in the order of the cells that hold them, with weights summed up."""

    order: IntArray
    summed: FloatArray
    first: IntArray

    @classmethod
    def of(cls, belongs: IntArray, weights: FloatArray, size: int) -> Descent:
        """By which cell of some system each of the finest belongs to."""
        order = np.argsort(belongs, kind="stable")
        summed = np.concatenate([[0.0], np.cumsum(weights[order] + _LEAST)])
        return cls(order, summed, np.searchsorted(belongs[order], np.arange(size + 1)))

    def within(self, cells: IntArray, drawn: FloatArray) -> IntArray:
        """One of the finest cells within each cell, by weights and uniform numbers."""
        begin, end = self.first[cells], self.first[cells + 1]
        low, high = self.summed[begin], self.summed[end]
        at = np.searchsorted(self.summed, low + drawn * (high - low), side="right") - 1
        cells_found: IntArray = self.order[np.clip(at, begin, end - 1)]
        return cells_found
