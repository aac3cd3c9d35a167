"""PrivBasis: the most frequent itemsets, counted over bases of items that are chosen with noise.

1. *The number of items*: choose lambda among 1 .. k such that the lambda-th most frequent item is
   at least as frequent as the itemset of rank 1.2 k, and the next item is not. Only itemsets of one
   and two items are ranked: both items of a pair are at least as frequent as the pair, so that the
   1.2 k most frequent items contain all pairs up to that rank, and one scan finds the rank exactly.
2. *Items and pairs*: choose them one after the other by their counts (exponential mechanism).
3. *Bases*: sets of items that cover the chosen items and pairs (`bases`), from the choices alone.
4. *Bins*: for each subset of a base, the noisy number of transactions with exactly these of the
   base's items.

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


# Supports of itemsets from noisy bins of bases, with their covariances.
#
# The bins of a base that contain all items of a set X add up to the support of X. In a base of b
# items these are 2^(b - |X|) bins, so that inverse-variance weights of several bases are in
# proportion to 2^-b, whatever X is. With U(X) the sum of these weights over the bases that contain
# X, and v the variance of a bin,
#
#     variance of X       = v 2^-|X| / U(X)
#     covariance of X, Y  = v 2^-|X or Y| U(X or Y) / (U(X) U(Y))
#
# *Reference*: Li, Qardaji, Su & Cao 2012, section 4.2, Algorithm 1.


class Support(NamedTuple):
    """An itemset and its estimated support: the number of transactions that contain it."""

    items: Itemset
    estimate: float
    sd: float


@dataclass(frozen=True, eq=False)
class NoisySupports:
    """The noisy bins of all bases, and the estimates from them."""

    bases: Sequence[IntArray]
    """The items of each base."""
    bins: Sequence[IntArray]
    """The noisy counts of each base's bins; bit i of a bin's number is the base's i-th item."""
    variance: float
    """The variance of the noise on one bin."""

    @cached_property
    def _estimates(self) -> dict[Itemset, tuple[float, float]]:
        """For each itemset within a base: the weighted sum of its supports, and U."""
        estimates: dict[Itemset, tuple[float, float]] = {}
        for base, bins in zip(self.bases, self.bins, strict=True):
            weight = 2.0 ** -len(base)
            for items, count in zip(
                _subsets(base.tolist()), _superset_sums(bins).tolist(), strict=True
            ):
                total, weights = estimates.get(items, (0.0, 0.0))
                estimates[items] = (total + weight * count, weights + weight)
        return estimates

    def count(self, items: Iterable[int]) -> float:
        """Return the estimated support of an itemset, which must lie within a base."""
        total, weights = self._estimates[frozenset(items)]
        return total / weights

    def covariance(self, items: Iterable[int], second_items: Iterable[int]) -> float:
        """Return the covariance of the estimates of two itemsets; 0 if no base contains both."""
        first, second = frozenset(items), frozenset(second_items)
        joint = self._estimates.get(first | second)
        if joint is None:
            return 0.0
        weights = self._estimates[first][1] * self._estimates[second][1]
        return self.variance * 2.0 ** -len(first | second) * joint[1] / weights

    def sd(self, items: Iterable[int]) -> float:
        """Return the standard deviation of an estimate."""
        itemset = frozenset(items)
        return float(np.sqrt(self.covariance(itemset, itemset)))

    @property
    def sets(self) -> Iterable[Itemset]:
        """All itemsets with an estimate, the empty one included."""
        return self._estimates.keys()

    def most_frequent(self, k: int, *, size: int) -> list[Support]:
        """The k itemsets of at most `size` items with the largest estimates, largest first."""
        candidates = [itemset for itemset in self.sets if 1 <= len(itemset) <= size]
        candidates.sort(key=lambda itemset: (-self.count(itemset), len(itemset), sorted(itemset)))
        return [Support(items, self.count(items), self.sd(items)) for items in candidates[:k]]


def _subsets(base: list[int]) -> list[Itemset]:
    """Return all subsets of a base, in the order of their bins."""
    subsets: list[Itemset] = [frozenset()]
    for item in base:
        subsets += [subset | {item} for subset in subsets]
    return subsets


def _superset_sums(bins: IntArray) -> IntArray:
    """For each subset, the sum of the bins that contain it (fast zeta transform)."""
    sums = bins.copy()
    length = len(bins).bit_length() - 1
    for bit in range(length):
        halves = sums.reshape(-1, 2, 1 << bit)
        halves[:, 0] += halves[:, 1]
    return sums


# Bases: which items are counted together, so that the chosen items and pairs are covered.
#
# Everything here is computed from choices that are paid for already, so that it costs nothing.
# *Reference*: Li, Qardaji, Su & Cao 2012, section 4.3 and Algorithm 2.

MOST_LENGTH = 12
"""The most items of a base: b items have 2^b bins."""


def bases(items: int, pairs: Sequence[tuple[int, int]], power: int) -> list[IntArray]:
    """Cover items 0, 1, ... and pairs of them by few short sets.

    The noise of a bin grows with the number of bases, and the noise of a support with the length of
    its base. The first bases are the maximal cliques of the pairs, and groups of items without a
    pair; then two bases are merged as long as this lowers the mean variance of items, pairs and
    triangles. The variance of a bin grows with the number of bases to the `power` 2 with Laplace
    noise, 1 with Gaussian noise.
    """
    neighbours = [0] * items
    for first, second in pairs:
        neighbours[first] |= 1 << second
        neighbours[second] |= 1 << first
    isolated = [item for item in range(items) if not neighbours[item]]
    group_size = power + 1  # the best size of a group of items without pairs
    initial = [
        isolated[start : start + group_size] for start in range(0, len(isolated), group_size)
    ]
    for clique in _cliques(neighbours):
        initial += [clique[at : at + MOST_LENGTH] for at in range(0, len(clique), MOST_LENGTH)]
    members = np.zeros((len(initial), items), dtype=bool)
    for row, base in enumerate(initial):
        members[row, base] = True
    merged = _merge_bases(members, _target_sets(items, pairs, neighbours), power)
    return [np.flatnonzero(base) for base in merged]


def _cliques(neighbours: list[int]) -> list[list[int]]:
    """The maximal cliques of at least two items (Bron & Kerbosch with a pivot), as bit masks."""
    cliques: list[int] = []

    def grow(clique: int, possible: int, excluded: int) -> None:
        if not possible:
            if not excluded:
                cliques.append(clique)
            return
        pivot = max(
            _bits(possible | excluded), key=lambda item: (neighbours[item] & possible).bit_count()
        )
        for item in _bits(possible & ~neighbours[pivot]):
            grow(clique | 1 << item, possible & neighbours[item], excluded & neighbours[item])
            possible &= ~(1 << item)
            excluded |= 1 << item

    grow(0, sum(1 << item for item, neighbour_mask in enumerate(neighbours) if neighbour_mask), 0)
    return [_bits(clique) for clique in cliques if clique]


def _bits(number: int) -> list[int]:
    return [bit for bit in range(number.bit_length()) if number >> bit & 1]


def _target_sets(items: int, pairs: Sequence[tuple[int, int]], neighbours: list[int]) -> BoolArray:
    """Return the itemsets that bases should estimate well: items, pairs and triangles of pairs."""
    triangles = [
        (first, second, third)
        for first, second in pairs
        for third in _bits(neighbours[first] & neighbours[second])
        if third > max(first, second)
    ]
    itemsets = [*((item,) for item in range(items)), *pairs, *triangles]
    targets = np.zeros((len(itemsets), items), dtype=bool)
    for row, itemset in enumerate(itemsets):
        targets[row, list(itemset)] = True
    return targets


def _merge_bases(members: BoolArray, targets: BoolArray, power: int) -> BoolArray:
    """Merge two bases, the best two first, while this lowers the variance of the targets."""
    sizes = targets.sum(axis=1)

    def weights(bases: BoolArray) -> FloatArray:
        """Return the weight 2^-b of each base in the estimate of each target, or 0."""
        inside = targets.astype(np.float32) @ bases.T.astype(np.float32) == sizes[:, None]
        return np.where(inside, 2.0 ** -bases.sum(axis=1), 0.0)

    while len(members) > 1:
        base_weights = weights(members)
        total_weights = base_weights.sum(axis=1)
        first, second = map(np.array, zip(*combinations(range(len(members)), 2), strict=True))
        unions = members[first] | members[second]
        fits = unions.sum(axis=1) <= MOST_LENGTH
        if not fits.any():
            return members
        first, second, unions = first[fits], second[fits], unions[fits]
        merged_weights = (
            total_weights[:, None]
            - base_weights[:, first]
            - base_weights[:, second]
            + weights(unions)
        )
        scale = 2.0**-sizes
        variance = len(members) ** power * float((scale / total_weights).sum())
        merged_variance = (len(members) - 1) ** power * (scale[:, None] / merged_weights).sum(
            axis=0
        )
        best = int(np.argmin(merged_variance))
        if merged_variance[best] >= variance:
            return members
        union = unions[best]
        not_covered = (members & ~union).any(axis=1)
        members = np.concatenate([members[not_covered], union[None]])
    return members


MOST_K = 200
"""The most itemsets of one release."""
_NUMBER_SHARE, _CHOICE_SHARE = Fraction(1, 20), Fraction(1, 2)
"""The shares for the number of items, and for choosing items and pairs; the rest is for bins."""
_MARGIN = Fraction(6, 5)
"""The number of items and pairs to cover, relative to k (1.2 k)."""
_ONE_BASE = 10
"""Up to so many items are a single base, and no pairs are chosen."""


@dataclass(frozen=True, kw_only=True)
class PrivBasis:
    """Choose frequent items and pairs with noise, and count bases that cover them with noise.

    *Guarantee*: the spending in full: shares for the number of items, for choosing items and pairs,
    and for the bins. Earlier choices decide how a share is divided, but never exceed it: a pure
    epsilon or a rho composes adaptively.
    *Sensitivity*: a transaction lies in exactly one bin of each of w bases, however many items it
    has: with m transactions a person, all bins together move by w m (L1), squared w m^2 (L2); by
    twice that where people are replaced. A count moves by m, for all items and sets in the same
    direction where people are added or removed; the distance of two ranks, and so the score of a
    number of items, by m, or 2 m where replaced.
    *Error*: an estimate is unbiased for any itemset that is fixed beforehand; its standard
    deviation is known with the bases (`NoisySupports.sd`). Those that are released because they
    came out high are too high on average.
    *Edges*: without candidates there is no base; if there are fewer than k itemsets, all are found.
    A huge epsilon gives exact counts.
    *Reference*: Li, Qardaji, Su & Cao 2012, Algorithm 3, with integer noise, a rank by items and
    pairs alone, a one-sided score of the number of items, and bases of least noise.
    """

    spending: Spending
    unit: Unit
    """The privacy unit, with transactions as its rows."""
    k: int
    chosen: bool = True
    """Whether items are chosen here; else candidates come by falling noisy count, already paid."""

    @property
    def event(self) -> PureEvent | ConcentratedEvent:
        """The event that the ledger charges."""
        if self.spending.epsilon is not None:
            return PureEvent(epsilon=self.spending.epsilon)
        assert self.spending.rho is not None
        return ConcentratedEvent(rho=self.spending.rho)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The number of itemsets."""
        return {"k": self.k}

    def measure(
        self, transactions: Transactions, entropy: Entropy
    ) -> tuple[IntArray, NoisySupports]:
        """Choose items and pairs, and count the bins of their bases with noise.

        Returns the positions of the chosen items among the candidates, and the supports of sets of
        positions among the chosen items.
        """
        counts = transactions.counts()
        if not len(counts):
            return np.zeros(0, dtype=np.int64), NoisySupports([], [], 1.0)
        # Every step uses private counts through a mechanism only: the number, the choices, the
        # bins.
        number = self.number(counts, self.rank(counts, transactions), entropy)
        wanted_pairs = pair_count(self.k, number)
        shares = self.shares(number, wanted_pairs)
        items = np.arange(number)
        if self.chosen:
            items = np.sort(self.choices(counts, number, shares["items"], entropy))
        profiles = transactions.profiles(items)
        upper = np.triu_indices(number, 1)
        chosen_pairs = self.choices(profiles.pairs[upper], wanted_pairs, shares["pairs"], entropy)
        pairs = [(int(upper[0][pair]), int(upper[1][pair])) for pair in np.sort(chosen_pairs)]
        plan = self.plan(number, pairs)
        noise = self.noise(len(plan), shares["bins"])
        exact = np.concatenate([profiles.bins(base) for base in plan])
        # All bins together get one noise, whose sensitivity counts every base (`noise`).
        ends = np.cumsum([1 << len(base) for base in plan])[:-1]
        bins = np.split(noise.steps(exact, entropy), ends)
        return items, NoisySupports(plan, bins, noise.variance)

    @property
    def least_noise(self) -> Noise:
        """The least possible noise on bins: one base, with all shares but that of the number."""
        return self.noise(1, 1 - _NUMBER_SHARE)

    def expected_error(self, candidates: int | None) -> float:
        """Return the expected error by which spendings are compared: missed choices plus noise.

        It follows from public facts: the number of candidates, or None if that is not public.
        """
        number = self._most_items(candidates)
        pairs = pair_count(self.k, number)
        shares = self.shares(number, pairs)
        missed = 0.0
        if self.chosen and candidates is not None:
            missed += self._miss(candidates, number, shares["items"])
        missed += self._miss(comb(number, 2), pairs, shares["pairs"])
        return missed + self.noise_of_items(number)

    def noise_of_items(self, number: int) -> float:
        """Return the mean standard deviation of an item, with the bases of likely pairs."""
        pairs = pair_count(self.k, number)
        plan = self.plan(number, likely_pairs(number, pairs))
        weights = np.zeros(number)
        for base in plan:
            weights[base] += 2.0 ** -len(base)
        variance = self.noise(len(plan), self.shares(number, pairs)["bins"]).variance
        return float(np.sqrt(np.mean(variance / (2 * weights))))

    def _most_items(self, candidates: int | None) -> int:
        return self.k if candidates is None else max(min(self.k, candidates), 1)

    def _miss(self, candidates: int, number: int, share: Fraction) -> float:
        """A bound of the mean distance of a choice from the best; 0 if all are chosen."""
        if not 0 < number < candidates:
            return 0.0
        choice = self._choice(candidates, share / number)
        sensitivity = float(choice.sensitivity) * (1 if choice.monotone else 2)
        return sensitivity * log(candidates) / float(choice.epsilon)

    def shares(self, items: int, pairs: int) -> dict[str, Fraction]:
        """Return the shares of items, pairs and bins, given how many items and pairs are chosen."""
        choices = {"items": items if self.chosen else 0, "pairs": pairs}
        total = max(sum(choices.values()), 1)
        shares = {name: _CHOICE_SHARE * Fraction(count, total) for name, count in choices.items()}
        return {**shares, "bins": 1 - _NUMBER_SHARE - sum(shares.values())}

    def rank(self, counts: IntArray, transactions: Transactions) -> int:
        """The support of rank 1.2 k among all sets of one or two items. Exact and private."""
        rank_position = int(_MARGIN * self.k)
        top = np.argsort(-counts, kind="stable")[:rank_position]
        pairs = transactions.profiles(top).pairs
        ranked = np.sort(np.concatenate([counts, pairs[np.triu_indices(len(top), 1)]]))[::-1]
        return int(ranked[rank_position - 1]) if rank_position <= len(ranked) else 0

    def number(self, counts: IntArray, level: int, entropy: Entropy) -> int:
        """Choose the number of items that are at least as frequent as `level`."""
        distances = self.rank_distances(counts, level)
        sensitivity = self.unit.max_rows * (
            2 if self.unit.relation is Neighbours.REPLACE_ONE else 1
        )
        choice = Exponential(
            epsilon=self.spending.choice_epsilon(_NUMBER_SHARE),
            candidates=len(distances),
            sensitivity=Fraction(sensitivity),
        )
        return 1 + int(choice.sample(-distances, entropy))

    def rank_distances(self, counts: IntArray, level: int) -> IntArray:
        """For each number of items: how far its last item is below the level, or the next above.

        This distance is 0 for the right number, and its negative is the score of the choice.
        """
        ranked = np.append(np.sort(counts)[::-1], 0)[: self.k + 1]
        distances: IntArray = np.maximum(level - ranked[:-1], ranked[1:] - level).clip(min=0)
        return distances

    def choices(self, counts: IntArray, number: int, share: Fraction, entropy: Entropy) -> IntArray:
        """Choose positions of large counts, one after the other without replacement."""
        remaining = np.arange(len(counts))
        chosen = np.zeros(number, dtype=np.int64)
        for step in range(number):
            choice = self._choice(len(remaining), share / number)
            index = int(choice.sample(counts[remaining], entropy))
            chosen[step] = remaining[index]
            remaining = np.delete(remaining, index)
        return chosen

    def _choice(self, candidates: int, share: Fraction) -> Exponential:
        return Exponential(
            epsilon=self.spending.choice_epsilon(share),
            candidates=candidates,
            sensitivity=Fraction(self.unit.max_rows),
            monotone=self.unit.relation is Neighbours.ADD_REMOVE,
        )

    def plan(self, items: int, pairs: Sequence[tuple[int, int]]) -> list[IntArray]:
        """Return the bases: a single one if there are few items."""
        if items <= _ONE_BASE:
            return [np.arange(items)]
        return bases(items, pairs, 2 if self.spending.epsilon is not None else 1)

    def noise(self, base_count: int, share: Fraction) -> Noise:
        """Return the noise on all bins of `base_count` bases."""
        single = count_sensitivity(self.unit, grouped=True)
        return self.spending.noise(
            Sensitivity(l1=base_count * single.l1, l2_squared=base_count * single.l2_squared), share
        )


def pair_count(k: int, items: int) -> int:
    """The number of pairs to choose: 1.2 k less the items, damped by sqrt(items / missing)."""
    if items <= _ONE_BASE:
        return 0
    missing = max(int(_MARGIN * k) - items, 0)
    damped = missing if missing <= items else isqrt(missing * items)
    return min(damped, comb(items, 2))


def likely_pairs(items: int, number: int) -> list[tuple[int, int]]:
    """The likeliest pairs under Zipf's law and independence: the r-th item has frequency 1 / r."""
    pairs = combinations(range(items), 2)
    return sorted(pairs, key=lambda pair: ((pair[0] + 1) * (pair[1] + 1), pair))[:number]
