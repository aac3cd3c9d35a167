"""Exponential variables whose digits are revealed as they are needed: the root of every sampler.

E = -log U for a uniform U is exponential: floor(s E) is geometric, P(E > z) = exp(-z), and of the
E_i / a_i the smallest is i with probability proportional to a_i. Nothing of this needs all digits
of U. 63 of them are drawn at first; float64 arithmetic gives E up to a proven error, which decides
nearly every question; a question that the error leaves open is answered in exact integer arithmetic
with as many further digits as it takes. Digits once revealed are kept, never drawn again, so the
result is distributed exactly as with all digits known.

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
is assumed right within 2^-48. So |c - exp(-z)| > 2^-33 + OPEN decides, OPEN = 2^-36.

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
"""How far a computed exponential may be from the true one, at most."""

OPEN = 2.0**-36
"""How far a computed exp(-z) may be from the true one, at most."""

Enclosure = tuple[Fraction, Fraction]
"""A number between two others."""

_WORD, _FIRST, _COIN = 64, 63, 32
_SHORT = 1 << 53
_GUARD = 16


class Exponentials:
    """Independent exponential variables, each known approximately and, on demand, exactly."""

    def __init__(self, size: int, entropy: Entropy) -> None:
        self._entropy = entropy
        self._words = entropy.words(size)
        self._first = (self._words >> np.uint64(1)).view(np.int64)
        uniform = self._first.astype(np.float64)
        self._short = np.flatnonzero(self._first < _SHORT)
        self._second = entropy.words(len(self._short))
        uniform[self._short] += self._second.astype(np.float64) * 2.0**-_WORD
        uniform *= 2.0**-_FIRST
        np.maximum(uniform, 2.0**-127, out=uniform)  # w = 0, which `unknown` leaves to exactness
        self.values: FloatArray = np.negative(np.log(uniform, out=uniform), out=uniform)

    @property
    def spare(self) -> BoolArray:
        """One random bit beside each variable, independent of it."""
        return (self._words & np.uint64(1)).view(np.int64).astype(np.bool_)

    @property
    def unknown(self) -> NDArray[np.intp]:
        """The variables of which the error bound does not hold: none, but once in 2^64."""
        zero: NDArray[np.intp] = self._short[self._first[self._short] == 0]
        return zero

    def exactly(self, place: int) -> Revealed:
        """One of the variables, with exact bounds that can be narrowed."""
        found = np.searchsorted(self._short, place)
        if found < len(self._short) and self._short[found] == place:
            prefix = int(self._first[place]) << _WORD | int(self._second[found])
            return Revealed(prefix, _FIRST + _WORD, self._entropy)
        return Revealed(int(self._first[place]), _FIRST, self._entropy)


class Revealed:
    """One exponential variable between exact bounds."""

    def __init__(self, prefix: int, digits: int, entropy: Entropy) -> None:
        self._prefix = prefix
        self._digits = digits
        self._entropy = entropy

    def narrow(self) -> None:
        """Reveal 64 more digits."""
        self._prefix = self._prefix << _WORD | int(self._entropy.words(1)[0])
        self._digits += _WORD

    @property
    def bits(self) -> int:
        """The precision that matches the digits known."""
        return self._digits + _GUARD

    def bounds(self) -> tuple[Fraction, Fraction | None]:
        """Bounds on the variable; None for infinity, as long as all digits of U are zero."""
        scale = 1 << self._digits
        low = -log_up(Fraction(self._prefix + 1, scale), self.bits)
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
        """The whole part of `scale` times the shifted variable."""
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
    # The factor, right within 2^-53 of itself, and the shift, within 2^-52, are what the margin is
    # doubled for.
    factor = float(scale)
    products = drawn.values + float(shift(_FIRST)[0])
    products *= factor
    margin = 2 * factor * ERROR
    whole = np.floor(products)
    products -= whole
    open_ones = np.flatnonzero((products <= margin) | (products >= 1 - margin))
    result = whole.astype(np.int64)
    for place in {*open_ones.tolist(), *drawn.unknown.tolist()}:
        result[place] = drawn.exactly(place).floor(scale, shift)
    return result


def exceed(levels: FloatArray, exact: Callable[[int], Fraction], entropy: Entropy) -> BoolArray:
    """Whether E > z, true with probability exp(-z), for each level z >= 0.

    `levels` may be off by at most 2^-45 (1 + z); `exact` gives the true level of a place.
    """
    digits = entropy.words((len(levels) + 1) // 2).view(np.uint32)[: len(levels)]
    beyond = digits.astype(np.float64)
    beyond += 0.5
    beyond *= 2.0**-_COIN
    beyond -= np.exp(-levels)
    above = beyond < 0
    for place in np.flatnonzero(np.abs(beyond) <= 2.0 ** -(_COIN + 1) + OPEN).tolist():
        above[place] = Revealed(int(digits[place]), _COIN, entropy).exceeds(exact(place))
    return above


def bernoulli_exp(gaps: NDArray[Any], *, rate: Fraction, entropy: Entropy) -> BoolArray:
    """True with probability exp(-rate * gap), for each of an array of whole numbers >= 0.

    *Guarantee*: the probability is exact. *Edges*: a gap of 0 is always true.
    *Reference*: P(E > z) = exp(-z) for an exponential E.
    """
    flat = gaps.ravel()
    kept = np.empty(len(flat), dtype=np.bool_)
    for start in range(0, len(flat), CHUNK):
        part = flat[start : start + CHUNK]
        levels = np.zeros(max(len(part), BLOCK))
        # Right within 2^-52 twice: the gap as a float, the rate as a float.
        levels[: len(part)] = part.astype(np.float64) * float(rate)

        def exact(place: int, part: NDArray[Any] = part) -> Fraction:
            return int(part[place]) * rate if place < len(part) else Fraction(0)

        kept[start : start + CHUNK] = exceed(levels, exact, entropy)[: len(part)]
    return kept.reshape(gaps.shape)
