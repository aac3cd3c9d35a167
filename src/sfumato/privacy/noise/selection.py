"""Exact random choices: uniform ones by rejection, weighted ones by a race of exponentials.

Candidate i is chosen with probability proportional to weight_i exp(rate score_i). It arrives at
time E_i exp(-rate score_i) / weight_i with E_i exponential; the first to arrive is i with exactly
that probability. Times are compared by their logarithms. Here E = -log(1 - V): a small V keeps its
relative precision, and the winner's V is small.

*The error.* Of V, 64 digits w are drawn, and 64 more where w < 2^53, so V is known within a factor
1 +- 2^-51 (but for w = 0, once in 2^64). For V <= 1 - 2^-20, log E is then known within 2^-33: the
derivative of log E by log V is V / ((1 - V) E) < 2^17. Adding the logarithm's own error, that of
rate * gap (2^-50 of it) and of log weight, everything is within 2^-30 + 2^-48 rate * gap. For
V > 1 - 2^-20 only E > 13.8 is used. Candidates that could still be first after that are compared in
exact arithmetic, with as many further digits as it takes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.privacy.accounting.elementary import log_down, log_up
from sfumato.privacy.noise.entropy import BLOCK
from sfumato.privacy.noise.exponential import Revealed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.privacy.noise.entropy import Entropy

_TOP = 1 << 64


def uniform_integers(limit: int, size: int, entropy: Entropy) -> IntArray:
    """Draw integers uniformly from [0, limit), limit at most 2^63."""
    return uniform_below(np.full(size, limit, dtype=np.uint64), entropy)


def uniform_below(limits: NDArray[Any], entropy: Entropy) -> IntArray:
    """Draw an integer uniformly from [0, limit) for each of an array of limits.

    *Guarantee*: a word at or above the largest multiple of the limit is drawn again, so that every
    remainder is equally likely. *Edges*: limits from 1 to 2^63.
    """
    bounds = limits.astype(np.uint64)
    # 2^64 mod n words at the top would favour small remainders: they are drawn again.
    biased = (np.uint64(_TOP - 1) % bounds + np.uint64(1)) % bounds
    drawn = entropy.words(max(len(bounds), BLOCK))[: len(bounds)].copy()
    again = np.flatnonzero(drawn > np.uint64(_TOP - 1) - biased)
    while len(again):
        drawn[again] = entropy.words(max(len(again), BLOCK))[: len(again)]
        again = again[drawn[again] > np.uint64(_TOP - 1) - biased[again]]
    return (drawn % bounds).astype(np.int64)


def permutation(size: int, entropy: Entropy) -> IntArray:
    """A uniformly random permutation of [0, size): the order of random words without ties."""
    while True:
        uniform_words = entropy.words(max(size, BLOCK))[:size]
        order = np.argsort(uniform_words)
        if size < 2 or (np.diff(uniform_words[order]) != 0).all():
            return order


MARGIN = 2.0**-30
"""The largest error of the computed logarithm of a time, beside 2^-48 of the handicap."""

# Scores per batch of `choose`: it bounds memory, not results.
_ALL_ONES = (1 << 64) - 1
_ROWS_AT_ONCE = 1 << 16


def choose(
    scores: NDArray[Any],
    *,
    rate: Fraction,
    entropy: Entropy,
    weights: Sequence[Fraction] | None = None,
) -> IntArray:
    """Choose along the last axis of an array of whole scores; return the chosen indices."""
    candidates = scores.shape[-1]
    rows = scores.reshape(-1, candidates)
    chosen = np.empty(len(rows), dtype=np.int64)
    at_once = max(1, _ROWS_AT_ONCE // candidates)
    for first in range(0, len(rows), at_once):
        batch = rows[first : first + at_once]
        starts = np.arange(len(batch)) * candidates
        repeated = None if weights is None else np.array([*weights] * len(batch), dtype=object)
        winners = choose_within(batch.ravel(), starts, rate=rate, weights=repeated, entropy=entropy)
        chosen[first : first + at_once] = winners - starts
    return chosen.reshape(scores.shape[:-1])


def choose_within(
    scores: NDArray[Any],
    starts: NDArray[np.integer],
    *,
    rate: Fraction,
    entropy: Entropy,
    weights: NDArray[Any] | None = None,
) -> IntArray:
    """Choose one index out of each run of scores; run i begins at `starts[i]`, none is empty.

    *Guarantee*: index j of a run has probability proportional to weight_j exp(rate score_j),
    exactly. *Edges*: scores int64 or Python integers, of any size; weights positive integers or
    fractions.
    *Reference*: the race of exponentials; McSherry and Talwar 2007 for its use.
    """
    lengths = np.diff(np.append(starts, len(scores)))
    run = np.repeat(np.arange(len(starts)), lengths)
    best = np.maximum.reduceat(scores, starts)[run]
    gaps = best - scores
    if scores.dtype.kind == "i":
        # The difference of two int64 always fits an unsigned 64-bit integer.
        gaps = best.astype(np.uint64) - scores.astype(np.uint64)
    race = _Race(gaps, rate, weights, entropy)
    first_sure = np.minimum.reduceat(race.latest, starts)
    # Only candidates that may arrive before the earliest certain arrival can win their run.
    contenders = np.flatnonzero(race.earliest <= first_sure[run])
    chosen = np.empty(len(starts), dtype=np.int64)
    chosen[run[contenders]] = contenders
    undecided_runs = np.flatnonzero(np.bincount(run[contenders], minlength=len(starts)) > 1)
    for run_index in undecided_runs.tolist():
        chosen[run_index] = race.first_of(contenders[run[contenders] == run_index].tolist())
    return chosen


class _Race:
    """The logarithms of arrival times: float bounds for all, exact comparison of the leaders."""

    def __init__(
        self,
        gaps: NDArray[Any],
        rate: Fraction,
        weights: NDArray[Any] | None,
        entropy: Entropy,
    ) -> None:
        self._gaps, self._rate, self._weights, self._entropy = gaps, rate, weights, entropy
        self._words = entropy.words(max(len(gaps), BLOCK))[: len(gaps)]
        uniform = self._words.astype(np.float64)
        short = np.flatnonzero(self._words < np.uint64(1 << 53))
        seconds = entropy.words(len(short))
        self._seconds = dict(zip(short.tolist(), seconds.tolist(), strict=True))
        uniform[short] += seconds.astype(np.float64) * 2.0**-64
        uniform *= 2.0**-64
        undecided = (uniform > 1 - 2.0**-20) | (self._words == 0)
        uniform[undecided] = 0.5
        times = np.log(-np.log1p(-uniform))
        handicaps = gaps.astype(np.float64) * float(rate)
        times += handicaps
        if weights is not None:
            times -= np.log(weights.astype(np.float64))
        margins = MARGIN + 2.0**-48 * handicaps
        self.earliest = times - margins
        self.latest = times + margins
        self._widen_undecided(np.flatnonzero(undecided))

    def _widen_undecided(self, indices: NDArray[np.intp]) -> None:
        """Widen the bounds of times not computed: E > 13.8, or no bound where all digits are 0."""
        for index in indices.tolist():
            self.latest[index] = np.inf
            if self._words[index] == 0:
                self.earliest[index] = -np.inf
            else:
                # log(13.8) > 2.62 is the true lower bound; log(-log(1/2)) was used in its place.
                self.earliest[index] += 2.62 - np.log(np.log(2.0)) - 2.0**-30

    def first_of(self, candidates: list[int]) -> int:
        """Decide exactly which of these candidates arrives first."""
        racers = {candidate: self._revealed(candidate) for candidate in candidates}
        while True:
            spans = {candidate: self._span(candidate, racer) for candidate, racer in racers.items()}
            leader = min(spans, key=lambda candidate: _late(spans[candidate][1]))
            finish = spans[leader][1]
            rivals = [
                candidate
                for candidate, (low, _) in spans.items()
                if candidate != leader and (finish is None or low is None or low <= finish)
            ]
            if finish is not None and not rivals:
                return leader
            for candidate in [leader, *rivals]:
                racers[candidate].narrow()
            racers = {candidate: racers[candidate] for candidate in [leader, *rivals]}

    def _revealed(self, index: int) -> Revealed:
        """E = -log U with U = 1 - V: the digits of U are the complements of those of V."""
        first = _ALL_ONES - int(self._words[index])
        second = self._seconds.get(index)
        if second is None:
            return Revealed(first, 64, self._entropy)
        return Revealed(first << 64 | _ALL_ONES - second, 128, self._entropy)

    def _span(self, index: int, racer: Revealed) -> tuple[Fraction | None, Fraction | None]:
        """Bounds on the logarithm of the time; None for minus or plus infinity."""
        low, high = racer.bounds()
        handicap = int(self._gaps[index]) * self._rate
        weight = Fraction(1)
        if self._weights is not None:
            # .tolist() converts NumPy integers to Python's, which Fraction needs.
            weight = Fraction(self._weights[index : index + 1].tolist()[0])
        earliest = None
        if low > 0:
            earliest = log_down(low, racer.bits) + handicap - log_up(weight, racer.bits)
        latest = None
        if high is not None:
            latest = log_up(high, racer.bits) + handicap - log_down(weight, racer.bits)
        return earliest, latest


def _late(latest: Fraction | None) -> tuple[bool, Fraction]:
    return (latest is None, latest or Fraction(0))
