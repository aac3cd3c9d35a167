"""Made-up baskets: people with as many items, as frequent ones, and as often together.

Measured are how many people have how many items, how many have each item, and how many have both of
any two of the most frequent items; all else follows from these figures. A basket is drawn item by
item: each by how frequent it is, times how much more often than by chance it goes with every one
that is there already. What is drawn is compared with the noisy counts of items and pairs, and the
weights are corrected, a few times, on a sample.

Decision `itemsets`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.data.schema.unit import count_sensitivity, people_sensitivity
from sfumato.methods.itemsets.baskets import ItemFacts, distinct, held_items
from sfumato.methods.itemsets.counts import key_noise, payments
from sfumato.methods.itemsets.ratings import RatingScale, rated
from sfumato.privacy.accounting.events import Composed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.itemsets.baskets import HeldItems
    from sfumato.methods.itemsets.counts import KeyNoise, Payment
    from sfumato.methods.publish.request import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy


MOST_RATINGS = 401
"""Ratings are tilted by up to e^(3 x points / 2), which must be a float: e^600 is, e^710 is not."""
MOST_PAIRED = 96
"""Of so many items it is measured which go together."""
_SURE = 3.0
"""Two items go together or avoid each other only by so many deviations of the noise."""
_ROUNDS, _TRIED = 8, 20_000
_SHARES = {"sizes": Fraction(1, 8), "items": Fraction(3, 8), "pairs": Fraction(1, 2)}
_RATED = {
    "sizes": Fraction(1, 8),
    "items": Fraction(1, 4),
    "pairs": Fraction(3, 8),
    "ratings": Fraction(1, 8),
    "means": Fraction(1, 8),
}


@dataclass(frozen=True)
class RatingNoise:
    """Noise on the histogram of all ratings, and on the sums of each item's."""

    scale: RatingScale
    histogram: Noise
    sums: Noise


@dataclass(frozen=True)
class BasketTwin:
    """Draw made-up baskets, one for a person, from noisy counts of sizes, items and pairs.

    *Guarantee*: the price in full, in fixed shares; drawing looks at noisy figures alone.
    *Sensitivity*: one size a person, m items, m (m - 1) / 2 pairs, m ratings (L1); twice that where
    people are replaced.
    *Error*: of each figure that of its noise; items below the threshold never appear.
    *Edges*: several baskets of one person are one; with nobody in the data there are a few baskets
    by noise, or none. Pairs that noise could explain count as independent.
    *Reference*: counts of items and pairs as in Li, Qardaji, Su & Cao 2012 (PrivBasis), without its
    larger bases; a threshold for items as in Korolova et al. 2009.
    """

    facts: ItemFacts
    dataset: str
    sizes: Noise
    keys: KeyNoise
    pairs: Noise
    ratings: RatingNoise | None
    rows: int | None

    reads = ()

    @property
    def event(self) -> Event:
        """What it costs."""
        rated = () if self.ratings is None else (self.ratings.histogram, self.ratings.sums)
        noises = (self.sizes, self.pairs, *rated)
        return Composed((self.keys.event, *(one.event for one in noises)))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How many items of a person count, and how many baskets are drawn."""
        return {"items": self.facts.most, "paired": MOST_PAIRED, "rows": self.rows}

    @property
    def error(self) -> Mapping[str, Any]:
        """How far the figures are off that baskets are drawn from."""
        pairs = {"sd": self.pairs.stddev, "bound95": self.pairs.bound(0.05)}
        return {**self.keys.told, "pair": pairs, "size": {"sd": self.sizes.stddev}}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        values = self.facts.values
        empty = pa.array([], pa.string()) if values is None else values[:0]
        nothing = np.zeros(0, dtype=np.int64)
        return {self.dataset: self._table(nothing, empty, None)}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Measure with noise, then draw."""
        scale = None if self.ratings is None else self.ratings.scale.grid
        held = held_items(self.facts, rows, ratings=scale)
        baskets = held.baskets
        sizes = np.bincount(baskets.sizes, minlength=self.facts.most + 1)[1:]
        noisy_sizes = self.sizes.steps(sizes, entropy).clip(min=0)
        counts = np.bincount(baskets.items, minlength=len(held.values))
        places, frequent = self.keys.sample(counts, entropy)
        order = np.argsort(-frequent, kind="stable")
        places, frequent = places[order], frequent[order].clip(min=0)
        paired = min(len(places), MOST_PAIRED)
        code = np.full(len(held.values), paired)
        code[places[:paired]] = np.arange(paired)
        both = baskets.renamed(code, paired + 1)
        together = self.pairs.steps(_together(both, paired), entropy)
        drawn = Walk.of(frequent, together, int(noisy_sizes.sum()), self.pairs.stddev)
        noisy_ratings = None if self.ratings is None else self._ratings(held, places, entropy)
        many = int(noisy_sizes.sum()) if self.rows is None else self.rows
        if not len(places) or not noisy_sizes.any():
            return {self.dataset: self.tables[self.dataset]}
        owners, items = drawn.baskets(noisy_sizes.astype(np.float64), many, entropy)
        values = None
        if noisy_ratings is not None:
            assert self.ratings is not None
            values = _drawn_ratings(*noisy_ratings, frequent, self.ratings.scale, items, entropy)
        named = held.values.take(pa.array(places)).take(pa.array(items))
        return {self.dataset: self._table(owners + 1, named, values)}

    def _ratings(
        self, held: HeldItems, places: IntArray, entropy: Entropy
    ) -> tuple[IntArray, IntArray]:
        """The noisy histogram of all ratings, and the noisy sums of the items told of."""
        assert self.ratings is not None
        assert self.facts.form.rating is not None
        scale = self.ratings.scale
        items, codes = rated(held, scale, self.facts.form.rating)
        histogram = np.bincount(codes, minlength=scale.last + 1)
        sums = np.zeros(len(held.values), dtype=np.int64)
        np.add.at(sums, items, 2 * codes - scale.last)
        noisy = self.ratings.histogram.steps(histogram, entropy)
        return noisy, self.ratings.sums.steps(sums[places], entropy)

    def _table(self, owners: IntArray, items: pa.Array, ratings: FloatArray | None) -> pa.Table:
        columns = {self.facts.unit.column: pa.array(owners), self.facts.form.item: items}
        if self.facts.form.rating is not None:
            told = np.zeros(len(owners)) if ratings is None else ratings
            columns[self.facts.form.rating] = pa.array(np.round(told, 9))
        return pa.table(columns)


def _together(baskets: Any, paired: int) -> IntArray:
    """How many have both of any two of the first items: a triangle, the rest is 0."""
    counts = np.zeros((paired, paired), dtype=np.int64)
    sets, many = baskets.supports(2)
    inside = sets[:, 1] < paired
    counts[sets[inside, 0], sets[inside, 1]] = many[inside]
    return counts[np.triu_indices(paired, 1)]


@dataclass(frozen=True, eq=False)
class Walk:
    """How baskets are drawn: weights of all items, and how the first ones go together."""

    weights: FloatArray
    lifts: FloatArray
    """(paired, paired + 1): how much more often than by chance each comes with one that is there.

    The last column is of all other items together.
    """
    wanted: FloatArray
    """How frequent each item should be in a basket."""
    both: FloatArray
    """How frequent two of the first items should be in one; NaN where noise could explain it."""

    @classmethod
    def of(cls, counts: IntArray, together: IntArray, people: int, stddev: float) -> Walk:
        """Weights by noisy counts, as far as they are more than noise."""
        wanted = np.maximum(counts.astype(np.float64), 0.5) / max(people, 1)
        paired = min(len(wanted), MOST_PAIRED)
        expected = np.outer(wanted[:paired], wanted[:paired]) * max(people, 1)
        both = np.full((paired, paired), np.nan)
        above = np.triu_indices(paired, 1)
        sure = np.abs(together - expected[above]) > _SURE * stddev
        both[above] = np.where(sure, np.maximum(together, 0.5) / max(people, 1), np.nan)
        both.T[above] = both[above]
        lifts = np.ones((paired, paired + 1))
        lifts[:, :paired] = np.where(np.isnan(both), 1, both * max(people, 1) / expected)
        return cls(wanted.copy(), lifts, wanted, both)

    def baskets(self, sizes: FloatArray, many: int, entropy: Entropy) -> tuple[IntArray, IntArray]:
        """Draw so many baskets of such sizes: owners from 0 on, and items."""
        walk, tried = self, max(min(many, _TRIED), 1)
        for _ in range(_ROUNDS):
            walk = walk.corrected(*walk.drawn(sizes, tried, entropy), tried)
        return walk.drawn(sizes, many, entropy)

    def corrected(self, owners: IntArray, items: IntArray, many: int) -> Walk:
        """Weights moved to where draws are as frequent as they should be."""
        got = (np.bincount(items, minlength=len(self.wanted)) + 0.5) / many
        paired = len(self.lifts)
        first = items < paired
        has = np.zeros((many, paired), dtype=np.float32)
        has[owners[first], items[first]] = 1
        share = (has.T @ has + 0.5) / many
        lifts = self.lifts.copy()
        moved = np.where(np.isnan(self.both), 1, np.clip(self.both / share, 0.5, 2))
        lifts[:, :paired] = np.clip(lifts[:, :paired] * moved, 1e-4, 1e4)
        return replace(self, weights=self.weights * np.clip(self.wanted / got, 0.5, 2), lifts=lifts)

    def drawn(self, sizes: FloatArray, many: int, entropy: Entropy) -> tuple[IntArray, IntArray]:
        """So many baskets of such sizes, by the weights as they are."""
        length = 1 + np.searchsorted(np.cumsum(sizes) / sizes.sum(), _uniform(many, entropy))
        length = np.minimum(length, min(len(sizes), len(self.weights)))
        found = [
            (start + owners, items)
            for start in range(0, many, _TRIED)
            for owners, items in [self._block(length[start : start + _TRIED], entropy)]
        ]
        nothing = np.zeros(0, dtype=np.int64)
        owners, items = (
            np.concatenate([nothing, *(one[place] for one in found)]) for place in (0, 1)
        )
        order = np.lexsort((items, owners))
        return owners[order], items[order]

    def _block(self, length: IntArray, entropy: Entropy) -> tuple[IntArray, IntArray]:
        """Draw baskets of these lengths, item by item, all of them at once."""
        paired, drawn = len(self.lifts), []
        rest = np.cumsum(self.weights[paired:])
        total = rest[-1] if len(rest) else 0.0
        chances = np.tile(np.append(self.weights[:paired], total), (len(length), 1))
        for step in range(int(length.max(initial=0))):
            open_ = np.flatnonzero(length > step)
            lines = np.cumsum(chances[open_], axis=1)
            open_, lines = open_[lines[:, -1] > 0], lines[lines[:, -1] > 0]
            at = _uniform(len(open_), entropy) * lines[:, -1]
            items = np.minimum((lines <= at[:, None]).sum(axis=1), paired)
            first = items < paired
            chances[open_[first]] *= self.lifts[items[first]]
            chances[open_[first], items[first]] = 0
            if not first.all():
                inside = _uniform(int((~first).sum()), entropy) * total
                items[~first] = paired + np.minimum(np.searchsorted(rest, inside), len(rest) - 1)
            drawn.append((open_, items))
        owners = np.concatenate([one for one, _ in drawn])
        kinds = len(self.weights)
        pairs = distinct(owners * kinds + np.concatenate([one for _, one in drawn]))
        return pairs // kinds, pairs % kinds


def _uniform(size: int, entropy: Entropy) -> FloatArray:
    """Numbers in [0, 1), from noisy figures on: nothing private depends on their digits."""
    return (entropy.words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _drawn_ratings(
    histogram: IntArray,
    sums: IntArray,
    counts: IntArray,
    scale: RatingScale,
    items: IntArray,
    entropy: Entropy,
) -> FloatArray:
    """A rating for each item drawn: all ratings, tilted so that each item has its own mean."""
    base = np.maximum(histogram.astype(np.float64), 1e-9)
    codes = np.arange(scale.last + 1)
    tilts = np.linspace(-3, 3, 61)
    weights = base * np.exp(np.outer(tilts, codes - scale.last / 2))
    weights /= weights.sum(axis=1, keepdims=True)
    means = weights @ codes
    wanted = np.clip((sums / np.maximum(counts, 1) + scale.last) / 2, 0, scale.last)
    tilt = np.minimum(np.searchsorted(means, wanted), len(tilts) - 1)
    lines = np.cumsum(weights, axis=1)
    flat = (lines / lines[:, -1:] + np.arange(len(tilts))[:, None]).ravel()
    line = tilt[items]
    drawn = np.searchsorted(flat, line + _uniform(len(items), entropy)) - line * len(codes)
    return scale.values(np.minimum(drawn, scale.last).astype(np.float64))


def prepare(request: FormRequest, *, rows: object = None) -> BasketTwin:
    """A twin of everybody's baskets, from public facts alone; `rows` is how many baskets."""
    facts = ItemFacts.of(request)
    many = None if rows is None else arguments.whole(rows, "rows")
    found = [
        _paid(request, facts, one, many)
        for one in payments(request, public=facts.values is not None)
    ]
    return min(found, key=lambda one: one.keys.reach)


def _paid(request: FormRequest, facts: ItemFacts, payment: Payment, rows: int | None) -> BasketTwin:
    """The twin with the noise that one way to pay gives."""
    rating, unit, spending = facts.form.rating, facts.unit, payment.spending
    shares = _SHARES if rating is None else _RATED

    def noise(keys: int, share: str) -> Noise:
        sensitivity = people_sensitivity(unit.bounded(max(keys, 1)), grouped=True)
        return spending.noise(sensitivity, shares[share])

    twin = BasketTwin(
        facts=facts,
        dataset=request.dataset,
        sizes=noise(1, "sizes"),
        keys=key_noise(payment, unit, groups=facts.most, share=shares["items"]),
        pairs=noise(comb(facts.most, 2), "pairs"),
        ratings=None,
        rows=rows,
    )
    if rating is None:
        return twin
    scale = RatingScale.of(request, rating, most=MOST_RATINGS)
    # A person's m ratings may all be the same: one cell of the histogram moves by m.
    histogram = spending.noise(
        count_sensitivity(unit.bounded(facts.most), grouped=True), shares["ratings"]
    )
    sums = spending.noise(scale.sums(facts), shares["means"])
    return replace(twin, ratings=RatingNoise(scale, histogram, sums))
