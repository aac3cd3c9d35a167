"""Exponential variables whose digits are revealed on demand: the basis of every sampler.

E = -log U for a uniform U is exponential: floor(s E) is geometric, P(E > z) = exp(-z), and of the
E_i / a_i the smallest is i with probability proportional to a_i. None of these needs all digits of
U. First 63 digits are drawn; float64 arithmetic gives E up to a proven error, which decides nearly
every comparison. A comparison that the error leaves open is decided in exact integer arithmetic,
with as many further digits as it takes. Revealed digits are kept and never drawn again, so the
result has exactly the distribution of E with all digits known.

*The error.* Let w be the first 63 digits, w >= 2^53, so U lies in [w, w + 1) / 2^63. Converting w
to float64, and the digits not yet known, each change U by a factor within 1 +- 2^-53, hence -log U
by less than 2^-51 in all. Where w < 2^53 a second word v is drawn: w is then exact as a float,
w + v / 2^64 is rounded once more, and the same bound holds for w >= 1; w = 0 is left to exact
arithmetic. The library's logarithm of a float is assumed right within 2^-48 of its value plus 2^-60
(NumPy states at most 4 units in the last place, 2^-50). With x the computed value of E, x <= 90:

    |E - x| <= 2^-51 + 2^-48 x + 2^-60 + rounding <= 2^-50 + 2^-47 x <= ERROR = 2^-40

*Coins.* Whether E > z, that is U < exp(-z), needs fewer digits: of U, 32 are drawn at first, so U
lies within 2^-33 of c = (w + 1/2) / 2^32, which float64 holds exactly. A level z known within
e = 2^-45 (1 + z) gives exp(-z) within 2^-44, as (1 + z) exp(-z) <= 1, and the library's exponential
is assumed right within 2^-48. So |c - exp(-z)| > 2^-33 + EXP_ERROR decides, EXP_ERROR = 2^-36.

Decision `exact-noise`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.privacy.accounting.elementary import log_down, log_up
from sfumato.privacy.noise.entropy import BLOCK, CHUNK

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy

ERROR = 2.0**-40
"""The largest error of a computed exponential variable."""

EXP_ERROR = 2.0**-36
"""The largest error of a computed exp(-z)."""

Enclosure = tuple[Fraction, Fraction]
"""A lower and an upper bound of a number."""

# Bits of a word, of the first digits of U beside one spare bit, and of the first digits of a coin.
_WORD_BITS, _FIRST_BITS, _COIN_BITS = 64, 63, 32
# Below this w the relative error of w + 1/2 would be too large: a second word is drawn.
_SHORT_BELOW = 1 << 53
# Extra bits of the logarithm, so that its error is far below that of the unknown digits.
_GUARD_BITS = 16


class Exponentials:
    """Independent exponential variables, each known approximately and, on demand, exactly."""

    def __init__(self, size: int, entropy: Entropy) -> None:
        self._entropy = entropy
        self._words = entropy.words(size)
        self._first = (self._words >> np.uint64(1)).view(np.int64)
        uniform = self._first.astype(np.float64)
        self._short = np.flatnonzero(self._first < _SHORT_BELOW)
        self._second = entropy.words(len(self._short))
        uniform[self._short] += self._second.astype(np.float64) * 2.0**-_WORD_BITS
        uniform *= 2.0**-_FIRST_BITS
        np.maximum(uniform, 2.0**-127, out=uniform)  # w = 0, which `unknown` leaves to exactness
        self.values: FloatArray = np.negative(np.log(uniform, out=uniform), out=uniform)

    @property
    def spare(self) -> BoolArray:
        """A random bit for each variable, independent of it: the bit of its word left over."""
        return (self._words & np.uint64(1)).view(np.int64).astype(np.bool_)

    @property
    def unknown(self) -> NDArray[np.intp]:
        """The variables for which the error bound does not hold (w = 0): chance 2^-63 each."""
        zero: NDArray[np.intp] = self._short[self._first[self._short] == 0]
        return zero

    def exactly(self, index: int) -> Revealed:
        """One of the variables, with exact bounds that can be narrowed."""
        short_index = np.searchsorted(self._short, index)
        if short_index < len(self._short) and self._short[short_index] == index:
            prefix = int(self._first[index]) << _WORD_BITS | int(self._second[short_index])
            return Revealed(prefix, _FIRST_BITS + _WORD_BITS, self._entropy)
        return Revealed(int(self._first[index]), _FIRST_BITS, self._entropy)


class Revealed:
    """One exponential variable between exact bounds."""

    def __init__(self, prefix: int, digits: int, entropy: Entropy) -> None:
        self._prefix = prefix
        self._digits = digits
        self._entropy = entropy

    def narrow(self) -> None:
        """Reveal 64 more digits."""
        self._prefix = self._prefix << _WORD_BITS | int(self._entropy.words(1)[0])
        self._digits += _WORD_BITS

    @property
    def bits(self) -> int:
        """The precision in bits that matches the known digits."""
        return self._digits + _GUARD_BITS

    def bounds(self) -> tuple[Fraction, Fraction | None]:
        """Bounds on the variable; the upper one is None while all known digits of U are zero."""
        scale = 1 << self._digits
        low = -log_up(Fraction(self._prefix + 1, scale), self.bits)
        # U lies in [prefix, prefix + 1) / 2^digits, so with prefix 0 it may be arbitrarily small.
        if self._prefix == 0:
            return max(low, Fraction(0)), None
        return max(low, Fraction(0)), -log_down(Fraction(self._prefix, scale), self.bits)

    def exceeds(self, level: Fraction) -> bool:
        """Whether the variable is above a level."""
        while True:
            low, high = self.bounds()
            if low > level:
                return True
            if high is not None and high <= level:
                return False
            self.narrow()

    def floor(self, scale: Fraction, shift: Callable[[int], Enclosure]) -> int:
        """The integer part of `scale` times the shifted variable."""
        while True:
            low, high = self.bounds()
            shift_low, shift_high = shift(self.bits)
            below = (scale * (low + shift_low)).__floor__()
            if high is not None and below == (scale * (high + shift_high)).__floor__():
                return below
            self.narrow()


def unshifted(bits: int) -> Enclosure:  # noqa: ARG001 - zero is known to any precision
    """No shift."""
    return Fraction(0), Fraction(0)


def floors(
    scale: Fraction, drawn: Exponentials, shift: Callable[[int], Enclosure] = unshifted
) -> IntArray:
    """floor(scale (E + d)) for each exponential; the scale is at most 2^24.

    `shift` bounds d, in [0, 1], within 2^-bits.
    """
    # The margin is doubled for the errors of the factor (2^-53 of it) and of the shift (2^-52).
    factor = float(scale)
    products = drawn.values + float(shift(_FIRST_BITS)[0])
    products *= factor
    margin = 2 * factor * ERROR
    integer_parts = np.floor(products)
    products -= integer_parts
    undecided = np.flatnonzero((products <= margin) | (products >= 1 - margin))
    result = integer_parts.astype(np.int64)
    for index in {*undecided.tolist(), *drawn.unknown.tolist()}:
        result[index] = drawn.exactly(index).floor(scale, shift)
    return result


def exceed(levels: FloatArray, exact: Callable[[int], Fraction], entropy: Entropy) -> BoolArray:
    """Whether E > z, true with probability exp(-z), for each level z >= 0.

    `levels` may be off by at most 2^-45 (1 + z); `exact` gives the true level at an index.
    """
    digits = entropy.words((len(levels) + 1) // 2).view(np.uint32)[: len(levels)]
    difference = digits.astype(np.float64)
    difference += 0.5
    difference *= 2.0**-_COIN_BITS
    difference -= np.exp(-levels)
    above = difference < 0
    for index in np.flatnonzero(
        np.abs(difference) <= 2.0 ** -(_COIN_BITS + 1) + EXP_ERROR
    ).tolist():
        above[index] = Revealed(int(digits[index]), _COIN_BITS, entropy).exceeds(exact(index))
    return above


def bernoulli_exp(gaps: NDArray[Any], *, rate: Fraction, entropy: Entropy) -> BoolArray:
    """True with probability exp(-rate * gap), for each of an array of whole numbers >= 0.

    *Guarantee*: the probability is exact. *Edges*: a gap of 0 is always true.
    *Reference*: P(E > z) = exp(-z) for an exponential E.
    """
    flat = gaps.ravel()
    result = np.empty(len(flat), dtype=np.bool_)
    for start in range(0, len(flat), CHUNK):
        batch = flat[start : start + CHUNK]
        levels = np.zeros(max(len(batch), BLOCK))
        # Right within 2^-52 twice: the gap as a float, the rate as a float.
        levels[: len(batch)] = batch.astype(np.float64) * float(rate)

        def exact(index: int, batch: NDArray[Any] = batch) -> Fraction:
            return int(batch[index]) * rate if index < len(batch) else Fraction(0)

        result[start : start + CHUNK] = exceed(levels, exact, entropy)[: len(batch)]
    return result.reshape(gaps.shape)
