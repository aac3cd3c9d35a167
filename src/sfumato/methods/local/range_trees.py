"""Mechanisms for ranges of ordered values: a tree of frequency oracles, and Haar wavelets.

The sum of the shares of r values has the noise of r shares. A tree keeps it small: blocks of
B, B^2, ... neighbours are estimated as well, and a range is the sum of few of them. A person draws
one of h levels and reports, by a frequency oracle, the block that they are in. Splitting people
over levels, each with the whole epsilon, has less error than splitting epsilon over levels.
Decision `local-privacy`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.errors import ParameterError, SourceError
from sfumato.methods.local.catalogue import hyphened, make, stored_name
from sfumato.methods.local.domains import Choices, choices
from sfumato.methods.local.draws import draw_events, draw_integers
from sfumato.methods.local.frequency_oracles import odds_of, walsh_hadamard
from sfumato.methods.local.local_epsilon import read_epsilon
from sfumato.methods.local.mechanism import (
    CARD_PEOPLE,
    Channel,
    LocalMechanism,
    check_channel_size,
    read_report_count,
)
from sfumato.methods.local.reports import Code, ReportLayout, ReportSketch
from sfumato.privacy.estimation.trees import BoxTree, LeastSquares
from sfumato.report.display import Card

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.local_epsilon import LocalEpsilon
    from sfumato.privacy.noise.entropy import Entropy


MOST_VALUES = 1 << 20

LEVELS = ("olh", "oue", "sue", "k-ary", "subset", "hadamard")
"""The oracles that a level of the tree can use."""


def ordered(domain: object) -> Choices:
    """Read a domain of ordered values, small enough for a tree."""
    values = choices(domain)
    if values.size > MOST_VALUES:
        raise ParameterError(
            "parameter_out_of_range",
            f"Ranges are for domains of at most {MOST_VALUES:,} values, not {values.size:,}. "
            "Combine neighbouring values to one, such as ten at a time.",
            parameter="domain",
            given=values.size,
        )
    return values


class RangeOracle(LocalMechanism):
    """An oracle over ordered values that estimates the share of people in any range of them."""

    choices: Choices

    @abstractmethod
    def _ranges(self, sketch: ReportSketch, ends: IntArray) -> tuple[FloatArray, FloatArray]:
        """The shares of ranges of codes, and their standard deviations."""

    @abstractmethod
    def variance(self, n: int, length: int = 1) -> float:
        """An upper bound on the variance of a range of so many values from n reports."""

    def _declaration(self) -> dict[str, Any]:
        return {"domain": self.choices.to_json()}

    def _of_length(self, length: int) -> IntArray:
        """The ends of all ranges of so many values."""
        size = self.choices.size
        if not 1 <= arguments.whole(length, "length") <= size:
            raise ParameterError(
                "parameter_out_of_range",
                f"length must be between 1 and the number of values, {size:,}, not {length}.",
                parameter="length",
                given=length,
            )
        starts = np.arange(size - length + 1)
        return np.stack([starts, starts + length - 1], axis=1)

    def ranges(self, sketch: ReportSketch, ranges: object) -> pa.Table:
        """Estimate the shares of ranges.

        Parameters
        ----------
        sketch : ReportSketch
            The sums of the reports.
        ranges : list of pairs
            The first and the last value of each range; both belong to it.

        Returns
        -------
        pyarrow.Table
            Columns first, last, share and sd. Shares are unbiased: one may come out below 0.

        Raises
        ------
        ParameterError
            If a range is no pair of declared values, or reversed.
        SourceError
            If the sketch is of another mechanism, damaged, or without reports on some level.
        """
        ends = self._ends(ranges)
        shares, spread = self._ranges(self._own(sketch), ends)
        values = self.choices.array()
        return pa.table(
            {
                "first": values.take(pa.array(ends[:, 0])),
                "last": values.take(pa.array(ends[:, 1])),
                "share": shares,
                "sd": spread,
            }
        )

    def _ends(self, ranges: object) -> IntArray:
        wrong = ParameterError(
            "parameter_type_wrong",
            "ranges must be a list of pairs of values, the first and the last of each range.",
            parameter="ranges",
        )
        if not isinstance(ranges, list | tuple | np.ndarray) or not len(ranges):
            raise wrong
        pairs = [
            list(pair) if isinstance(pair, list | tuple | np.ndarray) else [] for pair in ranges
        ]
        if any(len(pair) != 2 for pair in pairs):
            raise wrong
        ends = self.choices.codes([end for pair in pairs for end in pair]).reshape(-1, 2)
        if (ends[:, 0] > ends[:, 1]).any():
            raise ParameterError(
                "bounds_invalid", "A range is reversed: give its first value before its last."
            )
        return ends

    def estimate(self, sketch: ReportSketch) -> pa.Table:
        """Estimate the share of each value: a table of value, share and sd."""
        codes = np.arange(self.choices.size)
        shares, spread = self._ranges(self._own(sketch), np.stack([codes, codes], axis=1))
        return pa.table({"value": self.choices.array(), "share": shares, "sd": spread})

    def _card(self) -> Card:
        half = max(1, self.choices.size // 2)
        line = (
            f"{self.name} over {self.choices.size:,} ordered values at epsilon {self.epsilon}, "
            f"{self.layout.dtype.itemsize} bytes a report"
        )
        facts = {
            "values": self.choices.size,
            "epsilon": str(self.epsilon),
            "bytes a report": self.layout.dtype.itemsize,
            f"sd of half of the values from {CARD_PEOPLE:,} reports": math.sqrt(
                self.variance(CARD_PEOPLE, half)
            ),
        }
        return Card(line, facts)


class Hierarchical(RangeOracle):
    """Report the block that contains the value on one random level of a tree.

    *Guarantee*: epsilon-LDP: the level is drawn independently of the value, and its oracle is
    epsilon-LDP.
    *Sensitivity*: None to establish: a person has one of the declared values.
    *Error*: a block from n reports has variance h V / n + h f (1 - f) / n, where V is the variance
    of the oracle for one report, h = ceil(log_B D) the number of levels and f the share of the
    block; the second term is that of a sample, because only some people drew the level. A range is
    the sum of at most 2 (B - 1) blocks of each level.
    *Edges*: `consistent` makes blocks add up, by least squares over all levels: post-processing
    that lowers the error of every range.
    *Reference*: Cormode, Kulkarni & Srivastava 2019, HH_B; Hay, Rastogi, Miklau & Suciu 2010.
    """

    name = "hierarchical"

    def __init__(
        self,
        domain: object,
        *,
        epsilon: Number | LocalEpsilon,
        fanout: int = 4,
        oracle: str = "olh",
    ) -> None:
        self.choices, self.epsilon = ordered(domain), read_epsilon(epsilon)
        self.fanout, self.oracle = arguments.whole(fanout, "fanout"), hyphened(oracle)
        arguments.one_of(self.oracle, "oracle", LEVELS)
        if not 2 <= self.fanout <= self.choices.size:
            raise ParameterError(
                "parameter_out_of_range",
                f"fanout must be between 2 and the number of values, {self.choices.size:,}, "
                f"not {self.fanout}.",
                parameter="fanout",
                given=self.fanout,
            )
        lengths = [1]
        while lengths[-1] * self.fanout < self.choices.size:
            lengths.append(lengths[-1] * self.fanout)
        self.lengths = lengths[::-1]
        """The number of values in a block of each level, the largest first."""
        sizes = [-(-self.choices.size // length) for length in self.lengths]
        self.oracles = [make(self.oracle, size, self.epsilon, {}) for size in sizes]
        self.layout = _join_layouts([oracle.layout for oracle in self.oracles])
        self.check_claim()

    def options(self) -> dict[str, Any]:
        """The fanout of the tree, and the oracle of its levels."""
        return {"fanout": self.fanout, "oracle": stored_name(self.oracle)}

    @property
    def grouped(self) -> bool:  # type: ignore[override]
        """Whether an engine can count its reports by GROUP BY; otherwise their rows are read."""
        return not self.layout.width and all(oracle.grouped for oracle in self.oracles)

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two values, exactly."""
        return max(oracle.ratio for oracle in self.oracles)

    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        codes = self.choices.codes(values)
        drawn = self.layout.empty(len(codes))
        drawn["level"] = draw_integers(len(self.oracles), len(codes), entropy)
        for depth, (oracle, length) in enumerate(zip(self.oracles, self.lengths, strict=True)):
            chosen = np.flatnonzero(drawn["level"] == depth)
            rows = oracle.randomize(codes[chosen] // length, entropy).rows
            for code in oracle.layout.codes:
                drawn[code.name][chosen] = rows[code.name]
            if oracle.layout.width:
                drawn["bits"][chosen, : rows["bits"].shape[1]] = rows["bits"]
        return drawn

    def _inner(self, rows: NDArray[Any], depth: int) -> tuple[NDArray[Any], BoolArray]:
        """The rows of one level in its oracle's layout, and which of them fit it exactly.

        All levels share the widest layout. A row whose code or bit lies beyond its own level's
        layout is forged.
        """
        layout = self.oracles[depth].layout
        inner_rows, valid = layout.empty(len(rows)), np.ones(len(rows), dtype=np.bool_)
        for code in layout.codes:
            valid &= rows[code.name] < code.limit
            inner_rows[code.name] = np.where(valid, rows[code.name], 0)
        if layout.width:
            size = inner_rows["bits"].shape[1]
            inner_rows["bits"] = rows["bits"][:, :size]
            valid &= ~rows["bits"][:, size:].any(axis=1)
        return inner_rows, valid

    def can_send(self, rows: NDArray[Any]) -> BoolArray:
        """Which rows the oracle of their own level can send."""
        sent = self.layout.valid(rows)
        for depth, oracle in enumerate(self.oracles):
            chosen = np.flatnonzero(sent & (rows["level"] == depth))
            inner, valid = self._inner(rows[chosen], depth)
            sent[chosen] = valid & oracle.can_send(inner)
        return sent

    def _tally(
        self, rows: NDArray[Any], times: IntArray | None = None, bits: IntArray | None = None
    ) -> IntArray:
        tallies = []
        for depth, oracle in enumerate(self.oracles):
            chosen = rows["level"] == depth
            inner, valid = self._inner(rows[chosen], depth)
            if times is None:
                sketch = oracle.sum_rows(inner)
            else:
                sketch = oracle.sum_groups(inner[valid], times[chosen][valid], bits, rejected=0)
            tallies += [np.array([sketch.n]), sketch.tally.ravel()]
        return np.concatenate(tallies)

    def possible(self, n: int, tally: IntArray) -> bool:
        """Whether n reports can have these sums, by the oracle of each level."""
        people, start = 0, 0
        for oracle in self.oracles:
            shape = oracle.empty().tally.shape
            stop = start + 1 + math.prod(shape)
            level_people = int(tally[start])
            if not oracle.possible(level_people, tally[start + 1 : stop].reshape(shape)):
                return False
            people, start = people + level_people, stop
        return people == n

    def _levels(self, sketch: ReportSketch) -> list[pa.Table]:
        """The estimate of each level by its oracle."""
        sketches, start = [], 0
        for oracle in self.oracles:
            shape = oracle.empty().tally.shape
            stop = start + 1 + math.prod(shape)
            n, *tally = sketch.tally[start:stop]
            if n == 0:
                raise SourceError(
                    "estimate_not_possible",
                    "Nobody reported on some level of the tree, so ranges cannot be estimated. "
                    "Collect more reports.",
                )
            own = ReportSketch(oracle.made_by, int(n), 0, np.array(tally).reshape(shape))
            sketches.append(_of_sample(oracle.estimate(own), int(n)))
            start = stop
        return sketches

    def _ranges(self, sketch: ReportSketch, ends: IntArray) -> tuple[FloatArray, FloatArray]:
        shares, spread = np.zeros(len(ends)), np.zeros(len(ends))
        levels = self._levels(sketch)
        sums = [_running(level_table["share"].to_numpy()) for level_table in levels]
        squares = [_running(level_table["sd"].to_numpy() ** 2) for level_table in levels]
        for depth, begin, end in self._blocks(ends):
            shares += sums[depth][end] - sums[depth][begin]
            spread += squares[depth][end] - squares[depth][begin]
        return shares, np.sqrt(spread)

    def _blocks(self, ends: IntArray) -> list[tuple[int, IntArray, IntArray]]:
        """Split each range into runs of blocks: on each level at most two, the largest possible."""
        answers = []
        low, high = ends[:, 0], ends[:, 1] + 1
        # The last block may extend beyond the domain: a range up to its end takes the block whole.
        high = np.where(high == self.choices.size, self.lengths[0] * self.oracles[0].size, high)
        for depth in range(len(self.oracles) - 1, -1, -1):
            length = self.lengths[depth]
            first, last = low // length, high // length
            last = np.minimum(last, self.oracles[depth].size)
            if depth == 0:
                answers.append((depth, first, np.maximum(first, last)))
                break
            above = self.lengths[depth - 1] // length
            inner_first, inner_last = -(-first // above) * above, last // above * above
            apart = inner_first < inner_last
            whole_until = np.where(apart, np.minimum(inner_first, last), last)
            answers.append((depth, first, whole_until))
            answers.append((depth, np.where(apart, inner_last, last), last))
            low = np.where(apart, inner_first * length, 0)
            high = np.where(apart, inner_last * length, 0)
        return answers

    def variance(self, n: int, length: int = 1) -> float:
        """An upper bound on the variance of a range of so many values from n reports.

        It assumes equally many people on every level and small shares of blocks.
        """
        count, ends = read_report_count(n), self._of_length(length)
        variances = (
            np.array([oracle.variance(1) for oracle in self.oracles]) * len(self.oracles) / count
        )
        total = np.zeros(len(ends))
        for depth, begin, end in self._blocks(ends):
            total += (end - begin) * variances[depth]
        return float(total.max())

    def consistent(self, sketch: ReportSketch) -> pa.Table:
        """Estimate the share of each value by least squares over all levels.

        Blocks then add up, and any range is the sum of its values.

        Parameters
        ----------
        sketch : ReportSketch
            The sums of the reports.

        Returns
        -------
        pyarrow.Table
            Columns value, share and sd; `sd` is that of a single value.

        Raises
        ------
        SourceError
            If the sketch is of another mechanism, damaged, or without reports on some level.
        """
        levels = self._levels(self._own(sketch))
        tree = self._tree
        shares = np.concatenate(
            [[1.0], *(level_table["share"].to_numpy() for level_table in levels)]
        )
        # The root is known: all shares together are 1, with a variance of nearly 0.
        variances = [
            np.full(1, 1e-18),
            *(level_table["sd"].to_numpy() ** 2 for level_table in levels),
        ]
        solved = LeastSquares(tree, 1 / np.concatenate(variances))
        leaves = slice(len(tree) - self.choices.size, None)
        columns = {"value": self.choices.array(), "share": solved.solve(shares)[leaves]}
        return pa.table({**columns, "sd": np.sqrt(solved.variances[leaves])})

    @cached_property
    def _tree(self) -> BoxTree:
        parents = [np.array([-1])]
        lows, highs = [np.array([0])], [np.array([self.choices.size - 1])]
        start = 0
        for depth, (oracle, length) in enumerate(zip(self.oracles, self.lengths, strict=True)):
            blocks = np.arange(oracle.size)
            above = self.lengths[depth - 1] // length if depth else oracle.size
            parents.append(start + blocks // above)
            start += self.oracles[depth - 1].size if depth else 1
            lows.append(blocks * length)
            highs.append(np.minimum(blocks * length + length, self.choices.size) - 1)
        return BoxTree(
            np.concatenate(lows)[:, None], np.concatenate(highs)[:, None], np.concatenate(parents)
        )


def _of_sample(estimate: pa.Table, people: int) -> pa.Table:
    """Add the variance f (1 - f) / m of a sample: only `people` drew this level."""
    shares = np.clip(estimate["share"].to_numpy(), 0.0, 1.0)
    spread = np.sqrt(estimate["sd"].to_numpy() ** 2 + shares * (1 - shares) / people)
    return estimate.set_column(estimate.column_names.index("sd"), "sd", pa.array(spread))


def _running(values: FloatArray) -> FloatArray:
    return np.append(0.0, np.cumsum(values))


def _join_layouts(layouts: list[ReportLayout]) -> ReportLayout:
    """One layout for the reports of all levels: the number of the level, then the widest fields."""
    limits: dict[str, int] = {}
    for layout in layouts:
        for name, limit in layout.codes:
            limits[name] = max(limits.get(name, 0), limit)
    codes = [Code("level", len(layouts)), *(Code(*limit) for limit in limits.items())]
    return ReportLayout(tuple(codes), max(layout.width for layout in layouts))


# Ranges by Haar wavelets.
#
# The values are the leaves of a binary tree of L levels. A person draws a level and has one signed
# unit there: at the interval that contains their value, 1 for its left half and -1 for its right.
# They report one random bit of its Hadamard transform, flipped with probability 1 / (E + 1), where
# E = e^epsilon.
# The mean of all signed units of an interval is its Haar coefficient: the share of its left half
# minus that of its right half. A range is a weighted sum of few coefficients: those of the
# intervals that its two ends cut, at most two on each level.


class Haar(RangeOracle):
    """Report one bit about the Haar wavelet of the value on one random level.

    *Guarantee*: epsilon-LDP: level and row are drawn independently of the value, and the bit is
    true with odds of at most e^epsilon.
    *Sensitivity*: None to establish: a person has one of the declared values.
    *Error*: a coefficient of a level on which m people reported has variance (c^2 - share of its
    interval) / m, c = (e^epsilon + 1) / (e^epsilon - 1), and is not correlated with others. A range
    has at most two coefficients of each level, with weights of at most 1/2: variance at most
    L^2 c^2 / (2 n).
    *Edges*: the domain is padded to a power of two with values that nobody has.
    *Reference*: Cormode, Kulkarni & Srivastava 2019, HaarHRR.
    """

    name = "haar"
    counted_once = True

    def __init__(self, domain: object, *, epsilon: Number | LocalEpsilon) -> None:
        self.choices, self.epsilon = ordered(domain), read_epsilon(epsilon)
        self.levels = max(1, (self.choices.size - 1).bit_length())
        truth, lie = odds_of(self.epsilon, 2)
        self._truth = Fraction(truth, truth + lie)
        # Level l has 2^l intervals, hence 2^l rows; rows of all levels are numbered 2^l, 2^l + 1...
        self.layout = ReportLayout((Code("row", 1 << self.levels), Code("odd", 2)))
        self.check_claim()

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two values, exactly."""
        return self._truth / (1 - self._truth)

    def channel(self) -> Channel:
        """The matrix of probabilities: a row for each value, a column for each row and bit."""
        check_channel_size(self.choices.size, 2 << self.levels)
        near, far = self.ratio.numerator, self.ratio.denominator
        matrix = []
        for value in range(self.choices.size):
            weights: list[int] = []
            for depth in range(self.levels):
                # A level is drawn evenly, then a row of it: a row of a small level is likelier.
                leaves = 1 << (self.levels - depth)
                rows = np.arange(1 << depth)
                odd = self._odd(np.full(len(rows), value), depth, rows)
                pairs = [(far, near) if is_odd else (near, far) for is_odd in odd.tolist()]
                weights += [leaves * weight for pair in pairs for weight in pair]
            matrix.append(weights)
        return Channel.of(matrix)

    def _odd(self, codes: IntArray, depth: int | IntArray, rows: IntArray) -> NDArray[Any]:
        """1 where the product of the sign and the entry of the Hadamard matrix is -1."""
        halves = codes >> (self.levels - 1 - depth)
        return np.asarray((np.bitwise_count((halves >> 1) & rows) + halves) & 1)

    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        codes = self.choices.codes(values)
        drawn = self.layout.empty(len(codes))
        depth = draw_integers(self.levels, len(codes), entropy)
        # The low bits of a word are uniform, because the number of rows is a power of two.
        rows = (entropy.words(len(codes)) >> np.uint64(1)).view(np.int64) & ((1 << depth) - 1)
        lies = draw_events(1 - self._truth, len(codes), entropy)
        drawn["row"] = (1 << depth) + rows
        drawn["odd"] = self._odd(codes, depth, rows) ^ lies
        return drawn

    def can_send(self, rows: NDArray[Any]) -> BoolArray:
        """Which rows belong to a level: rows are numbered from 1."""
        return self.layout.valid(rows) & (rows["row"] > 0)

    @property
    def _factor(self) -> float:
        return float(1 / (2 * self._truth - 1))

    def coefficients(self, sketch: ReportSketch) -> tuple[list[FloatArray], list[int]]:
        """The coefficients of the intervals of each level, and the number of people on it."""
        coefficients, people = [], []
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
            coefficients.append(self._factor * sums / people[-1])
        return coefficients, people

    def _ranges(self, sketch: ReportSketch, ends: IntArray) -> tuple[FloatArray, FloatArray]:
        coefficients, people = self.coefficients(sketch)
        size = 1 << self.levels
        shares = (ends[:, 1] - ends[:, 0] + 1) / size
        spread = np.zeros(len(ends))
        for depth, level_coefficients in enumerate(coefficients):
            for nodes, weights in _cut(ends, self.levels - depth):
                shares = shares + weights * level_coefficients[nodes]
                spread += weights**2 * self._factor**2 / people[depth]
        return shares, np.sqrt(spread)

    def variance(self, n: int, length: int = 1) -> float:
        """An upper bound on the variance of a range of so many values from n reports.

        It assumes equally many people on every level.
        """
        count = read_report_count(n)
        ends = self._of_length(length)
        total = np.zeros(len(ends))
        for depth in range(self.levels):
            for _, weights in _cut(ends, self.levels - depth):
                total += weights**2
        return float(total.max()) * self._factor**2 * self.levels / count


def _cut(ends: IntArray, height: int) -> list[tuple[IntArray, FloatArray]]:
    """The intervals of 2^height values that the ends of ranges cut, and their weights.

    The weight of an interval is (values of its left half in the range - values of its right half)
    / 2^height. An interval that contains both ends counts once.
    """
    length, half = 1 << height, 1 << (height - 1)
    intervals = []
    first = ends[:, 0] >> height
    last = ends[:, 1] >> height
    for nodes, counted in ((first, np.ones(len(ends))), (last, (first != last).astype(float))):
        begin = nodes * length
        inside = [
            np.maximum(np.minimum(ends[:, 1] + 1, stop) - np.maximum(ends[:, 0], start), 0)
            for start, stop in ((begin, begin + half), (begin + half, begin + length))
        ]
        intervals.append((nodes, counted * (inside[0] - inside[1]) / length))
    return intervals
