"""Ranges of ordered values: what two ways of asking have in common, and the way by a tree.

A sum of n shares over a range of r values has the noise of r shares. A tree keeps it small: blocks
of B, B^2, ... neighbours are asked about as well, and a range is the sum of few of them. A person
draws one of h levels, and reports by a frequency oracle in which block of it they are: everybody on
one level with the whole epsilon is better than everybody on all with a part of it. Decision
`local-methods`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.errors import ParameterError, SourceError
from sfumato.methods.local.catalogue import hyphened, make, stored_name
from sfumato.methods.local.domains import Choices, choices
from sfumato.methods.local.draws import below
from sfumato.methods.local.exact_epsilon import level
from sfumato.methods.local.mechanism import LocalMechanism, people_of
from sfumato.methods.local.reports import Code, ReportLayout, ReportSketch
from sfumato.privacy.estimation.trees import BoxTree, LeastSquares
from sfumato.report.display import Card

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.privacy.noise.entropy import Entropy


MOST_VALUES = 1 << 20

LEVELS = ("olh", "oue", "sue", "k-ary", "subset", "hadamard")
"""The oracles that can ask about a level."""


def ordered(domain: object) -> Choices:
    """Read a domain of ordered values, of which there are not too many for a tree."""
    choices_found = choices(domain)
    if choices_found.size > MOST_VALUES:
        raise ParameterError(
            "parameter_out_of_range",
            f"Ranges are for domains of at most {MOST_VALUES:,} values, "
            f"not {choices_found.size:,}. Take steps of 10, say, together as one value.",
        )
    return choices_found


class RangeOracle(LocalMechanism):
    """An oracle over ordered values that estimates the share of people in any range of them."""

    choices: Choices

    @abstractmethod
    def _ranges(self, sketch: ReportSketch, ends: IntArray) -> tuple[FloatArray, FloatArray]:
        """Shares of ranges of codes, with their standard deviations."""

    @abstractmethod
    def variance(self, n: int, length: int = 1) -> float:
        """The variance of a range of so many values from n reports, at most."""

    def _asked(self) -> dict[str, Any]:
        return {"domain": self.choices.to_json()}

    def _of_length(self, length: int) -> IntArray:
        """All ranges of so many values."""
        size = self.choices.size
        if not 1 <= arguments.whole(length, "length") <= size:
            raise ParameterError(
                "parameter_out_of_range",
                f"length must be between 1 and the number of values, {size:,}, not {length}.",
            )
        starts = np.arange(size - length + 1)
        return np.stack([starts, starts + length - 1], axis=1)

    def ranges(self, sketch: ReportSketch, ranges: object) -> pa.Table:
        """Estimate shares of ranges, given by their first and last value: first, last, share, sd.

        Both ends belong to the range. Shares are unbiased, so that one may come out below 0.
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
        """Estimate the share of each value alone: a table of value, share and sd."""
        codes = np.arange(self.choices.size)
        shares, spread = self._ranges(self._own(sketch), np.stack([codes, codes], axis=1))
        return pa.table({"value": self.choices.array(), "share": shares, "sd": spread})

    def _card(self) -> Card:
        people, half = 10_000, max(1, self.choices.size // 2)
        line = (
            f"{self.name} over {self.choices.size:,} ordered values at epsilon {self.level}, "
            f"{self.layout.dtype.itemsize} bytes a report"
        )
        facts = {
            "values": self.choices.size,
            "epsilon": str(self.level),
            "bytes a report": self.layout.dtype.itemsize,
            f"sd of half of the values from {people:,} reports": math.sqrt(
                self.variance(people, half)
            ),
        }
        return Card(line, facts)


class Hierarchical(RangeOracle):
    """The block that a person is in on one random level of a tree, by a frequency oracle.

    *Guarantee*: epsilon-LDP: the level is drawn whatever the value, and its oracle is epsilon-LDP.
    *Sensitivity*: None to establish: a person has one of the declared values.
    *Error*: a block from n reports has variance h V / n, V that of the oracle for one report and h
    = ceil(log_B D) levels, and h f (1 - f) / n more where its share is f, because those who drew a
    level are some of all; a range adds up at most 2 (B - 1) blocks of each level.
    *Edges*: with `consistent` blocks are made to add up, by least squares: this lowers the error of
    every range, and is done after the reports were collected.
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
        self.choices, self.level = ordered(domain), level(epsilon)
        self.fanout, self.oracle = arguments.whole(fanout, "fanout"), hyphened(oracle)
        arguments.one_of(self.oracle, "oracle", LEVELS)
        if not 2 <= self.fanout <= self.choices.size:
            raise ParameterError(
                "parameter_out_of_range",
                f"fanout must be between 2 and the number of values, {self.choices.size:,}, "
                f"not {self.fanout}.",
            )
        lengths = [1]
        while lengths[-1] * self.fanout < self.choices.size:
            lengths.append(lengths[-1] * self.fanout)
        self.lengths = lengths[::-1]
        """How many values a block of each level has, the largest first."""
        sizes = [-(-self.choices.size // length) for length in self.lengths]
        self.oracles = [make(self.oracle, size, self.level, {}) for size in sizes]
        self.layout = _joined([oracle.layout for oracle in self.oracles])
        self.check_claim()

    def options(self) -> dict[str, Any]:
        """How wide the tree is, and which oracle asks about its levels."""
        return {"fanout": self.fanout, "oracle": stored_name(self.oracle)}

    @property
    def grouped(self) -> bool:  # type: ignore[override]
        """Whether an engine can count its reports; else their rows are read."""
        return not self.layout.width and all(oracle.grouped for oracle in self.oracles)

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly."""
        return max(oracle.ratio for oracle in self.oracles)

    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        codes = self.choices.codes(values)
        drawn = self.layout.empty(len(codes))
        drawn["level"] = below(len(self.oracles), len(codes), entropy)
        for depth, (oracle, length) in enumerate(zip(self.oracles, self.lengths, strict=True)):
            chosen = np.flatnonzero(drawn["level"] == depth)
            rows = oracle.randomize(codes[chosen] // length, entropy).rows
            for code in oracle.layout.codes:
                drawn[code.name][chosen] = rows[code.name]
            if oracle.layout.width:
                drawn["bits"][chosen, : rows["bits"].shape[1]] = rows["bits"]
        return drawn

    def _inner(self, rows: NDArray[Any], depth: int) -> tuple[NDArray[Any], BoolArray]:
        """Rows of one level as its oracle has them, and which of them lost nothing by it."""
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

    def _sent(self, rows: NDArray[Any]) -> BoolArray:
        sent = self.layout.valid(rows)
        for depth, oracle in enumerate(self.oracles):
            chosen = np.flatnonzero(sent & (rows["level"] == depth))
            inner, valid = self._inner(rows[chosen], depth)
            sent[chosen] = valid & oracle.can_send(inner)
        return sent

    def _count(self, rows: NDArray[Any]) -> IntArray:
        sketches = []
        for depth, oracle in enumerate(self.oracles):
            inner, _ = self._inner(rows[rows["level"] == depth], depth)
            sketch = oracle.sum_rows(inner)
            sketches += [np.array([sketch.n]), sketch.tally.ravel()]
        return np.concatenate(sketches)

    def _count_groups(self, rows: NDArray[Any], times: IntArray, bits: IntArray | None) -> IntArray:
        sketches = []
        for depth, oracle in enumerate(self.oracles):
            chosen = rows["level"] == depth
            inner, valid = self._inner(rows[chosen], depth)
            sketch = oracle.sum_groups(inner[valid], times[chosen][valid], bits, rejected=0)
            sketches += [np.array([sketch.n]), sketch.tally.ravel()]
        return np.concatenate(sketches)

    def possible(self, n: int, tally: IntArray) -> bool:
        """Whether n reports can have these sums: those of each level by its oracle."""
        people, start = 0, 0
        for oracle in self.oracles:
            shape = oracle.empty().tally.shape
            stop = start + 1 + math.prod(shape)
            size_found = int(tally[start])
            if not oracle.possible(size_found, tally[start + 1 : stop].reshape(shape)):
                return False
            people, start = people + size_found, stop
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
        """Runs of whole blocks, none inside a larger one, that make up each range."""
        answers = []
        low, high = ends[:, 0], ends[:, 1] + 1
        # The last block may be cut off by the end of the values: it is whole where they end.
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
        """The variance of a range of so many values from n reports, at most.

        It is reckoned with equally many people on every level, whose shares are small.
        """
        count, ends = people_of(n), self._of_length(length)
        variances = (
            np.array([oracle.variance(1) for oracle in self.oracles]) * len(self.oracles) / count
        )
        total = np.zeros(len(ends))
        for depth, begin, end in self._blocks(ends):
            total += (end - begin) * variances[depth]
        return float(total.max())

    def consistent(self, sketch: ReportSketch) -> pa.Table:
        """The share of each value, by least squares over all levels: value, share, sd.

        Blocks then add up, and any range is the sum of its values; `sd` is that of one value.
        """
        levels = self._levels(self._own(sketch))
        tree = self._tree
        shares = np.concatenate(
            [[1.0], *(level_table["share"].to_numpy() for level_table in levels)]
        )
        # The whole is known: everybody has some value.
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
    """An estimate with what it adds that those who drew a level are some of all people."""
    shares = np.clip(estimate["share"].to_numpy(), 0.0, 1.0)
    spread = np.sqrt(estimate["sd"].to_numpy() ** 2 + shares * (1 - shares) / people)
    return estimate.set_column(estimate.column_names.index("sd"), "sd", pa.array(spread))


def _running(values: FloatArray) -> FloatArray:
    return np.append(0.0, np.cumsum(values))


def _joined(layouts: list[ReportLayout]) -> ReportLayout:
    """One layout that holds reports of each, behind the number of the level."""
    limits: dict[str, int] = {}
    for layout in layouts:
        for name, limit in layout.codes:
            limits[name] = max(limits.get(name, 0), limit)
    codes = [Code("level", len(layouts)), *(Code(*limit) for limit in limits.items())]
    return ReportLayout(tuple(codes), max(layout.width for layout in layouts))
