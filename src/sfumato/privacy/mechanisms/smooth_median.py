"""The median with noise of its smooth sensitivity.

Decision `smooth-sensitivity`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.exact_numbers import integer_at_least, probability, store, store_positive
from sfumato.privacy.accounting.elementary import exp_up, log_up
from sfumato.privacy.accounting.events import ApproxEvent, PureEvent
from sfumato.privacy.mechanisms.base import check_beta, integers
from sfumato.privacy.noise.discrete import geometric, rounded_cauchy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy

# The computed sensitivity lies between the true one and 1 + 2^-39 times it: products and exp err by
# less than 2^-42 together where the result counts. The margin in beta pays for that.
_INFLATION = 1 + 2.0**-40
_BETA_MARGIN = Fraction(1, 2**32)
# A floor under the sensitivity, so that it never underflows to 0, which would mean no noise. It
# stays beta-smooth: a constant is smooth, and so is the maximum of two smooth bounds.
_MIN_SENSITIVITY = 2.0**-64


@dataclass(frozen=True, kw_only=True)
class SmoothMedian:
    """Add noise scaled to S = max over k of exp(-k beta) (the local sensitivity at distance k).

    *Guarantee*: Replace-one with a public number of rows. With delta: (epsilon, delta)-differential
    privacy by Laplace noise of scale 2 S / epsilon, beta = epsilon / (2 log(2 / delta)), and less
    where epsilon is so large that the noise's tail would pass delta. Without: pure epsilon by
    Cauchy noise of scale S / a, beta = b, a = b = epsilon / 2. (For Cauchy noise a shift by its
    scale costs at most 1, and a stretch by e^beta at most beta.)
    *Sensitivity*: Derived here: beta-smooth, over all tables of as many rows. The local sensitivity
    itself would tell the table.
    *Error*: Depends on the table, so only what holds for every table is stated: S is at most the
    range.
    *Edges*: Values are grid points 0, ..., size - 1, others are moved to the nearer end. The median
    of an even number of rows is the lower one. Noise is continuous, then rounded to the public grid
    of `resolution` points a step, and the answer is kept within the declared range.
    *Reference*: Nissim, Raskhodnikova & Smith 2007, Claim 3.3 and Lemma 2.9. The inner maximum runs
    over k + 2 windows: with one fewer the bound falls below the local sensitivity.
    """

    epsilon: Fraction
    rows: int
    size: int
    delta: Fraction = Fraction(0)
    resolution: int = 1
    relation: Neighbours = Neighbours.REPLACE_ONE

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")
        store(
            self,
            delta=probability(self.delta, "delta"),
            rows=integer_at_least(self.rows, "rows", least=1),
            size=integer_at_least(self.size, "size", least=2),
            resolution=integer_at_least(self.resolution, "resolution", least=1),
        )
        if self.relation is not Neighbours.REPLACE_ONE:
            raise ParameterError(
                "unit_unsupported",
                "The smooth sensitivity of the median holds for replacing one of a public number "
                "of rows, not for adding or removing one.",
                hint="Use the quantile mechanism instead.",
            )
        if self.beta <= 2 * _BETA_MARGIN:
            raise ParameterError(
                "parameter_out_of_range",
                f"The smooth median needs a beta above {float(2 * _BETA_MARGIN):.0e}, but epsilon "
                f"{float(self.epsilon):g} leaves {float(self.beta):.0e}. Raise epsilon or delta.",
                parameter="epsilon",
            )

    @property
    def beta(self) -> Fraction:
        """How smooth the sensitivity must be, rounded down."""
        if not self.delta:
            return self.epsilon / 2
        beta = self.epsilon / (2 * log_up(2 / self.delta))
        # Stretching by e^beta costs more than epsilon / 2 only where |noise| exceeds
        # (epsilon / 2 + beta) / (e^beta - 1) scales, which must be no likelier than delta.
        likely = log_up(1 / self.delta)
        while self.epsilon / 2 + beta < (exp_up(beta) - 1) * likely:
            beta *= Fraction(15, 16)
        return beta

    @property
    def event(self) -> PureEvent | ApproxEvent:
        """The cost of one median."""
        if self.delta:
            return ApproxEvent(epsilon=self.epsilon, delta=self.delta)
        return PureEvent(epsilon=self.epsilon)

    def sample(self, values: ArrayLike, entropy: Entropy) -> IntArray:
        """Release the median of each row of a (tables, rows) array, in 1/resolution of a step."""
        tables = np.sort(np.clip(self._tables(values), 0, self.size - 1), axis=1)
        answers = np.zeros(len(tables), dtype=np.int64)
        # Consecutive equal tables share one computation of the sensitivity.
        new = np.flatnonzero((tables[1:] != tables[:-1]).any(axis=1)) + 1
        for indices in np.split(np.arange(len(tables)), new):
            if indices.size:
                table = tables[indices[0]]
                # The local sensitivity itself would reveal the table; its smooth bound may scale
                # the noise, because it changes by at most e^beta between neighbours.
                noise = self._noise(self.smooth_sensitivity(table), len(indices), entropy)
                centre = int(table[self._middle]) * self.resolution
                answers[indices] = np.clip(centre + noise, 0, (self.size - 1) * self.resolution)
        return answers

    def smooth_sensitivity(self, table: IntArray) -> float:
        """Bound S from above, relatively within 2^-39, for sorted grid points.

        The result is private: it depends on the table and must not be released.

        S = max (x_j - x_i) exp(-beta (j - i - 1)) over i <= median <= j, where the ends of the
        range stand at -1 and n. The best j does not fall as i grows, so divide and conquer over i,
        with the range of j split at the best j of the middle i, takes O(n log n).
        """
        beta = math.nextafter(float(self.beta - _BETA_MARGIN), 0.0)
        ends = np.concatenate(([0], table, [self.size - 1]))
        best = _MIN_SENSITIVITY
        tasks = np.array([[0], [self._middle + 1], [self._middle + 1], [len(ends) - 1]])
        while tasks.size:
            first, last, low, high = tasks
            middle = (first + last) // 2
            best_ends, value = _best_right(ends, middle, low, high, beta)
            best = max(best, float(value.max()))
            left_half = np.stack((first, middle - 1, low, best_ends))
            right_half = np.stack((middle + 1, last, best_ends, high))
            tasks = np.concatenate((left_half, right_half), axis=1)
            tasks = tasks[:, tasks[0] <= tasks[1]]
        return best * _INFLATION

    def bound(self, beta: float) -> float:
        """Give an error, in steps, exceeded with probability at most beta on every table."""
        widest = self.size - 1
        if self.delta:
            return min(2 * widest / float(self.epsilon) * -math.log(check_beta(beta)), widest)
        tail = 1 / math.tan(math.pi / 2 * check_beta(beta))
        return min(2 * widest / float(self.epsilon) * tail, widest)

    @property
    def _middle(self) -> int:
        return (self.rows - 1) // 2

    def _tables(self, values: ArrayLike) -> IntArray:
        tables = integers(values, "values", dimensions=2)
        if tables.shape[1] != self.rows:
            raise ParameterError(
                "parameter_out_of_range",
                f"Every table must have the declared {self.rows} rows, not {tables.shape[1]}.",
            )
        return tables

    def _noise(self, sensitivity: float, size: int, entropy: Entropy) -> NDArray[Any]:
        # Both kinds of noise have scale 2 S / epsilon; a float is a rational number.
        scale = 2 * Fraction(sensitivity) * self.resolution / self.epsilon
        if not self.delta:
            return rounded_cauchy(scale, size, entropy)
        # round(v) = floor((floor(2 v) + 1) / 2), and floor(2 scale E) is geometric.
        magnitudes = (geometric(2 * scale, size, entropy) + 1) // 2
        negative = (entropy.words(size) & np.uint64(1)).astype(np.bool_)
        return np.where(negative, -magnitudes, magnitudes)


def _best_right(
    ends: IntArray,
    left_ends: IntArray,
    low: IntArray,
    high: IntArray,
    beta: float,
) -> tuple[IntArray, FloatArray]:
    """Find for each left end the right end within [low, high] of the largest weighted gap."""
    lengths = high - low + 1
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    owner = np.repeat(np.arange(len(left_ends)), lengths)
    right_ends = np.arange(len(owner)) - starts[owner] + low[owner]
    weight = np.exp(-beta * np.maximum(right_ends - left_ends[owner] - 1, 0))
    gap = (ends[right_ends] - ends[left_ends[owner]]) * weight
    value = np.maximum.reduceat(gap, starts)
    hits = np.flatnonzero(gap == value[owner])
    first = hits[np.searchsorted(owner[hits], np.arange(len(left_ends)))]
    return right_ends[first], value
