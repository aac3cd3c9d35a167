"""The base classes of local mechanisms: randomize on a device, sum and estimate at a collector.

A client calls `randomize`, and only the report leaves the device. A collector sums reports up in
sketches, adds sketches, and estimates from the sum. Both sides know the mechanism and its exact
probabilities, which are public. Decision `local-privacy`.
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
from sfumato.methods.local.draws import bit_sums
from sfumato.methods.local.local_epsilon import read_epsilon
from sfumato.methods.local.reports import Reports, ReportSketch, check_same, unreadable_sketch
from sfumato.privacy.accounting.elementary import log_up
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.local_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportLayout
    from sfumato.privacy.noise.entropy import Entropy

VERSION = 1
"""The version of the format of `to_json` and of reports."""

CARD_PEOPLE = 10_000
"""The number of reports for which a card states the error."""

_MOST_CHANNEL_CELLS = 1 << 21


@dataclass(frozen=True)
class Channel:
    """P(output y | input x) = weights[x, y] / total, exactly; rows are inputs.

    The realised epsilon of a mechanism is computed from this matrix, not taken from a formula.
    """

    weights: NDArray[Any]
    total: int

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Channel:
        """A channel of integer weights; each row must sum to the same total."""
        weights = np.array([list(row) for row in rows], dtype=object)
        totals = {int(sum(row)) for row in weights}
        assert len(totals) == 1, "the rows of a channel have one total"
        return cls(weights, totals.pop())

    @property
    def ratio(self) -> Fraction | None:
        """The largest ratio of an output's probabilities between two inputs; None if unbounded."""
        low, high = self.weights.min(axis=0), self.weights.max(axis=0)
        sent = high > 0
        # An output that one input never sends identifies the other inputs.
        if (low[sent] == 0).any():
            return None
        return max(
            Fraction(int(a), int(b)) for a, b in set(zip(high[sent], low[sent], strict=True))
        )

    @property
    def epsilon(self) -> float:
        """The realised epsilon, rounded up."""
        ratio = self.ratio
        if ratio is None:
            return float("inf")
        return float(np.nextafter(float(log_up(ratio)), np.inf)) if ratio > 1 else 0.0

    def probabilities(self) -> FloatArray:
        """The matrix as floats."""
        return np.array([[weight / self.total for weight in row] for row in self.weights.tolist()])


def check_channel_size(inputs: int, outputs: int) -> None:
    """Refuse a channel matrix that would not fit in memory."""
    if inputs * outputs > _MOST_CHANNEL_CELLS:
        raise ParameterError(
            "problem_too_large",
            f"The channel matrix would have {inputs:,} x {outputs:,} cells; at most "
            f"{_MOST_CHANNEL_CELLS:,} are written out. Ask for the channel of a smaller domain: "
            "epsilon does not depend on it.",
        )


class LocalMechanism(Shown, ABC):
    """A mechanism with one report for each person, and the estimate from many reports."""

    name: ClassVar[str]
    grouped: ClassVar[bool] = True
    """Whether an engine can count its reports by GROUP BY; otherwise their rows are read."""
    counted_once: ClassVar[bool] = False
    """Whether each report counts in one cell of a tally, so that the cells sum to n."""
    layout: ReportLayout
    epsilon: LocalEpsilon
    """The claimed epsilon of one report."""

    @property
    @abstractmethod
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two values, exactly."""

    @abstractmethod
    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        """Draw one row for each person's value."""

    @abstractmethod
    def _declaration(self) -> dict[str, Any]:
        """The declared question: domain, bounds or columns."""

    def options(self) -> dict[str, Any]:
        """The other settings, by name."""
        return {}

    def check_claim(self) -> None:
        """Make sure that no report realises more than the claimed epsilon."""
        if not self.epsilon.allows(self.ratio):
            raise AssertionError(f"{self.name} realises more than it claims")

    @property
    def realised(self) -> float:
        """The epsilon that a report realises, from its exact probabilities, rounded up."""
        return float(log_up(self.ratio))

    def to_json(self) -> dict[str, Any]:
        """All that another program needs to make or to read reports."""
        return {
            "mechanism": stored_name(self.name),
            "version": VERSION,
            **self._declaration(),
            "epsilon": str(self.epsilon),
            **self.options(),
        }

    @cached_property
    def made_by(self) -> dict[str, Any]:
        """The header of its reports."""
        return self.to_json()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalMechanism) and self.made_by == other.made_by

    def __hash__(self) -> int:
        return hash((self.name, str(self.epsilon)))

    def randomize(self, values: object, entropy: Entropy | None = None) -> Reports:
        """Make one report for each value.

        *Guarantee*: each report is epsilon-differentially private for the person whose value it
        is made of, whoever reads it. Reporting twice costs twice.

        Parameters
        ----------
        values : list, array or column
            One value for each person.
        entropy : Entropy, optional
            The source of randomness; the operating system by default.

        Returns
        -------
        Reports
            One report for each value, in the same order.

        Raises
        ------
        ParameterError
            If a value is not of the declared kind or domain; the value is not quoted.
        """
        rows = self._rows(values, entropy or SystemEntropy())
        return Reports(self.made_by, self.layout, rows)

    def can_send(self, rows: NDArray[Any]) -> BoolArray:
        """Which rows the mechanism can send at all."""
        return self.layout.valid(rows)

    def read(self, data: bytes) -> Reports:
        """Read the bytes that a client sent or a file holds."""
        from sfumato.methods.local.report_files import read_reports

        return read_reports(self, data)

    def sketch(self, reports: object) -> ReportSketch:
        """Sum up reports.

        Parameters
        ----------
        reports : Reports, table, reader, path or list of paths
            A table is of Arrow or pandas, a reader gives Arrow's batches, and files end in
            .reports, .csv or .parquet.

        Returns
        -------
        ReportSketch
            The sums. Rows that cannot be reports of this mechanism are only counted, as rejected.

        Raises
        ------
        SourceError
            If the reports were made by another mechanism, or the source cannot be read.
        """
        if isinstance(reports, Reports):
            check_same(self.made_by, reports.made_by, "Reports")
            return self.sum_rows(reports.rows)
        from sfumato.methods.local.report_files import sketch_source

        return sketch_source(self, reports)

    def sum_rows(self, rows: NDArray[Any], *, rejected: int = 0) -> ReportSketch:
        """The sketch of rows of the layout; rows that cannot be sent are rejected."""
        sent = self.can_send(rows)
        valid_rows = rows if sent.all() else rows[sent]
        rejected += len(rows) - len(valid_rows)
        return ReportSketch(self.made_by, len(valid_rows), rejected, self._tally(valid_rows))

    def sum_groups(
        self,
        rows: NDArray[Any],
        times: IntArray,
        bits: IntArray | None,
        *,
        rejected: int,
    ) -> ReportSketch:
        """The sketch of reports that an engine grouped by their codes.

        Parameters
        ----------
        rows : array
            One row for each group.
        times : array of int
            The number of reports in each group.
        bits : array of int, optional
            For each group, in how many reports each bit is set. The rows then hold no bits.
        rejected : int
            The number of rows that could not be reports.
        """
        if bits is None:
            sent = self.can_send(rows)
            rejected += int(times[~sent].sum())
            rows, times = rows[sent], times[sent]
        tally = self._tally(rows, times, bits)
        return ReportSketch(self.made_by, int(times.sum()), rejected, tally)

    def _tally(
        self, rows: NDArray[Any], times: IntArray | None = None, bits: IntArray | None = None
    ) -> IntArray:
        """Sum valid rows, or groups of them as in `sum_groups`.

        Reports of codes are counted by them; of bits, each bit is counted; of both, each bit by
        code, with the number of reports of the code in a last column.
        """
        layout = self.layout
        if not layout.width:
            return tally_codes(rows, layout, times)
        if not layout.codes:
            return (
                bit_sums(rows["bits"], layout.width)
                if bits is None
                else np.asarray(bits.sum(axis=0, dtype=np.int64))
            )
        codes = rows[layout.codes[0].name]
        tally = np.zeros((layout.codes[0].limit, layout.width + 1), dtype=np.int64)
        if times is not None and bits is not None:
            tally[codes] = np.column_stack([bits, times])
            return tally
        people = np.bincount(codes, minlength=len(tally))
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(people)
        tally[:, -1] = people
        for code in np.flatnonzero(people).tolist():
            own = order[ends[code] - people[code] : ends[code]]
            tally[code, :-1] = bit_sums(rows["bits"][own], layout.width)
        return tally

    def empty(self) -> ReportSketch:
        """The sketch of no reports."""
        return self.sum_rows(self.layout.empty(0))

    def merge(self, sketches: Iterable[ReportSketch]) -> ReportSketch:
        """The sum of sketches."""
        return sum(sketches, start=self.empty())

    def possible(self, n: int, tally: IntArray) -> bool:
        """Whether n reports can have these sums; a damaged or forged sketch may not."""
        if not tally.size:
            return True
        if int(tally.min()) < 0:
            return False
        if self.layout.codes and self.layout.width:
            people = tally[:, -1:]
            return bool((tally <= people).all()) and exact_sum(people) == n
        return int(tally.max()) <= n and (not self.counted_once or exact_sum(tally) == n)

    def _own(self, sketch: object) -> ReportSketch:
        """Refuse a sketch from which this mechanism can estimate nothing."""
        checked: ReportSketch = arguments.require(
            sketch, "sketch", ReportSketch, "a sketch of this oracle"
        )
        check_same(self.made_by, checked.made_by, "Sketches")
        fits = checked.tally.shape == self.empty().tally.shape
        if not fits or not self.possible(checked.n, checked.tally):
            raise unreadable_sketch()
        if checked.n == 0:
            raise SourceError(
                "estimate_not_possible",
                "There is no report to estimate from"
                + (f"; {checked.rejected:,} were rejected." if checked.rejected else ".")
                + " Collect some first.",
            )
        return checked


def exact_sum(counts: IntArray) -> int:
    """The sum of counts of any size: a sum of 64 bits would wrap around."""
    low, high = counts & 0xFFFFFFFF, counts >> 32
    return (int(high.sum()) << 32) + int(low.sum())


def tally_codes(rows: NDArray[Any], layout: ReportLayout, times: IntArray | None) -> IntArray:
    """Count rows by their codes, one axis for each code; row i counts `times[i]`, or once."""
    limits = [code.limit for code in layout.codes]
    cells = np.zeros(len(rows), dtype=np.int64)
    for code in layout.codes:
        cells = cells * code.limit + rows[code.name].astype(np.int64)
    if times is None:
        return np.bincount(cells, minlength=math.prod(limits)).reshape(limits)
    # Sums of integers: bincount would sum its weights as floats.
    totals = np.zeros(math.prod(limits), dtype=np.int64)
    np.add.at(totals, cells, times)
    return totals.reshape(limits)


class Oracle(LocalMechanism):
    """A frequency oracle: it estimates the share of each declared value."""

    why: str = ""
    """The reason of `auto` for its choice."""

    def __init__(self, domain: object, *, epsilon: Number | LocalEpsilon) -> None:
        self.choices, self.epsilon = choices(domain), read_epsilon(epsilon)
        self._prepare()
        self.check_claim()

    @abstractmethod
    def _prepare(self) -> None:
        """Set the exact probabilities and the layout of reports."""

    @abstractmethod
    def channel(self) -> Channel:
        """The exact matrix of probabilities, for a domain that is small enough."""

    @abstractmethod
    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        """Draw one row for each code."""

    @abstractmethod
    def _shares(self, sketch: ReportSketch) -> FloatArray:
        """Estimate the share of each value, without bias."""

    @abstractmethod
    def variance(self, n: int, share: float = 0.0) -> float:
        """The variance of the estimate of one share.

        It comes from the draws of the mechanism alone: people's values are fixed.

        Parameters
        ----------
        n : int
            The number of reports, at least 1.
        share : float
            The true share of the value.
        """

    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        return self._draw(self.choices.codes(values), entropy)

    def _declaration(self) -> dict[str, Any]:
        return {"domain": self.domain}

    @property
    def size(self) -> int:
        """The number of declared values."""
        return self.choices.size

    @property
    def domain(self) -> int | list[Any]:
        """The declared values: their list, or their number."""
        return self.choices.to_json()

    def estimate(self, sketch: ReportSketch) -> pa.Table:
        """Estimate the share of each value.

        Parameters
        ----------
        sketch : ReportSketch
            The sums of the reports.

        Returns
        -------
        pyarrow.Table
            Columns value, share and sd, the standard deviation of the share's error. Shares are
            unbiased: a rare one may come out below 0, and they need not sum to 1.

        Raises
        ------
        SourceError
            If the sketch is of another mechanism, damaged or without reports.
        """
        shares = self._shares(self._own(sketch))
        variances = np.maximum(self._variances(sketch, shares), 0.0)  # rounding may go below 0
        return pa.table(
            {
                "value": self.choices.array(),
                "share": pa.array(shares),
                "sd": pa.array(np.sqrt(variances)),
            }
        )

    def _variances(self, sketch: ReportSketch, shares: FloatArray) -> FloatArray:
        """The variances at the estimated shares, clipped to possible ones."""
        possible_shares = np.clip(shares, 0.0, 1.0)
        at_zero, at_one = self.variance(sketch.n, 0.0), self.variance(sketch.n, 1.0)
        return at_zero + (at_one - at_zero) * possible_shares  # linear in the share

    def _card(self) -> Card:
        report_bytes = self.layout.dtype.itemsize
        line = (
            f"{self.name} over {self.size:,} values at epsilon {self.epsilon}, "
            f"reports of {report_bytes} bytes"
        )
        facts = {
            "values": self.size,
            "epsilon": str(self.epsilon),
            "bytes a report": report_bytes,
            f"sd of a share from {CARD_PEOPLE:,} reports": math.sqrt(self.variance(CARD_PEOPLE)),
        }
        return Card(line, facts, notes=(self.why,) if self.why else ())


class SupportOracle(Oracle):
    """An oracle whose report supports some values: the true one with probability p, others with q.

    The share of a value is estimated as (C/n - q) / (p - q), C the number of supporting reports.
    """

    p: Fraction
    q: Fraction

    def _shares(self, sketch: ReportSketch) -> FloatArray:
        gap = float(self.p - self.q)
        return np.asarray((sketch.tally / sketch.n - float(self.q)) / gap)

    def variance(self, n: int, share: float = 0.0) -> float:
        """The variance of the estimate of one share f from n reports.

        q (1 - q) / (n (p - q)^2) + f (1 - p - q) / (n (p - q)), for fixed values of people.
        """
        people, fraction = read_report_count(n), Fraction(share)
        gap = self.p - self.q
        variance = self.q * (1 - self.q) / gap**2 + fraction * (1 - self.p - self.q) / gap
        return float(variance / people)


def read_report_count(n: object) -> int:
    """Read a number of reports."""
    number = arguments.whole(n, "n")
    if number < 1:
        raise ParameterError(
            "parameter_out_of_range",
            f"n must be a number of reports of at least 1, not {number}.",
            parameter="n",
            given=number,
        )
    return number


def read_size(value: object, name: str, least: int, most: int) -> int:
    """Read a whole number between two limits."""
    number = arguments.whole(value, name)
    if not least <= number <= most:
        raise ParameterError(
            "parameter_out_of_range",
            f"{name} must be from {least} to {most:,}, not {number:,}.",
            parameter=name,
            given=number,
        )
    return number
