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
    """The charge for all tables together, and the privacy unit."""

    price: Price
    unit: Unit

    @property
    def spending(self) -> Spending:
        """A rho if the price has one or can buy one: Gaussian noise suits large tables best."""
        return spendings(self.price)[-1]

    @property
    def event(self) -> PureEvent | ConcentratedEvent:
        """The whole charge, however its shares are spent."""
        spending = self.spending
        if spending.epsilon is not None:
            return PureEvent(epsilon=spending.epsilon)
        assert spending.rho is not None
        return ConcentratedEvent(rho=spending.rho)

    def noise(self, share: Fraction, cap: int = 1) -> Noise:
        """The noise that a share pays for on one table, in units of 1 / FULL_WEIGHT items."""
        # A person moves a table by `cap` items, that is cap * FULL_WEIGHT units.
        sensitivity = count_sensitivity(self.unit.bounded(cap), grouped=True)
        scaled = Sensitivity(
            l1=sensitivity.l1 * FULL_WEIGHT, l2_squared=sensitivity.l2_squared * FULL_WEIGHT**2
        )
        return self.spending.noise(scaled, share)

    def stddev(self, share: Fraction, cap: int = 1) -> float:
        """Return the standard deviation of a count that a share pays for, in items."""
        return self.noise(share, cap).stddev / FULL_WEIGHT


@dataclass
class Measuring:
    """Measures tables of items one after another, and adds up the spent shares."""

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

        With `asked`, cells chosen from earlier noisy tables, only these are measured and the
        others are 0. Weights are over all items of a person, also those in other cells, so that
        they do not depend on `asked`.
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
    """Return the weight of each item in units of 1 / FULL_WEIGHT, at most `cap` items per owner.

    *Sensitivity*: rounding down keeps the sum of an owner's n weights at or below
    n * (cap * FULL_WEIGHT // n) <= cap * FULL_WEIGHT.
    """
    item_counts = np.bincount(owners) if len(owners) else np.zeros(0, dtype=np.int64)
    item_weights: IntArray = np.minimum(
        FULL_WEIGHT, cap * FULL_WEIGHT // np.maximum(item_counts, 1)
    )[owners]
    return item_weights


def summed(cells: IntArray, size: int, item_weights: IntArray) -> IntArray:
    """Integer sums by cell.

    `bincount` adds in float64, which is exact below 2^53. So weights are added in two parts, the
    lower one of 16 bits: exact for up to 2^37 items.
    """
    low = np.bincount(cells, weights=item_weights & 0xFFFF, minlength=size).astype(np.int64)
    high = np.bincount(cells, weights=item_weights >> 16, minlength=size).astype(np.int64)
    return low + (high << 16)


# From where to where paths lead, how long they are, and when they begin: small private tables.


_EXACT = 16
_GROWTH = 1.25
_CLASSES = 6


def length_edges(most: int) -> IntArray:
    """The least length of each bin: bins of one length up to 16, then growing by a quarter."""
    edges = list(range(1, min(_EXACT, most) + 1))
    while edges[-1] < most:
        edges.append(max(int(edges[-1] * _GROWTH), edges[-1] + 1))
    return np.array([edge for edge in edges if edge <= most], dtype=np.int64)


@dataclass(frozen=True)
class Lengths:
    """Noisy counts of paths by number of points and by class of the distance of their ends."""

    edges: IntArray
    most: int
    counts: FloatArray
    """(classes, bins), never negative."""

    def draw(self, classes: IntArray, uniform: FloatArray) -> IntArray:
        """Draw a length for each path of a class, uniform within a bin."""
        held = self.counts + 1e-9 * max(self.counts.sum(), 1) + 1e-12
        at, fraction = draw_per_row(held[classes], uniform)
        ends = np.append(self.edges[1:], self.most + 1)
        wide = ends[at] - self.edges[at]
        return self.edges[at] + np.minimum((fraction * wide).astype(np.int64), wide - 1)


def distance_classes(centres: FloatArray, start: IntArray, end: IntArray) -> IntArray:
    """0 for two equal cells; otherwise 1 to 5 by their distance, in eighths of the map."""
    wide = np.hypot(*(centres.max(axis=0) - centres.min(axis=0))) or 1.0
    apart = np.hypot(*(centres[start] - centres[end]).T) / wide
    return np.where(start == end, 0, 1 + np.minimum((apart * 8).astype(np.int64), _CLASSES - 2))


def measure_lengths(
    measuring: Measuring,
    lengths: IntArray,
    classes: IntArray,
    owners: IntArray,
    share: Fraction,
    *,
    most: int,
    cap: int,
) -> Lengths:
    """Measure lengths of all classes in one table. Longer paths than `most` count as `most`."""
    edges = length_edges(most)
    bins = np.searchsorted(edges, np.minimum(lengths, most), side="right") - 1
    noisy = measuring.table(
        classes * len(edges) + bins, _CLASSES * len(edges), owners, share, cap=cap
    )
    return Lengths(edges, most, nonnegative_counts(noisy).reshape(_CLASSES, len(edges)))


def nonnegative_counts(noisy: FloatArray) -> FloatArray:
    """The nearest counts without negative ones that keep the sum: a projection onto a simplex."""
    total = max(float(noisy.sum()), 0.0)
    ordered = np.sort(noisy)[::-1]
    ranks = np.arange(1, len(noisy) + 1)
    levels = (np.cumsum(ordered) - total) / ranks
    fits = np.flatnonzero(ordered > levels)
    return np.maximum(noisy - (levels[fits[-1]] if len(fits) else np.inf), 0)


def draw_per_row(weights: FloatArray, uniform: FloatArray) -> tuple[IntArray, FloatArray]:
    """Draw an index for each row of weights; returns the unused part of the uniform number, too."""
    ends = np.cumsum(weights, axis=1)
    targets = uniform * ends[:, -1]
    at = (ends <= targets[:, None]).sum(axis=1).clip(max=weights.shape[1] - 1)
    lines = np.arange(len(at))
    own = weights[lines, at]
    fraction = (targets - (ends[lines, at] - own)) / np.where(own > 0, own, 1)
    return at, np.clip(fraction, 0, 1 - 2.0**-53)


def draw_indices(weights: FloatArray, uniform: FloatArray) -> IntArray:
    """Draw indices by one list of weights."""
    ends = np.cumsum(weights)
    indices = np.searchsorted(ends, uniform * ends[-1], side="right")
    return np.asarray(np.minimum(indices, len(weights) - 1))
