"""How many transactions have each set of items, from noisy bins of bases; and how far that is off.

The bins of a base that have all items of a set X add up to how many have X. Of a base of b items
these are 2^(b - |X|) bins, so what several bases say of X is weighed by 2^-b each, whatever X is.
With U(X) the sum of these weights over the bases that hold X, and v the variance of a bin,

    variance of X       = v 2^-|X| / U(X)
    covariance of X, Y  = v 2^-|X or Y| U(X or Y) / (U(X) U(Y))

*Reference*: Li, Qardaji, Su & Cao 2012, section 4.2, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.arrays import IntArray

    Itemset = frozenset[int]


class Support(NamedTuple):
    """A set of items and the estimate of how many have it."""

    items: Itemset
    estimate: float
    sd: float


@dataclass(frozen=True, eq=False)
class NoisySupports:
    """The noisy bins of all bases, and all that follows from them."""

    bases: Sequence[IntArray]
    """The items of each base."""
    bins: Sequence[IntArray]
    """The noisy counts of each base's bins: bit i of a bin's number stands for its i-th item."""
    variance: float
    """That of the noise on one bin."""

    @cached_property
    def _estimates(self) -> dict[Itemset, tuple[float, float]]:
        """For each set within a base: what bases say of it, weighed and added up, and U."""
        added: dict[Itemset, tuple[float, float]] = {}
        for base, bins in zip(self.bases, self.bins, strict=True):
            weight = 2.0 ** -len(base)
            for items, count in zip(_subsets(base.tolist()), _above(bins).tolist(), strict=True):
                total, weights = added.get(items, (0.0, 0.0))
                added[items] = (total + weight * count, weights + weight)
        return added

    def count(self, items: Iterable[int]) -> float:
        """The estimate of how many have all of these items, which must lie in one base."""
        total, weights = self._estimates[frozenset(items)]
        return total / weights

    def covariance(self, items: Iterable[int], others: Iterable[int]) -> float:
        """Of the estimates of two sets."""
        one, other = frozenset(items), frozenset(others)
        held = self._estimates.get(one | other)
        if held is None:
            return 0.0
        weights = self._estimates[one][1] * self._estimates[other][1]
        return self.variance * 2.0 ** -len(one | other) * held[1] / weights

    def sd(self, items: Iterable[int]) -> float:
        """The standard deviation of an estimate."""
        one = frozenset(items)
        return float(np.sqrt(self.covariance(one, one)))

    @property
    def sets(self) -> Iterable[Itemset]:
        """All sets of which an estimate is there, the empty one among them."""
        return self._estimates.keys()

    def most_frequent(self, k: int, *, size: int) -> list[Support]:
        """The k sets of at most `size` items with the largest estimates, these first."""
        few = [one for one in self.sets if 1 <= len(one) <= size]
        few.sort(key=lambda one: (-self.count(one), len(one), sorted(one)))
        return [Support(one, self.count(one), self.sd(one)) for one in few[:k]]


def _subsets(base: list[int]) -> list[Itemset]:
    """All sets of some items, in the order of their bins."""
    found: list[Itemset] = [frozenset()]
    for item in base:
        found += [one | {item} for one in found]
    return found


def _above(bins: IntArray) -> IntArray:
    """For each set, the sum of the bins that have all of it."""
    sums = bins.copy()
    length = len(bins).bit_length() - 1
    for place in range(length):
        halves = sums.reshape(-1, 2, 1 << place)
        halves[:, 0] += halves[:, 1]
    return sums
