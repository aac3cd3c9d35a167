"""Shuffle amplification: the central guarantee of local reports without senders and order.

*Clones.* A report by an epsilon_0-private randomizer is a clone of the victim's report with
probability e^-epsilon_0: it then looks like a report of either of the two values to distinguish,
with equal probabilities. Of the n - 1 others C ~ Bin(n - 1, e^-epsilon_0) are clones, and
A ~ Bin(C, 1/2) of these of the first kind. The victim's own report is of the kind of their true
value with probability E / (E + 1), E = e^epsilon_0. The collector learns no more than the numbers
of both kinds. delta is the hockey-stick divergence of these pairs of numbers at epsilon.

*Given C = c* the likelihood ratio grows with the first number, so the divergence is a difference of
two tails of Bin(c, 1/2), summed from the largest term. One more clone is one more fair coin,
whatever the truth, so delta falls with c. Hence these simplifications are all upper bounds:
neighbouring c are replaced by the least of them, every c far below or above the mean counts with a
divergence of 1, and n above 10^8 counts as 10^8. A factor covers the rounding of float64, which is
below 10^-10 of delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato import arguments, exact_numbers
from sfumato.errors import ParameterError
from sfumato.methods.local.local_epsilon import read_epsilon
from sfumato.privacy.accounting.elementary import exp_down
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.local_epsilon import LocalEpsilon


SMALLEST_DELTA = Fraction(1, 10**300)
_MOST_PEOPLE = 10**8
# Bins of neighbouring numbers of clones.
_BINS = 256
# Covers the rounding of float64, which is below 1e-10 of delta.
_SLACK = 1 + 1e-9
# The most steps of the bisection for epsilon.
_STEPS = 60
# Terms of a tail that are summed at once, and the size below which further terms are left out.
_TOGETHER = 256
_NEGLIGIBLE = 2.0**-70


@dataclass(frozen=True, repr=False)
class Shuffled(Shown):
    """The central guarantee of the shuffled reports of `people`, each private at `local_epsilon`.

    *Guarantee*: (`epsilon`, delta) differential privacy (replace-one) of the shuffled reports taken
    together, for any randomizer, if the shuffler reveals neither the order nor the senders and all
    counted reports come from people who follow the protocol.
    *Error*: no noise is added; epsilon is an upper bound that the numeric accountant computes.
    *Edges*: never above `local_epsilon`, which still holds against the shuffler.
    *Reference*: Feldman, McMillan & Talwar, Hiding among the clones, 2021: Theorem 3.2 and section
    5 for the numbers, Theorem 3.1 for the closed form.
    """

    local_epsilon: LocalEpsilon
    people: int
    delta: Fraction

    @cached_property
    def epsilon(self) -> float:
        """The central epsilon by the numeric accountant, rounded up."""
        low, high = 0.0, float(exact_numbers.plain(self.local_epsilon.upper, digits=15, up=True))
        delta = exact_numbers.float_below(self.delta)
        if self.people < 2 or self.delta_at(0.0) <= delta:
            return high if self.people < 2 else 0.0
        # The bisection ends on the side where delta was shown to be small enough.
        for _ in range(_STEPS):
            middle = (low + high) / 2
            if self.delta_at(middle) <= delta:
                high = middle
            else:
                low = middle
            if high - low < 1e-6 * high:
                break
        return high

    def delta_at(self, epsilon: float) -> float:
        """A delta at which the shuffled reports are (epsilon, delta)-private."""
        return self._clones.delta(epsilon)

    @property
    def closed_form(self) -> float | None:
        """The epsilon of the closed form, or None where its condition does not hold."""
        if float(self.local_epsilon) > self.closed_form_limit:
            return None
        grown, delta = math.exp(float(self.local_epsilon)), float(self.delta)
        spread = 8 * math.sqrt(grown * math.log(4 / delta) / self.people) + 8 * grown / self.people
        return math.log1p((grown - 1) / (grown + 1) * spread)

    @property
    def closed_form_limit(self) -> float:
        """The largest local epsilon of the closed form: ln(n / (16 ln(2/delta)))."""
        return math.log(self.people / (16 * math.log(2 / float(self.delta))))

    @cached_property
    def _clones(self) -> _Clones:
        people = min(self.people, _MOST_PEOPLE)
        # Rounded down: fewer clones and a likelier truth, both on the safe side.
        chance = float(exp_down(-self.local_epsilon.upper)) * (1 - 2.0**-50)
        return _Clones.among(people - 1, chance, 1 / (1 + chance))

    def _card(self) -> Card:
        closed = self.closed_form
        closed_form = "does not apply" if closed is None else f"{closed:.4g}"
        facts = {
            "epsilon of each report": str(self.local_epsilon),
            "people": f"{self.people:,}",
            "delta": exact_numbers.plain(self.delta),
            "epsilon of all, shuffled": f"{self.epsilon:.4g}",
            "by the closed form": closed_form,
        }
        delta = exact_numbers.plain(self.delta)
        line = f"epsilon {self.epsilon:.4g} at delta {delta} for {self.people} people"
        return Card(line, facts)


def shuffle(*, epsilon: Number | LocalEpsilon, people: int, delta: object) -> Shuffled:
    """Compute the central guarantee of shuffled reports; see `sfumato.local.shuffle`."""
    local = read_epsilon(epsilon)
    count = arguments.whole(people, "people")
    if count < 1:
        raise ParameterError(
            "parameter_out_of_range",
            f"people must be the number of shuffled reports, at least 1, not {count}.",
            parameter="people",
            given=count,
        )
    small = exact_numbers.positive_delta(delta)
    if small < SMALLEST_DELTA:
        raise ParameterError(
            "parameter_out_of_range",
            f"delta must be at least {float(SMALLEST_DELTA):g} for shuffling, because float64 ends "
            "there. 1e-6 to 1e-12 is usual.",
            parameter="delta",
        )
    return Shuffled(local, count, small)


@dataclass(frozen=True)
class _Clones:
    """The number of clones in bins: the least number of each bin, and its probability."""

    counts: FloatArray
    chances: FloatArray
    beyond: float
    """The probability of all numbers outside the bins; they count with a divergence of 1."""
    truth: float

    @classmethod
    def among(cls, other_count: int, chance: float, truth: float) -> _Clones:
        """Bins of Bin(others, chance)."""
        if other_count == 0:
            return cls(np.zeros(1), np.ones(1), 0.0, truth)
        spread = math.sqrt(other_count * chance * (1 - chance))
        # By Bernstein's inequality the probability beyond is below 1e-30.
        reach = 12 * spread + 80
        first = max(0, math.floor(other_count * chance - reach))
        last = min(other_count, math.ceil(other_count * chance + reach))
        size = -(-(last - first + 1) // _BINS)
        counts = np.arange(first, last + 1, dtype=np.float64)
        masses = _binomial(counts, float(other_count), chance)
        starts = np.arange(0, len(counts), size)
        return cls(counts[starts], np.add.reduceat(masses, starts), 1e-30, truth)

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence at epsilon, rounded up."""
        grown, truth, lie = math.exp(epsilon), self.truth, 1 - self.truth
        least = grown * truth - lie
        steep = truth - grown * lie
        # At or above the local epsilon the divergence is 0 for every number of clones.
        if steep <= 0:
            return self.beyond
        # P > e^epsilon Q exactly where a / (c + 1 - a) is above this ratio.
        ratio = least / steep
        first = np.floor(ratio * (self.counts + 1) / (1 + ratio)) + 1
        top = _upper_tails(self.counts, first)
        upper = top + _halves(self.counts, first - 1)
        difference = truth * upper + lie * top - grown * (lie * upper + truth * top)
        return float(self.chances @ np.maximum(difference, 0.0)) * _SLACK + self.beyond


def _upper_tails(counts: FloatArray, first: FloatArray) -> FloatArray:
    """P(Bin(c, 1/2) >= a) for each pair: the largest term times sums of ratios of neighbours."""
    begin = _halves(counts, first)
    total, factor = np.ones_like(begin), np.ones_like(begin)
    steps = np.arange(_TOGETHER, dtype=np.float64)
    while factor.max() > _NEGLIGIBLE:
        # Terms fall ever faster. What is left out is below the rounding of the first term: 2^-70.
        ratios = np.maximum(counts - first, 0.0)[:, None] - steps
        ratios = np.maximum(ratios, 0.0) / ((first + 1)[:, None] + steps)
        factors = factor[:, None] * np.cumprod(ratios, axis=1)
        total += factors.sum(axis=1)
        factor, first = factors[:, -1], first + _TOGETHER
    return begin * total


def _halves(counts: FloatArray, hits: FloatArray) -> FloatArray:
    """P(Bin(c, 1/2) = a)."""
    return _binomial(hits, counts, 0.5)


def _binomial(hits: FloatArray, trials: FloatArray | float, chance: float) -> FloatArray:
    """P(Bin(n, p) = a), by Loader's sum of deviances, which keeps its relative precision."""
    n, a = np.broadcast_arrays(np.asarray(trials, dtype=np.float64), hits)
    inside = (a > 0) & (a < n)
    safe_n, safe_a = np.where(inside, n, 2.0), np.where(inside, a, 1.0)
    remainder = safe_n - safe_a
    logarithm = _stirling(safe_n) - _stirling(safe_a) - _stirling(remainder)
    logarithm -= _deviance(safe_a, safe_n * chance) + _deviance(remainder, safe_n * (1 - chance))
    probability = np.exp(logarithm) * np.sqrt(safe_n / (2 * math.pi * safe_a * remainder))
    ends = np.where(a == 0, n * math.log1p(-chance), n * math.log(chance))
    at_end = (a == 0) | (a == n)
    return np.where(inside, probability, np.where(at_end, np.exp(ends), 0.0))


def _stirling(number: FloatArray) -> FloatArray:
    """log(n!) - log(sqrt(2 pi n) (n/e)^n)."""
    small = number < 16
    table = _SMALL[np.where(small, number, 0).astype(np.int64)]
    n = np.where(small, 16.0, number)
    square = n * n
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square)
              / square) / n  # fmt: skip
    return np.where(small, table, series)


_SMALL = np.array(
    [0.0]
    + [
        math.log(math.factorial(n)) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi)
        for n in range(1, 16)
    ]
)


def _deviance(observed: FloatArray, expected: FloatArray) -> FloatArray:
    """x log(x / m) + m - x, without loss where x is near m."""
    off = (observed - expected) / expected
    near = np.abs(off) < 0.1
    safe = np.where(near, off, 0.0)
    # (1 + d) log(1 + d) - d, as a series in v = d / (2 + d): exact enough for |d| < 0.1.
    v = safe / (2 + safe)
    series = np.zeros_like(v)
    for power in range(17, 2, -2):
        series = (series + 1 / power) * v * v
    close = expected * (safe * v + 2 * (1 + safe) * v * series)
    ratio = np.where(near, 1.0, observed / expected)
    return np.where(near, close, observed * np.log(ratio) + expected - observed)
