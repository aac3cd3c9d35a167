"""Apple's private count-mean sketches: CMS reports a row of bits, HCMS a single sign."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.methods.local.draws import coins, draw_events, draw_integers
from sfumato.methods.local.frequency_oracles import (
    bits_channel,
    odds_of,
    set_bits,
    toss_bits,
    walsh_hadamard,
)
from sfumato.methods.local.hashing import PublicHashes
from sfumato.methods.local.mechanism import (
    Channel,
    Oracle,
    check_channel_size,
    exact_sum,
    read_report_count,
    read_size,
)
from sfumato.methods.local.reports import Code, ReportLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.local_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.privacy.noise.entropy import Entropy


_BITS = 40
_VALUES_AT_ONCE = 1 << 21
_MOST_CELLS = 1 << 26


class MeanSketch(Oracle):
    """Base of both sketches: rows of public hashes, and an estimate by the mean over rows."""

    def __init__(
        self,
        domain: object,
        *,
        epsilon: Number | LocalEpsilon,
        rows: int = 1024,
        columns: int = 1024,
        seed: int = 0,
    ) -> None:
        self.rows = read_size(rows, "rows", 1, 1 << 20)
        self.columns = read_size(columns, "columns", 2, 1 << 20)
        self.seed = arguments.whole(seed, "seed")
        if self.rows * self.columns > _MOST_CELLS:
            raise ParameterError(
                "parameter_out_of_range",
                f"A sketch of {self.rows:,} x {self.columns:,} cells does not fit: rows times "
                f"columns may be {_MOST_CELLS:,} at most.",
                parameter="rows",
            )
        self.hashes = PublicHashes(self.seed, self.rows, self.columns)
        super().__init__(domain, epsilon=epsilon)

    def options(self) -> dict[str, Any]:
        """The size of the sketch and the seed of its hashes."""
        return {"rows": self.rows, "columns": self.columns, "seed": self.seed}

    @abstractmethod
    def _sums(self, sketch: ReportSketch) -> FloatArray:
        """Estimate, without bias, the number of people in each cell of row and column."""

    def _shares(self, sketch: ReportSketch) -> FloatArray:
        m, rows = self.columns, np.arange(self.rows)
        sums = self._sums(sketch)
        means = np.empty(self.size)
        at_once = max(1, _VALUES_AT_ONCE // self.rows)
        for start in range(0, self.size, at_once):
            codes = np.arange(start, min(start + at_once, self.size))
            means[codes] = sums[rows, self.hashes.of(rows, codes[:, None])].sum(axis=1)
        return np.asarray(m / (m - 1) * (means / sketch.n - 1 / m))

    def variance(self, n: int, share: float = 0.0, others: float | None = None) -> float:
        """The variance of the estimate of one share from n reports.

        Values that collide with it add an error that does not shrink with n.

        Parameters
        ----------
        n : int
            The number of reports.
        share : float
            The true share of the value.
        others : float, optional
            The sum of the squared shares of the other values; by default they are equal.
        """
        people = read_report_count(n)
        spread = (1 - share) ** 2 / (self.size - 1) if others is None else others
        pairs = max(people * spread - (1 - share), 0.0) / self.rows
        return self._per_person(share, pairs) / people

    @abstractmethod
    def _per_person(self, share: float, pairs: float) -> float:
        """n times the variance of a share; `pairs` pairs of other people per row may collide."""

    def _variances(self, sketch: ReportSketch, shares: FloatArray) -> FloatArray:
        known = np.clip(shares, 0.0, 1.0)
        # The square of an unbiased estimate is too large by its variance, on average.
        noise = self.variance(sketch.n, 0.0, 0.0)
        squares = max(float((shares**2 - noise).sum()), 0.0)
        return np.array(
            [
                self.variance(sketch.n, share, max(squares - share**2, 0.0))
                for share in known.tolist()
            ]
        )


class AppleCMS(MeanSketch):
    """Pick a row of hashes, set the bit of the value's hash, and flip every bit at random.

    *Guarantee*: epsilon-LDP: two values differ in two bits, each flipped with probability
    1 / (1 + e^(epsilon/2)); the row is drawn independently of the value.
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n^2 Var = n (m/(m-1))^2 (c^2 - 1)/4 + [(n - c_d) + sum of c_d'(c_d' - 1)/r] / (m - 1),
    c = (e^(eps/2) + 1) / (e^(eps/2) - 1), over r rows of m columns, hashes being random.
    *Edges*: The error of collisions does not shrink with n: more rows make it smaller.
    *Reference*: Apple, Learning with privacy at scale, 2017.
    """

    name = "apple-cms"

    def _prepare(self) -> None:
        self.odds = self.epsilon.share(2).rational(_BITS)
        self.flip = 1 / (1 + self.odds)
        self.layout = ReportLayout((Code("row", self.rows),), self.columns)

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two values, exactly."""
        return self.odds**2

    def channel(self) -> Channel:
        """The matrix of probabilities, a column for each row and set of bits."""
        check_channel_size(self.size, self.rows << self.columns)
        by_row = []
        for row in range(self.rows):
            hashed = self.hashes.of(np.full(self.size, row), np.arange(self.size)).tolist()
            chances = [
                [1 - self.flip if at == own else self.flip for at in range(self.columns)]
                for own in hashed
            ]
            by_row.append(bits_channel(chances))
        total = sum(channel.total for channel in by_row)
        return Channel(np.concatenate([channel.weights for channel in by_row], axis=1), total)

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        count = len(codes)
        rows = self.layout.empty(count)
        row = draw_integers(self.rows, count, entropy)
        bits = toss_bits(coins(self.flip), count, self.columns, entropy)
        set_bits(bits, self.hashes.of(row, codes), ~draw_events(self.flip, count, entropy))
        rows["row"], rows["bits"] = row, bits
        return rows

    def _sums(self, sketch: ReportSketch) -> FloatArray:
        set_bits, people = sketch.tally[:, :-1].astype(np.float64), sketch.tally[:, -1:]
        contrast = float(1 - 2 * self.flip)
        return np.asarray((set_bits - people * float(self.flip)) / contrast)

    def _per_person(self, share: float, pairs: float) -> float:
        m, c = self.columns, float((self.odds + 1) / (self.odds - 1))
        return (m / (m - 1)) ** 2 * (c * c - 1) / 4 + (1 - share + pairs) / (m - 1)


class AppleHCMS(MeanSketch):
    """Pick a row of hashes and a column, and report that sign of the value's Hadamard row.

    *Guarantee*: epsilon-LDP: only one sign depends on the value, and it is flipped with probability
    1 / (1 + e^epsilon).
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n^2 Var = (m/(m-1))^2 [n c^2 - c_d - (n - c_d)/m^2 + (1/m)(1 - 1/m) sum of
    c_d'(c_d' - 1)/r], c = (e^eps + 1) / (e^eps - 1), over r rows of m columns, hashes being random.
    *Edges*: m is a power of 2. The error of collisions does not shrink with n.
    *Reference*: Apple, Learning with privacy at scale, 2017.
    """

    name = "apple-hcms"

    def _prepare(self) -> None:
        if self.columns.bit_count() != 1:
            raise ParameterError(
                "parameter_out_of_range",
                f"columns must be a power of 2 for apple-hcms, not {self.columns:,}.",
                parameter="columns",
                given=self.columns,
            )
        self.weights = odds_of(self.epsilon, 2)
        truth, lie = self.weights
        self.flip = Fraction(lie, truth + lie)
        codes = Code("row", self.rows), Code("column", self.columns), Code("sign", 2)
        self.layout = ReportLayout(codes)

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of probabilities, a column for each row, column and sign."""
        check_channel_size(self.size, 2 * self.rows * self.columns)
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
        row, column = (
            draw_integers(self.rows, count, entropy),
            draw_integers(self.columns, count, entropy),
        )
        sign = self._sign(self.hashes.of(row, codes), column)
        rows["row"], rows["column"] = row, column
        rows["sign"] = sign ^ draw_events(self.flip, count, entropy)
        return rows

    def _tally(
        self, rows: NDArray[Any], times: IntArray | None = None, bits: IntArray | None = None
    ) -> IntArray:
        counts = super()._tally(rows, times, bits)
        return np.asarray(counts[:, :, 0] - counts[:, :, 1])

    def possible(self, n: int, tally: IntArray) -> bool:
        """Whether n reports can have these sums: each counts 1 or -1 in one cell."""
        return int(tally.min()) >= -n and int(tally.max()) <= n and exact_sum(np.abs(tally)) <= n

    def _sums(self, sketch: ReportSketch) -> FloatArray:
        return walsh_hadamard(sketch.tally) / float(1 - 2 * self.flip)

    def _per_person(self, share: float, pairs: float) -> float:
        m, c = self.columns, 1 / float(1 - 2 * self.flip)
        remainder = (1 - share) / m**2
        collisions = pairs * (1 - 1 / m) / m
        return (m / (m - 1)) ** 2 * (c * c - share - remainder + collisions)
