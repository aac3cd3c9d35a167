"""Means of several amounts by one report of a sign each: the mechanism of Duchi and others.

Each amount, between -1 and 1, is first rounded to -1 or 1 at random so that its mean stays. Then a
vector of signs is drawn: from the half space that agrees with the rounded one (more signs alike
than not) with probability P, else from the rest. Every vector that agrees must be e^epsilon times
as likely as every one that does not, which fixes P by how many agree: C = 2^(d-1) for odd d; for
even d some agree in exactly half and count as not agreeing, so C = 2^(d-1) - binom(d, d/2) / 2, and

    P = E C / ((E - 1) C + 2^d).

As published, even d takes half-agreeing vectors into both sets, and epsilon 1 becomes 1.313.
Drawing a vector is by rejection: vectors of fair coins until one lies in the set. How often that is
depends on the set, which does not depend on the truth. Decision `local-methods`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import ParameterError
from sfumato.methods.local.domains import occur
from sfumato.methods.local.draws import LARGEST_TOTAL, happens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.privacy.noise.entropy import Entropy

    Signs = NDArray[np.bool_]

MOST_DIMENSIONS = 64
_AGREEMENT_BITS = 60


@dataclass(frozen=True)
class HalfSpace:
    """Vectors of `dimensions` signs; those that agree with the truth are likelier by the odds."""

    dimensions: int
    chance: Fraction
    """That of a vector that agrees, all of them together."""

    @classmethod
    def of(cls, level: LocalEpsilon, dimensions: int) -> HalfSpace:
        """The likeliest agreement whose odds are at most e^epsilon."""
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise ParameterError(
                "parameter_out_of_range",
                f"A report can be about 1 to {MOST_DIMENSIONS} amounts, not {dimensions}. Ask each "
                "person about some of them only, drawn at random.",
            )
        agreeing = _agreeing(dimensions)
        odds = level.rational(96)
        chance = odds * agreeing / ((odds - 1) * agreeing + (1 << dimensions))
        if chance.denominator <= LARGEST_TOTAL:
            return cls(dimensions, chance)
        # Rounded down, so that the odds are too.
        return cls(
            dimensions,
            Fraction((chance * (1 << _AGREEMENT_BITS)).__floor__(), 1 << _AGREEMENT_BITS),
        )

    @cached_property
    def odds(self) -> Fraction:
        """How much likelier a vector that agrees is than one that does not."""
        agreeing = _agreeing(self.dimensions)
        disagreeing = (1 << self.dimensions) - agreeing
        return self.chance / agreeing / ((1 - self.chance) / disagreeing)

    @cached_property
    def size(self) -> Fraction:
        """What a sign stands for, B: the mean of sign times B is the amount."""
        d, agreeing = self.dimensions, _agreeing(self.dimensions)
        # Agreements less disagreements in one place, summed over all vectors that agree.
        excess = Fraction(sum(comb(d, a) * (2 * a - d) for a in range(d // 2 + 1, d + 1)), d)
        disagreeing = (1 << d) - agreeing
        return 1 / (excess * (self.chance / agreeing - (1 - self.chance) / disagreeing))

    def draw(self, fractions: FloatArray, entropy: Entropy) -> Signs:
        """Signs for people whose amounts lie at these parts of the way between the bounds."""
        truth = occur(fractions, entropy)
        agree = happens(self.chance, len(truth), entropy)
        drawn = np.empty_like(truth)
        undecided = np.arange(len(truth))
        while len(undecided):
            coins = _coins(len(undecided), self.dimensions, entropy)
            alike = 2 * (coins == truth[undecided]).sum(axis=1) > self.dimensions
            accepted = alike == agree[undecided]
            drawn[undecided[accepted]] = coins[accepted]
            undecided = undecided[~accepted]
        return drawn

    def variance(self, fraction: Fraction) -> Fraction:
        """The variance of one unbiased answer of a person at this part between -1 and 1."""
        return self.size**2 - fraction**2


def _agreeing(dimensions: int) -> int:
    """How many vectors of signs agree with a given one in more than half of their places."""
    half = comb(dimensions, dimensions // 2) // 2 if dimensions % 2 == 0 else 0
    return (1 << dimensions - 1) - half


def _coins(count: int, width: int, entropy: Entropy) -> Signs:
    """Fair coins, a row of `width` for each of `count`."""
    drawn = entropy.words(-(-count * width // 64))
    return np.unpackbits(drawn.view(np.uint8))[: count * width].reshape(count, width).astype(bool)
