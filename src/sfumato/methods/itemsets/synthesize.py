"""Synthetic baskets from noisy counts of basket sizes, items and pairs of items.

People are counted by basket size, by item, and by pair of the most frequent items, with noise.
Everything else is computed from these noisy counts. A basket is drawn item by item, each with a
weight for its frequency times its lifts with the items that are already in the basket. Drawn
samples are compared with the noisy counts of items and pairs, and the weights are corrected over a
few rounds (iterative proportional fitting on a sample).

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
from sfumato.methods.itemsets.baskets import ItemFacts, distinct, read_items
from sfumato.methods.itemsets.counts import key_noise, payments
from sfumato.methods.itemsets.ratings import RatingScale, deduplicated_ratings
from sfumato.privacy.accounting.events import Composed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.itemsets.baskets import BoundedItems
    from sfumato.methods.itemsets.counts import KeyNoise, Payment
    from sfumato.methods.publish.request import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy


MOST_RATINGS = 401
"""Ratings are tilted by up to e^(3 x points / 2), which must not overflow: e^710 does."""
MOST_PAIRED = 96
"""The most frequent items whose pairs are measured."""
_CLEAR_SDS = 3.0
"""A pair count must differ from independence by so many standard deviations of the noise."""
_ROUNDS, _SAMPLE_SIZE = 8, 20_000
_SHARES = {"sizes": Fraction(1, 8), "items": Fraction(3, 8), "pairs": Fraction(1, 2)}
_SHARES_WITH_RATINGS = {
    "sizes": Fraction(1, 8),
    "items": Fraction(1, 4),
    "pairs": Fraction(3, 8),
    "ratings": Fraction(1, 8),
    "means": Fraction(1, 8),
}


@dataclass(frozen=True)
class RatingNoise:
    """Noise on the histogram of all ratings, and on the sum of ratings of each item."""

    scale: RatingScale
    histogram: Noise
    sums: Noise


@dataclass(frozen=True)
class BasketSynthesis:
    """Draw synthetic baskets, one for a person, from noisy counts of sizes, items and pairs.

    *Guarantee*: the price in full, in fixed shares; drawing uses noisy figures alone.
    *Sensitivity*: one size a person, m items, m (m - 1) / 2 pairs, m ratings (L1); twice that where
    people are replaced.
    *Error*: the noise of each figure; items below the threshold never appear.
    *Edges*: all baskets of a person count as one; without people there are a few baskets of noise,
    or none. Pairs that noise could explain count as independent.
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
        """The event that the ledger charges."""
        rated = () if self.ratings is None else (self.ratings.histogram, self.ratings.sums)
        noises = (self.sizes, self.pairs, *rated)
        return Composed((self.keys.event, *(noise.event for noise in noises)))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The most items of a person, the number of paired items, and the number of baskets."""
        return {"items": self.facts.items_per_person, "paired": MOST_PAIRED, "rows": self.rows}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of the figures that baskets are drawn from."""
        pairs = {"sd": self.pairs.stddev, "bound95": self.pairs.bound(0.05)}
        return {**self.keys.error, "pair": pairs, "size": {"sd": self.sizes.stddev}}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        values = self.facts.values
        empty = pa.array([], pa.string()) if values is None else values[:0]
        no_owners = np.zeros(0, dtype=np.int64)
        return {self.dataset: self._table(no_owners, empty, None)}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Measure with noise, then draw baskets from the noisy figures."""
        scale = None if self.ratings is None else self.ratings.scale.grid
        bounded = read_items(self.facts, rows, ratings=scale)
        baskets = bounded.baskets
        # Without size 0: people without items are not in the data.
        sizes = np.bincount(baskets.sizes, minlength=self.facts.items_per_person + 1)[1:]
        noisy_sizes = self.sizes.steps(sizes, entropy).clip(min=0)
        counts = np.bincount(baskets.items, minlength=len(bounded.values))
        positions, frequent = self.keys.sample(counts, entropy)
        order = np.argsort(-frequent, kind="stable")
        positions, frequent = positions[order], frequent[order].clip(min=0)
        paired = min(len(positions), MOST_PAIRED)
        # All unpaired items share the code `paired`, which `_pair_counts` drops.
        code = np.full(len(bounded.values), paired)
        code[positions[:paired]] = np.arange(paired)
        recoded = baskets.recoded(code, paired + 1)
        pair_counts = self.pairs.steps(_pair_counts(recoded, paired), entropy)
        sampler = BasketSampler.of(frequent, pair_counts, int(noisy_sizes.sum()), self.pairs.stddev)
        noisy_ratings = None if self.ratings is None else self._ratings(bounded, positions, entropy)
        basket_count = int(noisy_sizes.sum()) if self.rows is None else self.rows
        if not len(positions) or not noisy_sizes.any():
            return {self.dataset: self.tables[self.dataset]}
        owners, items = sampler.baskets(noisy_sizes.astype(np.float64), basket_count, entropy)
        values = None
        if noisy_ratings is not None:
            assert self.ratings is not None
            values = _draw_ratings(*noisy_ratings, frequent, self.ratings.scale, items, entropy)
        item_values = bounded.values.take(pa.array(positions)).take(pa.array(items))
        return {self.dataset: self._table(owners + 1, item_values, values)}

    def _ratings(
        self, bounded: BoundedItems, positions: IntArray, entropy: Entropy
    ) -> tuple[IntArray, IntArray]:
        """Return the noisy histogram of all ratings, and the noisy sums of the released items."""
        assert self.ratings is not None
        assert self.facts.form.rating is not None
        scale = self.ratings.scale
        items, codes = deduplicated_ratings(bounded, scale, self.facts.form.rating)
        histogram = np.bincount(codes, minlength=scale.last + 1)
        sums = np.zeros(len(bounded.values), dtype=np.int64)
        np.add.at(sums, items, 2 * codes - scale.last)
        noisy = self.ratings.histogram.steps(histogram, entropy)
        return noisy, self.ratings.sums.steps(sums[positions], entropy)

    def _table(self, owners: IntArray, items: pa.Array, ratings: FloatArray | None) -> pa.Table:
        columns = {self.facts.unit.column: pa.array(owners), self.facts.form.item: items}
        if self.facts.form.rating is not None:
            values = np.zeros(len(owners)) if ratings is None else ratings
            columns[self.facts.form.rating] = pa.array(np.round(values, 9))
        return pa.table(columns)


def _pair_counts(baskets: Any, paired: int) -> IntArray:
    """Return the supports of pairs of the first `paired` items, in the order of triu_indices."""
    counts = np.zeros((paired, paired), dtype=np.int64)
    sets, supports = baskets.supports(2)
    is_frequent = sets[:, 1] < paired
    counts[sets[is_frequent, 0], sets[is_frequent, 1]] = supports[is_frequent]
    return counts[np.triu_indices(paired, 1)]


@dataclass(frozen=True, eq=False)
class BasketSampler:
    """The model that baskets are drawn from: weights of all items, and lifts of the first ones."""

    weights: FloatArray
    lifts: FloatArray
    """(paired, paired + 1): the lift of each item with another, P(both) / (P(first) P(second)).

    The last column is for all unpaired items together.
    """
    frequencies: FloatArray
    """The target frequency of each item in baskets."""
    pair_frequencies: FloatArray
    """The target frequency of each pair; NaN if noise could explain the difference to chance."""

    @classmethod
    def of(
        cls, counts: IntArray, pair_counts: IntArray, people: int, stddev: float
    ) -> BasketSampler:
        """Start from noisy counts, with lifts of the pairs that exceed the noise."""
        frequencies = np.maximum(counts.astype(np.float64), 0.5) / max(people, 1)
        paired = min(len(frequencies), MOST_PAIRED)
        # The pair counts that independent items would have.
        expected = np.outer(frequencies[:paired], frequencies[:paired]) * max(people, 1)
        pair_frequencies = np.full((paired, paired), np.nan)
        upper = np.triu_indices(paired, 1)
        clear = np.abs(pair_counts - expected[upper]) > _CLEAR_SDS * stddev
        pair_frequencies[upper] = np.where(
            clear, np.maximum(pair_counts, 0.5) / max(people, 1), np.nan
        )
        pair_frequencies.T[upper] = pair_frequencies[upper]
        lifts = np.ones((paired, paired + 1))
        lifts[:, :paired] = np.where(
            np.isnan(pair_frequencies), 1, pair_frequencies * max(people, 1) / expected
        )
        return cls(frequencies.copy(), lifts, frequencies, pair_frequencies)

    def baskets(self, sizes: FloatArray, count: int, entropy: Entropy) -> tuple[IntArray, IntArray]:
        """Correct the weights on samples, then draw `count` baskets as owners and items."""
        sampler, sample_size = self, max(min(count, _SAMPLE_SIZE), 1)
        for _ in range(_ROUNDS):
            sampler = sampler.corrected(*sampler.draw(sizes, sample_size, entropy), sample_size)
        return sampler.draw(sizes, count, entropy)

    def corrected(self, owners: IntArray, items: IntArray, count: int) -> BasketSampler:
        """Multiply weights and lifts by target over drawn frequency, by at most a factor of 2."""
        drawn_frequencies = (np.bincount(items, minlength=len(self.frequencies)) + 0.5) / count
        paired = len(self.lifts)
        is_paired = items < paired
        has = np.zeros((count, paired), dtype=np.float32)
        has[owners[is_paired], items[is_paired]] = 1
        pair_shares = (has.T @ has + 0.5) / count
        lifts = self.lifts.copy()
        corrections = np.where(
            np.isnan(self.pair_frequencies), 1, np.clip(self.pair_frequencies / pair_shares, 0.5, 2)
        )
        lifts[:, :paired] = np.clip(lifts[:, :paired] * corrections, 1e-4, 1e4)
        return replace(
            self,
            weights=self.weights * np.clip(self.frequencies / drawn_frequencies, 0.5, 2),
            lifts=lifts,
        )

    def draw(self, sizes: FloatArray, count: int, entropy: Entropy) -> tuple[IntArray, IntArray]:
        """Draw `count` baskets with the current weights, with sizes by the noisy histogram."""
        length = 1 + np.searchsorted(np.cumsum(sizes) / sizes.sum(), _uniform(count, entropy))
        length = np.minimum(length, min(len(sizes), len(self.weights)))
        blocks = [
            (start + owners, items)
            for start in range(0, count, _SAMPLE_SIZE)
            for owners, items in [self._block(length[start : start + _SAMPLE_SIZE], entropy)]
        ]
        empty = np.zeros(0, dtype=np.int64)
        owners, items = (
            np.concatenate([empty, *(block[part] for block in blocks)]) for part in (0, 1)
        )
        order = np.lexsort((items, owners))
        return owners[order], items[order]

    def _block(self, length: IntArray, entropy: Entropy) -> tuple[IntArray, IntArray]:
        """Draw baskets of these lengths, item by item, all baskets at once."""
        paired, steps = len(self.lifts), []
        other_weights = np.cumsum(self.weights[paired:])
        others_total = other_weights[-1] if len(other_weights) else 0.0
        chances = np.tile(np.append(self.weights[:paired], others_total), (len(length), 1))
        for step in range(int(length.max(initial=0))):
            unfinished = np.flatnonzero(length > step)
            cumulative = np.cumsum(chances[unfinished], axis=1)
            unfinished, cumulative = (
                unfinished[cumulative[:, -1] > 0],
                cumulative[cumulative[:, -1] > 0],
            )
            points = _uniform(len(unfinished), entropy) * cumulative[:, -1]
            items = np.minimum((cumulative <= points[:, None]).sum(axis=1), paired)
            is_paired = items < paired
            chances[unfinished[is_paired]] *= self.lifts[items[is_paired]]
            chances[unfinished[is_paired], items[is_paired]] = 0
            if not is_paired.all():
                positions = _uniform(int((~is_paired).sum()), entropy) * others_total
                items[~is_paired] = paired + np.minimum(
                    np.searchsorted(other_weights, positions), len(other_weights) - 1
                )
            steps.append((unfinished, items))
        owners = np.concatenate([baskets for baskets, _ in steps])
        kinds = len(self.weights)
        pairs = distinct(owners * kinds + np.concatenate([baskets for _, baskets in steps]))
        return pairs // kinds, pairs % kinds


def _uniform(size: int, entropy: Entropy) -> FloatArray:
    """Uniform floats in [0, 1); used after the noise, so that rounding endangers no guarantee."""
    return (entropy.words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _draw_ratings(
    histogram: IntArray,
    sums: IntArray,
    counts: IntArray,
    scale: RatingScale,
    items: IntArray,
    entropy: Entropy,
) -> FloatArray:
    """Draw a rating for each item, from the common histogram tilted to the item's own mean.

    Exponential tilting: P(code) is in proportion to histogram x e^(tilt x code). The tilt is the
    least of 61 steps from -3 to 3 whose mean reaches the item's noisy mean.
    """
    base = np.maximum(histogram.astype(np.float64), 1e-9)
    codes = np.arange(scale.last + 1)
    tilts = np.linspace(-3, 3, 61)
    weights = base * np.exp(np.outer(tilts, codes - scale.last / 2))
    weights /= weights.sum(axis=1, keepdims=True)
    means = weights @ codes
    target_codes = np.clip((sums / np.maximum(counts, 1) + scale.last) / 2, 0, scale.last)
    tilt = np.minimum(np.searchsorted(means, target_codes), len(tilts) - 1)
    cumulative = np.cumsum(weights, axis=1)
    flat = (cumulative / cumulative[:, -1:] + np.arange(len(tilts))[:, None]).ravel()
    tilt_of_item = tilt[items]
    codes_drawn = np.searchsorted(
        flat, tilt_of_item + _uniform(len(items), entropy)
    ) - tilt_of_item * len(codes)
    return scale.values(np.minimum(codes_drawn, scale.last).astype(np.float64))


def prepare(request: FormRequest, *, rows: object = None) -> BasketSynthesis:
    """Plan synthetic baskets from public facts; `rows` is the number of baskets."""
    facts = ItemFacts.of(request)
    basket_count = None if rows is None else arguments.whole(rows, "rows")
    candidates = [
        _synthesis(request, facts, spending, basket_count)
        for spending in payments(request, public=facts.values is not None)
    ]
    return min(candidates, key=lambda candidate: candidate.keys.detection_bound)


def _synthesis(
    request: FormRequest, facts: ItemFacts, payment: Payment, rows: int | None
) -> BasketSynthesis:
    """Return the method with one of the possible spendings."""
    rating, unit, spending = facts.form.rating, facts.unit, payment.spending
    shares = _SHARES if rating is None else _SHARES_WITH_RATINGS

    def noise(keys: int, share: str) -> Noise:
        sensitivity = people_sensitivity(unit.bounded(max(keys, 1)), grouped=True)
        return spending.noise(sensitivity, shares[share])

    synthesis = BasketSynthesis(
        facts=facts,
        dataset=request.dataset,
        sizes=noise(1, "sizes"),
        keys=key_noise(payment, unit, groups=facts.items_per_person, share=shares["items"]),
        pairs=noise(comb(facts.items_per_person, 2), "pairs"),
        ratings=None,
        rows=rows,
    )
    if rating is None:
        return synthesis
    scale = RatingScale.of(request, rating, most=MOST_RATINGS)
    # A person's m ratings may all be the same: one cell of the histogram moves by m.
    histogram = spending.noise(
        count_sensitivity(unit.bounded(facts.items_per_person), grouped=True), shares["ratings"]
    )
    sums = spending.noise(scale.sums(facts), shares["means"])
    return replace(synthesis, ratings=RatingNoise(scale, histogram, sums))
