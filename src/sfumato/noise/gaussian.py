"""Exact discrete Gaussian variables, by rejection from discrete Laplace ones.

With t = floor(sigma) + 1 and Y discrete Laplace of scale t, Y is kept with probability exp(-z),
z = (|Y| - sigma^2 / t)^2 / (2 sigma^2): P(kept = y) is proportional to exp(-y^2 / (2 sigma^2)).

*The error of z in float64.* Put d = |Y| - sigma^2/t, so |d| = sigma sqrt(2 z); sigma^2/t <= sigma.
|Y| and sigma^2/t are right within 2^-52 of themselves, so d within e = 2^-51 (|d| + 2 sigma), and
d^2 / (2 sigma^2) within e (2 |d| + e) / (2 sigma^2) + 2^-50 z <= 2^-50 (z + 2 sqrt(2 z)) + 2^-49 z,
less than 2^-45 (1 + z), which is what the comparison with an exponential allows for.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.noise.blocks import collect
from sfumato.noise.exponential import exceed
from sfumato.noise.laplace import laplace_trials

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.blocks import Draws
    from sfumato.noise.entropy import Entropy

_SMALLEST, _LARGEST = Fraction(1, 1 << 1000), Fraction(1 << 1000)
_KEPT_SHARE = 0.5  # roughly: it decides only how many trials are made at once


def discrete_gaussian(variance: Fraction, size: int, entropy: Entropy) -> NDArray[Any]:
    """Draw discrete Gaussian variables: int64, or Python integers where one of them needs more.

    *Guarantee*: P(X = k) proportional to exp(-k^2 / (2 variance)) exactly.
    *Error*: variance at most `variance`, and nearly it for variance above 1.
    *Edges*: variance from 2^-1000 to 2^1000, whose levels float64 can hold; others are refused.
    *Reference*: Canonne, Kamath and Steinke 2020, Algorithm 3.
    """
    if not _SMALLEST <= variance <= _LARGEST:
        raise ParameterError(
            "stddev_out_of_range",
            "Gaussian noise cannot be drawn with this stddev: it must be between 2^-500 and 2^500. "
            "Choose another unit for the values.",
        )
    return collect(size, _KEPT_SHARE, lambda count: _trials(variance, count, entropy))


def _trials(variance: Fraction, count: int, entropy: Entropy) -> Draws:
    """The discrete Gaussian variables that `count` trials give."""
    scale = isqrt(variance.__floor__()) + 1
    candidates = laplace_trials(Fraction(scale), count, entropy)
    centre = variance / scale
    levels = np.abs(candidates.floats())
    levels -= float(centre)
    levels *= levels
    levels /= 2 * float(variance)

    def exact(place: int) -> Fraction:
        return (abs(candidates.exact(place)) - centre) ** 2 / (2 * variance)

    return candidates.kept(exceed(levels, exact, entropy))
