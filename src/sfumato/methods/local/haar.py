"""Ranges by Haar wavelets: whether a person is in the left or the right half of their interval.

The values are the leaves of a binary tree of L levels. A person draws a level, and holds there one
signed unit: at their interval of that level, 1 for its left half and -1 for its right. They report
it by one bit of a random row of a Hadamard matrix, turned over with probability 1 / (E + 1). The
mean of all signed units is the coefficient of each interval, share of its left half less that of
its right, and each range is a sum of few of them: only intervals that the ends of the range cut
count, two on each level. Decision `local-methods`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import SourceError
from sfumato.methods.local.draws import below, happens
from sfumato.methods.local.exact_epsilon import level
from sfumato.methods.local.frequency_oracles import odds_of, walsh_hadamard
from sfumato.methods.local.mechanism import Channel, people_of, room_for, tallied
from sfumato.methods.local.range_trees import RangeOracle, ordered
from sfumato.methods.local.reports import Code, ReportLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.privacy.noise.entropy import Entropy


class Haar(RangeOracle):
    """One bit about one random level of the tree over all values; every range of values.

    *Guarantee*: epsilon-LDP: level and row are drawn whatever the value, and the bit is said truly
    with odds of at most e^epsilon.
    *Sensitivity*: None to establish: a person has one of the declared values.
    *Error*: a coefficient of a level on which m people reported has variance (c^2 - share of its
    interval) / m, c = (e^epsilon + 1) / (e^epsilon - 1), and is not correlated with others; a range
    weighs at most two on each level, by at most 1/2 each, so L^2 c^2 / (2 n) at most.
    *Edges*: numbers of values are filled up to a power of two by values that nobody has.
    *Reference*: Cormode, Kulkarni & Srivastava 2019, HaarHRR.
    """

    name = "haar"
    counted_once = True

    def __init__(self, domain: object, *, epsilon: Number | LocalEpsilon) -> None:
        self.choices, self.level = ordered(domain), level(epsilon)
        self.levels = max(1, (self.choices.size - 1).bit_length())
        truth, lie = odds_of(self.level, 2)
        self._truth = Fraction(truth, truth + lie)
        # Level l has 2^l intervals, hence 2^l rows; rows of all levels are numbered 2^l, 2^l + 1...
        self.layout = ReportLayout((Code("row", 1 << self.levels), Code("odd", 2)))
        self.check_claim()

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly."""
        return self._truth / (1 - self._truth)

    def channel(self) -> Channel:
        """The matrix of chances: rows are values, columns a row of a level and a bit."""
        room_for(self.choices.size, 2 << self.levels)
        near, far = self.ratio.numerator, self.ratio.denominator
        matrix = []
        for value in range(self.choices.size):
            weights: list[int] = []
            for depth in range(self.levels):
                # Rows of a level are drawn evenly, and there are fewer of them further up.
                leaves = 1 << (self.levels - depth)
                rows = np.arange(1 << depth)
                odd = self._odd(np.full(len(rows), value), depth, rows)
                pairs = [(far, near) if is_odd else (near, far) for is_odd in odd.tolist()]
                weights += [leaves * weight for pair in pairs for weight in pair]
            matrix.append(weights)
        return Channel.of(matrix)

    def _odd(self, codes: IntArray, depth: int | IntArray, rows: IntArray) -> NDArray[Any]:
        """Whether sign and entry of the matrix multiply to -1."""
        halves = codes >> (self.levels - 1 - depth)
        return np.asarray((np.bitwise_count((halves >> 1) & rows) + halves) & 1)

    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        codes = self.choices.codes(values)
        drawn = self.layout.empty(len(codes))
        depth = below(self.levels, len(codes), entropy)
        # The low digits of a fair word: even, as there are a power of two of rows.
        rows = (entropy.words(len(codes)) >> np.uint64(1)).view(np.int64) & ((1 << depth) - 1)
        lies = happens(1 - self._truth, len(codes), entropy)
        drawn["row"] = (1 << depth) + rows
        drawn["odd"] = self._odd(codes, depth, rows) ^ lies
        return drawn

    def _sent(self, rows: NDArray[Any]) -> BoolArray:
        return self.layout.valid(rows) & (rows["row"] > 0)

    def _count(self, rows: NDArray[Any]) -> IntArray:
        return self._tally(rows, None)

    def _count_groups(
        self,
        rows: NDArray[Any],
        times: IntArray,
        bits: IntArray | None,  # noqa: ARG002  reports have no bits
    ) -> IntArray:
        return self._tally(rows, times)

    def _tally(self, rows: NDArray[Any], times: IntArray | None) -> IntArray:
        codes = 2 * rows["row"].astype(np.int64) + rows["odd"]
        return tallied(codes, 2 << self.levels, times).reshape(-1, 2)

    @property
    def _factor(self) -> float:
        return float(1 / (2 * self._truth - 1))

    def coefficients(self, sketch: ReportSketch) -> tuple[list[FloatArray], list[int]]:
        """For each level, the coefficients of its intervals and how many people reported on it."""
        coefficients_found, people = [], []
        for depth in range(self.levels):
            even, odd = self._own(sketch).tally[1 << depth : 2 << depth].T
            people.append(int(even.sum() + odd.sum()))
            if not people[-1]:
                raise SourceError(
                    "estimate_not_possible",
                    "Nobody reported on some level of the tree, so ranges cannot be estimated. "
                    "Collect more reports.",
                )
            sums = walsh_hadamard((even - odd).astype(np.float64))
            coefficients_found.append(self._factor * sums / people[-1])
        return coefficients_found, people

    def _ranges(self, sketch: ReportSketch, ends: IntArray) -> tuple[FloatArray, FloatArray]:
        coefficients, people = self.coefficients(sketch)
        size = 1 << self.levels
        shares = (ends[:, 1] - ends[:, 0] + 1) / size
        spread = np.zeros(len(ends))
        for depth, coefficients_found in enumerate(coefficients):
            for nodes, weights in _cut(ends, self.levels - depth):
                shares = shares + weights * coefficients_found[nodes]
                spread += weights**2 * self._factor**2 / people[depth]
        return shares, np.sqrt(spread)

    def variance(self, n: int, length: int = 1) -> float:
        """The largest variance of a range of so many values from n reports.

        It is reckoned with equally many people on every level.
        """
        count = people_of(n)
        ends = self._of_length(length)
        total = np.zeros(len(ends))
        for depth in range(self.levels):
            for _, weights in _cut(ends, self.levels - depth):
                total += weights**2
        return float(total.max()) * self._factor**2 * self.levels / count


def _cut(ends: IntArray, height: int) -> list[tuple[IntArray, FloatArray]]:
    """The intervals of 2^height values that the ends of ranges cut, and their weights.

    An interval counts with (values of its left half in the range - of its right) / 2^height; where
    one interval holds both ends it is counted once.
    """
    length, half = 1 << height, 1 << (height - 1)
    coefficients_found = []
    first = ends[:, 0] >> height
    last = ends[:, 1] >> height
    for nodes, counted in ((first, np.ones(len(ends))), (last, (first != last).astype(float))):
        begin = nodes * length
        inside = [
            np.maximum(np.minimum(ends[:, 1] + 1, stop) - np.maximum(ends[:, 0], start), 0)
            for start, stop in ((begin, begin + half), (begin + half, begin + length))
        ]
        coefficients_found.append((nodes, counted * (inside[0] - inside[1]) / length))
    return coefficients_found
