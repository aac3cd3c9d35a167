"""RAPPOR: a Bloom filter of the value, randomized once to keep, and again for every report.

Decision `local-privacy`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.exact_numbers import decimal_of, probability
from sfumato.methods.local.draws import coins, draw_events, draw_integers
from sfumato.methods.local.frequency_oracles import bits_channel, set_bits, toss_bits
from sfumato.methods.local.hashing import PublicHashes
from sfumato.methods.local.mechanism import (
    Channel,
    Oracle,
    check_channel_size,
    read_report_count,
    read_size,
)
from sfumato.methods.local.reports import Code, ReportLayout, Reports
from sfumato.privacy.accounting.elementary import log_up
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.local_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.privacy.noise.entropy import Entropy

_BITS = 40
_MOST_CELLS = 1 << 26


class Rappor(Oracle):
    """Set `hashes` bits of a Bloom filter, flip bits once to keep, and again for every report.

    A permanent bit is 1 with probability 1 - f/2 where the filter's bit is 1, else with f/2. A
    report's bit is 1 with probability q where the permanent bit is 1, else with p. A person belongs
    to one of `cohorts` groups with hashes of their own. `epsilon` is that of the permanent bits and
    hence of all reports made of them; `one_report` is that of a single report.

    *Guarantee*: epsilon-LDP, epsilon = 2h log((1 - f/2) / (f/2)), for any number of reports about
    one value that stays, as long as the client keeps its permanent bits for its value, and its
    cohort permanently. With permanent bits kept for each of several values it is epsilon for each
    distinct value, between histories in which the same reports share a value, returns included.
    Between other histories each report that differs adds up to `instant_epsilon`, which is large:
    whether and when a value changes or returns is not hidden.
    *Sensitivity*: None to establish: the filter of a person's one value has h bits at most.
    *Error*: Bits' shares have variance p*(1 - p*) / (N_j (q* - p*)^2) in a cohort of N_j; values
    are their least squares over all cohorts, whose variance is carried through, to first order.
    *Edges*: At least as many bits in all cohorts as values. A changed value needs permanent bits of
    its own and costs epsilon again, beside what the change itself shows.
    *Reference*: Erlingsson, Pihur & Korolova 2014.
    """

    name = "rappor"

    def __init__(
        self,
        domain: object,
        *,
        epsilon: Number | LocalEpsilon,
        hashes: int = 2,
        bits: int = 128,
        cohorts: int = 64,
        p: Number = "1/2",
        q: Number = "3/4",
        seed: int = 0,
    ) -> None:
        self.hashes, self.bits = (
            read_size(hashes, "hashes", 1, 16),
            read_size(bits, "bits", 1, 1 << 16),
        )
        self.cohorts, self.seed = (
            read_size(cohorts, "cohorts", 1, 1 << 16),
            arguments.whole(seed, "seed"),
        )
        self.p, self.q = probability(p, "p"), probability(q, "q")
        super().__init__(domain, epsilon=epsilon)

    def _prepare(self) -> None:
        if not 0 < self.p < self.q:
            raise ParameterError(
                "parameter_out_of_range",
                "q must be above p, and p above 0: a report's bit is to be 1 more often where the "
                "permanent bit is.",
                parameter="q",
            )
        if self.cohorts * self.bits < self.size:
            raise ParameterError(
                "parameter_out_of_range",
                f"{self.cohorts} cohorts of {self.bits} bits cannot tell {self.size:,} values "
                "apart. Take more cohorts or more bits.",
                parameter="cohorts",
            )
        if self.cohorts * self.bits * self.size > _MOST_CELLS:
            raise ParameterError(
                "parameter_out_of_range",
                f"{self.cohorts} cohorts of {self.bits} bits over {self.size:,} values do not fit: "
                f"their product may be {_MOST_CELLS:,} at most. Use 'olh' for so many values.",
                parameter="cohorts",
            )
        self.odds = self.epsilon.share(2 * self.hashes).rational(_BITS)
        self.f = 2 / (1 + self.odds)
        self.often = self.f * (self.p + self.q) / 2 + (1 - self.f) * self.q
        self.seldom = self.f * (self.p + self.q) / 2 + (1 - self.f) * self.p
        self.layout = ReportLayout((Code("cohort", self.cohorts),), self.bits)
        self._public = PublicHashes(self.seed, self.cohorts * self.hashes, self.bits)

    def options(self) -> dict[str, Any]:
        """The settings of the filter and of both rounds, by name."""
        numbers = {"hashes": self.hashes, "bits": self.bits, "cohorts": self.cohorts}
        return {**numbers, "p": decimal_of(self.p), "q": decimal_of(self.q), "seed": self.seed}

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the probabilities of permanent bits between two values, exactly."""
        # Two values differ in at most h bits each, and each bit has odds `odds`.
        return self.odds ** (2 * self.hashes)

    @property
    def one_report(self) -> float:
        """The epsilon of one report alone, h log(q*(1 - p*) / (p*(1 - q*))), rounded up."""
        ratio = self.often * (1 - self.seldom) / (self.seldom * (1 - self.often))
        return float(log_up(ratio**self.hashes))

    @property
    def instant_epsilon(self) -> float:
        """The most that one report reveals about its permanent bits: all of them may differ."""
        odds = max(self.q / self.p, (1 - self.p) / (1 - self.q)) if self.q < 1 else None
        return float("inf") if odds is None else self.bits * float(log_up(odds))

    def channel(self) -> Channel:
        """The matrix of probabilities of permanent bits: a column for each cohort and bit set."""
        return self._channel(1 - self.f / 2, self.f / 2)

    def one_report_channel(self) -> Channel:
        """The matrix of probabilities of one report."""
        return self._channel(self.often, self.seldom)

    def _channel(self, often: Fraction, seldom: Fraction) -> Channel:
        check_channel_size(self.size, self.cohorts << self.bits)
        channels = [
            bits_channel([[often if bit else seldom for bit in row] for row in filters])
            for filters in (self._filters[cohort].T.tolist() for cohort in range(self.cohorts))
        ]
        weights = np.concatenate([channel.weights for channel in channels], axis=1)
        return Channel(weights, sum(channel.total for channel in channels))

    def _positions(self, cohorts: IntArray, codes: IntArray) -> IntArray:
        """The bits of each value in its cohort's filter, one column for each hash."""
        hash_numbers = cohorts[:, None] * self.hashes + np.arange(self.hashes)
        return self._public.of(hash_numbers, codes[:, None])

    def permanent(self, values: object, entropy: Entropy | None = None) -> Reports:
        """Draw cohorts and permanent bits; a client keeps them for its value and never sends them.

        Parameters
        ----------
        values : list, array or column
            One declared value for each person.
        entropy : Entropy, optional
            The source of randomness; the operating system by default.

        Returns
        -------
        Reports
            One row for each person, for `again`.

        Raises
        ------
        ParameterError
            If a value is not of the declared domain.
        """
        codes, source = self.choices.codes(values), entropy or SystemEntropy()
        count = len(codes)
        rows = self.layout.empty(count)
        rows["cohort"] = draw_integers(self.cohorts, count, source)
        bits = toss_bits(coins(self.f / 2), count, self.bits, source)
        positions = self._positions(rows["cohort"].astype(np.int64), codes)
        truthful = draw_events(1 - self.f / 2, positions.size, source).reshape(positions.shape)
        # Where two hashes fall on one bit, the last toss counts.
        for at in range(self.hashes):
            set_bits(bits, positions[:, at], truthful[:, at])
        rows["bits"] = bits
        return Reports(self.made_by, self.layout, rows)

    def again(self, permanent: Reports, entropy: Entropy | None = None) -> Reports:
        """Make a fresh report of permanent bits."""
        source = entropy or SystemEntropy()
        count = len(permanent)
        rows = permanent.rows.copy()
        seldom = toss_bits(coins(self.p), count, self.bits, source)
        often = toss_bits(coins(self.q), count, self.bits, source)
        rows["bits"] = permanent.rows["bits"] & often | ~permanent.rows["bits"] & seldom
        return Reports(self.made_by, self.layout, rows)

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        values = codes if self.choices.values is None else self.choices.array().take(codes)
        return self.again(self.permanent(values, entropy), entropy).rows

    @cached_property
    def _filters(self) -> FloatArray:
        """The bits that each value sets in each cohort's filter: cohorts x bits x values."""
        filters = np.zeros((self.cohorts, self.bits, self.size))
        codes = np.arange(self.size)
        for cohort in range(self.cohorts):
            bits = self._positions(np.full(self.size, cohort), codes)
            for at in range(self.hashes):
                filters[cohort, bits[:, at], codes] = 1
        return filters

    @cached_property
    def _inverse(self) -> FloatArray:
        """The least-squares matrix: values x (cohorts x bits)."""
        flat = self._filters.reshape(-1, self.size)
        if np.linalg.matrix_rank(flat.T @ flat, hermitian=True) < self.size:
            raise ParameterError(
                "parameter_out_of_range",
                f"{self.cohorts} cohorts of {self.bits} bits do not tell all {self.size:,} values "
                "apart. Take more cohorts or more bits, or another seed.",
                parameter="cohorts",
            )
        return np.asarray(np.linalg.solve(flat.T @ flat, flat.T))

    def _shares(self, sketch: ReportSketch) -> FloatArray:
        people = sketch.tally[:, -1:].astype(np.float64)
        if not people.all():
            # A cohort may be empty: its expected size is unbiased too, though less precise.
            people = np.full_like(people, sketch.n / self.cohorts)
        seen = sketch.tally[:, :-1] - sketch.tally[:, -1:] * float(self.seldom)
        shares = seen / people / float(self.often - self.seldom)
        return np.asarray(self._inverse @ shares.ravel())

    def variance(self, n: int, share: float = 0.0) -> float:
        """The variance of the estimate of one share from n reports.

        It is that of the value whose bits collide most; other values are assumed equally frequent.
        """
        remainder = (1 - share) / (self.size - 1)
        return float(
            self._spread(np.full(self.size, remainder), share - remainder).max()
        ) / read_report_count(n)

    def _variances(self, sketch: ReportSketch, shares: FloatArray) -> FloatArray:
        known = np.clip(shares, 0.0, None)
        return self._spread(known / max(known.sum(), 1.0)) / sketch.n

    def _spread(self, shares: FloatArray, own: float = 0.0) -> FloatArray:
        """n times the variance of each value's estimate at these shares; `own` is added to its own.

        Let G be the least-squares matrix, X_j the filters of cohort j and M_j = G_j X_j. A person
        of value u in cohort j adds J/n (G_j bits - sum_w f_w M_j[v, w]) to the estimate of v.
        """
        gap = float(self.often - self.seldom) ** 2
        low = float(self.seldom * (1 - self.seldom)) / gap
        high = float(self.often * (1 - self.often)) / gap
        by_cohort = self._inverse.reshape(self.size, self.cohorts, self.bits)
        total = np.zeros(self.size)
        for cohort in range(self.cohorts):
            inverse, filters = by_cohort[:, cohort], self._filters[cohort]
            reached = inverse @ filters
            at = np.diagonal(reached)
            squares = inverse**2
            total += squares @ (low * (shares.sum() + own) + (high - low) * (filters @ shares))
            total += (high - low) * own * (squares * filters.T).sum(axis=1)
            total += reached**2 @ shares + own * at**2 - (reached @ shares + own * at) ** 2
        held = shares + own
        return np.asarray(np.maximum(self.cohorts * total - held * (1 - held), 0.0))
