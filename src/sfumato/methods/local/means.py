"""Mechanisms for the mean of an amount: Duchi's signs, the piecewise mechanism, and their hybrid.

Every report stands for an unbiased figure of one person's amount, and the average of these figures
is the estimate. All draws are of integers. Decision `local-privacy`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.methods.local.domains import amounts, read_numbers
from sfumato.methods.local.draws import LARGEST_TOTAL, draw_each_event, draw_events, draw_integers
from sfumato.methods.local.local_epsilon import read_epsilon
from sfumato.methods.local.mechanism import (
    CARD_PEOPLE,
    Channel,
    LocalMechanism,
    check_channel_size,
    read_report_count,
)
from sfumato.methods.local.reports import Code, ReportLayout
from sfumato.report.display import Card

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.local_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.privacy.noise.entropy import Entropy


# The mechanism of Duchi, Jordan and Wainwright: one sign for each of d amounts.
#
# Each amount t in [-1, 1] is first rounded to 1 with probability (1 + t) / 2, else to -1: its mean
# stays. Then a vector of signs is drawn: with probability P from the half space that agrees with
# the rounded vector (more signs equal than not), else from the other vectors. An agreeing vector
# must be E = e^epsilon times as likely as any other. With C agreeing vectors this determines
#
#     P = E C / ((E - 1) C + 2^d),
#     C = 2^(d-1) for odd d, C = 2^(d-1) - binom(d, d/2) / 2 for even d,
#
# because for even d a vector that agrees in exactly half of its signs counts as not agreeing. As
# published, even d puts such vectors into both sets, and a claimed epsilon of 1 becomes 1.313.
# Vectors are drawn by rejection: fair coins until the vector lies in the chosen set. The number of
# attempts depends on which set it is, and not on the person's amounts.

MOST_DIMENSIONS = 64
_AGREEMENT_BITS = 60


@dataclass(frozen=True)
class HalfSpace:
    """Vectors of `dimensions` signs, drawn from the half space around the true one with P."""

    dimensions: int
    chance: Fraction
    """P: the probability of all agreeing vectors together."""

    @classmethod
    def of(cls, epsilon: LocalEpsilon, dimensions: int) -> HalfSpace:
        """The largest P whose odds are at most e^epsilon."""
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise ParameterError(
                "parameter_out_of_range",
                f"A report covers 1 to {MOST_DIMENSIONS} amounts, not {dimensions}. Ask each "
                "person about a few of them, drawn at random.",
            )
        agreeing = _agreeing(dimensions)
        odds = epsilon.rational(96)
        chance = odds * agreeing / ((odds - 1) * agreeing + (1 << dimensions))
        if chance.denominator <= LARGEST_TOTAL:
            return cls(dimensions, chance)
        # Rounded down: the odds never exceed e^epsilon.
        return cls(
            dimensions,
            Fraction((chance * (1 << _AGREEMENT_BITS)).__floor__(), 1 << _AGREEMENT_BITS),
        )

    @cached_property
    def odds(self) -> Fraction:
        """The ratio of the probabilities of an agreeing vector and of another one."""
        agreeing = _agreeing(self.dimensions)
        disagreeing = (1 << self.dimensions) - agreeing
        return self.chance / agreeing / ((1 - self.chance) / disagreeing)

    @cached_property
    def size(self) -> Fraction:
        """B, the figure that a sign stands for: the mean of sign times B is the amount."""
        d, agreeing = self.dimensions, _agreeing(self.dimensions)
        # Agreements less disagreements in one position, summed over all agreeing vectors.
        excess = Fraction(sum(comb(d, a) * (2 * a - d) for a in range(d // 2 + 1, d + 1)), d)
        disagreeing = (1 << d) - agreeing
        return 1 / (excess * (self.chance / agreeing - (1 - self.chance) / disagreeing))

    def draw(self, fractions: FloatArray, entropy: Entropy) -> BoolArray:
        """Draw signs for amounts given as fractions of the way between the bounds."""
        truth = draw_each_event(fractions, entropy)
        agree = draw_events(self.chance, len(truth), entropy)
        drawn: BoolArray = np.empty_like(truth)
        undecided = np.arange(len(truth))
        while len(undecided):
            coins = _coins(len(undecided), self.dimensions, entropy)
            alike = 2 * (coins == truth[undecided]).sum(axis=1) > self.dimensions
            accepted = alike == agree[undecided]
            drawn[undecided[accepted]] = coins[accepted]
            undecided = undecided[~accepted]
        return drawn

    def variance(self, fraction: Fraction) -> Fraction:
        """The variance of the figure of one report of an amount in [-1, 1]."""
        return self.size**2 - fraction**2


def _agreeing(dimensions: int) -> int:
    """C: the number of vectors that agree with a given one in more than half of their signs."""
    half = comb(dimensions, dimensions // 2) // 2 if dimensions % 2 == 0 else 0
    return (1 << dimensions - 1) - half


def _coins(count: int, width: int, entropy: Entropy) -> BoolArray:
    """Toss `width` fair coins for each of `count` rows."""
    drawn = entropy.words(-(-count * width // 64))
    return np.unpackbits(drawn.view(np.uint8))[: count * width].reshape(count, width).astype(bool)


# The piecewise mechanism in integers: a window of likely answers around the truth.
#
# An amount is rounded at random to one of N - w + 1 positions. The answer is one of N cells: each
# of the w cells from the position on has weight E = a / b, each other cell weight 1. Every position
# has w cells of the one kind and N - w of the other, so the weights (times b) have the same total
# Z = a w + b (N - w), and one uniform integer below Z decides. The mean answer is linear in the
# position, hence the estimate is unbiased for any N and w. As N grows with w / N = 1 / (s + 1),
# s = sqrt(E), this becomes the published mechanism, whose answers are real numbers.

CELLS = 1024


@dataclass(frozen=True)
class Window:
    """N cells, of which w neighbours are a / b times as likely as the others."""

    cells: int
    width: int
    odds: Fraction

    @classmethod
    def of(cls, epsilon: LocalEpsilon, cells: int = CELLS) -> Window:
        """The window of least variance, for odds of at most e^epsilon."""
        if not 4 <= cells <= 1 << 20:
            raise ParameterError(
                "parameter_out_of_range",
                f"cells must be between 4 and {1 << 20:,}, not {cells:,}. 1024 is enough for most.",
                parameter="cells",
                given=cells,
            )
        root = math.exp(float(epsilon) / 2)
        # The published width; any width is private, and this one has about the least variance.
        width = min(max(1, round(cells / (root + 1))), cells // 2)
        room = (
            LARGEST_TOTAL.bit_length() - 2 - cells.bit_length() - math.ceil(float(epsilon) * 1.45)
        )
        return cls(cells, width, epsilon.rational(min(40, room)))

    @property
    def point_count(self) -> int:
        """The number of positions of the window."""
        return self.cells - self.width + 1

    @property
    def total(self) -> int:
        """The sum of all weights."""
        return self.odds.numerator * self.width + self.odds.denominator * (self.cells - self.width)

    def draw(self, fractions: FloatArray, entropy: Entropy) -> IntArray:
        """Draw a cell for each amount, given as a fraction of the way between the bounds."""
        along = fractions * (self.point_count - 1)
        lower = np.minimum(np.floor(along), self.point_count - 2)
        # Up with the remainder as probability: the mean position is the exact one.
        position = lower.astype(np.int64) + draw_each_event(along - lower, entropy)
        drawn = draw_integers(self.total, len(position), entropy)
        likely = self.odds.numerator * self.width
        beside = (drawn - likely) // self.odds.denominator
        outside = beside + np.where(beside >= position, self.width, 0)
        return np.where(drawn < likely, position + drawn // self.odds.numerator, outside)

    def weights(self, position: int) -> list[int]:
        """The weights of all cells at one position; their sum is `total`."""
        near, far = self.odds.numerator, self.odds.denominator
        inside = range(position, position + self.width)
        return [near if cell in inside else far for cell in range(self.cells)]

    @cached_property
    def _gain(self) -> Fraction:
        """The slope of the mean answer: cells per position."""
        return (self.odds - 1) * self.width / self._weight

    @property
    def _weight(self) -> Fraction:
        return self.total / Fraction(self.odds.denominator)

    def centred(self) -> tuple[Fraction, Fraction]:
        """The pair (c, s) that makes c + s i an unbiased figure in [-1, 1] for the answer i."""
        cells, width = self.cells, self.width
        # Mean answer at position j, for N cells and width w:
        # (N (N - 1) / 2 + (E - 1) w (j + (w - 1) / 2)) / Z.
        start = Fraction(cells * (cells - 1), 2) / self._weight
        start += self._gain * Fraction(width - 1, 2)
        step = 2 / (self._gain * (self.point_count - 1))
        return -start * step - 1, step

    def variance(self, fraction: Fraction) -> Fraction:
        """The variance of the figure of one report of an amount in [-1, 1]."""
        along = (fraction + 1) / 2 * (self.point_count - 1)
        lower = min(along.__floor__(), self.point_count - 2)
        upper = along - lower
        first, step = self.centred()
        second = (1 - upper) * self._square(lower) + upper * self._square(lower + 1)
        mean = (fraction - first) / step
        return step * step * (second - mean * mean)

    def _square(self, position: int) -> Fraction:
        """The mean square of the answers at a position."""
        inside = _squares(position + self.width) - _squares(position)
        return ((self.odds - 1) * inside + _squares(self.cells)) / self._weight

    def fixed_variance(self, mean: float, square: float) -> float:
        """Estimate the mean variance of the figures from their mean and mean square.

        The mean square of a figure is a t^2 + c for the amount t. Solving for the mean of t^2
        removes the spread of the amounts themselves, which is not noise.
        """
        at_end, at_zero = (float(self.variance(Fraction(n)) + n * n) for n in (1, 0))
        truths = (square - at_zero) / (at_end - at_zero)
        return max(square - min(max(truths, mean * mean), 1.0), 0.0)

    def answers(self) -> FloatArray:
        """The unbiased figure that each cell stands for."""
        first, step = self.centred()
        return float(first) + float(step) * np.arange(self.cells, dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        """The declared parameters, on which device and collector must agree."""
        return {"cells": self.cells, "width": self.width, "odds": str(self.odds)}


def _squares(count: int) -> int:
    """0^2 + 1^2 + ... + (count - 1)^2."""
    return (count - 1) * count * (2 * count - 1) // 6


THRESHOLD = 0.609352
"""The epsilon below which signs alone have the least error (epsilon* of Wang et al. 2019)."""

_COIN_BITS = 32


class MeanOracle(LocalMechanism):
    """A mechanism for one amount of each person between declared bounds."""

    counted_once = True

    def __init__(
        self, bounds: object, *, epsilon: Number | LocalEpsilon, cells: int = CELLS
    ) -> None:
        self.bounds, self.epsilon = amounts(bounds), read_epsilon(epsilon)
        self.window = Window.of(self.epsilon, arguments.whole(cells, "cells"))
        self._prepare()
        self.check_claim()

    @abstractmethod
    def _prepare(self) -> None:
        """Set the remaining probabilities and the layout of reports."""

    def options(self) -> dict[str, Any]:
        """The number of cells."""
        return {"cells": self.window.cells}

    @abstractmethod
    def _draw(self, fractions: FloatArray, entropy: Entropy) -> IntArray:
        """Draw a code for each amount, given as a fraction of the way between the bounds."""

    @abstractmethod
    def _answers(self) -> FloatArray:
        """The unbiased figure in units of half the bounds' distance that each code stands for."""

    @abstractmethod
    def _variance(self, fraction: Fraction) -> Fraction:
        """The variance of the figure of one report of an amount in [-1, 1]."""

    @abstractmethod
    def _spread(self, counts: FloatArray, mean: float) -> float:
        """The mean variance of the figures, estimated from the count of each code."""

    @abstractmethod
    def channel(self) -> Channel:
        """The exact matrix of probabilities: a row for each position of an amount."""

    def _declaration(self) -> dict[str, Any]:
        return {"bounds": self.bounds.to_json()}

    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        fractions = self.bounds.fractions(read_numbers(values, 1)[:, 0])
        rows = self.layout.empty(len(fractions))
        rows["report"] = self._draw(fractions, entropy)
        return rows

    def variance(self, n: int, value: object = None) -> float:
        """The variance of the mean of n reports of this value; without a value, the largest."""
        fractions = [Fraction(0), Fraction(1)] if value is None else [self.bounds.centred(value)]
        return (
            float(max(map(self._variance, fractions)) / read_report_count(n)) * self.bounds.half**2
        )

    def estimate(self, sketch: ReportSketch) -> pa.Table:
        """Estimate the mean.

        Parameters
        ----------
        sketch : ReportSketch
            The sums of the reports.

        Returns
        -------
        pyarrow.Table
            One row, in the unit of the amounts: mean and sd, the standard deviation of its error.
            The mean is unbiased: it may lie outside the bounds.

        Raises
        ------
        SourceError
            If the sketch is of another mechanism, damaged or without reports.
        """
        counts = self._own(sketch).tally.astype(np.float64)
        mean = float(counts @ self._answers() / sketch.n)
        spread = math.sqrt(self._spread(counts, mean) / sketch.n)
        columns = {"mean": [float(self.bounds.back(mean))], "sd": [spread * self.bounds.half]}
        return pa.table(columns)

    def _card(self) -> Card:
        low, high = self.bounds.to_json()
        line = f"{self.name} for amounts from {low} to {high} at epsilon {self.epsilon}"
        facts = {
            "bounds": f"{low} to {high}",
            "epsilon": str(self.epsilon),
            "bytes a report": self.layout.dtype.itemsize,
            f"sd of the mean of {CARD_PEOPLE:,} reports, at most": math.sqrt(
                self.variance(CARD_PEOPLE)
            ),
        }
        return Card(line, facts)


class Piecewise(MeanOracle):
    """Report a cell near the true amount e^epsilon times as often as any other cell.

    *Guarantee*: epsilon-LDP: each of N answers has one of two probabilities, whose ratio is a
    rational of at most e^epsilon, whatever the amount.
    *Sensitivity*: None to establish: amounts beyond the declared bounds count as the nearer bound.
    *Error*: Var = t^2 / (s - 1) + (s + 3) / (3 (s - 1)^2) for a report of an amount t between -1
    and 1, s = e^(epsilon/2), within a part in a thousand; exactly by `variance`.
    *Edges*: N is 1024 cells by default; amounts between two positions are rounded at random.
    *Reference*: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin & Yu 2019, Algorithm 2; decision
    `local-privacy`.
    """

    name = "piecewise"

    def _prepare(self) -> None:
        self.layout = ReportLayout((Code("report", self.window.cells),))

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two amounts, exactly."""
        return self.window.odds

    def channel(self) -> Channel:
        """The matrix of probabilities: a window of likely cells for each position."""
        check_channel_size(self.window.point_count, self.window.cells)
        return Channel.of(
            [self.window.weights(position) for position in range(self.window.point_count)]
        )

    def _draw(self, fractions: FloatArray, entropy: Entropy) -> IntArray:
        return self.window.draw(fractions, entropy)

    def _answers(self) -> FloatArray:
        return self.window.answers()

    def _variance(self, fraction: Fraction) -> Fraction:
        return self.window.variance(fraction)

    def _spread(self, counts: FloatArray, mean: float) -> float:
        square = float(counts @ self._answers() ** 2 / counts.sum())
        return self.window.fixed_variance(mean, square)


class Hybrid(MeanOracle):
    """The piecewise mechanism with probability 1 - e^(-epsilon/2), a sign otherwise.

    *Guarantee*: epsilon-LDP: both mechanisms are, and which one is used is a coin of its own.
    *Sensitivity*: None to establish: amounts beyond the declared bounds count as the nearer bound.
    *Error*: at worst (s + 3) / (3 s (s - 1)) + (e^epsilon + 1)^2 / (s (e^epsilon - 1)^2) for a
    report, s = e^(epsilon/2), within a part in a thousand; exactly by `variance`.
    *Edges*: below epsilon .609352 it always reports a sign.
    *Reference*: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin & Yu 2019, section 3.3; decision
    `local-privacy`.
    """

    name = "hybrid"

    def _prepare(self) -> None:
        self.signs = HalfSpace.of(self.epsilon, 1)
        # The coin is independent of the data, so its rounding costs no privacy.
        share = -math.expm1(-float(self.epsilon) / 2) if float(self.epsilon) > THRESHOLD else 0.0
        self.share = Fraction(round(share * (1 << _COIN_BITS)), 1 << _COIN_BITS)
        self.layout = ReportLayout((Code("report", self.window.cells + 2),))

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two amounts, exactly."""
        return max(self.window.odds, self.signs.odds) if self.share else self.signs.odds

    def channel(self) -> Channel:
        """The matrix of probabilities: cells, then the two signs."""
        check_channel_size(self.window.point_count, self.window.cells + 2)
        last = self.window.point_count - 1
        rows = []
        for position in range(self.window.point_count):
            windows = [self.share * Fraction(weight, self.window.total)
                       for weight in self.window.weights(position)]  # fmt: skip
            plus = (1 + Fraction(2 * position - last, last) / self.signs.size) / 2
            rows.append([*windows, (1 - self.share) * (1 - plus), (1 - self.share) * plus])
        return Channel.of(_over_one_denominator(rows))

    def _draw(self, fractions: FloatArray, entropy: Entropy) -> IntArray:
        windowed = draw_events(self.share, len(fractions), entropy)
        signs = self.signs.draw(fractions[:, None], entropy)[:, 0]
        return np.where(windowed, self.window.draw(fractions, entropy), self.window.cells + signs)

    def _answers(self) -> FloatArray:
        size = float(self.signs.size)
        return np.append(self.window.answers(), [-size, size])

    def _variance(self, fraction: Fraction) -> Fraction:
        windows, signs = self.window.variance(fraction), self.signs.variance(fraction)
        return self.share * windows + (1 - self.share) * signs

    def _spread(self, counts: FloatArray, mean: float) -> float:
        # The mean square of a figure is a t^2 + c, as in `Window.fixed_variance`.
        square = float(counts @ self._answers() ** 2 / counts.sum())
        at_end, at_zero = (float(self._variance(Fraction(n)) + n * n) for n in (1, 0))
        truths = (square - at_zero) / (at_end - at_zero) if self.share else 0.0
        return max(square - min(max(truths, mean * mean), 1.0), 0.0)


class Duchi(LocalMechanism):
    """Report one sign for each amount of a person, from the half space around the true signs.

    *Guarantee*: epsilon-LDP for all amounts of the person together: each vector of signs has one of
    two probabilities, whose ratio is at most e^epsilon, for even numbers of amounts too.
    *Sensitivity*: None to establish: amounts beyond the declared bounds count as the nearer bound.
    *Error*: Var = B^2 - t^2 for a report of an amount t between -1 and 1; for one amount B is
    (e^epsilon + 1) / (e^epsilon - 1), for d about sqrt(d) times that.
    *Edges*: up to 64 amounts, all between the same bounds.
    *Reference*: Duchi, Jordan & Wainwright 2018, 4.2.3, corrected for even d; decision
    `local-privacy`.
    """

    name = "duchi"

    def __init__(
        self,
        bounds: object,
        *,
        epsilon: Number | LocalEpsilon,
        columns: int | list[str] = 1,
    ) -> None:
        self.bounds, self.epsilon = amounts(bounds), read_epsilon(epsilon)
        names = columns if isinstance(columns, int) else list(arguments.names(columns, "columns"))
        if isinstance(names, list) and len(set(names)) < len(names):
            raise ParameterError(
                "parameter_out_of_range", "columns must name each amount once.", parameter="columns"
            )
        self.columns = names
        self.dimensions = (
            len(names) if isinstance(names, list) else arguments.whole(names, "columns")
        )
        self.signs = HalfSpace.of(self.epsilon, self.dimensions)
        self.layout = ReportLayout((), self.dimensions)
        self.check_claim()

    def _declaration(self) -> dict[str, Any]:
        return {"bounds": self.bounds.to_json(), "columns": self.columns}

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two people, exactly."""
        return self.signs.odds

    def channel(self) -> Channel:
        """The matrix of probabilities between vectors of signs, for people at the bounds."""
        size = 1 << self.dimensions
        check_channel_size(size, size)
        near = self.signs.odds.numerator, self.signs.odds.denominator
        alike = np.bitwise_count(np.bitwise_xor.outer(np.arange(size), np.arange(size)))
        agree = 2 * alike.astype(np.int64) < self.dimensions
        return Channel.of(
            [[near[0] if is_near else near[1] for is_near in row] for row in agree.tolist()]
        )

    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        fractions = self.bounds.fractions(read_numbers(values, self.dimensions))
        rows = self.layout.empty(len(fractions))
        rows["bits"] = np.packbits(self.signs.draw(fractions, entropy), axis=1, bitorder="little")
        return rows

    def variance(self, n: int, value: object = None) -> float:
        """The variance of a mean of n reports of this value; without a value, the largest."""
        fraction = Fraction(0) if value is None else self.bounds.centred(value)
        return float(self.signs.variance(fraction) / read_report_count(n)) * self.bounds.half**2

    def estimate(self, sketch: ReportSketch) -> pa.Table:
        """Estimate the means.

        Parameters
        ----------
        sketch : ReportSketch
            The sums of the reports.

        Returns
        -------
        pyarrow.Table
            A row for each column, in the unit of the amounts: column, mean and sd. A mean is
            unbiased: it may lie outside the bounds. `sd` is exact if all amounts equal their mean,
            and too large otherwise: signs do not show how far amounts spread.

        Raises
        ------
        SourceError
            If the sketch is of another mechanism, damaged or without reports.
        """
        size = float(self.signs.size)
        means = size * (2 * self._own(sketch).tally / sketch.n - 1)
        spread = np.sqrt((size**2 - np.minimum(means**2, 1.0)) / sketch.n)
        names = self.columns if isinstance(self.columns, list) else range(self.dimensions)
        columns = {
            "column": list(names),
            "mean": self.bounds.back(means),
            "sd": spread * self.bounds.half,
        }
        return pa.table(columns)

    def _card(self) -> Card:
        low, high = self.bounds.to_json()
        line = (
            f"{self.name} for {self.dimensions} amounts from {low} to {high} "
            f"at epsilon {self.epsilon}"
        )
        facts = {
            "amounts": self.dimensions,
            "bounds": f"{low} to {high}",
            "epsilon": str(self.epsilon),
            f"sd of a mean of {CARD_PEOPLE:,} reports, at most": math.sqrt(
                self.variance(CARD_PEOPLE)
            ),
        }
        return Card(line, facts)


def _over_one_denominator(rows: list[list[Fraction]]) -> list[list[int]]:
    """The numerators of fractions over their common denominator."""
    common = math.lcm(*(number.denominator for row in rows for number in row))
    return [[int(number * common) for number in row] for row in rows]
