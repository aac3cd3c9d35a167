"""How many people have each item, or each set of items: with noise, and where nobody may know
which items there are, only of those that pass a threshold.

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
from sfumato.methods.itemsets.baskets import ItemFacts, held_items
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
_MOST_OF_ONE = 5_000
"""So many sets of one person are counted at most."""
_MOST_DECLARED = 1 << 22
"""Counts of all sets of public items are released up to so many."""


@dataclass(frozen=True)
class KeyNoise:
    """Noise on counts of keys: on every one where keys are public, else on those that pass.

    *Guarantee*: the price of `noise`, and the delta of `threshold` where there is one.
    *Sensitivity*: of the vector of all counts, as given.
    *Error*: the noise's; keys below the threshold are mostly left out.
    *Edges*: public keys that nobody has are released like all others.
    *Reference*: Korolova, Kenthapadi, Mishra & Ntoulas 2009; see `ThresholdKeys`.
    """

    noise: Noise
    threshold: ThresholdKeys | None

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.noise.event if self.threshold is None else self.threshold.event

    def sample(self, counts: IntArray, entropy: Entropy) -> tuple[IntArray, IntArray]:
        """The keys that are released, by their places, and their noisy counts."""
        if self.threshold is None:
            return np.arange(len(counts)), self.noise.steps(counts, entropy)
        there = np.flatnonzero(counts)
        released = self.threshold.sample(counts[there], entropy)
        return there[released.positions], released.counts

    @property
    def reach(self) -> float:
        """The count from which on a key is told of with 95 %, or else how far counts are off."""
        return self.noise.stddev if self.threshold is None else self.threshold.bound(0.05)

    @property
    def told(self) -> dict[str, Any]:
        """How far a released count is off, and what is left out."""
        error: dict[str, Any] = {
            "count": {"sd": self.noise.stddev, "bound95": self.noise.bound(0.05)}
        }
        if self.threshold is not None:
            error["threshold"] = self.threshold.threshold
            error["kept95"] = self.threshold.bound(0.05)
            error["note"] = (
                "what fewer people than the threshold have is left out; from kept95 on it is there "
                "with 95 %"
            )
        return error


@dataclass(frozen=True)
class Payment:
    """One way to spend a price: in epsilon or rho, and the delta that private keys may take."""

    spending: Spending
    delta: Fraction


def payments(request: FormRequest, *, public: bool) -> list[Payment]:
    """The ways to pay; where keys are not public, a delta must be there for those that show.

    Where an epsilon is spent as a rho, half of the delta pays for that and half for keys.
    """
    price = request.price
    if public:
        return [Payment(one, Fraction(0)) for one in spendings(price)]
    if not price.delta:
        raise ParameterError(
            "parameter_missing",
            f"Which items there are in {quoted(request.dataset)} is not public, so that a delta is "
            f"needed to tell of the frequent ones. Add {option('delta', 1e-6)}, or declare the "
            "items as values = [...] in the schema.",
        )
    half = price.delta / 2
    return [
        Payment(one, half if one.rho is not None and price.rho is None else price.delta)
        for one in spendings(price, conversion=half)
    ]


def key_noise(
    payment: Payment,
    unit: Entity,
    *,
    groups: int,
    most: int = 1,
    share: Fraction = Fraction(1),
) -> KeyNoise:
    """The noise that a share pays for, on counts of keys, of which a person has so many.

    Each of them counts at most `most` times. The whole delta of the payment goes to these keys.
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

    Where items are not public this is ZEALOUS: noise of scale m / epsilon, and only counts of at
    least about 1 + (m / epsilon) ln(m / (2 delta)) are released.
    *Guarantee*: the price in full, with its delta where items are not public or noise is Gaussian.
    *Sensitivity*: m items a person (L1), sqrt(m) (L2); twice m where people are replaced.
    *Error*: that of the noise; see `error`.
    *Edges*: rows without an item or a person are left out; of an item that a person has several
    times one counts. Nothing tells how many items were left out.
    *Reference*: Goetz, Machanavajjhala, Wang, Xiao & Gehrke 2012, with noise and threshold of the
    same relation.
    """

    facts: ItemFacts
    keys: KeyNoise
    size: int = 1

    reads = ()

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.keys.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How many items of a person count, and how large sets are."""
        public = self.keys.threshold is None
        return {"items": self.facts.most, "size": self.size, "public": public}

    @property
    def error(self) -> Mapping[str, Any]:
        """How far the counts are off."""
        return self.keys.told

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        values = self.facts.values
        empty = pa.array([], pa.string()) if values is None else values[:0]
        return {self._name: self._table([empty] * self.size, np.zeros(0, dtype=np.int64))}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Each set of items, by rising value, with its noisy count."""
        held = held_items(self.facts, rows)
        sets, counts = held.baskets.supports(self.size)
        if self.keys.threshold is None:
            found, counted = sets, counts
            sets = _all_sets(len(held.values), self.size)
            counts = np.zeros(len(sets), dtype=np.int64)
            counts[_ranks(found, len(held.values))] = counted
        places, noisy = self.keys.sample(counts, entropy)
        columns = [held.values.take(pa.array(column)) for column in sets[places].T]
        return {self._name: self._table(columns, noisy)}

    @property
    def _name(self) -> str:
        return "items" if self.size == 1 else "itemsets"

    def _table(self, columns: list[pa.Array], counts: IntArray) -> pa.Table:
        name = self.facts.form.item
        names = [name] if self.size == 1 else [f"{name}_{place + 1}" for place in range(self.size)]
        return pa.table([*columns, pa.array(counts)], names=[*names, "count"])


def _all_sets(items: int, size: int) -> IntArray:
    """Every set of so many of the items, in lexicographic order."""
    sets = np.arange(items)[:, None]
    for _ in range(size - 1):
        many = items - 1 - sets[:, -1]
        last = ragged(sets[:, -1] + 1, many)
        sets = np.column_stack([np.repeat(sets, many, axis=0), last])
    return sets


def _ranks(sets: IntArray, items: int) -> IntArray:
    """The place of each set among all sets of its size, in lexicographic order."""
    size, rank = sets.shape[1], np.full(len(sets), comb(items, sets.shape[1]) - 1)
    # As many come behind it as there are sets of later items, place by place.
    for place in range(size):
        left = items - 1 - sets[:, place]
        behind = np.array([comb(one, size - place) for one in range(items)], dtype=np.int64)
        rank -= behind[left]
    return rank


def prepare(request: FormRequest) -> ItemCounts:
    """Counts of items, from public facts alone."""
    return _counts(request, 1)


def prepare_itemsets(request: FormRequest, *, size: object = 2) -> ItemCounts:
    """Counts of sets of `size` items."""
    number = whole(size, "size", least=1, most=MOST_SIZE)
    return _counts(request, number)


def _counts(request: FormRequest, size: int) -> ItemCounts:
    facts = ItemFacts.of(request)
    values, groups = facts.values, max(comb(facts.most, size), 1)
    if groups > _MOST_OF_ONE:
        raise ParameterError(
            "problem_too_large",
            f"A person with {facts.most:,} items has {groups:,} sets of {size}; at most "
            f"{_MOST_OF_ONE:,} can be counted. Declare a lower max_rows, or take a smaller size.",
        )
    public = values is not None and comb(len(values), size) <= _MOST_DECLARED
    found = [key_noise(one, facts.unit, groups=groups) for one in payments(request, public=public)]
    return ItemCounts(facts, min(found, key=lambda one: one.reach), size)


# Search logs: which queries were asked how often, of those that many people asked.
#
# Decision `itemsets`.

_SELECTION = Fraction(1, 2)
"""The share of the price that says which queries are told of; the rest is for their counts."""


def korolova_threshold(queries: int, epsilon: float, delta: float) -> float:
    """The published K = d (1 - ln(2 delta / d) / epsilon) for d queries a person."""
    return queries * (1 - math.log(2 * delta / queries) / epsilon)


def zealous_threshold(items: int, scale: float, delta: float) -> float:
    """The published tau' = 1 - lambda ln(2 delta / m) for m items a person and noise of a scale.

    Noise and threshold belong together: m / epsilon where people are added or removed, 2 m /
    epsilon where they are replaced.
    """
    return 1 - scale * math.log(2 * delta / items)


@dataclass(frozen=True)
class SearchLog:
    """Tell of the queries whose noisy count passes a threshold, with fresh noise on their counts.

    *Guarantee*: the price in full: half of epsilon and all of delta (half, with Gaussian noise) for
    which queries show, the other half of epsilon for their counts. The noise that chose them is
    used up: it is known to be high for all that passed.
    *Sensitivity*: d rows a person (L1), whatever they are; 2 d where people are replaced.
    *Error*: unbiased, of the second noise; a query asked less often than the threshold is mostly
    left out. The threshold is d + t, where noise reaches t with a chance of at most delta / d.
    *Edges*: rows without a query or a person are left out; nothing tells how many were left out.
    *Reference*: Korolova, Kenthapadi, Mishra & Ntoulas 2009, Theorem 1.
    """

    facts: ItemFacts
    chosen: KeyNoise
    noise: Noise

    reads = ()

    @property
    def event(self) -> Event:
        """What it costs."""
        return Composed((self.chosen.event, self.noise.event))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How many rows of a person count, and from which count on a query is told of."""
        return {"queries": self.facts.unit.max_rows, "threshold": self.error["threshold"]}

    @property
    def error(self) -> Mapping[str, Any]:
        """How far counts are off, and what is left out."""
        noise = {"sd": self.noise.stddev, "bound95": self.noise.bound(0.05)}
        return {**self.chosen.told, "count": noise}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        nothing = np.zeros(0, dtype=np.int64)
        return {"queries": self._table(pa.array([], pa.string()), nothing)}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The queries that pass, by name, with counts of their own noise."""
        held = held_items(self.facts, rows, distinct=False)
        counts = np.bincount(held.items, minlength=len(held.values))
        places, noisy = self.told(counts, entropy)
        return {"queries": self._table(held.values.take(pa.array(places)), noisy)}

    def told(self, counts: IntArray, entropy: Entropy) -> tuple[IntArray, IntArray]:
        """Which queries are told of, by their places, and their counts with noise of their own."""
        places, _ = self.chosen.sample(counts, entropy)
        return places, self.noise.steps(counts[places], entropy)

    def _table(self, queries: pa.Array, counts: IntArray) -> pa.Table:
        return pa.table([queries, pa.array(counts)], names=[self.facts.form.item, "count"])


def prepare_search_log(request: FormRequest) -> SearchLog:
    """A search log, from public facts alone; which queries there are is never public."""
    facts = ItemFacts.of(request)
    unit = facts.unit
    found = []
    for payment in payments(request, public=False):
        chosen = key_noise(
            payment, unit, groups=unit.max_rows, most=unit.max_rows, share=_SELECTION
        )
        noise = payment.spending.noise(count_sensitivity(unit, grouped=True), 1 - _SELECTION)
        found.append(SearchLog(facts, chosen, noise))
    return min(found, key=lambda one: one.chosen.reach)
