"""Counts and mean ratings of items.

Decision `itemsets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.counting.axes import Grid, declared
from sfumato.data.schema.names import quoted
from sfumato.data.schema.unit import Neighbours, Sensitivity
from sfumato.errors import ParameterError
from sfumato.methods.itemsets.baskets import ItemFacts, read_items
from sfumato.methods.itemsets.counts import key_noise, payments
from sfumato.privacy.accounting.events import Composed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.itemsets.baskets import BoundedItems
    from sfumato.methods.itemsets.counts import KeyNoise
    from sfumato.methods.publish.request import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy


MOST_POINTS = 1 << 24
"""The most points of a scale. A sum of ratings is at most rows x points, so that 64 bits suffice
for 2^39 rows, far more than fit in memory."""

_COUNTS = Fraction(1, 2)
"""The share of the price for counts; the rest is for sums of ratings."""


@dataclass(frozen=True)
class RatingScale:
    """The declared grid of ratings: `last` + 1 points from the lowest on."""

    grid: Grid

    @classmethod
    def of(cls, request: FormRequest, column: str, *, most: int = MOST_POINTS) -> RatingScale:
        """The grid of a column; refused without declared bounds or with more than `most` points."""
        axis = declared(request.schema.column(column))
        if not isinstance(axis, Grid):
            raise ParameterError(
                "domain_missing",
                f"Ratings in {quoted(column)} need declared bounds. Write under the column: "
                "bounds = [1, 5]",
            )
        if axis.points > most:
            raise ParameterError(
                "problem_too_large",
                f"Ratings in {quoted(column)} have {axis.points:,} declared points; at most "
                f"{most:,} are possible here. Declare narrower bounds or a coarser step.",
            )
        return cls(Grid(axis.column, axis.kind, axis.bounds, nullable=False))

    @property
    def low(self) -> float:
        """The lowest rating."""
        return float(self.grid.bounds.low)  # type: ignore[arg-type]

    @property
    def step(self) -> float:
        """The distance between neighbouring ratings."""
        return float(self.grid.bounds.grid_step or 1)

    @property
    def last(self) -> int:
        """The number of the highest rating; the lowest has number 0."""
        return self.grid.points - 1

    def sums(self, facts: ItemFacts) -> Sensitivity:
        """The sensitivity of the sums of all items, in half steps from the middle of the scale.

        A rating is 2 code - last, from -last to last. Each of m items moves by at most `last`, and
        by twice that if people are replaced and both have the item.
        """
        replaced = 2 if facts.unit.relation is Neighbours.REPLACE_ONE else 1
        items, reach = facts.items_per_person, Fraction(replaced * max(self.last, 1))
        return Sensitivity(l1=items * reach, l2_squared=items * reach**2)

    def codes(self, values: pa.ChunkedArray) -> IntArray:
        """The grid points of ratings from the engine; a missing rating counts as the lowest."""
        return np.asarray(values.fill_null(0).to_numpy(), dtype=np.int64)

    def values(self, codes: FloatArray) -> FloatArray:
        """Points of the grid as ratings; means may lie between two points."""
        return self.low + self.step * np.clip(codes, 0, self.last)


def deduplicated_ratings(
    bounded: BoundedItems, scale: RatingScale, column: str
) -> tuple[IntArray, IntArray]:
    """Items and ratings, one for each pair of a person and an item: the highest of several."""
    codes = scale.codes(bounded.rows.column(column))
    # One rating for each pair: a person who rates an item twice must not move its sum twice.
    order = np.lexsort((-codes, bounded.items, bounded.people))
    people, items = bounded.people[order], bounded.items[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (people[1:] != people[:-1]) | (items[1:] != items[:-1])
    return items[first], codes[order][first]


@dataclass(frozen=True)
class RatingMeans:
    """Count the ratings of each item and sum them, both with noise; release means.

    *Guarantee*: the price in full: half for the counts, with delta if items are not public, half
    for the sums.
    *Sensitivity*: m items a person; counts move by m, sums by m times half of the scale, because
    they are relative to its middle (L1); twice that where people are replaced.
    *Error*: the error of a mean of n ratings is about `sum` / n; the mean is biased towards the
    middle of the scale if noise made a count too large.
    *Edges*: a noisy count below 1 gives the middle of the scale; means are kept within it.
    *Reference*: McSherry & Mironov 2009, section 3.1; see `KeyNoise` for items that are private.
    """

    facts: ItemFacts
    scale: RatingScale
    keys: KeyNoise
    sums: Noise

    reads = ()

    @property
    def event(self) -> Event:
        """The event that the ledger charges."""
        return Composed((self.keys.event, self.sums.event))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The most items of a person, and whether items are public."""
        return {"items": self.facts.items_per_person, "public": self.keys.threshold is None}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of counts and of sums of ratings."""
        half = self.scale.step / 2
        sums = {"sd": self.sums.stddev * half, "bound95": self.sums.bound(0.05) * half}
        return {**self.keys.error, "sum": sums}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        values = self.facts.values
        empty = pa.array([], pa.string()) if values is None else values[:0]
        return {"ratings": self._table(empty, np.zeros(0, dtype=np.int64), np.zeros(0))}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Count and sum ratings with noise; the table has a count and a mean for each item."""
        assert self.facts.form.rating is not None
        bounded = read_items(self.facts, rows, ratings=self.scale.grid)
        items, codes = deduplicated_ratings(bounded, self.scale, self.facts.form.rating)
        counts = np.bincount(items, minlength=len(bounded.values))
        sums = np.zeros(len(bounded.values), dtype=np.int64)
        # Relative to the middle of the scale, in half steps, so that all terms are integers.
        np.add.at(sums, items, 2 * codes - self.scale.last)
        positions, noisy = self.keys.sample(counts, entropy)
        noisy_sums = self.sums.steps(sums[positions], entropy)
        means = self.scale.values((noisy_sums / np.maximum(noisy, 1) + self.scale.last) / 2)
        return {"ratings": self._table(bounded.values.take(pa.array(positions)), noisy, means)}

    def _table(self, items: pa.Array, counts: IntArray, means: FloatArray) -> pa.Table:
        names = [self.facts.form.item, "count", "mean"]
        return pa.table([items, pa.array(counts), pa.array(np.round(means, 6))], names=names)


def prepare(request: FormRequest) -> RatingMeans:
    """Plan counts and means of ratings, from public facts."""
    facts = ItemFacts.of(request)
    if facts.form.rating is None:
        raise ParameterError(
            "form_invalid",
            f"The form of {quoted(request.dataset)} names no ratings. Write rating = COLUMN into "
            "its items, or publish as 'items'.",
        )
    scale = RatingScale.of(request, facts.form.rating)
    sensitivity = scale.sums(facts)
    candidates = [
        RatingMeans(
            facts,
            scale,
            key_noise(payment, facts.unit, groups=facts.items_per_person, share=_COUNTS),
            payment.spending.noise(sensitivity, 1 - _COUNTS),
        )
        for payment in payments(request, public=facts.values is not None)
    ]
    return min(candidates, key=lambda candidate: candidate.keys.detection_bound)
