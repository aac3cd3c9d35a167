"""PrivBasis: the sets of items that most transactions have, by bases that are chosen with noise.

1. *How many items matter*: a choice of lambda among 1 .. k, so that the lambda-th most frequent
   item is at least as frequent as the set of rank 1.2 k, and the next is not. Of sets of one and
   two items alone: then one scan of at most 1.2 k items tells that rank exactly, since whatever is
   more frequent than as many items consists of fewer items than that.
2. *Which items, which pairs of them*: one choice after the other, by how many have each.
3. *Bases*: sets of items that cover what was chosen (`bases`), from these choices alone.
4. *Bins*: how many transactions have each set of a base's items and none of its others, with noise.

Decision `itemsets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb, isqrt, log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sfumato.data.schema.unit import Neighbours, Sensitivity, count_sensitivity
from sfumato.privacy.accounting.events import ConcentratedEvent, PureEvent
from sfumato.privacy.mechanisms.selection import Exponential

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.itemsets.transactions import Transactions
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy

    Itemset = frozenset[int]


# How many transactions have each set of items, from noisy bins of bases; and how far that is off.
#
# The bins of a base that have all items of a set X add up to how many have X. Of a base of b
# items
# these are 2^(b - |X|) bins, so what several bases say of X is weighed by 2^-b each, whatever X
# is.
# With U(X) the sum of these weights over the bases that hold X, and v the variance of a bin,
#
#     variance of X       = v 2^-|X| / U(X)
#     covariance of X, Y  = v 2^-|X or Y| U(X or Y) / (U(X) U(Y))
#
# *Reference*: Li, Qardaji, Su & Cao 2012, section 4.2, Algorithm 1.


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


# Which items are counted together: bases, which cover the items and pairs that were chosen.
#
# All here is made of choices that were paid for already, so it costs nothing.
# *Reference*: Li, Qardaji, Su & Cao 2012, section 4.3 and Algorithm 2.

MOST_LENGTH = 12
"""A base has at most so many items: it has two to that power bins."""


def bases(items: int, pairs: Sequence[tuple[int, int]], power: int) -> list[IntArray]:
    """Sets of the items, from 0 on, such that each item and each pair is in one of them.

    Noise is the louder the more bases there are, and the sum of the more bins the longer a base.
    They begin as the cliques of the pairs, and what no pair has in groups; then two are made one
    as long as the items, pairs and triangles are off by less on average. `power` says how the
    variance of a bin grows with the number of bases: squared for Laplace noise, as it is for
    Gaussian.
    """
    neighbours = [0] * items
    for one, other in pairs:
        neighbours[one] |= 1 << other
        neighbours[other] |= 1 << one
    alone = [one for one in range(items) if not neighbours[one]]
    together = power + 1  # the best size for items that go with none
    found = [alone[start : start + together] for start in range(0, len(alone), together)]
    for clique in _cliques(neighbours):
        found += [clique[at : at + MOST_LENGTH] for at in range(0, len(clique), MOST_LENGTH)]
    members = np.zeros((len(found), items), dtype=bool)
    for place, base in enumerate(found):
        members[place, base] = True
    merged = _merged(members, _asked(items, pairs, neighbours), power)
    return [np.flatnonzero(one) for one in merged]


def _cliques(neighbours: list[int]) -> list[list[int]]:
    """The largest sets of at least two items of which any two are a pair."""
    found: list[int] = []

    def grow(clique: int, possible: int, done: int) -> None:
        if not possible:
            if not done:
                found.append(clique)
            return
        pivot = max(
            _bits(possible | done), key=lambda one: (neighbours[one] & possible).bit_count()
        )
        for one in _bits(possible & ~neighbours[pivot]):
            grow(clique | 1 << one, possible & neighbours[one], done & neighbours[one])
            possible &= ~(1 << one)
            done |= 1 << one

    grow(0, sum(1 << one for one, near in enumerate(neighbours) if near), 0)
    return [_bits(one) for one in found if one]


def _bits(number: int) -> list[int]:
    return [place for place in range(number.bit_length()) if number >> place & 1]


def _asked(items: int, pairs: Sequence[tuple[int, int]], neighbours: list[int]) -> BoolArray:
    """What should be told well: each item, each pair, and each three that are all pairs."""
    triangles = [
        (one, other, third)
        for one, other in pairs
        for third in _bits(neighbours[one] & neighbours[other])
        if third > max(one, other)
    ]
    wanted = [*((one,) for one in range(items)), *pairs, *triangles]
    asked = np.zeros((len(wanted), items), dtype=bool)
    for place, one in enumerate(wanted):
        asked[place, list(one)] = True
    return asked


def _merged(members: BoolArray, asked: BoolArray, power: int) -> BoolArray:
    """Make two bases one, the best two first, while the asked sets are off by less for it."""
    sizes = asked.sum(axis=1)

    def weights(bases: BoolArray) -> FloatArray:
        """How much each base says of each asked set: nothing, or the more the shorter it is."""
        inside = asked.astype(np.float32) @ bases.T.astype(np.float32) == sizes[:, None]
        return np.where(inside, 2.0 ** -bases.sum(axis=1), 0.0)

    while len(members) > 1:
        each = weights(members)
        said = each.sum(axis=1)
        first, second = map(np.array, zip(*combinations(range(len(members)), 2), strict=True))
        unions = members[first] | members[second]
        short = unions.sum(axis=1) <= MOST_LENGTH
        if not short.any():
            return members
        first, second, unions = first[short], second[short], unions[short]
        would = said[:, None] - each[:, first] - each[:, second] + weights(unions)
        scale = 2.0**-sizes
        now = len(members) ** power * float((scale / said).sum())
        then = (len(members) - 1) ** power * (scale[:, None] / would).sum(axis=0)
        best = int(np.argmin(then))
        if then[best] >= now:
            return members
        union = unions[best]
        kept = (members & ~union).any(axis=1)
        members = np.concatenate([members[kept], union[None]])
    return members


MOST_K = 200
"""The most sets that are looked for."""
_NUMBER, _CHOSEN = Fraction(1, 20), Fraction(1, 2)
"""The shares for how many items matter, and for which items and pairs; the rest is for bins."""
_MARGIN = Fraction(6, 5)
"""By so much more sets are looked for than are wanted."""
_ONE_BASE = 10
"""So few items are one base, and no pair has to be chosen."""


@dataclass(frozen=True, kw_only=True)
class PrivBasis:
    """Choose frequent items and pairs with noise, and count bases that cover them with noise.

    *Guarantee*: the spending in full: shares for the number of items, for choosing items and pairs,
    and for the bins. How a share is divided is decided by what was chosen before, but it is never
    passed: a pure epsilon or a rho composes adaptively.
    *Sensitivity*: a transaction lies in exactly one bin of each of w bases, however many items it
    has: with m transactions a person, all bins together move by w m (L1), squared w m^2 (L2); by
    twice that where people are replaced. A count moves by m, for all items and sets the same way
    where people are added or removed; the distance of two ranks, and so how far a number of items
    misses, by m, or 2 m where replaced.
    *Error*: an estimate is unbiased for any set chosen beforehand; its deviation is known once the
    bases are (`NoisySupports.sd`). Those told of because they came out high are too high.
    *Edges*: with no candidate there is no base; with fewer sets than k all are found. A huge
    epsilon gives exact counts.
    *Reference*: Li, Qardaji, Su & Cao 2012, Algorithm 3, with whole-number noise, a rank by items
    and pairs alone, a number that misses on one side only, and bases by the noise that is added.
    """

    spending: Spending
    unit: Unit
    """Its rows are transactions: so many of a person are counted."""
    k: int
    chosen: bool = True
    """Whether items are chosen here; else candidates come by falling frequency, paid for before."""

    @property
    def event(self) -> PureEvent | ConcentratedEvent:
        """What it costs."""
        if self.spending.epsilon is not None:
            return PureEvent(epsilon=self.spending.epsilon)
        assert self.spending.rho is not None
        return ConcentratedEvent(rho=self.spending.rho)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How many sets are looked for."""
        return {"k": self.k}

    def measure(self, held: Transactions, entropy: Entropy) -> tuple[IntArray, NoisySupports]:
        """The items that were chosen, by their places, and the supports of sets of them.

        Sets are of places among the chosen items.
        """
        counts = held.counts()
        if not len(counts):
            return np.zeros(0, dtype=np.int64), NoisySupports([], [], 1.0)
        number = self.number(counts, self.rank(counts, held), entropy)
        wanted = pairs_wanted(self.k, number)
        shares = self.shares(number, wanted)
        items = np.arange(number)
        if self.chosen:
            items = np.sort(self.choices(counts, number, shares["items"], entropy))
        found = held.profiles(items)
        above = np.triu_indices(number, 1)
        places = self.choices(found.pairs[above], wanted, shares["pairs"], entropy)
        pairs = [(int(above[0][one]), int(above[1][one])) for one in np.sort(places)]
        plan = self.plan(number, pairs)
        noise = self.noise(len(plan), shares["bins"])
        exact = np.concatenate([found.bins(one) for one in plan])
        ends = np.cumsum([1 << len(one) for one in plan])[:-1]
        bins = np.split(noise.steps(exact, entropy), ends)
        return items, NoisySupports(plan, bins, noise.variance)

    @property
    def least_noise(self) -> Noise:
        """The noise on the bins of one base, where all that is not needed elsewhere is theirs."""
        return self.noise(1, 1 - _NUMBER)

    def expected_error(self, candidates: int | None) -> float:
        """How far sets are off, by which ways to pay are compared: choices that miss, and noise.

        It is of public facts: how many items may be chosen, or nothing where that is not public.
        """
        number = self._most_items(candidates)
        pairs = pairs_wanted(self.k, number)
        shares = self.shares(number, pairs)
        missed = 0.0
        if self.chosen and candidates is not None:
            missed += self._miss(candidates, number, shares["items"])
        missed += self._miss(comb(number, 2), pairs, shares["pairs"])
        return missed + self.noise_of_items(number)

    def noise_of_items(self, number: int) -> float:
        """The usual deviation of an item, with bases as the likeliest pairs would make them."""
        pairs = pairs_wanted(self.k, number)
        plan = self.plan(number, likely_pairs(number, pairs))
        weights = np.zeros(number)
        for base in plan:
            weights[base] += 2.0 ** -len(base)
        variance = self.noise(len(plan), self.shares(number, pairs)["bins"]).variance
        return float(np.sqrt(np.mean(variance / (2 * weights))))

    def _most_items(self, candidates: int | None) -> int:
        return self.k if candidates is None else max(min(self.k, candidates), 1)

    def _miss(self, candidates: int, number: int, share: Fraction) -> float:
        """By how much a choice is below the best, at most on average; of all nothing is missed."""
        if not 0 < number < candidates:
            return 0.0
        choice = self._choice(candidates, share / number)
        scale = float(choice.sensitivity) * (1 if choice.monotone else 2)
        return scale * log(candidates) / float(choice.epsilon)

    def shares(self, items: int, pairs: int) -> dict[str, Fraction]:
        """What is left for items, pairs and bins, once it is known how many there are."""
        many = {"items": items if self.chosen else 0, "pairs": pairs}
        every = max(sum(many.values()), 1)
        found = {name: _CHOSEN * Fraction(one, every) for name, one in many.items()}
        return {**found, "bins": 1 - _NUMBER - sum(found.values())}

    def rank(self, counts: IntArray, held: Transactions) -> int:
        """How many have the set of rank 1.2 k, of all sets of one or two items."""
        place = int(_MARGIN * self.k)
        top = np.argsort(-counts, kind="stable")[:place]
        both = held.profiles(top).pairs
        ranked = np.sort(np.concatenate([counts, both[np.triu_indices(len(top), 1)]]))[::-1]
        return int(ranked[place - 1]) if place <= len(ranked) else 0

    def number(self, counts: IntArray, level: int, entropy: Entropy) -> int:
        """How many items matter: those that have at least a level, by a choice."""
        missed = self.missed(counts, level)
        apart = self.unit.max_rows * (2 if self.unit.relation is Neighbours.REPLACE_ONE else 1)
        choice = Exponential(
            epsilon=self.spending.choice_epsilon(_NUMBER),
            candidates=len(missed),
            sensitivity=Fraction(apart),
        )
        return 1 + int(choice.sample(-missed, entropy))

    def missed(self, counts: IntArray, level: int) -> IntArray:
        """For each number of items, how far its last is below the level, or the next one above."""
        ranked = np.append(np.sort(counts)[::-1], 0)[: self.k + 1]
        missed: IntArray = np.maximum(level - ranked[:-1], ranked[1:] - level).clip(min=0)
        return missed

    def choices(self, counts: IntArray, number: int, share: Fraction, entropy: Entropy) -> IntArray:
        """The places of so many counts, each by a choice among those that are left."""
        left = np.arange(len(counts))
        chosen = np.zeros(number, dtype=np.int64)
        for place in range(number):
            choice = self._choice(len(left), share / number)
            taken = int(choice.sample(counts[left], entropy))
            chosen[place] = left[taken]
            left = np.delete(left, taken)
        return chosen

    def _choice(self, candidates: int, share: Fraction) -> Exponential:
        return Exponential(
            epsilon=self.spending.choice_epsilon(share),
            candidates=candidates,
            sensitivity=Fraction(self.unit.max_rows),
            monotone=self.unit.relation is Neighbours.ADD_REMOVE,
        )

    def plan(self, items: int, pairs: Sequence[tuple[int, int]]) -> list[IntArray]:
        """The bases: one of all items where they are few."""
        if items <= _ONE_BASE:
            return [np.arange(items)]
        return bases(items, pairs, 2 if self.spending.epsilon is not None else 1)

    def noise(self, many: int, share: Fraction) -> Noise:
        """The noise on all bins of so many bases."""
        one = count_sensitivity(self.unit, grouped=True)
        return self.spending.noise(
            Sensitivity(l1=many * one.l1, l2_squared=many * one.l2_squared), share
        )


def pairs_wanted(k: int, items: int) -> int:
    """How many pairs are chosen among so many items, where these are not one base."""
    if items <= _ONE_BASE:
        return 0
    left = max(int(_MARGIN * k) - items, 0)
    damped = left if left <= items else isqrt(left * items)
    return min(damped, comb(items, 2))


def likely_pairs(items: int, number: int) -> list[tuple[int, int]]:
    """The most frequent pairs of items of which the r-th is 1 / r as frequent, by themselves."""
    every = combinations(range(items), 2)
    return sorted(every, key=lambda pair: ((pair[0] + 1) * (pair[1] + 1), pair))[:number]
