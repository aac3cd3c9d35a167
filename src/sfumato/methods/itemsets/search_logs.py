"""Search logs: which queries were asked how often, of those that many people asked.

Decision `itemsets`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.schema.unit import count_sensitivity
from sfumato.methods.itemsets.baskets import ItemFacts, held_items
from sfumato.methods.itemsets.counts import key_noise, payments
from sfumato.privacy.accounting.events import Composed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import IntArray
    from sfumato.methods.itemsets.counts import KeyNoise
    from sfumato.methods.publish.form_kinds import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy


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


def prepare(request: FormRequest) -> SearchLog:
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
