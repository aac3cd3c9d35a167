"""What all local mechanisms share, whatever is estimated: reports, sketches, and their epsilon.

A client calls `randomize`, and only what that gives leaves the device. A collector adds reports
into sketches, sketches into one, and estimates from that. Both sides know the mechanism, which is
public, and its exact chances. Decision `local-reports`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.errors import ParameterError, SourceError
from sfumato.methods.local.catalogue import stored_name
from sfumato.methods.local.domains import choices
from sfumato.methods.local.exact_epsilon import level
from sfumato.methods.local.reports import Reports, ReportSketch, check_same, unreadable
from sfumato.privacy.accounting.elementary import log_up
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportLayout
    from sfumato.privacy.noise.entropy import Entropy


VERSION = 1
"""The version of what `to_json` and reports mean."""


class LocalMechanism(Shown, ABC):
    """A mechanism of one report for each person, with what a collector makes of many."""

    name: ClassVar[str]
    grouped: ClassVar[bool] = True
    """Whether an engine can count its reports; else their rows are read."""
    counted_once: ClassVar[bool] = False
    """Whether each report counts in one cell of a tally, so that the cells add up to n."""
    layout: ReportLayout
    level: LocalEpsilon

    @property
    @abstractmethod
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly."""

    @abstractmethod
    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        """One row for each person's value."""

    @abstractmethod
    def _count(self, rows: NDArray[Any]) -> IntArray:
        """Sums over valid rows."""

    def _count_groups(
        self,
        rows: NDArray[Any],  # noqa: ARG002  for those whose reports an engine can count
        times: IntArray,  # noqa: ARG002
        bits: IntArray | None,  # noqa: ARG002
    ) -> IntArray:
        """The same sums from groups of rows with equal codes: how many rows, how often each bit."""
        raise AssertionError(f"reports by {self.name} are not grouped")

    @abstractmethod
    def _asked(self) -> dict[str, Any]:
        """What people are asked, as it was declared."""

    def options(self) -> dict[str, Any]:
        """What else was settled, by name."""
        return {}

    def check_claim(self) -> None:
        """Make sure that no report realises more than is claimed."""
        if not self.level.allows(self.ratio):
            raise AssertionError(f"{self.name} realises more than it claims")

    @property
    def epsilon(self) -> LocalEpsilon:
        """What a report claims."""
        return self.level

    @property
    def realised(self) -> float:
        """The epsilon that a report realises, by its exact chances, rounded up."""
        return float(log_up(self.ratio))

    def to_json(self) -> dict[str, Any]:
        """All that another program needs to make or to read reports."""
        return {
            "mechanism": stored_name(self.name),
            "version": VERSION,
            **self._asked(),
            "epsilon": str(self.level),
            **self.options(),
        }

    @cached_property
    def made_by(self) -> dict[str, Any]:
        """What is written before its reports."""
        return self.to_json()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalMechanism) and self.made_by == other.made_by

    def __hash__(self) -> int:
        return hash((self.name, str(self.level)))

    def randomize(self, values: object, entropy: Entropy | None = None) -> Reports:
        """Make a report for each value, from the system's random bytes unless others are given.

        *Guarantee*: each report is epsilon-differentially private for the person whose value it
        is made of, whoever reads it. Reporting twice costs twice.
        """
        rows = self._rows(values, entropy or SystemEntropy())
        return Reports(self.made_by, self.layout, rows)

    def _sent(self, rows: NDArray[Any]) -> BoolArray:
        """Which rows the mechanism can send at all."""
        return self.layout.valid(rows)

    def can_send(self, rows: NDArray[Any]) -> BoolArray:
        """Which rows, as the layout has them, the mechanism can send at all."""
        return self._sent(rows)

    def read(self, data: bytes) -> Reports:
        """Read the bytes that a client sent or a file holds."""
        from sfumato.methods.local.report_files import read_reports

        return read_reports(self, data)

    def sketch(self, reports: object) -> ReportSketch:
        """Sum up reports: those of `randomize`, a table, or files of them.

        Files end in .reports, .csv or .parquet; there may be a list of them. Tables are of Arrow
        or pandas, or a reader of Arrow's batches. What cannot be a report is counted, not read.
        """
        if isinstance(reports, Reports):
            check_same(self.made_by, reports.made_by, "Reports")
            return self.sum_rows(reports.rows)
        from sfumato.methods.local.report_files import feed

        return feed(self, reports)

    def sum_rows(self, rows: NDArray[Any], *, rejected: int = 0) -> ReportSketch:
        """The sketch of rows as the layout has them; those that cannot be are rejected."""
        sent = self._sent(rows)
        valid_rows = rows if sent.all() else rows[sent]
        lost = rejected + len(rows) - len(valid_rows)
        return ReportSketch(self.made_by, len(valid_rows), lost, self._count(valid_rows))

    def sum_groups(
        self,
        rows: NDArray[Any],
        times: IntArray,
        bits: IntArray | None,
        *,
        rejected: int,
    ) -> ReportSketch:
        """The sketch of what an engine grouped by codes."""
        if bits is None:  # where there are bits, they are sums here and no rows any more
            sent = self._sent(rows)
            rejected += int(times[~sent].sum())
            rows, times = rows[sent], times[sent]
        tally = self._count_groups(rows, times, bits)
        return ReportSketch(self.made_by, int(times.sum()), rejected, tally)

    def empty(self) -> ReportSketch:
        """The sketch of no reports."""
        return self.sum_rows(self.layout.empty(0))

    def merge(self, sketches: Iterable[ReportSketch]) -> ReportSketch:
        """The sum of sketches."""
        return sum(sketches, start=self.empty())

    def possible(self, n: int, tally: IntArray) -> bool:
        """Whether n reports can have these sums: those of a damaged or forged sketch not."""
        if len(tally.ravel()) == 0:
            return True
        within = int(tally.min()) >= 0 and int(tally.max()) <= n
        return within and (not self.counted_once or total(tally) == n)

    def _own(self, sketch: object) -> ReportSketch:
        """Refuse a sketch from which this mechanism can estimate nothing."""
        sketch_given: ReportSketch = arguments.require(
            sketch, "sketch", ReportSketch, "a sketch of this oracle"
        )
        check_same(self.made_by, sketch_given.made_by, "Sketches")
        if sketch_given.tally.shape != self.empty().tally.shape or not self.possible(
            sketch_given.n, sketch_given.tally
        ):
            raise unreadable()
        if sketch_given.n == 0:
            raise SourceError(
                "estimate_not_possible",
                "There is no report to estimate from"
                + (f"; {sketch_given.rejected:,} were rejected." if sketch_given.rejected else ".")
                + " Collect some first.",
            )
        return sketch_given


def total(counts: IntArray) -> int:
    """The sum of counts, however large: a sum of 64 bits would wrap."""
    low, high = counts & 0xFFFFFFFF, counts >> 32
    return (int(high.sum()) << 32) + int(low.sum())


def tallied(codes: NDArray[Any], size: int, times: IntArray | None = None) -> IntArray:
    """How often each code came, in whole numbers, where each came so many times; once if None."""
    if times is None:
        return np.bincount(codes, minlength=size).astype(np.int64)
    totals = np.zeros(size, dtype=np.int64)
    np.add.at(totals, codes.astype(np.int64), times)
    return totals


# The channel of a mechanism as whole numbers, from which its epsilon is computed, not believed.

MOST_CELLS = 1 << 21


@dataclass(frozen=True)
class Channel:
    """P(output y | input x) = weights[x, y] / total, exactly; rows are inputs."""

    weights: NDArray[Any]
    total: int

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Channel:
        """A channel of whole weights; each row must sum to the same total."""
        weights = np.array([list(row) for row in rows], dtype=object)
        totals = {int(sum(row)) for row in weights}
        assert len(totals) == 1, "the rows of a channel have one total"
        return cls(weights, totals.pop())

    @property
    def ratio(self) -> Fraction | None:
        """The largest ratio of the chances of an output between two inputs; None if unbounded."""
        low, high = self.weights.min(axis=0), self.weights.max(axis=0)
        sent = high > 0
        if (low[sent] == 0).any():
            return None
        return max(
            Fraction(int(a), int(b)) for a, b in set(zip(high[sent], low[sent], strict=True))
        )

    @property
    def epsilon(self) -> float:
        """The epsilon that it realises, rounded up."""
        ratio = self.ratio
        if ratio is None:
            return float("inf")
        return float(np.nextafter(float(log_up(ratio)), np.inf)) if ratio > 1 else 0.0

    def probabilities(self) -> FloatArray:
        """The matrix as floats."""
        return np.array([[weight / self.total for weight in row] for row in self.weights.tolist()])


def room_for(inputs: int, outputs: int) -> None:
    """Refuse the matrix of a channel that would not fit."""
    if inputs * outputs > MOST_CELLS:
        raise ParameterError(
            "problem_too_large",
            f"The channel matrix would have {inputs:,} x {outputs:,} cells; at most "
            f"{MOST_CELLS:,} are written out. Ask for the channel of a smaller domain: epsilon "
            "does not depend on it.",
        )


# Frequency oracles: mechanisms over declared values that estimate the share of each.
#
# Decision `local-reports`.


class Oracle(LocalMechanism):
    """A mechanism of one report for each person, over declared values, with its estimate."""

    why: str = ""
    """Why `auto` chose it, if it did."""

    def __init__(self, domain: object, *, epsilon: Number | LocalEpsilon) -> None:
        self.choices, self.level = choices(domain), level(epsilon)
        self._prepare()
        self.check_claim()

    @abstractmethod
    def _prepare(self) -> None:
        """Settle the exact chances and the layout of reports."""

    @abstractmethod
    def channel(self) -> Channel:
        """The exact matrix of chances, for a domain that is small enough."""

    @abstractmethod
    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        """One row for each code."""

    @abstractmethod
    def _shares(self, sketch: ReportSketch) -> FloatArray:
        """Estimate the share of each value, without bias."""

    @abstractmethod
    def variance(self, n: int, share: float = 0.0) -> float:
        """The variance of one share's estimate from n reports, where the true share is this.

        It is that of the mechanism's draws alone, people being as they are.
        """

    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        return self._draw(self.choices.codes(values), entropy)

    def _asked(self) -> dict[str, Any]:
        return {"domain": self.domain}

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.choices.size

    @property
    def domain(self) -> int | list[Any]:
        """The values that a person can have: their list, or their number."""
        return self.choices.to_json()

    def estimate(self, sketch: ReportSketch) -> pa.Table:
        """Estimate the share of each value: a table of value, share and sd.

        Shares are unbiased, so that a rare one may come out below 0; they are not made to sum
        to 1. `sd` is the standard deviation of the share's error.
        """
        shares = self._shares(self._own(sketch))
        variances = np.maximum(self._variances(sketch, shares), 0.0)  # a rounding may be below
        return pa.table(
            {
                "value": self.choices.array(),
                "share": pa.array(shares),
                "sd": pa.array(np.sqrt(variances)),
            }
        )

    def _variances(self, sketch: ReportSketch, shares: FloatArray) -> FloatArray:
        """The variances after the data: at the estimated shares, as far as those are possible."""
        known = np.clip(shares, 0.0, 1.0)
        zero, full = self.variance(sketch.n, 0.0), self.variance(sketch.n, 1.0)
        return zero + (full - zero) * known  # a variance is linear in the share

    def _card(self) -> Card:
        line = (
            f"{self.name} over {self.size:,} values at epsilon {self.level}, "
            f"reports of {self.layout.dtype.itemsize} bytes"
        )
        people = 10_000
        facts = {
            "values": self.size,
            "epsilon": str(self.level),
            "bytes a report": self.layout.dtype.itemsize,
            f"sd of a share from {people:,} reports": math.sqrt(self.variance(people)),
        }
        return Card(line, facts, notes=(self.why,) if self.why else ())


class SupportOracle(Oracle):
    """An oracle whose report supports some values: the true one with chance p, another with q.

    The share of a value is then (C/n - q) / (p - q), C the number of reports that support it.
    """

    p: Fraction
    q: Fraction

    def _shares(self, sketch: ReportSketch) -> FloatArray:
        gap = float(self.p - self.q)
        return np.asarray((self._support(sketch) / sketch.n - float(self.q)) / gap)

    def _support(self, sketch: ReportSketch) -> IntArray:
        """How many reports support each value."""
        return sketch.tally

    def variance(self, n: int, share: float = 0.0) -> float:
        """The variance of one share's estimate from n reports, where the true share is this.

        q (1 - q) / (n (p - q)^2) + share (1 - p - q) / (n (p - q)), people being as they are.
        """
        people, fraction = people_of(n), Fraction(share)
        gap = self.p - self.q
        variance = self.q * (1 - self.q) / gap**2 + fraction * (1 - self.p - self.q) / gap
        return float(variance / people)


def people_of(n: object) -> int:
    """Read a number of reports."""
    number = arguments.whole(n, "n")
    if number < 1:
        raise ParameterError(
            "parameter_out_of_range", f"n must be a number of reports of at least 1, not {number}."
        )
    return number
