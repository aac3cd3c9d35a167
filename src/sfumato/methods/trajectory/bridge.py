"""How likely a walk is to end where it must, from every cell and for every number of steps left.

Under the chain that the trees tell, which a walk then follows, weighed by these chances: so it goes
round by the streets that others take, and comes to its end without a leap. The chain remembers its
last pace, not from where it came. Read off noisy tables alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.trajectory.ends import length_edges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.trajectory.reference_systems import ReferenceSystems
    from sfumato.methods.trajectory.walks import SystemMoves

    Halves = NDArray[np.float32]

_LEAST_WEIGHT = 1e-30
# The weight of a walk that no chain leads to its end, next to where it must be.
_LOST = 1e-6
_MOST_CELLS = 1 << 10
_FARTHEST = 200


@dataclass(frozen=True)
class Chain:
    """The moves of each chosen system, and how often cells are visited."""

    systems: ReferenceSystems
    chosen: tuple[int, ...]
    moves: list[SystemMoves]
    visits: FloatArray
    """Of each of the finest cells."""


class BaseChain:
    """The chain by the cells of one system, of which there are not too many."""

    def __init__(self, chain: Chain) -> None:
        systems = chain.systems
        number = next(n for n, system in enumerate(systems.systems) if system.size <= _MOST_CELLS)
        self.base = systems.above[number]
        """For each of the finest cells, the cell that chances are told by."""
        self.size = systems.systems[number].size
        self.centres = systems.systems[number].centres
        visits = chain.visits + 1e-9 * max(float(chain.visits.mean()), _LEAST_WEIGHT)
        self.crowd = np.bincount(self.base, visits, minlength=self.size)
        self.lifts: list[AveragingMatrix] = []
        self.onward: list[tuple[AveragingMatrix, ...]] = []
        """For each pace, what leads from the chances after it to those before, first part first."""
        self.near = np.zeros((2 * len(chain.chosen), self.size))
        for index, system in enumerate(chain.chosen):
            above, cells = systems.above[system], systems.systems[system].size
            lift = AveragingMatrix.of(above, self.base, visits, (cells, self.size))
            fall = AveragingMatrix.of(self.base, above, visits, (self.size, cells))
            known = chain.moves[index]
            for pace, factor in ((2 * index, known.stay), (2 * index + 1, known.leave)):
                self.near[pace] = fall.applied((known.near * factor)[:, None])[:, 0]
            self.lifts.append(lift)
            around, chances = known.around, _moved(known.around, known.chances)
            stays = np.zeros_like(chances)
            stays[:, 0] = 1
            for moved in (stays, chances):
                rows = np.repeat(np.arange(cells), around.shape[1])
                step = AveragingMatrix.of(
                    rows, np.maximum(around, 0).ravel(), moved.ravel(), (cells, cells)
                )
                self.onward.append((lift, step, fall))

    def up(self, pace: int, chances: Halves) -> Halves:
        """Chances of base cells as those of the cells of a pace's system."""
        return np.asarray(self.lifts[pace // 2].applied(chances))

    def back(self, chances_after: Halves, used: IntArray, follow: Halves) -> Halves:
        """One step earlier, (used paces, base cells, goals): what each leads to, if taken."""
        onward = np.zeros_like(chances_after)
        for index, pace in enumerate(used):
            chances = chances_after[index]
            for average in self.onward[pace]:
                chances = average.applied(chances)
            onward[index] = chances
        # For each base cell, (paces, paces) by (paces, goals).
        earlier: Halves = np.matmul(follow, onward.transpose(1, 0, 2)).transpose(1, 0, 2)
        return earlier


@dataclass(frozen=True)
class AveragingMatrix:
    """Weighted sums of lines of one table as lines of another, most of whose weights are 0."""

    columns: IntArray
    shares: Halves
    starts: IntArray

    @classmethod
    def of(
        cls, rows: IntArray, columns: IntArray, weights: FloatArray, shape: tuple[int, int]
    ) -> AveragingMatrix:
        """Weights of pairs of lines, which are added up and brought to sums of 1."""
        pairs, pair_index = np.unique(rows * shape[1] + columns, return_inverse=True)
        summed = np.bincount(pair_index, weights)
        into, out_of = np.divmod(pairs, shape[1])
        total = np.bincount(into, summed, minlength=shape[0])
        share = summed / np.maximum(total[into], _LEAST_WEIGHT)
        # Every line has some pair: all cells of a system hold finest ones, and can be stayed in.
        starts = np.searchsorted(into, np.arange(shape[0]))
        return cls(out_of, share.astype(np.float32), starts)

    def applied(self, values: Any) -> Any:
        """The sums of these lines."""
        if len(self.starts) == len(self.columns):  # each is a copy of one line
            return values[self.columns]
        return np.add.reduceat(self.shares[:, None] * values[self.columns], self.starts, axis=0)


@dataclass(frozen=True)
class Bridge:
    """Chances to end in each goal, by number of steps left: stored for some of these only."""

    steps_left: IntArray
    reached: list[list[Halves]]
    """[place in left][pace]: (cells of its system, goals), averaged over visits."""
    ending: list[list[Halves]]
    """[place in left][pace]: (base cells, goals)"""

    @classmethod
    def of(
        cls,
        grounds: BaseChain,
        follow: FloatArray,
        ends: FloatArray,
        goals: IntArray,
        goal_count: int,
        most: int,
    ) -> Bridge:
        """From the last step back, for one class of paces; cells of no goal have -1."""
        used = np.flatnonzero(follow.sum(axis=0) > 0)
        transitions = follow[used][:, used, None] * grounds.near[used] + _LEAST_WEIGHT
        transitions = (
            (transitions / transitions.sum(axis=1, keepdims=True))
            .transpose(2, 0, 1)
            .astype(np.float32)
        )
        last = _ending_chances(grounds, ends, goals, goal_count)
        far = _apart(grounds, goals, goal_count)
        current = np.repeat((last / last.max(axis=0) + far)[None], len(used), axis=0)
        stored = np.concatenate([[0], length_edges(max(min(most, _FARTHEST), 1))])
        reached, ending = [], []
        for steps_left in range(int(stored[-1]) + 1):
            if steps_left in stored:
                chances_of_pace = {int(pace): current[index] for index, pace in enumerate(used)}
                by_pace = [chances_of_pace.get(pace, current[0]) for pace in range(follow.shape[1])]
                ending.append(by_pace)
                reached.append([grounds.up(pace, chances) for pace, chances in enumerate(by_pace)])
            current = grounds.back(current, used, transitions)
            current = current / np.maximum(current.max(axis=(0, 1)), _LEAST_WEIGHT) + far
        return cls(stored, reached, ending)

    def stored_index(self, steps_left: IntArray) -> IntArray:
        """Where chances for so many steps left are stored, or for the most below that."""
        return np.searchsorted(self.steps_left, steps_left, side="right") - 1


def _ending_chances(grounds: BaseChain, ends: FloatArray, goals: IntArray, goal_count: int) -> Halves:
    """How much likelier a path ends in a base cell, of each goal, than it is there."""
    held = goals >= 0
    weight = np.bincount(
        grounds.base[held] * goal_count + goals[held],
        ends[held] + _LEAST_WEIGHT,
        minlength=grounds.size * goal_count,
    )
    relative_weight = (
        weight.reshape(grounds.size, goal_count) / np.maximum(grounds.crowd, _LEAST_WEIGHT)[:, None]
    )
    return np.asarray(relative_weight.astype(np.float32))


def _apart(grounds: BaseChain, goals: IntArray, goal_count: int) -> Halves:
    """A small chance that falls with the distance to goals, so that nothing is impossible."""
    held = goals >= 0
    counts = np.bincount(goals[held], minlength=goal_count)
    middles = [
        np.bincount(goals[held], coordinates[grounds.base[held]], minlength=goal_count) / counts
        for coordinates in grounds.centres.T
    ]
    distances = np.hypot(*(grounds.centres[:, None] - np.stack(middles, axis=1)).transpose(2, 0, 1))
    wide = max(float(distances.max()), _LEAST_WEIGHT) / 16
    return np.asarray((_LOST * np.exp(-distances / wide)).astype(np.float32))


def _moved(around: IntArray, moves: FloatArray) -> FloatArray:
    """The chances of moves that do not stay; a cell that none leads out of is stayed in."""
    held = np.where(around >= 0, moves, 0.0)
    held[:, 0] = 0
    held[:, 0] = held.sum(axis=1) <= 0
    return np.asarray(held)
