"""How fast paths are: which system tells the next step, and whether it leaves its cell.

A pace is a system with that. What follows a pace hangs on the one before and on how fast the whole
path must be: the distance between the cells of its ends over its steps, in classes. So somebody on
foot stays on foot, and a bus that stands goes on as a bus. The class is a function of the path's
own ends and length, so each step still counts in one cell of one table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.trajectory.cells import CellSystem


# Sides of the finest cells that a path must come nearer to its end with every step.
_EDGES = np.array([0.4, 0.8, 1.2, 1.8, 2.7, 5.0])
CLASSES = len(_EDGES) + 1
# A pace follows another where its count is so many deviations above 0: few are there by chance.
_CERTAIN = 4.0


def pace_classes(
    grid: CellSystem, start: IntArray, end: IntArray, lengths: IntArray, side: float
) -> IntArray:
    """How fast paths must be that lead from cells to cells by so many points."""
    apart = np.hypot(*(grid.centres[start] - grid.centres[end]).T)
    sides_per_step = apart / np.maximum(lengths - 1, 1) / side
    return np.asarray(np.searchsorted(_EDGES, sides_per_step, side="right"))


def paced(system: IntArray, move: IntArray) -> IntArray:
    """The number of each step's pace: even ones stay in their cells."""
    return 2 * system + (move > 0)


def following(counts: FloatArray, stddev: float) -> FloatArray:
    """The chances of paces after paces, and after none, (classes, paces and none, paces).

    What noise may have made is left out. Where nothing is left, it is as in the class, or in all.
    """
    certain = np.where(counts > _CERTAIN * stddev, counts, 0.0)
    of_class = certain.sum(axis=1, keepdims=True)
    of_all = of_class.sum(axis=0, keepdims=True)
    if of_all.sum() <= 0:
        of_all = np.maximum(counts, 0).sum(axis=(0, 1), keepdims=True) + _LEAST
    of_class = np.where(of_class.sum(axis=2, keepdims=True) > 0, of_class, of_all)
    mixed = certain + 2 * stddev * of_class / of_class.sum(axis=2, keepdims=True)
    return np.asarray(mixed / mixed.sum(axis=2, keepdims=True))
