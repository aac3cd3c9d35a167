"""Planar Laplace noise whose digits are revealed on demand.

A vector of density exp(-|v|) / (2 pi) has a length that is the sum of two exponential variables and
a uniform direction. A function of it, such as the grid cell that it leads to, does not need all of
its digits: float64 gives the vector up to a proven error, which decides nearly every case. A case
that the error leaves open is decided in exact rational arithmetic, with as many further digits as
it takes. Revealed digits are kept, so the result has exactly the distribution of all digits known.

*The error.* Each exponential is known within 2^-40 (`noise.exponential`), so the length r within
2^-39. The direction is a fraction of a turn; 64 digits are drawn first. Its conversion to
float64, the digits not yet known, the factor 2 pi and the product change the angle by less than
2^-48 in all, and NumPy's cosine and sine are assumed right within 2^-48 (4 units in the last place
are stated). So a coordinate is right within 2^-39 + r 2^-46, and 2^-38 + r 2^-44 is claimed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.accounting.elementary import cos_sin
from sfumato.privacy.noise.exponential import Exponentials

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.privacy.noise.exponential import Enclosure, Revealed

_WORD_BITS = 64


class PlanarVectors:
    """Independent planar Laplace vectors of rate 1, known approximately and, on demand, exactly."""

    def __init__(self, size: int, entropy: Entropy) -> None:
        self._entropy = entropy
        self._exponentials = Exponentials(size, entropy), Exponentials(size, entropy)
        self._turns = entropy.words(size)
        length = self._exponentials[0].values + self._exponentials[1].values
        angle = self._turns.astype(np.float64) * (2 * math.pi * 2.0**-_WORD_BITS)
        self.values: FloatArray = np.stack([length * np.cos(angle), length * np.sin(angle)], axis=1)
        """A row for each vector: east and north."""
        self.errors: FloatArray = 2.0**-38 + length * 2.0**-44
        """The largest error of either coordinate of each vector."""
        for exponential in self._exponentials:
            self.errors[exponential.unknown] = np.inf

    def exactly(self, index: int) -> RevealedVector:
        """One of the vectors, with exact bounds that can be narrowed."""
        first, second = (exponential.exactly(index) for exponential in self._exponentials)
        return RevealedVector(first, second, int(self._turns[index]), self._entropy)


class RevealedVector:
    """One planar Laplace vector between exact bounds."""

    def __init__(self, first: Revealed, second: Revealed, turn: int, entropy: Entropy) -> None:
        self._exponentials = first, second
        self._turn, self._digits, self._entropy = turn, _WORD_BITS, entropy

    def narrow(self) -> None:
        """Reveal 64 more digits of each variable."""
        for exponential in self._exponentials:
            exponential.narrow()
        self._turn = self._turn << _WORD_BITS | int(self._entropy.words(1)[0])
        self._digits += _WORD_BITS

    def bounds(self) -> tuple[Enclosure, Enclosure]:
        """Enclosures of both coordinates."""
        while any(exponential.bounds()[1] is None for exponential in self._exponentials):
            self.narrow()
        lows, highs = zip(
            *(exponential.bounds() for exponential in self._exponentials), strict=True
        )
        low, high = sum(lows, Fraction(0)), sum(highs, Fraction(0))
        cosine, sine = self._direction()
        return _product((low, high), cosine), _product((low, high), sine)

    def _direction(self) -> tuple[Enclosure, Enclosure]:
        """Enclose cosine and sine of the angle, by its quarter and the angle within the quarter."""
        quarter, fraction = divmod(self._turn, 1 << (self._digits - 2))
        bits = self._digits + 16
        begin, end = (
            cos_sin(Fraction(fraction + extra, 1 << self._digits), bits) for extra in (0, 1)
        )
        # In the first quarter the cosine falls and the sine rises.
        cosine, sine = (end[0][0], begin[0][1]), (begin[1][0], end[1][1])
        turned = [(cosine, sine), (_negative(sine), cosine),
                  (_negative(cosine), _negative(sine)), (sine, _negative(cosine))]  # fmt: skip
        return turned[quarter]


def _negative(enclosed: Enclosure) -> Enclosure:
    return -enclosed[1], -enclosed[0]


def _product(length: Enclosure, factor: Enclosure) -> Enclosure:
    """Enclose the product of a length (at least 0) and a cosine or sine."""
    products = [length_bound * factor_bound for length_bound in length for factor_bound in factor]
    return min(products), max(products)
