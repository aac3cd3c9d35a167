"""Optimized local hashing: a report of a few bytes that is as good as one bit for each value."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.methods.local.hashing import AffineHashes
from sfumato.methods.local.k_ary_response import odds_of, respond
from sfumato.methods.local.mechanism import Channel, SupportOracle, room_for
from sfumato.methods.local.reports import Code, ReportLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.privacy.noise.entropy import Entropy

_MOST_BUCKETS = 1 << 12


class OLH(SupportOracle):
    """Hash the value to g = round(e^epsilon) + 1 numbers by a hash of one's own, then say a number.

    *Guarantee*: epsilon-LDP: the hash is drawn independently of the value, and its output is said
    by g-ary randomized response.
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = (e^eps + g - 1)^2 / ((e^eps - 1)^2 (g - 1)) + f (1 - p - 1/g) / (p - 1/g).
    *Edges*: Another value is supported with exactly 1/g, not with (1 - p) / (g - 1); every report
    has a fresh hash from the whole family, so that no error stays as n grows. k up to 2^26, though
    a collector's work grows with k times the number of different factors.
    *Reference*: Wang, Blocki, Li & Jha 2017, section 4.4.
    """

    name = "olh"
    grouped = False

    def _prepare(self) -> None:
        odds = self.level.rational(32)
        self.buckets = round(odds) + 1
        if self.buckets > _MOST_BUCKETS:
            raise ParameterError(
                "parameter_out_of_range",
                f"olh hashes to {self.buckets:,} numbers at epsilon {self.level}, of which "
                f"{_MOST_BUCKETS:,} are the most. Use 'k-ary' or a smaller epsilon.",
            )
        self.hashes = AffineHashes.to(self.size, self.buckets)
        self.weights = odds_of(self.level, self.buckets)
        truth, lie = self.weights
        self.p = Fraction(truth, truth + (self.buckets - 1) * lie)
        self.q = Fraction(1, self.buckets)
        prime = self.hashes.prime
        codes = Code("factor", prime), Code("shift", prime), Code("report", self.buckets)
        self.layout = ReportLayout(codes)

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of chances, a column for each hash and output."""
        prime, g = self.hashes.prime, self.buckets
        room_for(self.size, prime * prime * g)
        truth, lie = self.weights
        constant = self.hashes.constant
        # Chances of one factor, in units that make all of them whole.
        rare = constant.numerator * (prime - 1)
        usual = constant.denominator - constant.numerator
        rows = [
            [
                (usual if factor else rare) * (truth if output == hashed else lie)
                for factor in range(prime)
                for shift in range(prime)
                for hashed in [(factor * x + shift) % prime % g]
                for output in range(g)
            ]
            for x in range(self.size)
        ]
        return Channel.of(rows)

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        rows = self.layout.empty(len(codes))
        factors, shifts = self.hashes.draw(len(codes), entropy)
        hashed = self.hashes.of(codes, factors, shifts)
        rows["factor"], rows["shift"] = factors, shifts
        rows["report"] = respond(hashed, self.buckets, self.weights, entropy)
        return rows

    def _count(self, rows: NDArray[Any]) -> IntArray:
        columns = (rows[name].astype(np.int64) for name in ("factor", "shift", "report"))
        return self.hashes.supports(*columns)
