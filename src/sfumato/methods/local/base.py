"""Frequency oracles: mechanisms over declared values that estimate the share of each.

Decision `local-reports`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.methods.local.choices import choices
from sfumato.methods.local.exact_epsilon import level
from sfumato.methods.local.mechanism import LocalMechanism
from sfumato.report.display import Card

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.channel import Channel
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.privacy.noise.entropy import Entropy


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
