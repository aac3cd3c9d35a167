"""Exact noise on integers: geometric, discrete Laplace, discrete Gaussian, rounded Cauchy.

*Geometric.* A geometric variable of scale s has P(G = k) = (1 - a) a^k with a = exp(-1/s); it is
floor(s E) for an exponential E. For s > 2^24, where float64 could not hold the product, G = 2^j H +
R with independent parts: H is geometric of scale s / 2^j, and R in [0, 2^j) has P(R = r)
proportional to exp(-r/s): a uniform r kept with probability exp(-r/s), which is above 1 - 2^-23.

*Laplace.* A discrete Laplace variable has P(X = k) proportional to a^|k|, so P(|X| >= k) =
2 a^k / (1 + a) for k >= 1. With d = log(2 / (1 + a)) this is P(E > k/s - d), hence |X| =
floor(s (E + d)), and the sign is a fair coin. Above 2^24 it is a geometric variable with a random
sign, where the zero that both signs share, which hardly ever comes, is kept with one of them only.

*Gaussian*, by rejection from discrete Laplace. With t = floor(sigma) + 1 and Y discrete Laplace of
scale t, Y is kept with probability exp(-z), z = (|Y| - sigma^2 / t)^2 / (2 sigma^2): P(kept = y) is
proportional to exp(-y^2 / (2 sigma^2)). The error of z in float64: put d = |Y| - sigma^2/t, so
|d| = sigma sqrt(2 z); sigma^2/t <= sigma. |Y| and sigma^2/t are right within 2^-52 of them, so
d within e = 2^-51 (|d| + 2 sigma), and d^2 / (2 sigma^2) within e (2 |d| + e) / (2 sigma^2) +
2^-50 z <= 2^-50 (z + 2 sqrt(2 z)) + 2^-49 z, less than 2^-45 (1 + z), which is what the comparison
with an exponential allows for.

*Cauchy.* If (X, Y) is uniform in the quarter disk, X / Y is the size of a Cauchy variable. X and Y
are read bit by bit: 53 bits of each decide nearly every draw in floating point, whose few roundings
(each at most 2^-53 of its result) and the unread bits are covered by the margins below; a draw that
they leave undecided keeps its bits and reads 64 more of each until whole-number arithmetic decides.

Decision `exact-noise`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.privacy.accounting.elementary import exp_down, exp_up, log_down, log_up
from sfumato.privacy.noise.entropy import Draws, collect
from sfumato.privacy.noise.exponential import Exponentials, Revealed, exceed, floors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.privacy.noise.exponential import Enclosure

_DIRECT = 1 << 24
_LOW_BITS, _SURE_BITS = 40, 23  # parts of one word


def geometric(scale: Fraction, size: int, entropy: Entropy) -> NDArray[Any]:
    """Draw geometric variables: int64, or Python integers where one of them needs more.

    *Guarantee*: P(G = k) = (1 - a) a^k exactly, a = exp(-1 / scale).
    *Error*: mean 1 / (exp(1/scale) - 1).
    *Edges*: any positive scale.
    *Reference*: the module's argument; Devroye, Non-uniform random variate generation, 1986, X.2.
    """
    return collect(size, 1.0, lambda count: _signed_geometric(scale, count, entropy)[0])


def discrete_laplace(scale: Fraction, size: int, entropy: Entropy) -> NDArray[Any]:
    """Draw discrete Laplace variables: int64, or Python integers where one of them needs more.

    *Guarantee*: P(X = k) = (1 - a) / (1 + a) a^|k| exactly, a = exp(-1 / scale).
    *Error*: variance 1 / (2 sinh^2(1 / (2 scale))).
    *Edges*: any positive scale.
    *Reference*: Ghosh, Roughgarden and Sundararajan 2009; the module's argument.
    """
    return collect(size, 1.0, lambda count: laplace_trials(scale, count, entropy))


def laplace_trials(scale: Fraction, count: int, entropy: Entropy) -> Draws:
    """Up to `count` discrete Laplace variables: those of `count` trials that are kept."""
    if scale <= _DIRECT:
        drawn = Exponentials(count, entropy)
        return Draws(floors(scale, drawn, partial(_zero_shift, scale))).signed(drawn.spare)
    magnitudes, negative = _signed_geometric(scale, count, entropy)
    signed = magnitudes.signed(negative)
    second_zeros = negative & (magnitudes.values == 0)
    return signed.kept(~second_zeros) if second_zeros.any() else signed


@lru_cache(maxsize=64)
def _zero_shift(scale: Fraction, bits: int) -> Enclosure:
    """Bounds on d = log(2 / (1 + a)), a = exp(-1 / scale)."""
    work = bits + 8
    low, high = Fraction(0), Fraction(1, 1 << work)
    if scale * work > 1:  # otherwise a < exp(-work), within the bounds above
        low, high = exp_down(-1 / scale, work), exp_up(-1 / scale, work)
    return log_down(2 / (1 + high), work), log_up(2 / (1 + low), work)


def _signed_geometric(scale: Fraction, count: int, entropy: Entropy) -> tuple[Draws, BoolArray]:
    """Geometric variables and, beside each, a random bit that is independent of it."""
    if scale <= _DIRECT:
        drawn = Exponentials(count, entropy)
        return Draws(floors(scale, drawn)), drawn.spare
    shift = min(_LOW_BITS, scale.__floor__().bit_length() - _SURE_BITS - 1)
    high, spare = _signed_geometric(scale / (1 << shift), count, entropy)
    low = _low_part(scale, shift, count, entropy)
    large = {*np.flatnonzero(high.values >= 1 << (63 - shift)).tolist(), *high.wide}
    wide = {place: (high.exact(place) << shift) + int(low[place]) for place in large}
    # A wide value's 64-bit stand-in is odd, so that nobody takes it for zero.
    values = (high.values << shift) + low
    values[list(wide)] = 1
    return Draws(values, wide), spare


def _low_part(scale: Fraction, shift: int, count: int, entropy: Entropy) -> IntArray:
    """R in [0, 2^shift) with P(R = r) proportional to exp(-r / scale); 2^shift / scale <= 2^-23.

    One word holds the uniform r and the first digits of the U that r is kept with, U < exp(-r/s).
    Unless those digits are all ones, U < 1 - 2^-23 <= 1 - r/s < exp(-r/s) and r is kept.
    """
    words = entropy.words(count)
    low = (words & np.uint64((1 << shift) - 1)).view(np.int64)
    first = words >> np.uint64(64 - _SURE_BITS)
    ones = (1 << _SURE_BITS) - 1
    for place in np.flatnonzero(first == ones).tolist():
        kept = int(low[place])
        uniform = Revealed(ones, _SURE_BITS, entropy)
        while not uniform.exceeds(kept / scale):
            kept = int(entropy.words(1)[0]) & ((1 << shift) - 1)
            uniform = Revealed(0, 0, entropy)
        low[place] = kept
    return low


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
            "parameter_out_of_range",
            "Gaussian noise cannot be drawn with this stddev: it must be between 2^-500 and 2^500.",
            hint="Choose another unit for the values.",
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


_CAUCHY_BLOCK = 1024
_ULP = 2.0**-53
_LARGEST_FLOAT = 2.0**52


def rounded_cauchy(scale: Fraction, size: int, entropy: Entropy) -> NDArray[Any]:
    """Draw scale * Z for standard Cauchy Z, rounded to the nearest whole number."""
    taken: list[NDArray[Any]] = []
    missing = size
    while missing > 0:
        # About pi / 4 of the points fall into the disk.
        block = max(_CAUCHY_BLOCK, missing + missing // 2)
        words = entropy.words(3 * block).reshape(3, block)
        across, up = (words[:2] >> np.uint64(11)).astype(np.int64)
        inside = _inside(across, up, entropy)
        sizes = _floors(2 * scale, across[inside], up[inside], entropy)
        # round(v) = floor((floor(2 v) + 1) / 2), and the sign is drawn apart.
        magnitudes = (sizes + 1) // 2
        negative = (words[2][inside] & np.uint64(1)).astype(np.bool_)
        taken.append(np.where(negative, -magnitudes, magnitudes)[:missing])
        missing -= len(taken[-1])
    return np.concatenate(taken) if taken else np.zeros(0, dtype=np.int64)


def _inside(across: IntArray, up: IntArray, entropy: Entropy) -> NDArray[Any]:
    """Say which points lie in the unit disk; their coordinates begin with the given 53 bits."""
    square = (across * _ULP) ** 2 + (up * _ULP) ** 2
    inside = square < 1
    for at in np.flatnonzero(np.abs(square - 1) < 2.0**-48):
        inside[at] = _inside_exactly(int(across[at]), int(up[at]), entropy)
    return inside


def _inside_exactly(across: int, up: int, entropy: Entropy) -> bool:
    bits = 53
    while True:
        if (across + 1) ** 2 + (up + 1) ** 2 <= 1 << 2 * bits:
            return True
        if across**2 + up**2 >= 1 << 2 * bits:
            return False
        across, up, bits = _more(across, entropy), _more(up, entropy), bits + 64


def _floors(scale: Fraction, across: IntArray, up: IntArray, entropy: Entropy) -> NDArray[Any]:
    """Give floor(scale X / Y) for the X and Y that begin with the given 53 bits."""
    factor = float(scale)
    low = factor * across / (up + 1) * (1 - 2.0**-48)
    high = factor * (across + 1) / np.maximum(up, 1) * (1 + 2.0**-48)
    decided = (np.floor(low) == np.floor(high)) & (high < _LARGEST_FLOAT) & (up > 0)
    floors = np.where(decided, low, 0).astype(np.int64)
    late = {
        int(at): _floor_exactly(scale, int(across[at]), int(up[at]), entropy)
        for at in np.flatnonzero(~decided)
    }
    if late and max(late.values()) >= 2**62:
        floors = floors.astype(object)
    for at, value in late.items():
        floors[at] = value
    return floors


def _floor_exactly(scale: Fraction, across: int, up: int, entropy: Entropy) -> int:
    while True:
        if up > 0:
            low = (scale * across / (up + 1)).__floor__()
            # The unread bits are below one unit with certainty, so the upper end is never reached.
            high = (scale * (across + 1) / up).__ceil__() - 1
            if low == high:
                return low
        across, up = _more(across, entropy), _more(up, entropy)


def _more(prefix: int, entropy: Entropy) -> int:
    return prefix << 64 | int(entropy.words(1)[0])
