"""What goes with what: rules read off noisy supports, with how far their figures are off.

With a rule "who has A has b", X = A and b, N all transactions and n(.) the noisy counts:

    support n(X) / N        confidence n(X) / n(A)        lift n(X) N / (n(A) n(b))

Their deviations are by the delta method, from the covariances of all four counts: the relative
deviation of a product of powers is that of the sum of its logarithms, to first order. That is only
good where a count below a line is many times its own deviation; where one is not, the rule says so,
and where noise alone could be all of n(A), there is no rule. Rules are ordered by a lower bound of
their confidence (95 % on one side), so that a lucky small count does not come first. What is stated
is the noise alone, about these very people; and rules that are told of because they came out high
are too high on average.

Decision `itemsets`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from sfumato.methods.itemsets.supports import NoisySupports

    Itemset = frozenset[int]

_CLEAR = 2.0
"""A set is told of from so many deviations on."""
_BELOW = 1.64
"""So many deviations below an estimate is a bound of 95 % on one side."""
_SURE = 5.0
"""To first order is good where counts below a line are so many deviations."""
_POWERS = {"support": (1, 0, 0, -1), "confidence": (1, -1, 0, 0), "lift": (1, -1, -1, 1)}
"""The powers of n(X), n(A), n(b) and N in each figure."""


class NoisyRatio(NamedTuple):
    """A ratio of counts, and its deviation."""

    value: float
    sd: float


class Association(NamedTuple):
    """A rule: who has all of some items also has another one."""

    given: tuple[int, ...]
    then: int
    both: float
    """How many have all of it."""
    support: NoisyRatio
    confidence: NoisyRatio
    lift: NoisyRatio
    approximate: bool
    """Whether deviations are no more than a rough guess."""

    @property
    def sure(self) -> float:
        """A lower bound of its confidence, by which rules are ordered."""
        return min(self.confidence.value, 1.0) - _BELOW * self.confidence.sd


def associations(
    found: NoisySupports, k: int, *, size: int, confidence: float
) -> list[Association]:
    """The rules of at least some confidence in the k most frequent sets, the surest first."""
    rules = [
        _rule(found, one.items, then)
        for one in found.most_frequent(k, size=size)
        if len(one.items) > 1 and one.estimate >= max(_CLEAR * one.sd, 1.0)
        for then in sorted(one.items)
    ]
    kept = [one for one in rules if one is not None and one.confidence.value >= confidence]
    return sorted(kept, key=lambda one: (-one.sure, -one.both, one.given, one.then))


def _rule(found: NoisySupports, items: Itemset, then: int) -> Association | None:
    """The rule from all other items of a set to one; none where noise may be all of these."""
    sets = [items, items - {then}, frozenset({then}), frozenset[int]()]
    counts = np.array([found.count(one) for one in sets])
    if counts.min() < 1 or counts[1] <= _BELOW * found.sd(sets[1]):
        return None
    spread = np.array([[found.covariance(one, other) for other in sets] for one in sets])
    figures = {name: _figure(counts, spread, np.array(one)) for name, one in _POWERS.items()}
    below = np.sqrt(np.diag(spread)[1:]) * _SURE > counts[1:]
    return Association(
        tuple(sorted(items - {then})),
        then,
        float(counts[0]),
        **figures,
        approximate=bool(below.any()),
    )


def _figure(
    counts: np.ndarray[tuple[int], np.dtype[np.float64]],
    spread: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    powers: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> NoisyRatio:
    value = float(np.prod(counts**powers))
    slopes = powers / counts
    variance = max(float(slopes @ spread @ slopes), 0.0)
    return NoisyRatio(value, value * variance**0.5)
