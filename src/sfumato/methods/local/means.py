"""Means of amounts that people keep to themselves: by signs, by windows, or by both.

Every report stands for an unbiased figure of one person's amount, far wider than the amount itself;
their average is the estimate. All draws are of whole numbers. Decision `local-methods`.
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
from sfumato.methods.local.draws import LARGEST_TOTAL, below, happens, occur
from sfumato.methods.local.exact_epsilon import read_epsilon
from sfumato.methods.local.mechanism import (
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
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.privacy.noise.entropy import Entropy


# Means of several amounts by one report of a sign each: the mechanism of Duchi and others.
#
# Each amount, between -1 and 1, is first rounded to -1 or 1 at random so that its mean stays.
# Then a
# vector of signs is drawn: from the half space that agrees with the rounded one (more signs alike
# than not) with probability P, else from the rest. Every vector that agrees must be e^epsilon
# times
# as likely as every one that does not, which fixes P by how many agree: C = 2^(d-1) for odd d;
# for
# even d some agree in exactly half and count as not agreeing, so C = 2^(d-1) - binom(d, d/2) / 2,
# and
#
#     P = E C / ((E - 1) C + 2^d).
#
# As published, even d takes half-agreeing vectors into both sets, and epsilon 1 becomes 1.313.
# Drawing a vector is by rejection: vectors of fair coins until one lies in the set. How often
# that is
# depends on the set, which does not depend on the truth. Decision `local-methods`.

MOST_DIMENSIONS = 64
_AGREEMENT_BITS = 60


@dataclass(frozen=True)
class HalfSpace:
    """Vectors of `dimensions` signs; those that agree with the truth are likelier by the odds."""

    dimensions: int
    chance: Fraction
    """That of a vector that agrees, all of them together."""

    @classmethod
    def of(cls, epsilon: LocalEpsilon, dimensions: int) -> HalfSpace:
        """The likeliest agreement whose odds are at most e^epsilon."""
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise ParameterError(
                "parameter_out_of_range",
                f"A report can be about 1 to {MOST_DIMENSIONS} amounts, not {dimensions}. Ask each "
                "person about some of them only, drawn at random.",
            )
        agreeing = _agreeing(dimensions)
        odds = epsilon.rational(96)
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

    def draw(self, fractions: FloatArray, entropy: Entropy) -> BoolArray:
        """Signs for people whose amounts lie at these parts of the way between the bounds."""
        truth = occur(fractions, entropy)
        agree = happens(self.chance, len(truth), entropy)
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
        """The variance of one unbiased answer of a person at this part between -1 and 1."""
        return self.size**2 - fraction**2


def _agreeing(dimensions: int) -> int:
    """How many vectors of signs agree with a given one in more than half of their places."""
    half = comb(dimensions, dimensions // 2) // 2 if dimensions % 2 == 0 else 0
    return (1 << dimensions - 1) - half


def _coins(count: int, width: int, entropy: Entropy) -> BoolArray:
    """Fair coins, a row of `width` for each of `count`."""
    drawn = entropy.words(-(-count * width // 64))
    return np.unpackbits(drawn.view(np.uint8))[: count * width].reshape(count, width).astype(bool)


# The piecewise mechanism in whole numbers: a window of likely answers around the truth.
#
# A person's amount is brought to one of N - w + 1 places; the answer is one of N cells, each of
# the w
# cells from the place on with weight E = a / b, each of the others with weight 1. All places have
# as
# many cells of either kind, so the weights of all add up to the same total Z = a w + b (N - w),
# and
# one whole number below Z decides. The mean answer is linear in the place, hence the estimate is
# unbiased for any N and w. As N grows with w / N = 1 / (s + 1), s = sqrt(E), this becomes the
# published mechanism, whose answers are real numbers. Decision `local-methods`.

CELLS = 1024


@dataclass(frozen=True)
class Window:
    """N cells of which w neighbours are more likely than the others, by the odds a / b."""

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
            )
        root = math.exp(float(epsilon) / 2)
        width = min(max(1, round(cells / (root + 1))), cells // 2)
        room = (
            LARGEST_TOTAL.bit_length() - 2 - cells.bit_length() - math.ceil(float(epsilon) * 1.45)
        )
        return cls(cells, width, epsilon.rational(min(40, room)))

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


THRESHOLD = 0.609352
"""The epsilon below which windows do not help signs."""

_COIN_BITS = 32


class MeanOracle(LocalMechanism):
    """One amount of each person, between declared bounds: its mean over all."""

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
        """Settle the other chances and the layout of reports."""

    def options(self) -> dict[str, Any]:
        """How many cells there are."""
        return {"cells": self.window.cells}

    @abstractmethod
    def _draw(self, fractions: FloatArray, entropy: Entropy) -> IntArray:
        """A code for each amount, given as a part of the way between the bounds."""

    @abstractmethod
    def _answers(self) -> FloatArray:
        """The unbiased part between -1 and 1 that each code stands for."""

    @abstractmethod
    def _variance(self, fraction: Fraction) -> Fraction:
        """The variance of one answer of a person at a part between -1 and 1."""

    @abstractmethod
    def _spread(self, counts: FloatArray, mean: float) -> float:
        """The mean variance of the answers, estimated from how often each code came."""

    @abstractmethod
    def channel(self) -> Channel:
        """The exact matrix of chances: rows are the places that an amount can be brought to."""

    def _declaration(self) -> dict[str, Any]:
        return {"bounds": self.bounds.to_json()}

    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        fractions = self.bounds.fractions(read_numbers(values, 1)[:, 0])
        rows = self.layout.empty(len(fractions))
        rows["report"] = self._draw(fractions, entropy)
        return rows

    def variance(self, n: int, value: object = None) -> float:
        """The variance of the mean from n reports of people who all hold this value.

        Without a value it is the largest that there can be.
        """
        fractions = [Fraction(0), Fraction(1)] if value is None else [self.bounds.centred(value)]
        return (
            float(max(map(self._variance, fractions)) / read_report_count(n)) * self.bounds.half**2
        )

    def estimate(self, sketch: ReportSketch) -> pa.Table:
        """Estimate the mean: a table of one row, mean and sd, in the unit of the amounts.

        The mean is unbiased, so that it may lie outside of the bounds; `sd` is that of its error.
        """
        counts = self._own(sketch).tally.astype(np.float64)
        mean = float(counts @ self._answers() / sketch.n)
        spread = math.sqrt(self._spread(counts, mean) / sketch.n)
        columns = {"mean": [float(self.bounds.back(mean))], "sd": [spread * self.bounds.half]}
        return pa.table(columns)

    def _card(self) -> Card:
        low, high = self.bounds.to_json()
        people = 10_000
        line = f"{self.name} for amounts from {low} to {high} at epsilon {self.epsilon}"
        facts = {
            "bounds": f"{low} to {high}",
            "epsilon": str(self.epsilon),
            "bytes a report": self.layout.dtype.itemsize,
            f"sd of the mean of {people:,} reports, at most": math.sqrt(self.variance(people)),
        }
        return Card(line, facts)


class Piecewise(MeanOracle):
    """Say a place near the true amount e^epsilon times as often as any other.

    *Guarantee*: epsilon-LDP: each of N answers has one of two chances, whose ratio is a rational of
    at most e^epsilon, whatever the amount.
    *Sensitivity*: None to establish: amounts beyond the declared bounds count as the nearer bound.
    *Error*: Var = t^2 / (s - 1) + (s + 3) / (3 (s - 1)^2) for a report of an amount t between -1
    and 1, s = e^(epsilon/2), within a part in a thousand; exactly by `variance`.
    *Edges*: N is 1024 cells unless given; amounts between two places are rounded at random.
    *Reference*: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin & Yu 2019, Algorithm 2; decision
    `local-methods`.
    """

    name = "piecewise"

    def _prepare(self) -> None:
        self.layout = ReportLayout((Code("report", self.window.cells),))

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two amounts, exactly."""
        return self.window.odds

    def channel(self) -> Channel:
        """The matrix of chances: a window of likely cells for each place."""
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
    """A window with probability 1 - e^(-epsilon/2), a sign otherwise; only signs for low epsilon.

    *Guarantee*: epsilon-LDP: both mechanisms are, and which one is used is a coin of its own.
    *Sensitivity*: None to establish: amounts beyond the declared bounds count as the nearer bound.
    *Error*: at worst (s + 3) / (3 s (s - 1)) + (e^epsilon + 1)^2 / (s (e^epsilon - 1)^2) for a
    report, s = e^(epsilon/2), within a part in a thousand; exactly by `variance`.
    *Edges*: below epsilon .609352 it is the mechanism of signs alone.
    *Reference*: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin & Yu 2019, section 3.3; decision
    `local-methods`.
    """

    name = "hybrid"

    def _prepare(self) -> None:
        self.signs = HalfSpace.of(self.epsilon, 1)
        # The coin depends on nobody, so that it may be rounded to any side.
        share = -math.expm1(-float(self.epsilon) / 2) if float(self.epsilon) > THRESHOLD else 0.0
        self.share = Fraction(round(share * (1 << _COIN_BITS)), 1 << _COIN_BITS)
        self.layout = ReportLayout((Code("report", self.window.cells + 2),))

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two amounts, exactly."""
        return max(self.window.odds, self.signs.odds) if self.share else self.signs.odds

    def channel(self) -> Channel:
        """The matrix of chances: cells, then the two signs."""
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
        windowed = happens(self.share, len(fractions), entropy)
        signs = self.signs.draw(fractions[:, None], entropy)[:, 0]
        return np.where(windowed, self.window.draw(fractions, entropy), self.window.cells + signs)

    def _answers(self) -> FloatArray:
        size = float(self.signs.size)
        return np.append(self.window.answers(), [-size, size])

    def _variance(self, fraction: Fraction) -> Fraction:
        windows, signs = self.window.variance(fraction), self.signs.variance(fraction)
        return self.share * windows + (1 - self.share) * signs

    def _spread(self, counts: FloatArray, mean: float) -> float:
        # The mean square of an answer is a t^2 + c, as for windows alone; c where t is 0.
        square = float(counts @ self._answers() ** 2 / counts.sum())
        at_end, at_zero = (float(self._variance(Fraction(n)) + n * n) for n in (1, 0))
        truths = (square - at_zero) / (at_end - at_zero) if self.share else 0.0
        return max(square - min(max(truths, mean * mean), 1.0), 0.0)


class Duchi(LocalMechanism):
    """The signs of all amounts of a person at once, from the half space of the true ones.

    *Guarantee*: epsilon-LDP for all amounts of the person together: each vector of signs has one of
    two chances, whose ratio is at most e^epsilon; for even numbers of amounts too.
    *Sensitivity*: None to establish: amounts beyond the declared bounds count as the nearer bound.
    *Error*: Var = B^2 - t^2 for a report of an amount t between -1 and 1; for one amount B is
    (e^epsilon + 1) / (e^epsilon - 1), for d about sqrt(d) times that.
    *Edges*: up to 64 amounts, all between the same bounds.
    *Reference*: Duchi, Jordan & Wainwright 2018, 4.2.3, corrected for even d; decision
    `local-methods`.
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
            raise ParameterError("parameter_out_of_range", "columns must name each amount once.")
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
        """The largest ratio of the chances of a report between two people, exactly."""
        return self.signs.odds

    def channel(self) -> Channel:
        """The matrix of chances between vectors of signs, for people at the bounds."""
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
        """The variance of a mean from n reports of people who all hold this value.

        Without a value it is the largest that there can be.
        """
        fraction = Fraction(0) if value is None else self.bounds.centred(value)
        return float(self.signs.variance(fraction) / read_report_count(n)) * self.bounds.half**2

    def estimate(self, sketch: ReportSketch) -> pa.Table:
        """Estimate the means: a table of column, mean and sd, in the unit of the amounts.

        Means are unbiased, so that one may lie outside of the bounds. `sd` is that of the error
        where all people are at their mean, and above it the more of them are at the bounds: how far
        they are from their mean cannot be told from signs.
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
        people = 10_000
        line = (
            f"{self.name} for {self.dimensions} amounts from {low} to {high} "
            f"at epsilon {self.epsilon}"
        )
        facts = {
            "amounts": self.dimensions,
            "bounds": f"{low} to {high}",
            "epsilon": str(self.epsilon),
            f"sd of a mean of {people:,} reports, at most": math.sqrt(self.variance(people)),
        }
        return Card(line, facts)


def _over_one_denominator(rows: list[list[Fraction]]) -> list[list[int]]:
    """Fractions as whole weights over their common denominator."""
    common = math.lcm(*(number.denominator for row in rows for number in row))
    return [[int(number * common) for number in row] for row in rows]
