"""How far off the median of several noisy answers is, which is not how far off their mean is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato.mechanisms.geometric import Geometric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.publish.purse import Noise

_FINE = 400
"""So many points for a standard deviation are as good as all of them."""
_FAR, _FAR_BY_LAPLACE = 12, 40
"""Standard deviations beyond which there is nothing left to add up."""


def median_stddev(noise: Noise, size: int) -> float:
    """The standard deviation of the median of so many independent noises.

    With F the law of one noise, the k-th of n is at most t with the chance that k of n are, which
    is an incomplete beta function of F(t). Of an even number 2 m the median is the mean of the
    middle two, a and b: E[((a + b) / 2)^2] = E[a^2 + b^2] / 2 - E[(b - a)^2] / 4, where b - a
    counts the points t with m noises up to t and m behind.

    *Reference*: David & Nagaraja 2003, Order Statistics, sections 2.1 and 3.1.
    """
    points, below = _law(noise)
    if size % 2:
        return math.sqrt(_square(points, below, size // 2 + 1, size))
    half = size // 2
    middle = (_square(points, below, half, size) + _square(points, below, half + 1, size)) / 2
    step = float(points[1] - points[0])
    lower, upper = below**half, (1 - below) ** half
    # Pairs s < t of points between the two, each in both orders, and the points themselves.
    before = np.cumsum(lower) - lower
    gap = step**2 * math.comb(size, half) * float((upper * (2 * before + lower)).sum())
    return math.sqrt(max(middle - gap / 4, 0.0))


def _law(noise: Noise) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points of the noise, all or evenly spaced ones, and the chance to be at most each."""
    step = max(1, int(noise.stddev / _FINE))
    far = _FAR_BY_LAPLACE if isinstance(noise, Geometric) else _FAR
    reach = math.ceil(far * noise.stddev / step) + 2
    points = step * np.arange(-reach, reach + 1, dtype=np.float64)
    if isinstance(noise, Geometric):
        weights = np.exp(-np.abs(points) / float(noise.scale))
    else:
        weights = np.exp(-(points**2) / (2 * noise.variance))
    return points, np.minimum(np.cumsum(weights) / weights.sum(), 1.0)


def _square(
    points: NDArray[np.float64], below: NDArray[np.float64], place: int, size: int
) -> float:
    """The mean square of the place-th smallest of so many."""
    from scipy.special import betainc

    chances = np.diff(betainc(place, size - place + 1, below), prepend=0.0)
    return float((chances * points**2).sum())
