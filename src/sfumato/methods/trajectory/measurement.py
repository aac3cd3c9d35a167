"""Measuring paths: weighted counts in whole numbers, with noise, each for a share of the price.

A person's items (steps, points or paths) count in full up to a cap; of more, each counts less, so
that together they are never more than the cap. Weights are whole parts of an item, rounded down;
they are a function of that person's own items alone. So any table of items, each in one cell, moves
by at most cap whole items in L1 and L2 when a person comes or goes (twice that, or the square root
of two times, where one replaces another), whatever else is measured. Decision `trajectories`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.data.counting.contribution import FULL_WEIGHT
from sfumato.data.schema.unit import Sensitivity, count_sensitivity
from sfumato.privacy.accounting.events import ConcentratedEvent, PureEvent
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.schema.unit import Unit
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True)
class PathCost:
    """What everything together may cost, and what one person can change."""

    price: Price
    unit: Unit

    @property
    def spending(self) -> Spending:
        """A rho where the price has one or buys one: Gaussian noise suits large tables best."""
        return spendings(self.price)[-1]

    @property
    def event(self) -> PureEvent | ConcentratedEvent:
        """All of it, whatever the shares are spent on."""
        spending = self.spending
        if spending.epsilon is not None:
            return PureEvent(epsilon=spending.epsilon)
        assert spending.rho is not None
        return ConcentratedEvent(rho=spending.rho)

    def noise(self, share: Fraction, cap: int = 1) -> Noise:
        """The noise of a table that a share pays for, in parts of an item."""
        sensitivity = count_sensitivity(self.unit.bounded(cap), grouped=True)
        scaled = Sensitivity(
            l1=sensitivity.l1 * FULL_WEIGHT, l2_squared=sensitivity.l2_squared * FULL_WEIGHT**2
        )
        return self.spending.noise(scaled, share)

    def stddev(self, share: Fraction, cap: int = 1) -> float:
        """How far a count is off that a share pays for, in items."""
        return self.noise(share, cap).stddev / FULL_WEIGHT


@dataclass
class Measuring:
    """Tables of items, measured one after another, while the shares last."""

    cost: PathCost
    entropy: Entropy
    spent: Fraction = field(default=Fraction(0))

    def table(
        self,
        cells: IntArray,
        size: int,
        owners: IntArray,
        share: Fraction,
        *,
        cap: int = 1,
        asked: IntArray | None = None,
    ) -> FloatArray:
        """Noisy counts of items by cell.

        Where cells are asked for, chosen by what is known already, only those are measured; the
        others are 0. Weights are over all of a person's items, those of other cells too.
        """
        self.spent += share
        assert self.spent <= 1, "more is measured than was paid for"
        exact = summed(cells, size, weights(owners, cap))
        noise = self.cost.noise(share, cap)
        result = np.zeros(size)
        measured = np.arange(size) if asked is None else asked
        result[measured] = (
            noise.sample(exact[measured], self.entropy).astype(np.float64) / FULL_WEIGHT
        )
        return result


def weights(owners: IntArray, cap: int) -> IntArray:
    """The weight of each item, in whole parts: those of one owner add up to the cap at most."""
    item_counts = np.bincount(owners) if len(owners) else np.zeros(0, dtype=np.int64)
    item_weights: IntArray = np.minimum(
        FULL_WEIGHT, cap * FULL_WEIGHT // np.maximum(item_counts, 1)
    )[owners]
    return item_weights


def summed(cells: IntArray, size: int, item_weights: IntArray) -> IntArray:
    """Whole-number sums by cell. A float adds whole numbers exactly below 2^53: so in halves."""
    low = np.bincount(cells, weights=item_weights & 0xFFFF, minlength=size).astype(np.int64)
    high = np.bincount(cells, weights=item_weights >> 16, minlength=size).astype(np.int64)
    return low + (high << 16)
