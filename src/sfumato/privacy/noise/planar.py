"""Planar Laplace noise whose digits are revealed as they are needed.

A vector of density exp(-|v|) / (2 pi) has a length that is the sum of two exponential variables and
a uniform direction. Nothing that is read off it later, such as the cell of a grid that it leads to,
needs all of its digits: float64 gives it up to a proven error, which decides nearly every question;
one that the error leaves open is answered in exact rational arithmetic, with as many further digits
as it takes. Digits once revealed are kept, so the result is distributed exactly as with all of them
known.

*The error.* Each exponential is known within 2^-40 (`noise.exponential`), so the length r within
2^-39. The direction is a part of a turn, of which 64 digits are drawn at first. Its conversion to
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

_WORD = 64


class PlanarVectors:
    """Independent planar Laplace vectors of rate 1, known approximately and, on demand, exactly."""

    def __init__(self, size: int, entropy: Entropy) -> None:
        self._entropy = entropy
        self._parts = Exponentials(size, entropy), Exponentials(size, entropy)
        self._turns = entropy.words(size)
        length = self._parts[0].values + self._parts[1].values
        angle = self._turns.astype(np.float64) * (2 * math.pi * 2.0**-_WORD)
        self.values: FloatArray = np.stack([length * np.cos(angle), length * np.sin(angle)], axis=1)
        """A row for each vector: east and north."""
        self.errors: FloatArray = 2.0**-38 + length * 2.0**-44
        """How far either coordinate of a vector may be off, at most."""
        for part in self._parts:
            self.errors[part.unknown] = np.inf

    def exactly(self, place: int) -> RevealedVector:
        """One of the vectors, with exact bounds that can be narrowed."""
        first, second = (part.exactly(place) for part in self._parts)
        return RevealedVector(first, second, int(self._turns[place]), self._entropy)


class RevealedVector:
    """One planar Laplace vector between exact bounds."""

    def __init__(self, first: Revealed, second: Revealed, turn: int, entropy: Entropy) -> None:
        self._parts = first, second
        self._turn, self._digits, self._entropy = turn, _WORD, entropy

    def narrow(self) -> None:
        """Reveal 64 more digits of each variable."""
        for part in self._parts:
            part.narrow()
        self._turn = self._turn << _WORD | int(self._entropy.words(1)[0])
        self._digits += _WORD

    def bounds(self) -> tuple[Enclosure, Enclosure]:
        """Enclosures of both coordinates."""
        while any(part.bounds()[1] is None for part in self._parts):
            self.narrow()
        lows, highs = zip(*(part.bounds() for part in self._parts), strict=True)
        low, high = sum(lows, Fraction(0)), sum(highs, Fraction(0))
        across, up = self._direction()
        return _product((low, high), across), _product((low, high), up)

    def _direction(self) -> tuple[Enclosure, Enclosure]:
        """Cosine and sine of the angle: of the part beyond whole quarters, which are known."""
        quarter, rest = divmod(self._turn, 1 << (self._digits - 2))
        bits = self._digits + 16
        begin, end = (cos_sin(Fraction(rest + more, 1 << self._digits), bits) for more in (0, 1))
        # In the first quarter the cosine falls and the sine rises.
        cosine, sine = (end[0][0], begin[0][1]), (begin[1][0], end[1][1])
        turned = [(cosine, sine), (_negative(sine), cosine),
                  (_negative(cosine), _negative(sine)), (sine, _negative(cosine))]  # fmt: skip
        return turned[quarter]


def _negative(enclosed: Enclosure) -> Enclosure:
    return -enclosed[1], -enclosed[0]


def _product(length: Enclosure, part: Enclosure) -> Enclosure:
    """Enclose the product of a length, which is not negative, and a cosine or sine."""
    products = [one * other for one in length for other in part]
    return min(products), max(products)
