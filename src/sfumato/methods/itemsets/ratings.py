"""Ratings of items: how many people rated each, and how on average.

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
from sfumato.methods.itemsets.baskets import ItemFacts, held_items
from sfumato.methods.itemsets.counts import key_noise, payments
from sfumato.privacy.accounting.events import Composed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.itemsets.baskets import HeldItems
    from sfumato.methods.itemsets.counts import KeyNoise
    from sfumato.methods.publish.request import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy


MOST_POINTS = 1 << 24
"""The most points of a scale. A sum of ratings is at most rows x points, so that it would leave 64
bits from 2^39 rows on, a thousand times more than fit any memory."""

_COUNTS = Fraction(1, 2)
"""The share of the price for how many rated; the rest is for how."""


@dataclass(frozen=True)
class RatingScale:
    """The declared grid of ratings: `last` + 1 of them, from the lowest on."""

    grid: Grid

    @classmethod
    def of(cls, request: FormRequest, column: str, *, most: int = MOST_POINTS) -> RatingScale:
        """The grid of a column, which must have declared bounds and at most so many points."""
        axis = declared(request.schema.column(column))
        if not isinstance(axis, Grid):
            raise ParameterError(
                "domain_missing",
                f"Ratings in {quoted(column)} need declared bounds. Write under the column: "
                "bounds = [1, 5]",
            )
        if axis.points > most:
            raise ParameterError(
                "domain_too_large",
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
        """How far apart two ratings are."""
        return float(self.grid.bounds.grid_step or 1)

    @property
    def last(self) -> int:
        """The number of the highest rating; the lowest has 0."""
        return self.grid.points - 1

    def sums(self, facts: ItemFacts) -> Sensitivity:
        """How far a person moves the sums of all items, each counted from the scale's middle.

        Each of m items moves by at most `last`; replaced, by twice that where both have it.
        """
        replaced = 2 if facts.unit.relation is Neighbours.REPLACE_ONE else 1
        most, reach = facts.most, Fraction(replaced * max(self.last, 1))
        return Sensitivity(l1=most * reach, l2_squared=most * reach**2)

    def codes(self, values: pa.ChunkedArray) -> IntArray:
        """Numbers of points as the engine found them; what is not a number is the lowest."""
        return np.asarray(values.fill_null(0).to_numpy(), dtype=np.int64)

    def values(self, codes: FloatArray) -> FloatArray:
        """Places on the grid as ratings; averages may lie between two."""
        return self.low + self.step * np.clip(codes, 0, self.last)


def rated(held: HeldItems, scale: RatingScale, column: str) -> tuple[IntArray, IntArray]:
    """Each pair of a person and an item once, as item and rating: of several the highest counts."""
    codes = scale.codes(held.rows.column(column))
    order = np.lexsort((-codes, held.items, held.people))
    people, items = held.people[order], held.items[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (people[1:] != people[:-1]) | (items[1:] != items[:-1])
    return items[first], codes[order][first]


@dataclass(frozen=True)
class RatingMeans:
    """Count who rated each item and add up their ratings, both with noise; give the averages.

    *Guarantee*: the price in full: half for the counts, with delta where items are not public, half
    for the sums.
    *Sensitivity*: m items a person; counts move by m, sums by m times half of the scale, because
    they are taken from its middle (L1); twice that where people are replaced.
    *Error*: a mean of n ratings is off by about `sum` / n, and draws nearer to the middle of the
    scale where noise has made a count too large.
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
        """What it costs."""
        return Composed((self.keys.event, self.sums.event))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How many items of a person count."""
        return {"items": self.facts.most, "public": self.keys.threshold is None}

    @property
    def error(self) -> Mapping[str, Any]:
        """How far counts are off, and sums of ratings."""
        half = self.scale.step / 2
        sums = {"sd": self.sums.stddev * half, "bound95": self.sums.bound(0.05) * half}
        return {**self.keys.told, "sum": sums}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        values = self.facts.values
        empty = pa.array([], pa.string()) if values is None else values[:0]
        return {"ratings": self._table(empty, np.zeros(0, dtype=np.int64), np.zeros(0))}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Each item with its noisy count and mean."""
        assert self.facts.form.rating is not None
        held = held_items(self.facts, rows, ratings=self.scale.grid)
        items, codes = rated(held, self.scale, self.facts.form.rating)
        counts = np.bincount(items, minlength=len(held.values))
        sums = np.zeros(len(held.values), dtype=np.int64)
        np.add.at(sums, items, 2 * codes - self.scale.last)
        places, noisy = self.keys.sample(counts, entropy)
        added = self.sums.steps(sums[places], entropy)
        means = self.scale.values((added / np.maximum(noisy, 1) + self.scale.last) / 2)
        return {"ratings": self._table(held.values.take(pa.array(places)), noisy, means)}

    def _table(self, items: pa.Array, counts: IntArray, means: FloatArray) -> pa.Table:
        names = [self.facts.form.item, "count", "mean"]
        return pa.table([items, pa.array(counts), pa.array(np.round(means, 6))], names=names)


def prepare(request: FormRequest) -> RatingMeans:
    """Counts and means of ratings, from public facts alone."""
    facts = ItemFacts.of(request)
    if facts.form.rating is None:
        raise ParameterError(
            "form_invalid",
            f"The form of {quoted(request.dataset)} names no ratings. Write rating = COLUMN into "
            "its items, or publish as 'items'.",
        )
    scale = RatingScale.of(request, facts.form.rating)
    size = scale.sums(facts)
    found = [
        RatingMeans(
            facts,
            scale,
            key_noise(one, facts.unit, groups=facts.most, share=_COUNTS),
            one.spending.noise(size, 1 - _COUNTS),
        )
        for one in payments(request, public=facts.values is not None)
    ]
    return min(found, key=lambda one: one.keys.reach)
