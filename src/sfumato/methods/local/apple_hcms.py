"""Apple's Hadamard count mean sketch: one bit a report."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.methods.local.apple_cms import MeanSketch
from sfumato.methods.local.draws import below, happens
from sfumato.methods.local.frequency_oracles import odds_of, walsh_hadamard
from sfumato.methods.local.mechanism import Channel, room_for, tallied, total
from sfumato.methods.local.reports import Code, ReportLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.privacy.noise.entropy import Entropy


class AppleHCMS(MeanSketch):
    """Pick a row of hashes and a column; say that one sign of the value's Hadamard row, or not.

    *Guarantee*: epsilon-LDP: the only thing that depends on the value is one sign, flipped with
    chance 1 / (1 + e^epsilon).
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n^2 Var = (m/(m-1))^2 [n c^2 - c_d - (n - c_d)/m^2 + (1/m)(1 - 1/m) sum of
    c_d'(c_d' - 1)/r], c = (e^eps + 1) / (e^eps - 1), over r rows of m columns, hashes being random.
    *Edges*: m is a power of 2. The part of collisions does not shrink with n.
    *Reference*: Apple, Learning with privacy at scale, 2017.
    """

    name = "apple-hcms"

    def _prepare(self) -> None:
        if self.columns.bit_count() != 1:
            raise ParameterError(
                "parameter_out_of_range",
                f"columns must be a power of 2 for apple-hcms, not {self.columns:,}.",
            )
        self.weights = odds_of(self.level, 2)
        truth, lie = self.weights
        self.flip = Fraction(lie, truth + lie)
        codes = Code("row", self.rows), Code("column", self.columns), Code("sign", 2)
        self.layout = ReportLayout(codes)

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of chances, a column for each row, column and sign."""
        room_for(self.size, 2 * self.rows * self.columns)
        truth, lie = self.weights
        row = np.arange(self.rows)[:, None]
        column = np.arange(self.columns)
        matrix = []
        for x in range(self.size):
            sign = self._sign(self.hashes.of(row, np.array([x])), column)
            own = np.stack([sign == 0, sign == 1], axis=-1)
            matrix.append(np.where(own, truth, lie).ravel().tolist())
        return Channel.of(matrix)

    def _sign(self, hashed: IntArray, column: IntArray) -> IntArray:
        """1 where the entry of the Hadamard matrix is -1."""
        return np.asarray(np.bitwise_count(hashed & column) % 2).astype(np.int64)

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        count = len(codes)
        rows = self.layout.empty(count)
        row, column = below(self.rows, count, entropy), below(self.columns, count, entropy)
        sign = self._sign(self.hashes.of(row, codes), column)
        rows["row"], rows["column"] = row, column
        rows["sign"] = sign ^ happens(self.flip, count, entropy)
        return rows

    def _cells(self, rows: NDArray[Any]) -> IntArray:
        cell = rows["row"].astype(np.int64) * self.columns + rows["column"]
        return np.asarray(2 * cell + rows["sign"])

    def _count(self, rows: NDArray[Any]) -> IntArray:
        return self._signed(tallied(self._cells(rows), 2 * self.rows * self.columns))

    def _count_groups(
        self,
        rows: NDArray[Any],
        times: IntArray,
        bits: IntArray | None,  # noqa: ARG002  reports have no bits
    ) -> IntArray:
        return self._signed(tallied(self._cells(rows), 2 * self.rows * self.columns, times))

    def _signed(self, counts: IntArray) -> IntArray:
        pairs = counts.reshape(self.rows, self.columns, 2)
        return np.asarray(pairs[:, :, 0] - pairs[:, :, 1])

    def possible(self, n: int, tally: IntArray) -> bool:
        """Whether n reports can have these sums: each counts 1 or -1 in one cell."""
        return int(tally.min()) >= -n and int(tally.max()) <= n and total(np.abs(tally)) <= n

    def _sums(self, sketch: ReportSketch) -> FloatArray:
        return walsh_hadamard(sketch.tally) / float(1 - 2 * self.flip)

    def _per_person(self, share: float, pairs: float) -> float:
        m, c = self.columns, 1 / float(1 - 2 * self.flip)
        remainder = (1 - share) / m**2
        collisions = pairs * (1 - 1 / m) / m
        return (m / (m - 1)) ** 2 * (c * c - share - remainder + collisions)
