"""Monotone regression in L1: the most likely sorted list, given its entries with Laplace noise.

Least absolute differences are the maximum likelihood estimate under Laplace noise, discrete or
continuous. Where many entries are equal, the square error of their median is about half that of
their mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray


def sorted_fit(noisy: IntArray) -> FloatArray:
    """The midpoint of the lowest and the highest nondecreasing list of least absolute differences.

    *Reference*: Robertson & Waltman 1968 on medians. The midpoint of all minimisers is nearer to
    the truth than either end, as the mean of two estimates is.

    Example
    -------
    >>> sorted_fit(np.array([3, 1, 5])).tolist()
    [2.0, 2.0, 5.0]
    """
    lowest = _lowest(noisy)
    highest = -_lowest(-noisy[::-1])[::-1]
    return (lowest + highest) / 2


def _lowest(noisy: IntArray) -> IntArray:
    """The lowest nondecreasing list of integers with least absolute differences.

    For each value separately: a nondecreasing list has a position from which on its entries reach
    the value. The best position has most noisy entries before it below the value and most behind it
    at or above. So the ranges of possible values are bisected for all entries at once; entries that
    share a range are neighbours, a run.
    """
    low = np.full(len(noisy), noisy.min(initial=0))
    high = np.full(len(noisy), noisy.max(initial=0))
    positions = np.arange(len(noisy))
    while (low < high).any():
        middle = (low + high + 1) // 2
        begins = np.append(True, (low[1:] != low[:-1]) | (high[1:] != high[:-1]))
        first, run = np.flatnonzero(begins), np.cumsum(begins) - 1
        balance = np.cumsum(np.where(noisy >= middle, 1, -1))
        balance -= np.append(0, balance[first[1:] - 1])[run]
        least = np.minimum(np.minimum.reduceat(balance, first), 0)
        # Of equally good positions the last one leaves the most entries below: the lowest list.
        last = np.maximum.reduceat(np.where(balance == least[run], positions, -1), first)
        below = positions <= last[run]
        low = np.where(below, low, middle)
        high = np.where(below, np.maximum(middle - 1, low), high)
    return low
