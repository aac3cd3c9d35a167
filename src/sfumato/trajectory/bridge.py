"""How likely a walk is to end where it must, from every cell and for every number of steps left.

Under the chain that the trees tell, which a walk then follows, weighed by these chances: so it goes
round by the streets that others take, and comes to its end without a leap. The chain remembers its
last pace, not from where it came. Read off noisy tables alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix, identity

from sfumato.trajectory.ends import length_edges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.trajectory.reference_systems import ReferenceSystems

    Ints = NDArray[np.int64]
    Reals = NDArray[np.float64]
    Halves = NDArray[np.float32]

_LEAST = 1e-30
_LOST = 1e-6
"""The weight of a walk that no chain leads to its end, next to where it must be."""
_MOST_CELLS = 1 << 10
_FARTHEST = 200


@dataclass(frozen=True)
class Chain:
    """The moves of each chosen system, and where its steps start."""

    systems: ReferenceSystems
    chosen: tuple[int, ...]
    moves: list[Reals]
    """For each chosen system, (cells, moves): the chances of a move."""
    plain: list[Reals]
    """For each, the chances of its moves over all cells."""
    near: list[Reals]
    """For each, of its cells: the share of its steps that start there, a finest cell."""
    visits: Reals
    """Of each of the finest cells."""


class Grounds:
    """The chain by the cells of one system, of which there are not too many."""

    def __init__(self, chain: Chain) -> None:
        systems = chain.systems
        number = next(n for n, one in enumerate(systems.systems) if one.size <= _MOST_CELLS)
        self.base = systems.above[number]
        """For each of the finest cells, the cell that chances are told by."""
        self.size = systems.systems[number].size
        self.centres = systems.systems[number].centres
        visits = chain.visits + 1e-9 * max(float(chain.visits.mean()), _LEAST)
        self.crowd = np.bincount(self.base, visits, minlength=self.size)
        self.lifts, self.steps, self.rests = [], [], []
        self.near = np.zeros((2 * len(chain.chosen), self.size))
        for place, one in enumerate(chain.chosen):
            above, cells = systems.above[one], systems.systems[one].size
            lift = _averaged(above, self.base, visits, (cells, self.size))
            fall = _averaged(self.base, above, visits, (self.size, cells))
            moved = chain.moves[place]
            stay = moved[:, 0] / max(chain.plain[place][0], 1e-3)
            away = (1 - moved[:, 0]) / max(1 - chain.plain[place][0], 1e-3)
            self.near[2 * place] = fall @ (chain.near[place] * stay)
            self.near[2 * place + 1] = fall @ (chain.near[place] * away)
            self.lifts.append(lift)
            self.rests.append((fall, identity(cells, dtype=np.float32, format="csr")))
            self.steps.append((fall, _moved(systems.systems[one].neighbours, moved)))

    def up(self, pace: int, chances: Halves) -> Halves:
        """Chances of base cells as those of the cells of a pace's system."""
        return np.asarray(self.lifts[pace // 2] @ chances)

    def back(self, told: list[Halves], follow: Halves) -> list[Halves]:
        """One step earlier: what each pace leads to, and which pace is taken."""
        onward = []
        for pace, chances in enumerate(told):
            fall, moves = (self.steps if pace % 2 else self.rests)[pace // 2]
            onward.append(np.asarray(fall @ (moves @ chances)))
        both = np.stack(onward)
        return [np.einsum("pc,pcg->cg", one, both, optimize=True) for one in follow]


@dataclass(frozen=True)
class Bridge:
    """Chances to end in each goal, by number of steps left: stored for some of these only."""

    left: Ints
    reached: list[list[Halves]]
    """[place in left][pace]: (cells of its system, goals), averaged over visits."""
    ending: list[list[Halves]]
    """[place in left][pace]: (base cells, goals)"""

    @classmethod
    def of(
        cls, grounds: Grounds, follow: Reals, last: Reals, apart: Halves, most: int
    ) -> Bridge:
        """From the last step back, for one class: chances of paces, and the weights of ends."""
        taken = follow[:-1, :, None] * grounds.near[None] + _LEAST
        taken = (taken / taken.sum(axis=1, keepdims=True)).astype(np.float32)
        now = [(last / last.max(axis=0) + apart).astype(np.float32)] * len(taken)
        stored = np.concatenate([[0], length_edges(max(min(most, _FARTHEST), 1))])
        reached, ending = [], []
        for left in range(int(stored[-1]) + 1):
            told = [grounds.up(pace, one) for pace, one in enumerate(now)]
            if left in stored:
                reached.append(told)
                ending.append(now)
            now = grounds.back(told, taken)
            top = np.maximum(np.max([one.max(axis=0) for one in now], axis=0), 1e-30)
            now = [one / top + apart for one in now]
        return cls(stored, reached, ending)

    def place(self, left: Ints) -> Ints:
        """Where chances for so many steps left are stored, or for the most below that."""
        return np.searchsorted(self.left, left, side="right") - 1


def ends_of(grounds: Grounds, ends: Reals, goals: Ints, many: int) -> Reals:
    """How much likelier a path ends in a base cell, of each goal, than it is there."""
    weight = np.bincount(grounds.base * many + goals, ends + _LEAST, minlength=grounds.size * many)
    return weight.reshape(grounds.size, many) / np.maximum(grounds.crowd, _LEAST)[:, None]


def apart(grounds: Grounds, goals: Reals) -> Halves:
    """A small chance that falls with the distance to goals, so that nothing is impossible."""
    gone = np.hypot(*(grounds.centres[:, None] - goals[None]).transpose(2, 0, 1))
    wide = max(float(gone.max()), _LEAST) / 16
    return (_LOST * np.exp(-gone / wide)).astype(np.float32)


def _averaged(rows: Ints, columns: Ints, weights: Reals, shape: tuple[int, int]) -> csr_matrix:
    """For lines of one system the shares of another's cells in them, by finest cells."""
    total = np.bincount(rows, weights, minlength=shape[0])
    share = (weights / total[rows]).astype(np.float32)
    return csr_matrix((share, (rows, columns)), shape=shape)


def _moved(around: Ints, moves: Reals) -> csr_matrix:
    """Where moves lead, those that stay left out."""
    held = np.where(around >= 0, moves, 0.0)
    held[:, 0] = 0
    held /= np.maximum(held.sum(axis=1, keepdims=True), _LEAST)
    rows = np.repeat(np.arange(len(around)), around.shape[1])
    shape = (len(around), len(around))
    return csr_matrix(
        (held.ravel().astype(np.float32), (rows, np.maximum(around, 0).ravel())), shape=shape
    )
