"""Pseudo-random numbers that depend on the row number only, so any row can be made by itself.

These draws protect no one and concern no real people: they are a fixed function of the row number
(the SplitMix64 finalizer, Steele, Lea and Flood 2014), and anyone can compute them.
Decision `sample-town`.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray

    Counters = NDArray[np.uint64]

# The constants of SplitMix64.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)


def bits(fact: str, counters: Counters) -> Counters:
    """Turn each counter into 64 mixed bits; every fact has a stream of its own."""
    mixed = counters * GOLDEN + stream(fact)
    mixed ^= mixed >> np.uint64(30)
    mixed *= FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


def uniform(fact: str, counters: Counters) -> FloatArray:
    """Spread the counters over [0, 1) in steps of 2^-32."""
    return (bits(fact, counters) >> np.uint64(32)).astype(np.float64) * 2.0**-32


def below(fact: str, counters: Counters, limit: int | IntArray) -> IntArray:
    """Give each counter a whole number from 0 to its limit, the limit not included."""
    return (uniform(fact, counters) * limit).astype(np.int64)


def bell(fact: str, counters: Counters) -> FloatArray:
    """Give each counter a number around 0 with spread about 1, rarely beyond 4."""
    # Kept off 0 and 1, where the logistic quantile is infinite.
    middle = uniform(fact, counters) * (1 - 2.0**-12) + 2.0**-13
    logistic: FloatArray = np.log(middle / (1 - middle)) * (np.sqrt(3) / np.pi)
    return logistic


class WeightedChoice:
    """Options with weights, one row of weights for each group of people."""

    def __init__(self, weights: FloatArray) -> None:
        table = np.atleast_2d(weights).astype(np.float64)
        sums = table.cumsum(axis=1)
        groups = np.arange(len(table), dtype=np.float64)[:, None]
        self.options = table.shape[1]
        # One sorted array for all groups, so that one search finds the options of all people.
        self.steps = (sums / sums[:, -1:] + groups).ravel()

    def __call__(self, fact: str, counters: Counters, groups: IntArray | int = 0) -> IntArray:
        """Choose an option for each counter, by the weights of its group.

        The steps of group g lie in (g, g + 1]. Adding g to a draw is exact in float64, because a
        draw has 32 bits and there are few groups.
        """
        steps = np.searchsorted(self.steps, uniform(fact, counters) + groups, side="right")
        return steps.astype(np.int64) - np.int64(self.options) * groups


@cache
def stream(fact: str) -> np.uint64:
    """The constant that separates the draws of one fact from those of all others."""
    return np.uint64(int.from_bytes(blake2b(fact.encode(), digest_size=8).digest()))
