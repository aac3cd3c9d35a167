"""Exact noise on integers: geometric, discrete Laplace, discrete Gaussian, rounded Cauchy.

*Geometric.* A geometric variable of scale s has P(G = k) = (1 - a) a^k with a = exp(-1/s); it is
floor(s E) for an exponential E. For s > 2^24, where float64 could not hold the product, G = 2^j H +
R with independent parts: H is geometric of scale s / 2^j, and R in [0, 2^j) has P(R = r)
proportional to exp(-r/s): a uniform r kept with probability exp(-r/s), which is above 1 - 2^-23.

*Laplace.* A discrete Laplace variable has P(X = k) proportional to a^|k|, so P(|X| >= k) =
2 a^k / (1 + a) for k >= 1. With d = log(2 / (1 + a)) this is P(E > k/s - d), hence |X| =
floor(s (E + d)), and the sign is a fair coin. Above 2^24 it is a geometric variable with a random
sign, in which a zero with a minus sign, which is very rare, is rejected: otherwise 0 would come
twice as often.

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

# Up to this scale float64 holds the product of scale and exponential with the claimed error.
_FLOAT_SCALE = 1 << 24
# One 64-bit word is split: 40 bits for R, and 23 for the first digits of the coin that keeps it.
_LOW_BITS, _SURE_BITS = 40, 23


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
    """Draw up to `count` discrete Laplace variables: the accepted ones of `count` trials."""
    if scale <= _FLOAT_SCALE:
        drawn = Exponentials(count, entropy)
        return Draws(floors(scale, drawn, partial(_zero_shift, scale))).signed(drawn.spare)
    magnitudes, negative = _signed_geometric(scale, count, entropy)
    signed = magnitudes.signed(negative)
    second_zeros = negative & (magnitudes.values == 0)
    return signed.masked(~second_zeros) if second_zeros.any() else signed


@lru_cache(maxsize=64)
def _zero_shift(scale: Fraction, bits: int) -> Enclosure:
    """Bounds on d = log(2 / (1 + a)), a = exp(-1 / scale)."""
    work = bits + 8
    low, high = Fraction(0), Fraction(1, 1 << work)
    if scale * work > 1:  # otherwise a < exp(-work), within the bounds above
        low, high = exp_down(-1 / scale, work), exp_up(-1 / scale, work)
    return log_down(2 / (1 + high), work), log_up(2 / (1 + low), work)


def _signed_geometric(scale: Fraction, count: int, entropy: Entropy) -> tuple[Draws, BoolArray]:
    """Draw geometric variables, each with an independent random bit."""
    if scale <= _FLOAT_SCALE:
        drawn = Exponentials(count, entropy)
        return Draws(floors(scale, drawn)), drawn.spare
    # The most low bits for which 2^shift is at most 2^-23 of the scale, as `_low_bits` needs.
    shift = min(_LOW_BITS, scale.__floor__().bit_length() - _SURE_BITS - 1)
    high, spare = _signed_geometric(scale / (1 << shift), count, entropy)
    low = _low_bits(scale, shift, count, entropy)
    large = {*np.flatnonzero(high.values >= 1 << (63 - shift)).tolist(), *high.wide}
    wide = {index: (high.exact(index) << shift) + int(low[index]) for index in large}
    # The 64-bit stand-in of a wide value is 1, because 0 with a minus sign would be rejected.
    values = (high.values << shift) + low
    values[list(wide)] = 1
    return Draws(values, wide), spare


def _low_bits(scale: Fraction, shift: int, count: int, entropy: Entropy) -> IntArray:
    """Draw R in [0, 2^shift), P(R = r) proportional to exp(-r / scale); 2^shift / scale <= 2^-23.

    One word holds a uniform r and the first 23 digits of a uniform U; r is accepted if
    U < exp(-r/s). Unless those digits are all ones, U < 1 - 2^-23 <= 1 - r/s < exp(-r/s), so r is
    accepted without computing the exponential.
    """
    uniform_words = entropy.words(count)
    low = (uniform_words & np.uint64((1 << shift) - 1)).view(np.int64)
    first = uniform_words >> np.uint64(64 - _SURE_BITS)
    all_ones = (1 << _SURE_BITS) - 1
    for index in np.flatnonzero(first == all_ones).tolist():
        candidate = int(low[index])
        uniform = Revealed(all_ones, _SURE_BITS, entropy)
        while not uniform.exceeds(candidate / scale):
            candidate = int(entropy.words(1)[0]) & ((1 << shift) - 1)
            uniform = Revealed(0, 0, entropy)
        low[index] = candidate
    return low


_SMALLEST, _LARGEST = Fraction(1, 1 << 1000), Fraction(1 << 1000)
_ACCEPTANCE = 0.5  # the approximate acceptance rate: it decides only the size of a block


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
            parameter="stddev",
        )
    return collect(size, _ACCEPTANCE, lambda count: _gaussian_trials(variance, count, entropy))


def _gaussian_trials(variance: Fraction, count: int, entropy: Entropy) -> Draws:
    """Draw the discrete Gaussian variables that `count` trials accept."""
    scale = isqrt(variance.__floor__()) + 1
    candidates = laplace_trials(Fraction(scale), count, entropy)
    centre = variance / scale
    levels = np.abs(candidates.floats())
    levels -= float(centre)
    levels *= levels
    levels /= 2 * float(variance)

    def exact(index: int) -> Fraction:
        return (abs(candidates.exact(index)) - centre) ** 2 / (2 * variance)

    return candidates.masked(exceed(levels, exact, entropy))


_CAUCHY_BLOCK = 1024
_ULP = 2.0**-53
_LARGEST_FLOAT = 2.0**52


def rounded_cauchy(scale: Fraction, size: int, entropy: Entropy) -> NDArray[Any]:
    """Draw scale * Z for standard Cauchy Z, rounded to the nearest whole number, exactly."""
    batches: list[NDArray[Any]] = []
    missing = size
    while missing > 0:
        # About pi / 4 of the points lie in the disk, so half as many more usually suffice.
        block = max(_CAUCHY_BLOCK, missing + missing // 2)
        uniform_words = entropy.words(3 * block).reshape(3, block)
        x, y = (uniform_words[:2] >> np.uint64(11)).astype(np.int64)
        inside = _inside_disk(x, y, entropy)
        sizes = _ratio_floors(2 * scale, x[inside], y[inside], entropy)
        # round(v) = floor((floor(2 v) + 1) / 2); the sign is an independent bit.
        magnitudes = (sizes + 1) // 2
        negative = (uniform_words[2][inside] & np.uint64(1)).astype(np.bool_)
        batches.append(np.where(negative, -magnitudes, magnitudes)[:missing])
        missing -= len(batches[-1])
    return np.concatenate(batches) if batches else np.zeros(0, dtype=np.int64)


def _inside_disk(x: IntArray, y: IntArray, entropy: Entropy) -> NDArray[Any]:
    """Decide which points lie in the unit disk; their coordinates begin with the given 53 bits."""
    square = (x * _ULP) ** 2 + (y * _ULP) ** 2
    inside = square < 1
    for index in np.flatnonzero(np.abs(square - 1) < 2.0**-48):
        inside[index] = _inside_exactly(int(x[index]), int(y[index]), entropy)
    return inside


def _inside_exactly(x: int, y: int, entropy: Entropy) -> bool:
    bits = 53
    while True:
        if (x + 1) ** 2 + (y + 1) ** 2 <= 1 << 2 * bits:
            return True
        if x**2 + y**2 >= 1 << 2 * bits:
            return False
        x, y, bits = _next_digits(x, entropy), _next_digits(y, entropy), bits + 64


def _ratio_floors(scale: Fraction, x: IntArray, y: IntArray, entropy: Entropy) -> NDArray[Any]:
    """Compute floor(scale X / Y) for the X and Y that begin with the given 53 bits."""
    factor = float(scale)
    low = factor * x / (y + 1) * (1 - 2.0**-48)
    high = factor * (x + 1) / np.maximum(y, 1) * (1 + 2.0**-48)
    decided = (np.floor(low) == np.floor(high)) & (high < _LARGEST_FLOAT) & (y > 0)
    floors = np.where(decided, low, 0).astype(np.int64)
    exact_floors = {
        int(index): _floor_exactly(scale, int(x[index]), int(y[index]), entropy)
        for index in np.flatnonzero(~decided)
    }
    if exact_floors and max(exact_floors.values()) >= 2**62:
        floors = floors.astype(object)
    for index, value in exact_floors.items():
        floors[index] = value
    return floors


def _floor_exactly(scale: Fraction, x: int, y: int, entropy: Entropy) -> int:
    while True:
        if y > 0:
            low = (scale * x / (y + 1)).__floor__()
            # The unread bits add less than one unit, so the upper bound itself is never reached.
            high = (scale * (x + 1) / y).__ceil__() - 1
            if low == high:
                return low
        x, y = _next_digits(x, entropy), _next_digits(y, entropy)


def _next_digits(prefix: int, entropy: Entropy) -> int:
    return prefix << 64 | int(entropy.words(1)[0])
