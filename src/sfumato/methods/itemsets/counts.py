"""Noisy counts of items, itemsets and search queries; private keys must pass a threshold.

Decision `itemsets`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.counting.grouping import ragged
from sfumato.data.schema.names import quoted
from sfumato.data.schema.unit import count_sensitivity, people_sensitivity
from sfumato.errors import ParameterError, option
from sfumato.methods.itemsets.baskets import ItemFacts, read_items
from sfumato.methods.options import whole
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.mechanisms.spending import spendings
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import IntArray
    from sfumato.data.schema.unit import Entity
    from sfumato.methods.publish.request import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy


MOST_SIZE = 4
"""The largest sets whose counts are released; noise grows with the sets that a person has."""
_MOST_SETS_PER_PERSON = 5_000
"""The most itemsets of one person that are counted."""
_MOST_DECLARED = 1 << 22
"""Up to so many sets of public items get a count each; else sets count as private keys."""


@dataclass(frozen=True)
class KeyNoise:
    """Noise on counts of keys: of all keys if they are public, else of those above a threshold.

    *Guarantee*: the price of `noise`, and the delta of `threshold` where there is one.
    *Sensitivity*: that of the vector of all counts, for which the noise was made.
    *Error*: that of the noise; keys below the threshold are mostly missing.
    *Edges*: public keys that no person has are released like all others.
    *Reference*: Korolova, Kenthapadi, Mishra & Ntoulas 2009; see `ThresholdKeys`.
    """

    noise: Noise
    threshold: ThresholdKeys | None

    @property
    def event(self) -> Event:
        """The event that the ledger charges."""
        return self.noise.event if self.threshold is None else self.threshold.event

    def sample(self, counts: IntArray, entropy: Entropy) -> tuple[IntArray, IntArray]:
        """Return the positions of the released keys, and their noisy counts."""
        if self.threshold is None:
            return np.arange(len(counts)), self.noise.steps(counts, entropy)
        # Private keys are known only because a person has them; others must not be released.
        occurring = np.flatnonzero(counts)
        released = self.threshold.sample(counts[occurring], entropy)
        return occurring[released.positions], released.counts

    @property
    def detection_bound(self) -> float:
        """The count that is released with 95 %; the noise if all keys are public."""
        return self.noise.stddev if self.threshold is None else self.threshold.bound(0.05)

    @property
    def error(self) -> dict[str, Any]:
        """The noise of a released count, and the threshold."""
        error: dict[str, Any] = {
            "count": {"sd": self.noise.stddev, "bound95": self.noise.bound(0.05)}
        }
        if self.threshold is not None:
            error["threshold"] = self.threshold.threshold
            error["kept95"] = self.threshold.bound(0.05)
            error["note"] = (
                "keys of fewer people than the threshold are left out; a key of kept95 people is "
                "released with 95 %"
            )
        return error


@dataclass(frozen=True)
class Payment:
    """A spending in epsilon or rho, with the delta that remains for private keys."""

    spending: Spending
    delta: Fraction


def payments(request: FormRequest, *, public: bool) -> list[Payment]:
    """Return the possible spendings of a price; private keys need a delta.

    If an epsilon is spent as a rho, half of the delta pays for the conversion and half for keys.
    """
    price = request.price
    if public:
        return [Payment(spending, Fraction(0)) for spending in spendings(price)]
    if not price.delta:
        raise ParameterError(
            "parameter_missing",
            f"The items of {quoted(request.dataset)} are not public, so that a delta is needed to "
            f"release the frequent ones. Add {option('delta', 1e-6)}, or declare the "
            "items as values = [...] in the schema.",
            parameter="delta",
        )
    # Both ways must fit the price: the conversion to rho takes delta as well.
    half = price.delta / 2
    return [
        Payment(spending, half if spending.rho is not None and price.rho is None else price.delta)
        for spending in spendings(price, conversion=half)
    ]


def key_noise(
    payment: Payment,
    unit: Entity,
    *,
    groups: int,
    most: int = 1,
    share: Fraction = Fraction(1),
) -> KeyNoise:
    """The noise on counts of keys for a share of a payment.

    A person has at most `groups` keys, each counted at most `most` times. The whole delta of the
    payment goes to the threshold of these keys.
    """
    if most == 1:
        sensitivity = people_sensitivity(unit.bounded(groups), grouped=True)
    else:
        sensitivity = count_sensitivity(unit, grouped=True)
    noise = payment.spending.noise(sensitivity, share)
    if not payment.delta:
        return KeyNoise(noise, None)
    threshold = ThresholdKeys(
        noise=noise,
        delta=payment.delta,
        max_groups=groups,
        max_count=most,
        relation=unit.relation,
    )
    return KeyNoise(noise, threshold)


@dataclass(frozen=True)
class ItemCounts:
    """Count the people who have each item, each person once and for a bounded number of items.

    If items are not public this is ZEALOUS: noise of scale m / epsilon, and only counts of at
    least about 1 + (m / epsilon) ln(m / (2 delta)) are released.
    *Guarantee*: the price in full, with its delta if items are not public or noise is Gaussian.
    *Sensitivity*: m items a person (L1), sqrt(m) (L2); twice m where people are replaced.
    *Error*: that of the noise; see `error`.
    *Edges*: rows without an item or a person are not counted; an item that a person has several
    times counts once. The number of items below the threshold is not released.
    *Reference*: Goetz, Machanavajjhala, Wang, Xiao & Gehrke 2012, with noise and threshold of the
    same relation.
    """

    facts: ItemFacts
    keys: KeyNoise
    size: int = 1

    reads = ()

    @property
    def event(self) -> Event:
        """The event that the ledger charges."""
        return self.keys.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The most items of a person, the size of sets, and whether items are public."""
        public = self.keys.threshold is None
        return {"items": self.facts.items_per_person, "size": self.size, "public": public}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of the counts, and the threshold."""
        return self.keys.error

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        values = self.facts.values
        empty = pa.array([], pa.string()) if values is None else values[:0]
        return {self._name: self._table([empty] * self.size, np.zeros(0, dtype=np.int64))}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Count itemsets with noise, in order of their values."""
        bounded = read_items(self.facts, rows)
        sets, counts = bounded.baskets.supports(self.size)
        if self.keys.threshold is None:
            observed, counted = sets, counts
            sets = _all_sets(len(bounded.values), self.size)
            counts = np.zeros(len(sets), dtype=np.int64)
            counts[_ranks(observed, len(bounded.values))] = counted
        positions, noisy = self.keys.sample(counts, entropy)
        columns = [bounded.values.take(pa.array(column)) for column in sets[positions].T]
        return {self._name: self._table(columns, noisy)}

    @property
    def _name(self) -> str:
        return "items" if self.size == 1 else "itemsets"

    def _table(self, columns: list[pa.Array], counts: IntArray) -> pa.Table:
        name = self.facts.form.item
        names = [name] if self.size == 1 else [f"{name}_{index + 1}" for index in range(self.size)]
        return pa.table([*columns, pa.array(counts)], names=[*names, "count"])


def _all_sets(items: int, size: int) -> IntArray:
    """Every set of `size` items, in lexicographic order."""
    sets = np.arange(items)[:, None]
    for _ in range(size - 1):
        later_items = items - 1 - sets[:, -1]
        last = ragged(sets[:, -1] + 1, later_items)
        sets = np.column_stack([np.repeat(sets, later_items, axis=0), last])
    return sets


def _ranks(sets: IntArray, items: int) -> IntArray:
    """Return the rank of each set among all sets of its size, in lexicographic order."""
    size, rank = sets.shape[1], np.full(len(sets), comb(items, sets.shape[1]) - 1)
    # Position by position, the sets of later items come after it (combinatorial number system).
    for position in range(size):
        later_items = items - 1 - sets[:, position]
        sets_behind = np.array(
            [comb(items_left, size - position) for items_left in range(items)], dtype=np.int64
        )
        rank -= sets_behind[later_items]
    return rank


def prepare(request: FormRequest) -> ItemCounts:
    """Plan counts of items, from public facts."""
    return _counts(request, 1)


def prepare_itemsets(request: FormRequest, *, size: object = 2) -> ItemCounts:
    """Plan counts of sets of `size` items, from public facts."""
    number = whole(size, "size", least=1, most=MOST_SIZE)
    return _counts(request, number)


def _counts(request: FormRequest, size: int) -> ItemCounts:
    facts = ItemFacts.of(request)
    values, groups = facts.values, max(comb(facts.items_per_person, size), 1)
    # The noise is in proportion to this number.
    if groups > _MOST_SETS_PER_PERSON:
        raise ParameterError(
            "problem_too_large",
            f"A person with {facts.items_per_person:,} items has {groups:,} sets of {size}; at "
            f"most {_MOST_SETS_PER_PERSON:,} can be counted. Declare a lower max_rows, or take a "
            "smaller size.",
        )
    public = values is not None and comb(len(values), size) <= _MOST_DECLARED
    candidates = [
        key_noise(payment, facts.unit, groups=groups)
        for payment in payments(request, public=public)
    ]
    return ItemCounts(facts, min(candidates, key=lambda keys: keys.detection_bound), size)


# Search logs: counts of the queries that many people asked.
#
# Decision `itemsets`.

_SELECTION = Fraction(1, 2)
"""The share of the price that finds the frequent queries; the rest is for their counts."""


def korolova_threshold(queries: int, epsilon: float, delta: float) -> float:
    """The published threshold K = d (1 - ln(2 delta / d) / epsilon) for d queries a person."""
    return queries * (1 - math.log(2 * delta / queries) / epsilon)


def zealous_threshold(items: int, scale: float, delta: float) -> float:
    """Return the published threshold tau' = 1 - lambda ln(2 delta / m) for m items a person.

    `scale` is lambda, that of the noise: m / epsilon if people are added or removed, 2 m / epsilon
    if they are replaced.
    """
    return 1 - scale * math.log(2 * delta / items)


@dataclass(frozen=True)
class SearchLog:
    """Release the queries whose noisy count passes a threshold, with fresh noise on their counts.

    *Guarantee*: the price in full: half of epsilon and all of delta (half, with Gaussian noise) for
    the choice of queries, the other half of epsilon for their counts. The noise of the choice
    cannot be used again: it is biased upwards for all queries that passed.
    *Sensitivity*: d rows a person (L1), whatever they are; 2 d where people are replaced.
    *Error*: unbiased, that of the second noise; a query below the threshold is mostly missing. The
    threshold is d + t, where noise reaches t with probability at most delta / d.
    *Edges*: rows without a query or a person are not counted; the number of missing queries is not
    released.
    *Reference*: Korolova, Kenthapadi, Mishra & Ntoulas 2009, Theorem 1.
    """

    facts: ItemFacts
    chosen: KeyNoise
    noise: Noise

    reads = ()

    @property
    def event(self) -> Event:
        """The event that the ledger charges."""
        return Composed((self.chosen.event, self.noise.event))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The most rows of a person, and the threshold."""
        return {"queries": self.facts.unit.max_rows, "threshold": self.error["threshold"]}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of the counts, and the threshold."""
        noise = {"sd": self.noise.stddev, "bound95": self.noise.bound(0.05)}
        return {**self.chosen.error, "count": noise}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        no_counts = np.zeros(0, dtype=np.int64)
        return {"queries": self._table(pa.array([], pa.string()), no_counts)}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Choose the frequent queries, and count them with fresh noise."""
        bounded = read_items(self.facts, rows, distinct=False)
        counts = np.bincount(bounded.items, minlength=len(bounded.values))
        positions, noisy = self.sample_queries(counts, entropy)
        return {"queries": self._table(bounded.values.take(pa.array(positions)), noisy)}

    def sample_queries(self, counts: IntArray, entropy: Entropy) -> tuple[IntArray, IntArray]:
        """Return the positions of the released queries, and their counts with fresh noise."""
        positions, _ = self.chosen.sample(counts, entropy)
        return positions, self.noise.steps(counts[positions], entropy)

    def _table(self, queries: pa.Array, counts: IntArray) -> pa.Table:
        return pa.table([queries, pa.array(counts)], names=[self.facts.form.item, "count"])


def prepare_search_log(request: FormRequest) -> SearchLog:
    """Plan a search log from public facts; the queries themselves are never public."""
    facts = ItemFacts.of(request)
    unit = facts.unit
    candidates = []
    for payment in payments(request, public=False):
        chosen = key_noise(
            payment, unit, groups=unit.max_rows, most=unit.max_rows, share=_SELECTION
        )
        noise = payment.spending.noise(count_sensitivity(unit, grouped=True), 1 - _SELECTION)
        candidates.append(SearchLog(facts, chosen, noise))
    return min(candidates, key=lambda candidate: candidate.chosen.detection_bound)
