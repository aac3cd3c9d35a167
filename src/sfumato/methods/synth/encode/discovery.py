"""Texts whose values nobody declared: the frequent ones are discovered and paid for.

Each person counts once, with one row drawn by a keyed hash, whatever the unit allows elsewhere: a
value that only one person has then stays below the threshold but with the small chance delta. All
that is not discovered is one more value, which no discovered one can be taken for.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.data.counting.axes import Listed
from sfumato.data.counting.frequencies import BoundedCounter, count
from sfumato.data.schema.names import untaken
from sfumato.data.schema.unit import count_sensitivity
from sfumato.methods.publish.quantiles import Quantiles
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.accounting.price import Price
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Grid
    from sfumato.data.counting.frequencies import Counter
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.unit import Unit
    from sfumato.privacy.mechanisms.spending import Spending
    from sfumato.privacy.noise.entropy import Entropy


OTHER_VALUE = "other"


@dataclass(frozen=True)
class Discovered(Listed):
    """An axis of discovered values, the rest as one value behind them, and NULL."""

    remainder: str

    @classmethod
    def of(cls, column: Column, values: Sequence[str]) -> Discovered:
        """The axis of a column of which these values were discovered."""
        remainder = untaken(OTHER_VALUE, values)
        all_values = pa.array(
            [*values, remainder, *([None] if column.nullable else [])], pa.string()
        )
        return cls(column.name, all_values, declared=True, remainder=remainder)

    def code(self) -> exp.Expr:
        """The SQL of a discovered value itself, and of the rest for all others."""
        value = exp.column(self.column, quoted=True)
        listed = self.values.drop_null().to_pylist()[:-1]
        case = exp.case().when(value.is_(exp.Null()), exp.Null())
        if listed:
            case = case.when(value.isin(*map(exp.convert, listed)), value.copy())
        return exp.cast(case.else_(exp.convert(self.remainder)), "TEXT")


@dataclass(frozen=True)
class KeyDiscovery:
    """Release the frequent values of some columns of text.

    *Guarantee*: the noise's loss and delta for each column, added up.
    *Sensitivity*: one person has one row in one value of each column: 1 in L1 and L2 under
    add/remove, 2 and sqrt(2) under replace-one.
    *Error*: a value of fewer people than about `mechanism.threshold` is usually not discovered.
    *Edges*: missing values, and texts longer than `Column.characters`, are never discovered; a
    vault cuts texts to that where they are read. An empty table has no values.
    *Reference*: as of `ThresholdKeys`.
    """

    columns: tuple[Column, ...]
    unit: Unit
    spending: Spending
    delta: Fraction

    @property
    def mechanism(self) -> ThresholdKeys:
        """What each column is discovered by."""
        noise = self.spending.noise(
            count_sensitivity(self._once, grouped=True), 1 / self._column_count
        )
        return ThresholdKeys(
            noise=noise,
            delta=self.delta / self._column_count,
            max_groups=1,
            relation=self.unit.relation,
        )

    @property
    def event(self) -> Composed:
        """What all columns cost together."""
        return Composed((self.mechanism.event,) * len(self.columns))

    def run(
        self, engine: Engine, table: exp.Table, salt: str, entropy: Entropy
    ) -> Mapping[str, tuple[str, ...]]:
        """The values discovered in each column, in their own order."""
        values_by_column = {}
        for column in self.columns:
            value = exp.column(column.name, quoted=True)
            short = exp.Length(this=value) <= exp.convert(column.characters)
            counts = count(engine, table, [column.name], where=short, unit=self._once, salt=salt)
            released = self.mechanism.sample(counts.counts, entropy)
            frequent = counts.axes[0].decode(counts.codes[0][released.positions])
            values_by_column[column.name] = tuple(frequent.to_pylist())
        return values_by_column

    @property
    def _column_count(self) -> Fraction:
        return Fraction(len(self.columns))

    @property
    def _once(self) -> Unit:
        return self.unit.bounded(1) if self.unit.by_person else self.unit


# Bins of about equally many rows: where they end is found by private quantiles, and paid for.
#
# Decision `synthetic-rows`.

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
        ranks = tuple(Fraction(rank, self.bins) for rank in range(1, self.bins))
        portion = self.spending.scaled(Fraction(1, len(self.grids)))
        price = Price(epsilon=portion.epsilon, rho=portion.rho)
        requests = (
            Request(dataset="", axes=(grid,), unit=self.unit, price=price) for grid in self.grids
        )
        return tuple(Quantiles(request, ranks, portion) for request in requests)

    @property
    def event(self) -> Composed:
        """What all columns cost together."""
        return Composed(tuple(quantiles.event for quantiles in self.choices))

    def run(
        self, engine: Engine, table: exp.Table, salt: str, entropy: Entropy
    ) -> Mapping[str, tuple[int, ...]]:
        """The first points of each column's bins."""
        counter = BoundedCounter(engine, table, self.grids, self.unit, salt)
        return self.find(counter, entropy)

    def find(self, counter: Counter, entropy: Entropy) -> dict[str, tuple[int, ...]]:
        """The same of what a counter has."""
        starts = {}
        for grid, quantiles in zip(self.grids, self.choices, strict=True):
            counts = counter.of([grid.column])
            ends = quantiles.choose(counts.codes[0], counts.counts, entropy)
            starts[grid.column] = starts_of(ends, grid.points)
        return starts


def starts_of(ends: IntArray, points: int) -> tuple[int, ...]:
    """Where bins begin that end with these points; a point that ends several is one alone."""
    alone = ends[1:][np.diff(ends) == 0]
    starts = np.unique(np.concatenate(([0], ends + 1, alone)))
    return tuple(starts[starts < points].tolist())


def even_starts(points: int) -> tuple[int, ...]:
    """Bins as if every point had as many rows: what is supposed before anything is paid."""
    return tuple(index * points // BINS for index in range(BINS))
