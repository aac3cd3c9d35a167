"""What every local mechanism offers: a client's randomizer and a collector's estimate.

A client calls `randomize`, and only what that gives leaves the device. A collector adds reports
into sketches, sketches into one, and estimates from that. Both sides know the mechanism, which is
public, and its exact chances. Decision 0320.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato import given
from sfumato.cards import Card, Shown
from sfumato.errors import ParameterError, SourceError
from sfumato.local.choices import choices
from sfumato.local.level import level
from sfumato.local.reports import ReportLayout, Reports, check_same
from sfumato.local.sketch import ReportSketch
from sfumato.noise.entropy import SystemEntropy
from sfumato.privacy.elementary import log_up

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from sfumato.local.channel import Channel
    from sfumato.local.level import LocalEpsilon
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.numbers import Number

VERSION = 1
"""The version of what `to_json` and reports mean."""


class Groups(NamedTuple):
    """What an engine tells of reports that it grouped by codes: how many, how often each bit."""

    times: NDArray[np.int64]
    bits: NDArray[np.int64] | None


class Oracle(Shown, ABC):
    """A mechanism of one report for each person, over declared values, with its estimate."""

    name: ClassVar[str]
    grouped: ClassVar[bool] = True
    """Whether an engine can count its reports; else their rows are read."""
    layout: ReportLayout
    why: str = ""
    """Why `auto` chose it, if it did."""

    def __init__(self, domain: object, *, epsilon: Number | LocalEpsilon) -> None:
        self.choices, self.level = choices(domain), level(epsilon)
        self._prepare()
        if not self.level.allows(self.ratio):
            raise AssertionError(f"{self.name} realises more than it claims")

    @abstractmethod
    def _prepare(self) -> None:
        """Settle the exact chances and the layout of reports."""

    @property
    @abstractmethod
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly."""

    @abstractmethod
    def channel(self) -> Channel:
        """The exact matrix of chances, for a domain that is small enough."""

    @abstractmethod
    def _draw(self, codes: NDArray[np.int64], entropy: Entropy) -> NDArray[Any]:
        """One row for each code."""

    @abstractmethod
    def _count(self, rows: NDArray[Any], groups: Groups | None = None) -> NDArray[np.int64]:
        """Sums over valid rows, or over groups of reports that have the codes of a row each."""

    @abstractmethod
    def _shares(self, sketch: ReportSketch) -> NDArray[np.float64]:
        """Estimate the share of each value, without bias."""

    @abstractmethod
    def variance(self, n: int, share: float = 0.0) -> float:
        """The variance of one share's estimate from n reports, where the true share is this.

        It is that of the mechanism's draws alone, people being as they are.
        """

    def _sent(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows the mechanism can send at all."""
        return self.layout.valid(rows)

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.choices.size

    @property
    def domain(self) -> int | list[Any]:
        """The values that a person can have: their list, or their number."""
        return self.choices.to_json()

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
            "mechanism": self.name,
            "version": VERSION,
            "domain": self.domain,
            "epsilon": str(self.level),
            **self.options(),
        }

    def options(self) -> dict[str, Any]:
        """What else was settled, by name."""
        return {}

    @cached_property
    def made_by(self) -> dict[str, Any]:
        """What is written before its reports."""
        return self.to_json()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Oracle) and self.made_by == other.made_by

    def __hash__(self) -> int:
        return hash((self.name, self.size, str(self.level)))

    def randomize(self, values: object, entropy: Entropy | None = None) -> Reports:
        """Make a report for each value, from the system's random bytes unless others are given.

        *Guarantee*: each report is epsilon-differentially private for the person whose value it
        is made of, whoever reads it. Reporting twice costs twice.
        """
        codes = self.choices.codes(values)
        rows = self._draw(codes, entropy or SystemEntropy())
        return Reports(self.made_by, self.layout, rows)

    def read(self, data: bytes) -> Reports:
        """Read the bytes that a client sent or a file holds."""
        from sfumato.local.feeding import read_reports

        return read_reports(self, data)

    def sketch(self, reports: object) -> ReportSketch:
        """Sum up reports: those of `randomize`, a table, or files of them.

        Files end in .reports, .csv or .parquet; there may be a list of them. Tables are of Arrow
        or pandas, or a reader of Arrow's batches. What cannot be a report is counted, not read.
        """
        if isinstance(reports, Reports):
            check_same(self.made_by, reports.made_by, "Reports")
            return self.sum_rows(reports.rows)
        from sfumato.local.feeding import feed

        return feed(self, reports)

    def sum_rows(self, rows: NDArray[Any], *, rejected: int = 0) -> ReportSketch:
        """The sketch of rows as the layout has them; those that cannot be are rejected."""
        sent = self._sent(rows)
        kept = rows if sent.all() else rows[sent]
        lost = rejected + len(rows) - len(kept)
        return ReportSketch(self.made_by, len(kept), lost, self._count(kept))

    def sum_groups(self, rows: NDArray[Any], groups: Groups, *, rejected: int) -> ReportSketch:
        """The sketch of what an engine grouped by codes."""
        tally = self._count(rows, groups)
        return ReportSketch(self.made_by, int(groups.times.sum()), rejected, tally)

    def empty(self) -> ReportSketch:
        """The sketch of no reports."""
        return self.sum_rows(self.layout.empty(0))

    def merge(self, sketches: Iterable[ReportSketch]) -> ReportSketch:
        """The sum of sketches."""
        return sum(sketches, start=self.empty())

    def estimate(self, sketch: ReportSketch) -> pa.Table:
        """Estimate the share of each value: a table of value, share and sd.

        Shares are unbiased, so that a rare one may come out below 0; they are not made to sum
        to 1. `sd` is the standard deviation of the share's error.
        """
        given.require(sketch, "sketch", ReportSketch, "a sketch of this oracle")
        check_same(self.made_by, sketch.made_by, "Sketches")
        if sketch.n == 0:
            raise SourceError(
                "reports_missing",
                "There is no report to estimate from"
                + (f"; {sketch.rejected:,} were rejected." if sketch.rejected else ".")
                + " Collect some first.",
            )
        shares = self._shares(sketch)
        return pa.table(
            {
                "value": self.choices.array(),
                "share": pa.array(shares),
                "sd": pa.array(np.sqrt(self._variances(sketch, shares))),
            }
        )

    def _variances(self, sketch: ReportSketch, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The variances after the data: at the estimated shares, as far as those are possible."""
        known = np.clip(shares, 0.0, 1.0)
        zero, one = self.variance(sketch.n, 0.0), self.variance(sketch.n, 1.0)
        return zero + (one - zero) * known  # a variance is linear in the share

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

    def _shares(self, sketch: ReportSketch) -> NDArray[np.float64]:
        gap = float(self.p - self.q)
        return np.asarray((self._support(sketch) / sketch.n - float(self.q)) / gap)

    def _support(self, sketch: ReportSketch) -> NDArray[np.int64]:
        """How many reports support each value."""
        return sketch.tally

    def variance(self, n: int, share: float = 0.0) -> float:
        """The variance of one share's estimate from n reports, where the true share is this.

        q (1 - q) / (n (p - q)^2) + share (1 - p - q) / (n (p - q)), people being as they are.
        """
        people, part = people_of(n), Fraction(share)
        gap = self.p - self.q
        whole = self.q * (1 - self.q) / gap**2 + part * (1 - self.p - self.q) / gap
        return float(whole / people)


def counted(codes: NDArray[Any], size: int, groups: Groups | None) -> NDArray[np.int64]:
    """How often each code was reported."""
    if groups is None:
        return np.bincount(codes, minlength=size).astype(np.int64)
    totals = np.zeros(size, dtype=np.int64)
    np.add.at(totals, codes.astype(np.int64), groups.times)
    return totals


def people_of(n: object) -> int:
    """Read a number of reports."""
    number = given.whole(n, "n")
    if number < 1:
        raise ParameterError(
            "parameter_out_of_range", f"n must be a number of reports of at least 1, not {number}."
        )
    return number
