"""Made-up paths by a private model: walks that know where they are going.

A path draws its first and its last place and its length, then walks: each step draws a system and a
move by the trees, weighed by direction. Moves that follow the move before as paths do weigh more;
and so do those that lead to where the path must end, the more the fewer steps are left. What a tree
does not know, where it was pruned, is told by all cells of its system together and by how crowded
the neighbours are. All of it is done to what was measured and costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.trajectory.ends import among, distance_classes, picked, settled
from sfumato.trajectory.paths import Paths

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.trajectory.ends import Lengths
    from sfumato.trajectory.measuring import Measuring
    from sfumato.trajectory.prefix_tree import PrefixTree
    from sfumato.trajectory.reference_systems import ReferenceSystems

    Ints = NDArray[np.int64]
    Reals = NDArray[np.float64]

_AT_ONCE = 1 << 15
_LOOSE = 1.2
"""How far from straight to its end a path may go, in steps for each step that is left."""
_LEAST = 1e-12
HOURS = 24
"""The parts that the time is told by."""
_DOUBT = 2.0
"""How many deviations of noise the prior of a move weighs."""


def uniform(count: int, entropy: Entropy) -> Reals:
    """Uniform numbers from 0 to below 1."""
    return np.asarray((entropy.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def begun(
    measuring: Measuring, paths: Paths, first: float, last: float, share: Fraction, cap: int
) -> Reals:
    """How many paths begin in each of the equal parts of a declared time."""
    part = np.floor((paths.times[paths.first] - first) / (last - first) * HOURS)
    cells = np.clip(part, 0, HOURS - 1).astype(np.int64)
    return settled(measuring.table(cells, HOURS, paths.owners, share, cap=cap))


@dataclass(frozen=True)
class PathModel:
    """All that was measured of paths, with noise: a twin of any size is drawn from it."""

    systems: ReferenceSystems
    chosen: tuple[int, ...]
    trees: list[PrefixTree]
    deviations: tuple[float, float, float]
    turns: list[Reals]
    """For each chosen system, (moves before and none, moves)."""
    switches: Reals
    """(chosen systems and none, chosen systems): which system follows which."""
    visits: Reals
    """Of each of the finest cells."""
    starts: Reals
    ends: Reals
    pairs: int
    """The number of the system whose cells ends are told by."""
    trips: Reals
    """(cells, cells) of that system."""
    lengths: Lengths
    hours: Reals
    first_time: float
    hour: float
    """How long the time is that each of the hours stands for."""
    every: float

    @property
    def people(self) -> float:
        """How many there are, about."""
        return float(self.lengths.counts.sum())

    @cached_property
    def step(self) -> float:
        """The typical length of a step: the root of the mean square over systems."""
        told = self.switches.sum(axis=0) + _LEAST
        squares = np.array([self._side(number) ** 2 for number in self.chosen])
        return float(np.sqrt((told * squares).sum() / told.sum()))

    def _side(self, number: int) -> float:
        grid = self.systems.systems[number]
        if grid.size == 1:
            return float(np.hypot(*np.ptp(self.systems.systems[0].centres, axis=0)))
        around = grid.neighbours
        where = np.argwhere(around[:, 1:] >= 0)[0]
        other = around[where[0], 1 + where[1]]
        return float(np.hypot(*(grid.centres[where[0]] - grid.centres[other])))

    @cached_property
    def _below(self) -> list[Descent]:
        return [
            Descent.of(self.systems.above[one], self.visits, self.systems.systems[one].size)
            for one in self.chosen
        ]

    @cached_property
    def _chances(self) -> list[tuple[Reals, Reals, Reals]]:
        """Of each system: moves of the first order, what turns add, and how near its cells are."""
        found = []
        for place, number in enumerate(self.chosen):
            tree, grid = self.trees[place], self.systems.systems[number]
            crowd = np.bincount(self.systems.above[number], self.visits, minlength=grid.size)
            held = grid.neighbours >= 0
            near = np.where(held, crowd[grid.neighbours], 0) + _LEAST * held
            turns = self.turns[place] + _LEAST
            plain = turns.sum(axis=0) / turns.sum()
            prior = near / near.sum(axis=1, keepdims=True) * plain
            prior /= np.maximum(prior.sum(axis=1, keepdims=True), _LEAST)
            moves = (tree.moves + _DOUBT * self.deviations[1] * prior) * held
            moves /= np.maximum(moves.sum(axis=1, keepdims=True), _LEAST)
            lift = turns / turns.sum(axis=1, keepdims=True) / plain
            cells = (tree.cells + self.deviations[0]) / (tree.cells + self.deviations[0]).sum()
            found.append((moves, lift, cells / np.maximum(self.systems.fine_cells(number), 1)))
        return found

    def drawn(self, count: int, entropy: Entropy) -> Paths:
        """So many paths, each of a person of its own."""
        parts = [
            self._walks(min(_AT_ONCE, count - done), entropy) for done in range(0, count, _AT_ONCE)
        ]
        lengths = np.concatenate([one.lengths for one in parts])
        return Paths(
            np.arange(count),
            lengths,
            *(
                np.concatenate([getattr(one, name) for one in parts])
                for name in ("times", "x", "y")
            ),
        )

    def _walks(self, count: int, entropy: Entropy) -> Paths:
        grid = self.systems.systems[self.pairs]
        belongs = self.systems.above[self.pairs]
        pair = among(self.trips.ravel() + _LEAST, uniform(count, entropy))
        start, end = np.divmod(pair, grid.size)
        classes = distance_classes(grid.centres, start, end)
        lengths = self.lengths.drawn(classes, uniform(count, entropy))
        cell = Descent.of(belongs, self.starts, grid.size).within(start, uniform(count, entropy))
        goal = Descent.of(belongs, self.ends, grid.size).within(end, uniform(count, entropy))
        finest = self.systems.systems[0]
        aim = finest.centres[goal]
        cells = np.zeros((count, int(lengths.max())), dtype=np.int64)
        cells[:, 0] = cell
        system = np.full(count, len(self.chosen))
        before = np.zeros(count, dtype=np.int64)
        for step in range(1, cells.shape[1]):
            alive = np.flatnonzero(lengths > step)
            left = lengths[alive] - 1 - step
            found = self._step(
                cells[alive, step - 1], system[alive], before[alive], aim[alive], left, entropy
            )
            cells[alive, step], system[alive], before[alive] = found
        longer = np.flatnonzero(lengths > 1)
        cells[longer, lengths[longer] - 1] = goal[longer]
        path = np.repeat(np.arange(count), lengths)
        number = np.arange(len(path)) - (np.cumsum(lengths) - lengths)[path]
        # A path keeps its place within cells: drawn anew, it would go to and fro where it rests.
        within = uniform(2 * count, entropy).reshape(-1, 2)
        points = finest.within(cells[path, number], within[path])
        begun = among(self.hours + _LEAST, uniform(count, entropy)) + uniform(count, entropy)
        times = self.first_time + self.hour * begun[path] + self.every * number
        return Paths(np.arange(count), lengths, times, *_smoothed(points, number, lengths[path]).T)

    def _step(
        self, cell: Ints, system: Ints, before: Ints, aim: Reals, left: Ints, entropy: Entropy
    ) -> tuple[Ints, Ints, Ints]:
        """The next cells, by which system and which move."""
        lines = np.arange(len(cell))
        here = self.systems.systems[0].centres[cell]
        spread = (self.step * _LOOSE * left) ** 2 + self._side(self.pairs) ** 2 / 16
        weights, targets = [], []
        switches = self.switches[system] + _LEAST
        for place, number in enumerate(self.chosen):
            moves, lift, near = self._chances[place]
            at = self.systems.above[number][cell]
            known = np.where(system == place, before, lift.shape[1])
            chance = moves[at] * lift[known]
            chance /= np.maximum(chance.sum(axis=1, keepdims=True), _LEAST)
            after = self.trees[place].after
            told = np.where(
                (known < lift.shape[1])[:, None], after[at, np.minimum(known, lift.shape[1] - 1)], 0
            )
            chance = told + _DOUBT * self.deviations[2] * chance
            chance /= np.maximum(chance.sum(axis=1, keepdims=True), _LEAST)
            target = self.systems.systems[number].neighbours[at]
            # A cell is as near as where its move leads from where the path is.
            centres = self.systems.systems[number].centres
            shift = centres[target] - centres[at][:, None]
            gone = ((here[:, None] + shift - aim[:, None]) ** 2).sum(axis=2)
            chance = chance * np.exp(
                -(gone - gone.min(axis=1, keepdims=True)) / (2 * spread[:, None])
            )
            apart = gone.min(axis=1) / (2 * spread)
            weights.append((chance * (switches[:, place] * near[at])[:, None], apart))
            targets.append(target)
        least = np.min([apart for _, apart in weights], axis=0)
        scaled = [one * np.exp(least - apart)[:, None] for one, apart in weights]
        widths = np.array([one.shape[1] for one in scaled])
        found, _ = picked(np.concatenate(scaled, axis=1), uniform(len(cell), entropy))
        by = np.searchsorted(np.cumsum(widths), found, side="right")
        move = found - (np.cumsum(widths) - widths)[by]
        result = cell.copy()
        for number, target in enumerate(targets):
            mine = lines[by == number]
            reached = np.maximum(target[mine, move[mine]], 0)
            result[mine] = self._below[number].within(reached, uniform(len(mine), entropy))
        return result, by, move


@dataclass(frozen=True)
class Descent:
    """The finest cells in the order of the cells that hold them, with weights summed up."""

    order: Ints
    summed: Reals
    first: Ints

    @classmethod
    def of(cls, belongs: Ints, weights: Reals, size: int) -> Descent:
        """By which cell of some system each of the finest belongs to."""
        order = np.argsort(belongs, kind="stable")
        summed = np.concatenate([[0.0], np.cumsum(weights[order] + _LEAST)])
        return cls(order, summed, np.searchsorted(belongs[order], np.arange(size + 1)))

    def within(self, cells: Ints, drawn: Reals) -> Ints:
        """One of the finest cells within each cell, by weights and uniform numbers."""
        begin, end = self.first[cells], self.first[cells + 1]
        low, high = self.summed[begin], self.summed[end]
        at = np.searchsorted(self.summed, low + drawn * (high - low), side="right") - 1
        found: Ints = self.order[np.clip(at, begin, end - 1)]
        return found


def _smoothed(points: Reals, number: Ints, lengths: Ints) -> Reals:
    """Points halfway to the middle of their neighbours: places within cells were drawn apart."""
    inner = (number > 0) & (number < lengths - 1)
    where = np.flatnonzero(inner)
    result = points.copy()
    result[where] = points[where] / 2 + (points[where - 1] + points[where + 1]) / 4
    return result
