"""Adaptive pruning: what noise drowns is not looked at closer.

Counts are measured from the coarse to the fine, and finer ones only below what stands out of its
noise. Which those are is told by noisy counts alone, so it costs nothing besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.methods.trajectory.measurement import Measuring
    from sfumato.methods.trajectory.reference_systems import ReferenceSystems


# A count is worth a closer look where it is so many standard deviations above 0.
OUTSTANDING = 2.0


def outstanding(counts: FloatArray, stddev: float) -> BoolArray:
    """Which counts stand out of their noise."""
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
    """How much lies in each of the finest cells, measured from the coarsest chosen system down.

    Every system takes an equal part of the share. Children of what stands out are measured and
    brought to the sum of their parent; all others share it evenly.
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
            # Within each parent that was looked into: its own sum, shared as its children say.
            held, sums = (
                np.bincount(parent, weights=density_part) for density_part in (weight, measured)
            )
            factor = np.divide(held, sums, out=np.zeros_like(held), where=sums > 0)
            weight = np.where(open_ & (sums > 0)[parent], measured * factor[parent], weight)
        open_ &= outstanding(noisy, stddev)[belongs]
        parent = belongs
    return weight if weight.sum() > 0 else np.ones(fine)
