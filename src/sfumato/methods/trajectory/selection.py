"""Private model selection: which reference systems tell paths best, for what noise leaves of them.

A fine system tells steps precisely, but shares them among many cells, each with its noise. What is
measured for the choice is how many steps each system would tell, one small table for a share of the
price of its own; the choice follows from that and from public facts. Decision `trajectories`.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.trajectory.measurement import Measuring
    from sfumato.methods.trajectory.reference_systems import ReferenceSystems


# How many of its own sides a step is off where noise alone decided its move.
_WANDERING = 0.5


def measured_speeds(
    measuring: Measuring,
    systems: ReferenceSystems,
    start: IntArray,
    end: IntArray,
    owners: IntArray,
    share: Fraction,
    cap: int,
) -> FloatArray:
    """How many steps each system would tell if all were chosen: noisy, never negative."""
    everything = tuple(range(len(systems.systems)))
    system, _ = systems.assign(start, end, everything)
    return np.maximum(measuring.table(system, len(everything), owners, share, cap=cap), 0)


def best_systems(systems: ReferenceSystems, speeds: FloatArray, stddev: float) -> tuple[int, ...]:
    """The set of systems, the coarsest always among them, by which steps are least far off.

    Steps that a system tells are off by about a side of its cells, and by several sides as far as
    noise, of so large a deviation in each count, drowns them.
    """
    last = len(systems.systems) - 1
    candidates = [
        (*subset, last) for size in range(last + 1) for subset in combinations(range(last), size)
    ]
    return min(candidates, key=lambda candidate: _off(systems, candidate, speeds, stddev))


def _off(
    systems: ReferenceSystems,
    chosen: tuple[int, ...],
    speeds: FloatArray,
    stddev: float,
) -> float:
    off, finest = 0.0, 0
    for number in chosen:
        grid = systems.systems[number]
        steps = float(speeds[finest : number + 1].sum())
        finest = number + 1
        side = (len(systems.above[0]) / grid.size) ** 0.5  # in sides of the finest
        counts = grid.size * grid.neighbours.shape[1]
        drowned = min(steps, counts * stddev)
        # One more system costs its own noise, so one that tells next to nothing is left out.
        off += side * (steps + _WANDERING * drowned + grid.neighbours.shape[1] * stddev)
    return off
