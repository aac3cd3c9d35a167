"""Adaptive pruning: what noise drowns is not looked at closer.

Counts are measured from the coarse to the fine, and finer ones only below what stands out of its
noise. Which those are is told by noisy counts alone, so it costs nothing besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.trajectory.measuring import Measuring
    from sfumato.trajectory.reference_systems import ReferenceSystems

    Ints = NDArray[np.int64]
    Reals = NDArray[np.float64]

OUTSTANDING = 2.0
"""A count is worth a closer look where it is so many standard deviations above 0."""


def outstanding(counts: Reals, stddev: float) -> NDArray[np.bool_]:
    """Which counts stand out of their noise."""
    return np.asarray(counts > OUTSTANDING * stddev)


def density(
    measuring: Measuring,
    systems: ReferenceSystems,
    chosen: tuple[int, ...],
    finest: Ints,
    owners: Ints,
    share: Fraction,
    *,
    cap: int = 1,
) -> Reals:
    """How much lies in each of the finest cells, measured from the coarsest chosen system down.

    Every system takes an equal part of the share. Children of what stands out are measured and
    brought to the sum of their parent; all others share it evenly.
    """
    each = share / len(chosen)
    stddev = measuring.cost.stddev(each, cap)
    weight = np.ones(len(systems.above[0]))
    for place, number in enumerate(reversed(chosen)):
        belongs, size = systems.above[number], systems.systems[number].size
        spread = np.bincount(belongs, weights=weight, minlength=size)
        if place == 0:
            asked = np.arange(size)
        else:
            asked = np.flatnonzero(np.bincount(belongs, weights=open_, minlength=size))
        noisy = measuring.table(belongs[finest], size, owners, each, cap=cap, asked=asked)
        told = spread.copy()
        told[asked] = np.maximum(noisy[asked], 0)
        if place:
            # Within each parent that was looked into: its own sum, shared as its children say.
            parent = systems.above[list(reversed(chosen))[place - 1]]
            sums = np.bincount(parent, weights=told[belongs] / systems.fine_cells(number)[belongs])
            held = np.bincount(parent, weights=weight)
            told_fine = told[belongs] / systems.fine_cells(number)[belongs]
            factor = np.divide(held, sums, out=np.zeros_like(held), where=sums > 0)
            new = np.where(sums[parent] > 0, told_fine * factor[parent], weight)
            weight = np.where(open_ > 0, new, weight)
        else:
            weight = told[belongs] / systems.fine_cells(number)[belongs]
        worth = np.zeros(size, dtype=bool)
        worth[asked] = outstanding(noisy[asked], stddev)
        open_ = worth[belongs].astype(np.float64)
    total = weight.sum()
    return weight if total > 0 else np.ones(len(weight))
