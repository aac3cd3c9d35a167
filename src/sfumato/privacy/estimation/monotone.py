"""The likeliest sorted list behind one whose entries have Laplace noise.

Least absolute differences are what Laplace noise, whole or real, makes likeliest. Where many
entries are alike their median is about half as far off, squared, as their mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray


def sorted_fit(noisy: IntArray) -> FloatArray:
    """The middle between the lowest and the highest rising list of least absolute differences.

    *Reference*: Robertson & Waltman 1968 on medians; the middle of all minimisers is nearer to the
    truth than either end, as the mean of two estimates is.
    """
    lowest = _lowest(noisy)
    highest = -_lowest(-noisy[::-1])[::-1]
    return (lowest + highest) / 2


def _lowest(noisy: IntArray) -> IntArray:
    """The lowest rising list of whole numbers with least absolute differences.

    Whether an entry is at least some value is decided for each value by itself: a rising list has a
    place from which on entries are, and the best is where most of those before are below and most
    of those behind are not. So ranges of values are halved for all entries at once, as long as they
    differ: entries that share a range lie side by side.
    """
    low = np.full(len(noisy), noisy.min(initial=0))
    high = np.full(len(noisy), noisy.max(initial=0))
    places = np.arange(len(noisy))
    while (low < high).any():
        middle = (low + high + 1) // 2
        begins = np.append(True, (low[1:] != low[:-1]) | (high[1:] != high[:-1]))
        first, part = np.flatnonzero(begins), np.cumsum(begins) - 1
        balance = np.cumsum(np.where(noisy >= middle, 1, -1))
        balance -= np.append(0, balance[first[1:] - 1])[part]
        least = np.minimum(np.minimum.reduceat(balance, first), 0)
        # Of equally good places the last leaves the most entries below.
        last = np.maximum.reduceat(np.where(balance == least[part], places, -1), first)
        below = places <= last[part]
        low = np.where(below, low, middle)
        high = np.where(below, np.maximum(middle - 1, low), high)
    return low
