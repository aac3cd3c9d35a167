"""One prefix tree of moves for each reference system: counts of each move after earlier moves.

Below the root are the cells from which steps start, below a cell the moves out of it, and below
these, by heading, the moves that follow: a Markov chain of second order if counts suffice,
otherwise of first order. The heading of a path is its last move that left a cell, in whichever
system expressed it, so a path that rests keeps its heading. Every level of every tree holds each
step once, so a level of all trees together is one table of items; each level pays its own share.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.methods.trajectory.cells import ReferenceSystems
    from sfumato.methods.trajectory.measurement import Measuring


# Adaptive pruning: coarse counts are measured first, and finer counts only below coarse counts that
# exceed their noise. This choice uses only noisy counts, so it costs no further budget.


# A count is refined if it is more than this many standard deviations above 0. Noise alone passes
# in about 2 % of cells.
OUTSTANDING = 2.0


def exceeds_noise(counts: FloatArray, stddev: float) -> BoolArray:
    """Return which counts stand out from their noise."""
    return np.asarray(counts > OUTSTANDING * stddev)


def density(
    measuring: Measuring,
    systems: ReferenceSystems,
    chosen: tuple[int, ...],
    finest: IntArray,
    owners: IntArray,
    share: Fraction,
    *,
    cap: int = 1,
) -> FloatArray:
    """Measure the density of the finest cells, from the coarsest chosen system down.

    Every system takes an equal part of the share. Children of cells that stand out from their
    noise are measured and scaled to the sum of their parent. The others share it evenly.
    """
    system_share, fine = share / len(chosen), len(systems.above[0])
    stddev = measuring.cost.stddev(system_share, cap)
    weight, open_ = np.ones(fine), np.ones(fine, dtype=bool)
    parent = np.zeros(fine, dtype=np.int64)
    for index, number in enumerate(reversed(chosen)):
        belongs, size = systems.above[number], systems.systems[number].size
        asked = np.unique(belongs[open_])
        noisy = measuring.table(belongs[finest], size, owners, system_share, cap=cap, asked=asked)
        measured = np.maximum(noisy, 0)[belongs] / systems.fine_cells(number)[belongs]
        if index == 0:
            weight = measured
        else:
            # Within each refined parent: its own sum, shared in proportion to its children.
            held, sums = (
                np.bincount(parent, weights=density_part) for density_part in (weight, measured)
            )
            factor = np.divide(held, sums, out=np.zeros_like(held), where=sums > 0)
            weight = np.where(open_ & (sums > 0)[parent], measured * factor[parent], weight)
        open_ &= exceeds_noise(noisy, stddev)[belongs]
        parent = belongs
    return weight if weight.sum() > 0 else np.ones(fine)


# The parts of a tree's share that cells, their moves, and moves after moves take.
LEVELS = (Fraction(3, 10), Fraction(4, 10), Fraction(3, 10))


@dataclass(frozen=True)
class Steps:
    """The steps of paths, coded for the trees."""

    start: IntArray
    """The finest cell that each step starts from."""
    system: IntArray
    """The index, among the chosen systems, of the finest one that can express the step."""
    move: IntArray
    heading: IntArray
    """The last move before that left a cell, in whichever system; 0 if there was none."""
    previous: IntArray
    """The system of the step before; the number of systems if there was none."""
    owners: IntArray


def assign_steps(
    systems: ReferenceSystems,
    chosen: tuple[int, ...],
    finest: IntArray,
    steps: IntArray,
    owners: IntArray,
) -> Steps:
    """Code each step by the finest chosen system that can express it; `owners` is by point."""
    start, end = finest[steps], finest[steps + 1]
    system, move = systems.assign(start, end, chosen)
    follows = np.zeros(len(steps), dtype=bool)
    follows[1:] = np.diff(steps) == 1
    previous = np.full(len(steps), len(chosen))
    previous[1:] = np.where(follows[1:], system[:-1], len(chosen))
    return Steps(start, system, move, headings(move, follows), previous, owners[steps])


def headings(move: IntArray, follows: BoolArray) -> IntArray:
    """For each step, the last move before it in its path that left a cell; or 0."""
    position = np.arange(len(move))
    path_start = np.maximum.accumulate(np.where(follows, 0, position))
    moved = np.maximum.accumulate(np.where(move > 0, position, -1))
    last = np.concatenate([[-1], moved[:-1]]) if len(move) else position
    return np.where(last >= path_start, move[last], 0) if len(move) else position


@dataclass(frozen=True)
class PrefixTree:
    """Noisy counts of the moves of one system. Pruned counts are 0."""

    cells: FloatArray
    """(cells,)"""
    moves: FloatArray
    """(cells, moves)"""
    after: FloatArray
    """(cells, headings, moves)"""


def measure_trees(
    measuring: Measuring,
    systems: ReferenceSystems,
    chosen: tuple[int, ...],
    steps: Steps,
    share: Fraction,
    cap: int,
) -> tuple[list[PrefixTree], tuple[float, float, float]]:
    """Measure the trees of all chosen systems, level by level.

    Returns the trees and the standard deviations of their three levels. Each level of all trees
    together is one table in which a step counts once, so each level's share pays for all trees.
    """
    shares = [share * level_share for level_share in LEVELS]
    deviations = tuple(measuring.cost.stddev(level_share, cap) for level_share in shares)
    sizes = np.array([systems.systems[system].size for system in chosen])
    moves = np.array([systems.systems[system].neighbours.shape[1] for system in chosen])
    cell = np.zeros(len(steps.start), dtype=np.int64)
    for index, number in enumerate(chosen):
        mine = steps.system == index
        cell[mine] = systems.above[number][steps.start[mine]]
    own = steps.system

    first = np.cumsum(sizes) - sizes
    cells = measuring.table(first[own] + cell, int(sizes.sum()), steps.owners, shares[0], cap=cap)
    worth = exceeds_noise(cells, deviations[0])
    wide = np.repeat(moves, sizes)
    ends = np.cumsum(wide) - wide
    asked = np.flatnonzero(np.repeat(worth, wide))
    codes = ends[first[own] + cell] + steps.move
    second = measuring.table(codes, int(wide.sum()), steps.owners, shares[1], cap=cap, asked=asked)

    around = systems.headings
    square = wide * around
    corner = np.cumsum(square) - square
    codes = corner[first[own] + cell] + steps.heading * moves[own] + steps.move
    crowded = exceeds_noise(np.sqrt(np.maximum(cells, 0) / wide), np.sqrt(deviations[2]))
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
