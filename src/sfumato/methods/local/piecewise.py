"""The piecewise mechanism in whole numbers: a window of likely answers around the truth.

A person's amount is brought to one of N - w + 1 places; the answer is one of N cells, each of the w
cells from the place on with weight E = a / b, each of the others with weight 1. All places have as
many cells of either kind, so the weights of all add up to the same total Z = a w + b (N - w), and
one whole number below Z decides. The mean answer is linear in the place, hence the estimate is
unbiased for any N and w. As N grows with w / N = 1 / (s + 1), s = sqrt(E), this becomes the
published mechanism, whose answers are real numbers. Decision `local-methods`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.methods.local.domains import occur
from sfumato.methods.local.draws import LARGEST_TOTAL, below

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.privacy.noise.entropy import Entropy


CELLS = 1024


@dataclass(frozen=True)
class Window:
    """N cells of which w neighbours are more likely than the others, by the odds a / b."""

    cells: int
    width: int
    odds: Fraction

    @classmethod
    def of(cls, level: LocalEpsilon, cells: int = CELLS) -> Window:
        """The window of least variance, for odds of at most e^epsilon."""
        if not 4 <= cells <= 1 << 20:
            raise ParameterError(
                "parameter_out_of_range",
                f"cells must be between 4 and {1 << 20:,}, not {cells:,}. 1024 is enough for most.",
            )
        root = math.exp(float(level) / 2)
        width = min(max(1, round(cells / (root + 1))), cells // 2)
        room = LARGEST_TOTAL.bit_length() - 2 - cells.bit_length() - math.ceil(float(level) * 1.45)
        return cls(cells, width, level.rational(min(40, room)))

    @property
    def point_count(self) -> int:
        """How many places a window can have."""
        return self.cells - self.width + 1

    @property
    def total(self) -> int:
        """The sum of all weights."""
        return self.odds.numerator * self.width + self.odds.denominator * (self.cells - self.width)

    def draw(self, fractions: FloatArray, entropy: Entropy) -> IntArray:
        """Answers of people whose amounts lie at these parts of the way between the bounds."""
        along = fractions * (self.point_count - 1)
        lower = np.minimum(np.floor(along), self.point_count - 2)
        # The next place with the probability that is left over: the mean place is the true one.
        position = lower.astype(np.int64) + occur(along - lower, entropy)
        drawn = below(self.total, len(position), entropy)
        likely = self.odds.numerator * self.width
        beside = (drawn - likely) // self.odds.denominator
        outside = beside + np.where(beside >= position, self.width, 0)
        return np.where(drawn < likely, position + drawn // self.odds.numerator, outside)

    def weights(self, position: int) -> list[int]:
        """The weights of all answers at one place; they add up to `total`."""
        near, far = self.odds.numerator, self.odds.denominator
        inside = range(position, position + self.width)
        return [near if cell in inside else far for cell in range(self.cells)]

    @cached_property
    def _gain(self) -> Fraction:
        """How many cells further the mean answer is, one place further on."""
        return (self.odds - 1) * self.width / self._weight

    @property
    def _weight(self) -> Fraction:
        return self.total / Fraction(self.odds.denominator)

    def centred(self) -> tuple[Fraction, Fraction]:
        """An answer i as an unbiased part between -1 and 1: first + i times second."""
        cells, width = self.cells, self.width
        # Mean answer at place j: (cells (cells - 1) / 2 + (E - 1) width (j + (width - 1)/2)) / Z.
        start = Fraction(cells * (cells - 1), 2) / self._weight
        start += self._gain * Fraction(width - 1, 2)
        step = 2 / (self._gain * (self.point_count - 1))
        return -start * step - 1, step

    def variance(self, fraction: Fraction) -> Fraction:
        """The variance of one unbiased answer of a person at this part between -1 and 1."""
        along = (fraction + 1) / 2 * (self.point_count - 1)
        lower = min(along.__floor__(), self.point_count - 2)
        upper = along - lower
        first, step = self.centred()
        second = (1 - upper) * self._square(lower) + upper * self._square(lower + 1)
        mean = (fraction - first) / step
        return step * step * (second - mean * mean)

    def _square(self, position: int) -> Fraction:
        """The mean square of answers at a place."""
        inside = _squares(position + self.width) - _squares(position)
        return ((self.odds - 1) * inside + _squares(self.cells)) / self._weight

    def fixed_variance(self, mean: float, square: float) -> float:
        """The mean variance of answers, estimated from their mean and mean square.

        The mean square of an answer is a t^2 + c for a person at t, so that of the truths can be
        told, and with it what their spread adds to that of the answers, which is no noise.
        """
        at_end, at_zero = (float(self.variance(Fraction(n)) + n * n) for n in (1, 0))
        truths = (square - at_zero) / (at_end - at_zero)
        return max(square - min(max(truths, mean * mean), 1.0), 0.0)

    def answers(self) -> FloatArray:
        """The unbiased part between -1 and 1 that each cell stands for."""
        first, step = self.centred()
        return float(first) + float(step) * np.arange(self.cells, dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        """What a client must agree on."""
        return {"cells": self.cells, "width": self.width, "odds": str(self.odds)}


def _squares(count: int) -> int:
    """0^2 + 1^2 + ... + (count - 1)^2."""
    return (count - 1) * count * (2 * count - 1) // 6
