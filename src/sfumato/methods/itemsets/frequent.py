"""The sets of items that most people have, of any size: PrivBasis as a kind of publication.

Decision `itemsets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.methods.itemsets.baskets import ItemFacts, held_items
from sfumato.methods.itemsets.counts import key_noise, payments
from sfumato.methods.itemsets.privbasis import MOST_K, PrivBasis
from sfumato.methods.itemsets.transactions import PersonSets
from sfumato.methods.options import whole
from sfumato.privacy.accounting.events import Composed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.methods.itemsets.counts import KeyNoise, Payment
    from sfumato.methods.itemsets.privbasis import NoisySupports, Support
    from sfumato.methods.publish.request import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy

MOST_SIZE = 8
"""The largest sets that are told of."""
_TOLD = Fraction(1, 4)
"""The share that says which items there are, where that is not public."""


@dataclass(frozen=True)
class FrequentSets:
    """Tell of the k sets of items that most people have, with how many have them.

    *Guarantee*: the price in full: that of `PrivBasis`; where items are not public, a quarter of it
    and its delta go first to the items that may be told of, and those come by their noisy counts.
    *Sensitivity*: each person is one set of all their items, of which nothing is cut for
    `PrivBasis` (see there). Counts by which private items are told of are of m items a person.
    *Error*: each set has its own deviation beside it; sets that are told of since they came out
    high are too high on average, the more so the nearer they are to the last one.
    *Edges*: rows without an item or a person are left out; with nobody in the data sets are told of
    by noise alone. A share is from 0 to 1, and NULL where all people are no more than their own
    deviation. Fewer than k sets are told of where the bases that were chosen hold no more.
    *Reference*: Li, Qardaji, Su & Cao 2012; Korolova et al. 2009 for items that are private.
    """

    facts: ItemFacts
    basis: PrivBasis
    keys: KeyNoise | None
    size: int

    reads = ()

    @property
    def event(self) -> Event:
        """What it costs."""
        first = () if self.keys is None else (self.keys.event,)
        return Composed((*first, self.basis.event))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How many sets are looked for, and how large they may be."""
        return {**self.basis.parameters, "size": self.size, "public": self.keys is None}

    @property
    def error(self) -> Mapping[str, Any]:
        """How far counts are off at least: that of a single base. Each set tells its own."""
        noise = self.basis.least_noise
        error: dict[str, Any] = {
            "count": {"sd": None, "least_sd": noise.stddev},
            "note": "how far a count is off depends on what is chosen; the column sd says it",
        }
        if self.keys is not None:
            error["threshold"] = self.keys.told["threshold"]
        return error

    @property
    def expected_error(self) -> float:
        """How far sets are off, in people, by which ways to pay are compared."""
        values = self.facts.values
        if self.keys is None:
            return self.basis.expected_error(None if values is None else len(values))
        return self.basis.expected_error(None) + self.keys.noise.stddev

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        values = self.facts.values
        empty = pa.array([], pa.string()) if values is None else values[:0]
        return {"frequent": self._table([], empty, None)}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The sets that most people have, these first."""
        values, found = self.measure(rows, entropy)
        top = found.most_frequent(self.basis.k, size=self.size)
        people = found.count(()) if found.bases else 0.0
        known = people > found.sd(()) if found.bases else False
        return {"frequent": self._table(top, values, people if known else None)}

    def measure(self, rows: FormRows, entropy: Entropy) -> tuple[pa.Array, NoisySupports]:
        """The items that were chosen, and the supports of sets of their places."""
        values = self._candidates(rows, entropy)
        places, found = self.basis.measure(PersonSets(self.facts, rows.data, values), entropy)
        return values.take(pa.array(places)), found

    def _candidates(self, rows: FormRows, entropy: Entropy) -> pa.Array:
        """The items that may be chosen: all public ones, or those that pass, by falling count."""
        public = self.facts.values
        if self.keys is None:
            assert public is not None
            return public
        held = held_items(self.facts, rows)
        counts = np.bincount(held.baskets.items, minlength=len(held.values))
        places, noisy = self.keys.sample(counts, entropy)
        return held.values.take(pa.array(places[np.argsort(-noisy, kind="stable")]))

    def _table(self, top: list[Support], values: pa.Array, people: float | None) -> pa.Table:
        members = [sorted(one.items) for one in top]
        name = self.facts.form.item
        columns = {
            f"{name}_{place + 1}": values.take(
                pa.array([one[place] if place < len(one) else None for one in members], pa.int64())
            )
            for place in range(self.size)
        }
        counts, sds = (np.array([one[part] for one in top], dtype=float) for part in (1, 2))
        shares = pa.nulls(len(top), pa.float64())  # where noise may be all the people there are
        if people is not None:
            shares = pa.array(np.round(np.clip(counts / people, 0, 1), 6))
        figures = {"count": pa.array(np.rint(counts).astype(np.int64)), "sd": pa.array(sds)}
        return pa.table({**columns, **figures, "share": shares})


def prepare(request: FormRequest, *, k: object = 50, size: object = 4) -> FrequentSets:
    """The k most frequent sets of at most `size` items, from public facts alone."""
    facts = ItemFacts.of(request)
    many = whole(k, "k", least=1, most=MOST_K)
    most = whole(size, "size", least=1, most=MOST_SIZE)
    ways = payments(request, public=facts.values is not None)
    found = [_paid(facts, one, many, most) for one in ways]
    # With one way to pay nothing is compared: what is expected of many sets takes a second.
    return found[0] if len(found) == 1 else min(found, key=lambda one: one.expected_error)


def _paid(facts: ItemFacts, payment: Payment, k: int, size: int) -> FrequentSets:
    """The method with the noise that one way to pay gives."""
    # A person is one set of items, so that all of it is one row.
    unit, spending, keys = facts.unit.bounded(1), payment.spending, None
    if facts.values is None:
        keys = key_noise(payment, facts.unit, groups=facts.most, share=_TOLD)
        spending = spending.scaled(1 - _TOLD)
    return FrequentSets(
        facts, PrivBasis(spending=spending, unit=unit, k=k, chosen=keys is None), keys, size
    )
