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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.trajectory.bridge import Bridge, Chain, Grounds, apart, ends_of
from sfumato.trajectory.ends import among, distance_classes, picked, settled
from sfumato.trajectory.paces import pace_classes, paced
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
_TRIED = 8
_MOST_GOALS = 256
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
    """For each chosen system, (headings, moves)."""
    paces: Reals
    """(classes, paces and none, paces): the chances of which follows which."""
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
    def side(self) -> float:
        """From one of the finest cells to the next."""
        return self.systems.side

    @cached_property
    def _below(self) -> list[Descent]:
        return [
            Descent.of(self.systems.above[one], self.visits, self.systems.systems[one].size)
            for one in self.chosen
        ]

    @cached_property
    def _chances(self) -> list[Chances]:
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
            found.append(Chances(moves, plain, lift, cells / np.maximum(self.systems.fine_cells(number), 1)))
        return found

    def drawn(self, count: int, entropy: Entropy) -> Paths:
        """So many paths, each of a person of its own."""
        grid = self.systems.systems[self.pairs]
        belongs = self.systems.above[self.pairs]
        pair = among(self.trips.ravel() + _LEAST, uniform(count, entropy))
        start, end = np.divmod(pair, grid.size)
        classes = distance_classes(grid.centres, start, end)
        lengths = self.lengths.drawn(classes, uniform(count, entropy))
        cell = Descent.of(belongs, self.starts, grid.size).within(start, uniform(count, entropy))
        paces = pace_classes(grid, start, end, lengths, self.side)
        last = Descent.of(belongs, self.ends, grid.size).within(end, uniform(count, entropy))
        goals = self.systems.above[self._goals][last]
        cells = np.full((count, int(lengths.max())), -1, dtype=np.int64)
        cells[:, 0] = cell
        for one in np.unique(paces):
            mine = np.flatnonzero(paces == one)
            wanted, goal = np.unique(goals[mine], return_inverse=True)
            bridge = self._bridge(int(one), wanted)
            for low in range(0, len(mine), _AT_ONCE):
                part = slice(low, low + _AT_ONCE)
                some = mine[part]
                walked = self._walked(cell[some], goal[part], lengths[some], int(one), bridge, entropy)
                cells[some, : walked.shape[1]] = walked
        at = cells[np.arange(count), lengths - 1]
        missed = (self.systems.above[self._goals][at] != goals) & (lengths > 1)
        centres = self.systems.systems[0].centres
        short = np.where(missed[:, None], centres[last] - centres[at], 0.0)
        return self._placed(cells, lengths, short, entropy)

    def _placed(self, cells: Ints, lengths: Ints, short: Reals, entropy: Entropy) -> Paths:
        count = len(lengths)
        path = np.repeat(np.arange(count), lengths)
        number = np.arange(len(path)) - (np.cumsum(lengths) - lengths)[path]
        # A path keeps its place within cells: drawn anew, it would go to and fro where it rests.
        within = uniform(2 * count, entropy).reshape(-1, 2)
        points = self.systems.systems[0].within(cells[path, number], within[path])
        begun = among(self.hours + _LEAST, uniform(count, entropy)) + uniform(count, entropy)
        times = self.first_time + self.hour * begun[path] + self.every * number
        points = _smoothed(points, number, lengths[path])
        # What a walk ended short of its goal by is made up for all along, most of it late.
        points += short[path] * ((number / np.maximum(lengths[path] - 1, 1)) ** 2)[:, None]
        return Paths(np.arange(count), lengths, times, *self.systems.box.inside(*points.T))

    @cached_property
    def _grounds(self) -> Grounds:
        return Grounds(
            Chain(
                self.systems, self.chosen, [one.moves for one in self._chances],
                [one.plain for one in self._chances], [one.near for one in self._chances],
                self.visits,
            )  # fmt: skip
        )

    @cached_property
    def _goals(self) -> int:
        """The number of the finest system of not too many cells, which walks aim at."""
        sizes = [one.size for one in self.systems.systems]
        return min(next(n for n, one in enumerate(sizes) if one <= _MOST_GOALS), self.pairs)

    def _bridge(self, pace: int, goals: Ints) -> Bridge:
        grounds, grid = self._grounds, self.systems.systems[self._goals]
        last = ends_of(grounds, self.ends, self.systems.above[self._goals], grid.size)[:, goals]
        far = apart(grounds, grid.centres[goals])
        return Bridge.of(grounds, self.paces[pace], last, far, self.lengths.most)

    def _walked(self, cell: Ints, goal: Ints, lengths: Ints, pace: int, bridge: Bridge, entropy: Entropy) -> Ints:
        count = len(cell)
        cells = np.full((count, int(lengths.max())), -1, dtype=np.int64)
        cells[:, 0] = cell
        state = Walkers(
            np.full(count, 2 * len(self.chosen)), np.zeros(count, dtype=np.int64)
        )
        follow = self.paces[pace]
        for step in range(1, cells.shape[1]):
            alive = np.flatnonzero(lengths > step)
            found, after = self._step(
                cells[alive, step - 1], state.some(alive), goal[alive], lengths[alive] - 1 - step,
                follow, bridge, entropy,
            )  # fmt: skip
            cells[alive, step] = found
            state.keep(alive, after)
        return cells

    def _step(
        self, cell: Ints, state: Walkers, goal: Ints, left: Ints, follow: Reals, bridge: Bridge, entropy: Entropy
    ) -> tuple[Ints, Walkers]:
        """The next cells, by which system and which move."""
        stored = bridge.place(left)
        groups = [np.flatnonzero(stored == some) for some in range(len(bridge.left))]
        weights, targets = [], []
        rates = follow[state.pace]
        for place, number in enumerate(self.chosen):
            known = self._chances[place]
            at = self.systems.above[number][cell]
            chance = known.moves[at] * known.lift[state.heading]
            chance /= np.maximum(chance.sum(axis=1, keepdims=True), _LEAST)
            chance = self.trees[place].after[at, state.heading] + _DOUBT * self.deviations[2] * chance
            chance[:, 0] = 0
            chance /= np.maximum(chance.sum(axis=1, keepdims=True), _LEAST)
            rest = known.moves[at, 0] / max(known.plain[0], 1e-3)
            away = (1 - known.moves[at, 0]) / max(1 - known.plain[0], 1e-3)
            chance *= (rates[:, 2 * place + 1] * away)[:, None]
            chance[:, 0] = rates[:, 2 * place] * rest
            target = self.systems.systems[number].neighbours[at]
            for some, mine in enumerate(groups):
                if len(mine):
                    aims = goal[mine]
                    chance[mine, 0] *= bridge.reached[some][2 * place][at[mine], aims]
                    chance[mine, 1:] *= bridge.reached[some][2 * place + 1][np.maximum(target[mine, 1:], 0), aims[:, None]]
            weights.append(chance * (target >= 0) * known.near[at][:, None])
            targets.append(target)
        widths = np.array([one.shape[1] for one in weights])
        found, _ = picked(np.concatenate(weights, axis=1) + 1e-300, uniform(len(cell), entropy))
        by = np.searchsorted(np.cumsum(widths), found, side="right")
        move = found - (np.cumsum(widths) - widths)[by]
        pace = paced(by, move)
        result = cell.copy()
        for place, target in enumerate(targets):
            mine = np.flatnonzero(by == place)
            if len(mine):
                reached = np.maximum(target[mine, move[mine]], 0)
                result[mine] = self._settled(
                    place, reached, cell[mine], goal[mine], stored[mine], pace[mine], bridge, entropy
                )
        return result, Walkers(pace, np.where(move > 0, move, state.heading))

    def _settled(self, place, reached, cell, goal, stored, pace, bridge, entropy):
        many = len(cell)
        if self.systems.systems[self.chosen[place]].size == self.systems.systems[0].size:
            return reached
        tried = np.repeat(reached, _TRIED)
        option = self._below[place].within(tried, uniform(len(tried), entropy)).reshape(many, -1)
        weight = np.zeros(option.shape)
        base = self._grounds.base[option]
        for some in np.unique(stored):
            for one in (2 * place, 2 * place + 1):
                mine = np.flatnonzero((stored == some) & (pace == one))
                weight[mine] = bridge.ending[some][one][base[mine], goal[mine][:, None]]
        # What a finer system could have told would have been told by it.
        begun = np.repeat(cell, _TRIED)
        system, _ = self.systems.told(begun, option.ravel(), self.chosen[: place + 1])
        weight *= np.where(system.reshape(weight.shape) < place, 1e-6, 1.0)
        chosen, _ = picked(weight + 1e-300, uniform(many, entropy))
        return option[np.arange(many), chosen]


class Chances(NamedTuple):
    moves: Reals
    plain: Reals
    lift: Reals
    near: Reals


@dataclass(frozen=True)
class Walkers:
    """What walks remember of their last step: by which system, which move, which way."""

    pace: Ints
    heading: Ints

    def some(self, chosen: Ints) -> Walkers:
        """Those of some walks."""
        return Walkers(self.pace[chosen], self.heading[chosen])

    def keep(self, chosen: Ints, after: Walkers) -> None:
        """Remember the latest of some walks."""
        self.pace[chosen], self.heading[chosen] = after.pace, after.heading


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
