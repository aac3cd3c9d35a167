"""Bins of about equally many rows: where they end is found by private quantiles, and paid for.

Decision `synthesis-columns`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.data.counting.frequencies import BoundedCounter
from sfumato.methods.publish.quantiles import Quantiles
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.accounting.price import Price

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlglot import exp

    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Grid
    from sfumato.data.counting.frequencies import Counter
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.unit import Unit
    from sfumato.privacy.mechanisms.spending import Spending
    from sfumato.privacy.noise.entropy import Entropy

BINS = 32
"""A power of two: every rank is then the middle of those around it, which a person moves least."""


@dataclass(frozen=True)
class QuantileBins:
    """Find where the bins of some columns end.

    *Guarantee*: what is spent in full, an equal part for each column; of a column, that of its
    quantiles.
    *Sensitivity*: of the ranks, known from the unit, as of `Quantiles`.
    *Error*: a bin holds more or fewer rows than 1/32 of them by the errors of two ranks.
    *Edges*: missing values are in no bin. A value that several quantiles hit is a bin of its own.
    An empty table gives ends by chance.
    *Reference*: as of `Quantiles`.
    """

    grids: tuple[Grid, ...]
    unit: Unit
    spending: Spending
    bins: int = BINS

    @cached_property
    def choices(self) -> tuple[Quantiles, ...]:
        """What each column's ends are found by."""
        ranks = tuple(Fraction(place, self.bins) for place in range(1, self.bins))
        part = self.spending.scaled(Fraction(1, len(self.grids)))
        price = Price(epsilon=part.epsilon, rho=part.rho)
        asked = (
            Request(dataset="", axes=(grid,), unit=self.unit, price=price) for grid in self.grids
        )
        return tuple(Quantiles(one, ranks, part) for one in asked)

    @property
    def event(self) -> Composed:
        """What all columns cost together."""
        return Composed(tuple(one.event for one in self.choices))

    def run(
        self, engine: Engine, table: exp.Table, salt: str, entropy: Entropy
    ) -> Mapping[str, tuple[int, ...]]:
        """The first points of each column's bins."""
        counter = BoundedCounter(engine, table, self.grids, self.unit, salt)
        return self.found(counter, entropy)

    def found(self, counter: Counter, entropy: Entropy) -> dict[str, tuple[int, ...]]:
        """The same of what a counter has."""
        starts = {}
        for grid, one in zip(self.grids, self.choices, strict=True):
            counts = counter.of([grid.column])
            ends = one.choose(counts.codes[0], counts.counts, entropy)
            starts[grid.column] = starts_of(ends, grid.points)
        return starts


def starts_of(ends: IntArray, points: int) -> tuple[int, ...]:
    """Where bins begin that end with these points; a point that ends several is one alone."""
    alone = ends[1:][np.diff(ends) == 0]
    found = np.unique(np.concatenate(([0], ends + 1, alone)))
    return tuple(found[found < points].tolist())


def evenly(points: int) -> tuple[int, ...]:
    """Bins as if every point had as many rows: what is supposed before anything is paid."""
    return tuple(place * points // BINS for place in range(BINS))
