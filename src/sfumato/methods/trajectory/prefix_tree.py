"""One prefix tree of moves for each reference system: how often each move follows what came before.

Below the root are the cells that steps start from, below a cell the moves out of it, and below
these, by where the path was heading, the moves that follow: a Markov chain of the second order
where there is enough, of the first where there is less. A path heads where its last move led that
was not to stay, by whichever system that was told: so one that rests for a while still knows where
it came from. Every level of every tree holds each step once, so that a level of all trees together
is one table of items; each level pays its own share.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.trajectory.pruning import outstanding

if TYPE_CHECKING:
    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.methods.trajectory.measurement import Measuring
    from sfumato.methods.trajectory.reference_systems import ReferenceSystems


# The parts of a tree's share that cells, their moves, and moves after moves take.
LEVELS = (Fraction(3, 10), Fraction(4, 10), Fraction(3, 10))


@dataclass(frozen=True)
class Steps:
    """The steps of paths as trees hold them."""

    start: IntArray
    """The finest cell that each starts from."""
    system: IntArray
    """The place among the chosen systems that tells it."""
    move: IntArray
    heading: IntArray
    """The last move before that was not to stay, of whichever system; 0 where there was none."""
    previous: IntArray
    """The place of the system of the step before; their number where there was none."""
    owners: IntArray


def steps_of(
    systems: ReferenceSystems,
    chosen: tuple[int, ...],
    finest: IntArray,
    steps: IntArray,
    owners: IntArray,
) -> Steps:
    """Tell every step at the finest of the chosen systems that can; owners are those of points."""
    start, end = finest[steps], finest[steps + 1]
    system, move = systems.assign(start, end, chosen)
    follows = np.zeros(len(steps), dtype=bool)
    follows[1:] = np.diff(steps) == 1
    previous = np.full(len(steps), len(chosen))
    previous[1:] = np.where(follows[1:], system[:-1], len(chosen))
    return Steps(start, system, move, headings(move, follows), previous, owners[steps])


def headings(move: IntArray, follows: BoolArray) -> IntArray:
    """Of each step the last move before it, within its path, that was not to stay; or 0."""
    position = np.arange(len(move))
    begun = np.maximum.accumulate(np.where(follows, 0, position))
    moved = np.maximum.accumulate(np.where(move > 0, position, -1))
    last = np.concatenate([[-1], moved[:-1]]) if len(move) else position
    return np.where(last >= begun, move[last], 0) if len(move) else position


@dataclass(frozen=True)
class PrefixTree:
    """Noisy counts of one system's moves; what was pruned is 0."""

    cells: FloatArray
    """(cells,)"""
    moves: FloatArray
    """(cells, moves)"""
    after: FloatArray
    """(cells, headings, moves)"""


def measured_trees(
    measuring: Measuring,
    systems: ReferenceSystems,
    chosen: tuple[int, ...],
    steps: Steps,
    share: Fraction,
    cap: int,
) -> tuple[list[PrefixTree], tuple[float, float, float]]:
    """The trees of all chosen systems, level by level, and the deviations of their counts."""
    shares = [share * level_share for level_share in LEVELS]
    deviations = tuple(measuring.cost.stddev(system, cap) for system in shares)
    sizes = np.array([systems.systems[system].size for system in chosen])
    moves = np.array([systems.systems[system].neighbours.shape[1] for system in chosen])
    cell = np.zeros(len(steps.start), dtype=np.int64)
    for index, number in enumerate(chosen):
        mine = steps.system == index
        cell[mine] = systems.above[number][steps.start[mine]]
    own = steps.system

    first = np.cumsum(sizes) - sizes
    cells = measuring.table(first[own] + cell, int(sizes.sum()), steps.owners, shares[0], cap=cap)
    worth = outstanding(cells, deviations[0])
    wide = np.repeat(moves, sizes)
    ends = np.cumsum(wide) - wide
    asked = np.flatnonzero(np.repeat(worth, wide))
    codes = ends[first[own] + cell] + steps.move
    second = measuring.table(codes, int(wide.sum()), steps.owners, shares[1], cap=cap, asked=asked)

    around = systems.headings
    square = wide * around
    corner = np.cumsum(square) - square
    codes = corner[first[own] + cell] + steps.heading * moves[own] + steps.move
    crowded = outstanding(np.sqrt(np.maximum(cells, 0) / wide), np.sqrt(deviations[2]))
    asked = np.flatnonzero(np.repeat(worth & crowded, square))
    third = measuring.table(codes, int(square.sum()), steps.owners, shares[2], cap=cap, asked=asked)

    trees = []
    for index in range(len(chosen)):
        low, cell_count, out = first[index], sizes[index], moves[index]
        pairs = second[ends[low] : ends[low] + cell_count * out]
        triples = third[corner[low] : corner[low] + cell_count * around * out]
        trees.append(
            PrefixTree(
                np.maximum(cells[low : low + cell_count], 0),
                np.maximum(pairs, 0).reshape(cell_count, out),
                np.maximum(triples, 0).reshape(cell_count, around, out),
            )
        )
    return trees, (deviations[0], deviations[1], deviations[2])
