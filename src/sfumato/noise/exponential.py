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
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.elementary import log_down, log_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy

ERROR = 2.0**-40
"""How far a computed exponential may be from the true one, at most."""

OPEN = 2.0**-36
"""A comparison closer than this is left to exact arithmetic."""

_WORD, _FIRST = 64, 63
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
        self.values: NDArray[np.float64] = np.negative(np.log(uniform, out=uniform), out=uniform)

    @property
    def spare(self) -> NDArray[np.bool_]:
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

    def floor(self, scale: Fraction) -> int:
        """The whole part of `scale` times the variable."""
        while True:
            low, high = self.bounds()
            below = (scale * low).__floor__()
            if high is not None and below == (scale * high).__floor__():
                return below
            self.narrow()


def floors(scale: Fraction, drawn: Exponentials) -> NDArray[np.int64]:
    """floor(scale E) for each exponential; the scale is at most 2^24."""
    factor = float(scale)  # right within 2^-53, which the doubled margin covers
    products = drawn.values * factor
    margin = 2 * factor * ERROR
    whole = np.floor(products)
    products -= whole
    open_ones = np.flatnonzero((products <= margin) | (products >= 1 - margin))
    result = whole.astype(np.int64)
    for place in {*open_ones.tolist(), *drawn.unknown.tolist()}:
        result[place] = drawn.exactly(place).floor(scale)
    return result


def exceed(
    levels: NDArray[np.float64], exact: Callable[[int], Fraction], entropy: Entropy
) -> NDArray[np.bool_]:
    """Whether E > z, true with probability exp(-z), for each level z >= 0.

    `levels` may be off by at most 2^-45 (1 + z); `exact` gives the true level of a place.
    """
    drawn = Exponentials(len(levels), entropy)
    above = drawn.values > levels
    # Where z is beyond 2 x 90 the error 2^-45 (1 + z) cannot bridge the gap; below that it is at
    # most 2^-37, and the margin covers it together with the error of E.
    open_ones = np.flatnonzero(np.abs(drawn.values - levels) <= OPEN)
    for place in {*open_ones.tolist(), *drawn.unknown.tolist()}:
        above[place] = drawn.exactly(place).exceeds(exact(place))
    return above
