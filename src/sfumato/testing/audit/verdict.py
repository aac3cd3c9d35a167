"""The audit of one mechanism on one pair of neighbouring tables, by lower bounds on its loss.

Decision `audits`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.privacy.accounting.losses import Approx, Pure
from sfumato.testing.audit.features import Feature, features
from sfumato.testing.audit.fit import special

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True)
class Curve:
    """A claim about the whole trade-off curve: no easier than telling N(0, 1) from N(mu, 1).

    A Gaussian of variance sensitivity^2 / (2 rho) claims mu = sqrt(2 rho). At a small delta an
    (epsilon, delta) claim is nearly blind to its noise being too small; the curve is not.
    """

    mu: float


def epsilon_bound(
    hits: ArrayLike, other_hits: ArrayLike, trials: int, *, delta: float, alpha: float
) -> FloatArray:
    """Bound epsilon from below, given how often an event occurred on each of two tables.

    Clopper-Pearson intervals at alpha / 2 on either side, so that P[bound > epsilon] <= alpha for
    every mechanism: epsilon >= log((p - delta) / q).

    Parameters
    ----------
    hits, other_hits : array of int
        Occurrences on the first and on the second table, each in `trials` draws.
    delta : float
        The delta of the claim.
    alpha : float
        The probability that the bound is wrong.

    Returns
    -------
    array
        The bounds; minus infinity where there is none.
    """
    low = _lower(hits, trials, alpha / 2) - delta
    high = _upper(other_hits, trials, alpha / 2)
    bound = np.full(low.shape, -np.inf)
    np.log(low / high, out=bound, where=low > 0)
    return bound


def mu_bound(hits: ArrayLike, other_hits: ArrayLike, trials: int, *, alpha: float) -> FloatArray:
    """Bound the mu of a trade-off curve from below, as `epsilon_bound` does epsilon."""
    ndtri = special("ndtri")
    true_positive = ndtri(_lower(hits, trials, alpha / 2))
    false_positive = ndtri(_upper(other_hits, trials, alpha / 2))
    known = np.isfinite(true_positive) & np.isfinite(false_positive)
    bound = np.full(true_positive.shape, -np.inf)
    np.subtract(true_positive, false_positive, out=bound, where=known)
    return bound


def _lower(hits: ArrayLike, trials: int, alpha: float) -> FloatArray:
    betaincinv = special("betaincinv")
    count = np.asarray(hits, dtype=np.float64)
    return np.where(count > 0, betaincinv(np.maximum(count, 1), trials - count + 1, alpha), 0.0)


def _upper(hits: ArrayLike, trials: int, alpha: float) -> FloatArray:
    betainccinv = special("betainccinv")
    count = np.asarray(hits, dtype=np.float64)
    misses = np.maximum(trials - count, 1)
    return np.where(count < trials, betainccinv(count + 1, misses, alpha), 1.0)


Claim = Pure | Approx | Curve
Mechanism = Callable[[Any, int, "Entropy"], "NDArray[Any]"]

_THRESHOLDS = 256
"""The thresholds that are tried for each feature."""


@dataclass(frozen=True)
class Audit:
    """The result of an audit: a lower bound on the loss, wrong with probability at most `alpha`."""

    claim: Claim
    lower_bound: float
    alpha: float
    draws: int
    feature: str
    hits: tuple[int, int]

    @property
    def claimed(self) -> float:
        """The claimed epsilon or mu."""
        return self.claim.mu if isinstance(self.claim, Curve) else float(self.claim.epsilon)

    @property
    def violated(self) -> bool:
        """Whether the mechanism leaks more than it claims."""
        return self.lower_bound > self.claimed

    @property
    def power(self) -> float:
        """Lower bound / claim; near 1 for a tight mechanism and a good audit."""
        return self.lower_bound / self.claimed

    def sentence(self) -> str:
        """State the result in one sentence."""
        verdict = "VIOLATES" if self.violated else "stays within"
        return (
            f"Loss is at least {self.lower_bound:.4g} and {verdict} the claimed {self.claimed:.4g}"
            f" (alpha {self.alpha:g}, {self.draws} draws a side, by its {self.feature}:"
            f" {self.hits[0]} against {self.hits[1]})."
        )


@dataclass(frozen=True)
class _Event:
    """A set of keys of one feature that one side (`flipped`: the second) hits more often."""

    feature: Feature
    keys: NDArray[np.uint64]
    flipped: bool
    score: float

    def hits(self, first: NDArray[Any], second: NDArray[Any]) -> tuple[int, int]:
        sides = (second, first) if self.flipped else (first, second)
        likely, unlikely = (
            int(np.count_nonzero(_rank(self.keys, self.feature.keys(outputs)) >= 0))
            for outputs in sides
        )
        return likely, unlikely


def audit(
    mechanism: Mechanism,
    pair: tuple[Any, Any],
    claim: Claim,
    *,
    entropy: Entropy,
    draws: int = 100_000,
    alpha: float = 1e-6,
    extra: Sequence[Feature] = (),
) -> Audit:
    """Bound the loss of a mechanism between two neighbouring tables from below.

    `draws` outputs per table choose the event to test: a third ranks the keys of each feature by
    their likelihood ratio, the others set the threshold. They are discarded; the bound comes from
    `draws` fresh outputs per table. So `violated` is a false alarm with probability at most
    `alpha`.

    Parameters
    ----------
    mechanism : callable
        Called with (table, count, entropy); returns `count` independent outputs.
    pair : two tables
        Neighbours under the claim's privacy unit.
    claim : Pure, Approx or Curve
        The claimed guarantee.
    entropy : Entropy
        The randomness of the mechanism.
    draws : int
        The number of outputs per table, twice.
    alpha : float
        The probability of a false alarm.
    extra : sequence of Feature
        Features to test besides the usual ones.

    Returns
    -------
    Audit
        The lower bound, and whether it violates the claim.
    """
    first, second = (_draw(mechanism, side, draws, entropy) for side in pair)
    chosen = _choose(first, second, claim, alpha, extra)
    # Fresh outputs: on those that chose the event the bound would be too high (overfitting).
    first, second = (_draw(mechanism, side, draws, entropy) for side in pair)
    hits = chosen.hits(first, second)
    bound = float(_bound(claim, hits[0], hits[1], draws, alpha)[()])
    return Audit(claim, bound, alpha, draws, chosen.feature.name, hits)


def _draw(mechanism: Mechanism, side: Any, draws: int, entropy: Entropy) -> NDArray[Any]:
    outputs = np.asarray(mechanism(side, draws, entropy))
    return outputs.astype(np.int64) if outputs.dtype == np.bool_ else outputs


def _choose(
    first: NDArray[Any],
    second: NDArray[Any],
    claim: Claim,
    alpha: float,
    extra: Sequence[Feature],
) -> _Event:
    # A third ranks the keys; the threshold is set on outputs that the ranking has not seen.
    ranking = len(first) // 3
    seen = np.concatenate((first[:ranking], second[:ranking]))
    events = [
        event
        for feature in (*features(seen), *extra)
        for event in _thresholds(feature, first, second, ranking, claim, alpha)
    ]
    return max(events, key=lambda event: event.score)


def _thresholds(
    feature: Feature,
    first: NDArray[Any],
    second: NDArray[Any],
    ranking: int,
    claim: Claim,
    alpha: float,
) -> list[_Event]:
    """Find the best threshold of a feature in either direction."""
    keys = [feature.keys(first), feature.keys(second)]
    seen = np.unique(np.concatenate((keys[0][:ranking], keys[1][:ranking])))
    counts = [np.bincount(_rank(seen, side[:ranking]), minlength=len(seen)) for side in keys]
    # By likelihood ratio (Neyman-Pearson); 0.5 keeps the ratio of unseen keys finite.
    order = np.argsort(-(counts[0] + 0.5) / (counts[1] + 0.5), kind="stable")
    ranks = np.empty(len(seen), dtype=np.int64)
    ranks[order] = np.arange(len(seen))
    trials = len(first) - ranking
    curves = [_cumulative(seen, ranks, side[ranking:]) for side in keys]
    cuts = np.unique(np.linspace(1, len(seen), min(len(seen), _THRESHOLDS)).astype(np.int64))
    events = []
    for flipped in (False, True):
        # For the second table as the likely one, the order is read from its end.
        likely, unlikely = (
            (curves[1][-1] - curves[1][-1 - cuts], curves[0][-1] - curves[0][-1 - cuts])
            if flipped
            else (curves[0][cuts], curves[1][cuts])
        )
        scores = _bound(claim, likely, unlikely, trials, alpha)
        best = int(np.argmax(scores))
        chosen = order[-cuts[best] :] if flipped else order[: cuts[best]]
        events.append(_Event(feature, np.sort(seen[chosen]), flipped, float(scores[best])))
    return events


def _cumulative(seen: NDArray[np.uint64], ranks: IntArray, keys: NDArray[np.uint64]) -> IntArray:
    """Count the keys in each prefix of the ranking; keys never seen before fall in none."""
    rank = _rank(seen, keys)
    counts = np.bincount(ranks[rank[rank >= 0]], minlength=len(seen))
    return np.concatenate(([0], np.cumsum(counts)))


def _rank(seen: NDArray[np.uint64], keys: NDArray[np.uint64]) -> IntArray:
    """Find each key in the sorted list; -1 where it is absent."""
    index = np.minimum(np.searchsorted(seen, keys), len(seen) - 1)
    return np.where(seen[index] == keys, index, -1)


def _bound(claim: Claim, hits: Any, other_hits: Any, trials: int, alpha: float) -> FloatArray:
    if isinstance(claim, Curve):
        return mu_bound(hits, other_hits, trials, alpha=alpha)
    delta = float(claim.delta) if isinstance(claim, Approx) else 0.0
    bound = epsilon_bound(hits, other_hits, trials, delta=delta, alpha=alpha)
    return np.where(np.isnan(bound), -math.inf, bound)
