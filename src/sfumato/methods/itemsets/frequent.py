"""Frequent itemsets of people as a kind of publication, by PrivBasis.

Decision `itemsets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.methods.itemsets.baskets import ItemFacts, read_items
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
"""The largest released itemsets."""
_KEY_SHARE = Fraction(1, 4)
"""The share that finds the items if they are not public."""


@dataclass(frozen=True)
class FrequentSets:
    """Release the k itemsets that most people have, with their counts.

    *Guarantee*: the price in full: that of `PrivBasis`; if items are not public, a quarter of it
    and its delta first pay for the candidate items (`KeyNoise`), sorted by their noisy counts.
    *Sensitivity*: each person is one set of all their items, none of which is dropped for
    `PrivBasis` (see there). The counts that find private items are of m items a person.
    *Error*: each set has its own standard deviation; sets that are released because they came out
    high are too high on average, the more so the nearer they are to the last one.
    *Edges*: rows without an item or a person are not counted; without people the sets are noise. A
    share is from 0 to 1, and NULL if the number of people is below its own standard deviation.
    There are fewer than k sets if the chosen bases contain no more.
    *Reference*: Li, Qardaji, Su & Cao 2012; Korolova et al. 2009 for items that are private.
    """

    facts: ItemFacts
    basis: PrivBasis
    keys: KeyNoise | None
    size: int

    reads = ()

    @property
    def event(self) -> Event:
        """The event that the ledger charges."""
        first = () if self.keys is None else (self.keys.event,)
        return Composed((*first, self.basis.event))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The number and the largest size of itemsets, and whether items are public."""
        return {**self.basis.parameters, "size": self.size, "public": self.keys is None}

    @property
    def error(self) -> Mapping[str, Any]:
        """A lower bound of the noise, that of a single base; each set has its own in the table."""
        noise = self.basis.least_noise
        error: dict[str, Any] = {
            "count": {"sd": None, "least_sd": noise.stddev},
            "note": "the error of a count depends on the chosen bases; the column sd states it",
        }
        if self.keys is not None:
            error["threshold"] = self.keys.error["threshold"]
        return error

    @property
    def expected_error(self) -> float:
        """The expected error of a count, in people, by which spendings are compared."""
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
        """Count itemsets with noise; the table has the most frequent first."""
        values, supports = self.measure(rows, entropy)
        top = supports.most_frequent(self.basis.k, size=self.size)
        people = supports.count(()) if supports.bases else 0.0
        # The empty set is in every transaction: its support is the noisy number of people.
        is_known = people > supports.sd(()) if supports.bases else False
        return {"frequent": self._table(top, values, people if is_known else None)}

    def measure(self, rows: FormRows, entropy: Entropy) -> tuple[pa.Array, NoisySupports]:
        """Return the chosen items, and the supports of sets of their positions."""
        values = self._candidates(rows, entropy)
        positions, supports = self.basis.measure(PersonSets(self.facts, rows.data, values), entropy)
        return values.take(pa.array(positions)), supports

    def _candidates(self, rows: FormRows, entropy: Entropy) -> pa.Array:
        """The candidate items: all public ones, or those above the threshold, by falling count."""
        public = self.facts.values
        if self.keys is None:
            assert public is not None
            return public
        bounded = read_items(self.facts, rows)
        counts = np.bincount(bounded.baskets.items, minlength=len(bounded.values))
        positions, noisy = self.keys.sample(counts, entropy)
        return bounded.values.take(pa.array(positions[np.argsort(-noisy, kind="stable")]))

    def _table(self, top: list[Support], values: pa.Array, people: float | None) -> pa.Table:
        members = [sorted(itemset.items) for itemset in top]
        name = self.facts.form.item
        columns = {
            f"{name}_{index + 1}": values.take(
                pa.array(
                    [itemset[index] if index < len(itemset) else None for itemset in members],
                    pa.int64(),
                )
            )
            for index in range(self.size)
        }
        counts, sds = (
            np.array([itemset[field] for itemset in top], dtype=float) for field in (1, 2)
        )
        shares = pa.nulls(len(top), pa.float64())  # NULL if noise may be all of the people
        if people is not None:
            shares = pa.array(np.round(np.clip(counts / people, 0, 1), 6))
        figures = {"count": pa.array(np.rint(counts).astype(np.int64)), "sd": pa.array(sds)}
        return pa.table({**columns, **figures, "share": shares})


def prepare(request: FormRequest, *, k: object = 50, size: object = 4) -> FrequentSets:
    """Plan the k most frequent itemsets of at most `size` items, from public facts."""
    facts = ItemFacts.of(request)
    set_count = whole(k, "k", least=1, most=MOST_K)
    largest = whole(size, "size", least=1, most=MOST_SIZE)
    spendings = payments(request, public=facts.values is not None)
    candidates = [_frequent_sets(facts, candidate, set_count, largest) for candidate in spendings]
    # A single spending needs no comparison: the expected error of many sets takes a second.
    return (
        candidates[0]
        if len(candidates) == 1
        else min(candidates, key=lambda candidate: candidate.expected_error)
    )


def _frequent_sets(facts: ItemFacts, payment: Payment, k: int, size: int) -> FrequentSets:
    """Return the method with one of the possible spendings."""
    # A person is one transaction, however many rows that person has.
    unit, spending, keys = facts.unit.bounded(1), payment.spending, None
    if facts.values is None:
        keys = key_noise(payment, facts.unit, groups=facts.items_per_person, share=_KEY_SHARE)
        spending = spending.scaled(1 - _KEY_SHARE)
    return FrequentSets(
        facts, PrivBasis(spending=spending, unit=unit, k=k, chosen=keys is None), keys, size
    )
