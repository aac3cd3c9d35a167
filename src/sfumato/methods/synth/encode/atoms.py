"""Point masses, such as no income or forty hours, and intervals in which rows crowd.

A bin draws each of its points as often, so that a mass at one point would be spread over its bin at
any price. So some of the charge goes to two looks at the columns whose grids are cut into bins:
which points hold many rows, and how many rows lie between the ends of intervals. Both only decide
where bins begin; what a bin holds is measured again. A count that passed a threshold is too high in
the mean, and is used for nothing else.

Decision `synthetic-rows`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.data.counting.frequencies import BoundedCounter
from sfumato.data.schema.unit import Sensitivity, count_sensitivity
from sfumato.methods.publish.sparse import (
    Passing,
    empty_cells,
    gaussian_tail,
    narrowed,
    tail,
)
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.noise.discrete import geometric
from sfumato.privacy.noise.entropy import Draws, collect
from sfumato.privacy.noise.exponential import bernoulli_exp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlglot import exp

    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Grid
    from sfumato.data.counting.frequencies import Counter
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.unit import Unit
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy

POINTS_SHARE, INTERVALS_SHARE = Fraction(1, 20), Fraction(1, 40)
"""The parts of the charge that the two looks take, whatever is there."""
MOST_ATOMS = 32
"""The most atoms of a column: at a large epsilon every value would be one."""
ATOM_ROWS = 0.005
"""The least part of the rows that an atom holds."""
SMALL_GRID = 256
"""A grid of so many points is counted point by point where rows suffice for it."""
POINT_NOISES = 2
"""Rows suffice where a point holds in the mean so many standard deviations of the first look."""
BRANCHES = 16
"""An interval in which rows crowd is cut into so many."""
CROWDED, LIGHT = 1 / 32, 1 / 64
"""The part of the rows from which on an interval is cut, and up to which its parts are joined."""
CROWDED_NOISES = 4
"""And an interval is not cut unless it holds so many standard deviations of the second look."""
MOST_STDDEV = 1 << 13
"""Up to this Gaussian noise its tail is computed in seconds; above it nothing is looked for."""


class PointCounts(NamedTuple):
    """Points of a grid, in order, and the rows at each; other points have none."""

    points: IntArray
    counts: IntArray

    def within(self, starts: IntArray, stops: IntArray) -> IntArray:
        """How many rows lie in each of some intervals."""
        sums = np.concatenate(([0], np.cumsum(self.counts)))
        ends = np.searchsorted(self.points, np.stack([starts, stops]))
        return np.asarray(sums[ends[1]] - sums[ends[0]])


@dataclass(frozen=True)
class HeavyPoints:
    """Noise on every point of some grids; points whose noisy count passes a threshold are released.

    *Guarantee*: that of the noise on the joint vector of all points of all columns. Points without
    rows pass as often as noise would let them, so there is no delta; the choice depends on noisy
    counts alone.
    *Sensitivity*: of the joint vector. A row is one point of each of d columns, so a person of r
    rows moves it by r d in L1, and by r sqrt(d) in L2, where all rows have the same points.
    *Error*: of all points without rows half of one passes in the mean. A point of fewer rows than
    the threshold is usually not released. A noisy count that passed is too high in the mean: by .29
    standard deviations at the threshold, by .06 one above it.
    *Edges*: missing values are at no point. Tables without rows release what noise lets pass. At
    most 2^60 points of a column.
    *Reference*: Cormode, Procopiuc, Srivastava & Tran 2012, section 4.1; Canonne, Kamath & Steinke
    2020 for the noise.
    """

    sizes: tuple[int, ...]
    """How many points each grid has."""
    noise: Noise

    @property
    def event(self) -> Event:
        """What one release costs."""
        return self.noise.event

    @cached_property
    def threshold(self) -> int:
        """At which of all points without rows half of one passes in the mean, or fewer."""
        chance = 1 / (2 * sum(self.sizes))
        if isinstance(self.noise, Gaussian):
            level = -self.noise.stddev * NormalDist().inv_cdf(chance)
        else:
            scale = float(self.noise.scale)
            level = -scale * math.log(chance * (1 + math.exp(-1 / scale)))
        return max(math.ceil(level), 1)

    def sample(self, columns: Sequence[PointCounts], entropy: Entropy) -> list[PointCounts]:
        """The points of each grid that pass, in order, with their noisy counts."""
        released = []
        for size, (points, counts) in zip(self.sizes, columns, strict=True):
            noisy = narrowed(self.noise.steps(counts, entropy))
            passes = noisy >= self.threshold
            empty = empty_cells(points, self._passing.draw(size - len(points), entropy))
            both = np.concatenate([points[passes], empty])
            values = np.concatenate([noisy[passes], self._noise_beyond(len(empty), entropy)])
            order = np.argsort(both)
            released.append(PointCounts(both[order], values[order]))
        return released

    @cached_property
    def _passing(self) -> Passing:
        if isinstance(self.noise, Gaussian):
            return Passing(partial(gaussian_tail, self.noise.steps_variance, self.threshold))
        return Passing(partial(tail, self.noise.scale, self.threshold, 1))

    def _noise_beyond(self, count: int, entropy: Entropy) -> IntArray:
        """Noise that is known to have passed the threshold t."""
        if not isinstance(self.noise, Gaussian):
            return narrowed(geometric(self.noise.scale, count, entropy) + self.threshold)
        variance = self.noise.steps_variance

        # exp(-(t + y)^2 / 2v) is exp(-y t / v), a geometric variable's, times exp(-y^2 / 2v).
        def trials(size: int) -> Draws:
            beyond = geometric(variance / self.threshold, size, entropy).astype(object)
            kept = bernoulli_exp(beyond**2, rate=1 / (2 * variance), entropy=entropy)
            return Draws(narrowed(beyond[kept]))

        return narrowed(collect(count, 0.5, trials) + self.threshold)


@dataclass(frozen=True)
class AtomSearch:
    """Find the atoms of some columns, and cut bins where rows crowd, before anything is measured.

    *Guarantee*: what is spent on both looks, which public facts fix. What they release only says
    where bins begin.
    *Sensitivity*: of the points as of `HeavyPoints`. Of intervals: each column has levels of
    disjoint intervals, a row is in at most one interval of each level, so a person of r rows moves
    the counts of all L levels of all columns together by r L in L1, and by r sqrt(L) in L2.
    *Error*: an atom of fewer rows than the threshold, than .5 % of all, or beyond the 32 largest of
    its column is left in its bin.
    *Edges*: columns of up to `SMALL_GRID` points have no bins where rows suffice. An empty table
    gives bins by chance.
    *Reference*: as of `HeavyPoints`; Zhang, Xiao & Xie 2016 for intervals cut where rows crowd.
    """

    grids: tuple[Grid, ...]
    bins: tuple[tuple[int, ...], ...]
    """The first points of the bins that are declared of each."""
    unit: Unit
    spending: Spending
    """The whole charge, of which the looks take their shares."""
    rows: int | None = None
    """How many rows there are, where that is public."""

    @cached_property
    def points(self) -> HeavyPoints:
        """The first look."""
        noise = self._noise(len(self.grids), POINTS_SHARE)
        return HeavyPoints(tuple(grid.points for grid in self.grids), noise)

    @cached_property
    def intervals(self) -> Noise:
        """The noise of the second look, on the counts of all levels."""
        return self._noise(sum(map(self._levels, range(len(self.grids)))), INTERVALS_SHARE)

    def _noise(self, places: int, share: Fraction) -> Noise:
        row = count_sensitivity(self.unit, grouped=True)
        joint = Sensitivity(l1=row.l1 * places, l2_squared=row.l2_squared * places)
        return self.spending.noise(joint, share)

    def _levels(self, index: int) -> int:
        """How many levels of intervals a column has: bins, and parts of parts of them."""
        if self.grids[index].points <= SMALL_GRID:
            return 1
        width, levels = self._widest(index), 1
        while width > BRANCHES:
            width, levels = -(-width // BRANCHES), levels + 1
        return levels

    def _widest(self, index: int) -> int:
        return int(np.diff((*self.bins[index], self.grids[index].points)).max())

    @property
    def worthwhile(self) -> bool:
        """Whether anything can be found under this noise, by public facts."""
        noise = self.points.noise
        if isinstance(noise, Gaussian) and noise.steps_variance > MOST_STDDEV**2:
            return False
        return self.rows is None or self.rows > self.points.threshold

    @property
    def event(self) -> Composed:
        """What both looks cost."""
        return Composed((self.points.event, self.intervals.event))

    def run(
        self, engine: Engine, table: exp.Table, salt: str, entropy: Entropy
    ) -> Mapping[str, tuple[int, ...]]:
        """The first points of each column's bins."""
        return self.find(BoundedCounter(engine, table, self.grids, self.unit, salt), entropy)

    def find(self, counter: Counter, entropy: Entropy) -> dict[str, tuple[int, ...]]:
        """The same of what a counter has."""
        exact = [self._counted(grid, counter) for grid in self.grids]
        heavy = self.points.sample(exact, entropy)
        bins = [self._look(column, *self._ends(index), entropy)
                for index, column in enumerate(exact)]  # fmt: skip
        # Where values are missing a column has fewer rows.
        rows = self.rows or max(float(level.counts.sum()) for level in bins)
        starts = {}
        for index, grid in enumerate(self.grids):
            likely = _largest(heavy[index], ATOM_ROWS * rows)
            levels = [bins[index]]
            while len(levels) < self._levels(index):
                ends = self._crowded_parts(levels[-1], likely, rows)
                if not len(ends[0]):
                    break
                levels.append(self._look(exact[index], *ends, entropy))
            starts[grid.column] = self._starts(grid, likely, levels, rows)
        return starts

    @staticmethod
    def _counted(grid: Grid, counter: Counter) -> PointCounts:
        counts = counter.of([grid.column])
        present = counts.codes[0] < grid.points
        return PointCounts(counts.codes[0][present].astype(np.int64), counts.counts[present])

    def _ends(self, index: int) -> tuple[IntArray, IntArray]:
        """The first points of a column's declared bins, and the points behind their last."""
        starts = np.array(self.bins[index], dtype=np.int64)
        return starts, np.append(starts[1:], self.grids[index].points)

    def _look(
        self, exact: PointCounts, starts: IntArray, stops: IntArray, entropy: Entropy
    ) -> _Intervals:
        noisy = self.intervals.steps(exact.within(starts, stops), entropy)
        return _Intervals(starts, stops, narrowed(noisy))

    def _crowded_parts(
        self, level: _Intervals, likely: PointCounts, rows: float
    ) -> tuple[IntArray, IntArray]:
        """The ends of the parts of intervals in which rows crowd elsewhere than at atoms."""
        crowded = max(CROWDED * rows, CROWDED_NOISES * self.intervals.stddev)
        cut = (level.without(likely) >= crowded) & (level.stops - level.starts > 1)
        return _evenly_cut(level.starts[cut], level.stops[cut])

    def _starts(
        self, grid: Grid, likely: PointCounts, levels: list[_Intervals], rows: float
    ) -> tuple[int, ...]:
        """Where bins begin: at atoms, behind them, and where intervals do."""
        enough = POINT_NOISES * self.points.noise.stddev * grid.points
        if grid.points <= SMALL_GRID and rows >= enough:
            return tuple(range(grid.points))
        starts, counts = _leaves(levels, likely, LIGHT * rows)
        widths = np.diff(np.append(starts, grid.points))
        inside = np.searchsorted(starts, likely.points, side="right") - 1
        others = np.maximum(counts[inside] - likely.counts, 0) / np.maximum(widths[inside] - 1, 1)
        atoms = likely.points[likely.counts - others > self.points.threshold]
        cuts = np.unique(np.concatenate([starts, atoms, atoms + 1]))
        return tuple(cuts[cuts < grid.points].tolist())


def _largest(heavy: PointCounts, least: float) -> PointCounts:
    """The points of the largest noisy counts above a least one, in order."""
    order = np.argsort(-heavy.counts, kind="stable")[:MOST_ATOMS]
    places = np.sort(order[heavy.counts[order] > least])
    return PointCounts(heavy.points[places], heavy.counts[places])


class _Intervals(NamedTuple):
    """Intervals of a grid's points with their noisy counts."""

    starts: IntArray
    stops: IntArray
    counts: IntArray

    def without(self, points: PointCounts) -> IntArray:
        """The counts without those of some points."""
        return self.counts - points.within(self.starts, self.stops)


def _evenly_cut(starts: IntArray, stops: IntArray) -> tuple[IntArray, IntArray]:
    """Sixteen equal parts of each interval, or its points where these are fewer."""
    widths = stops - starts
    each, longer = np.divmod(widths, BRANCHES)
    numbers = np.arange(BRANCHES + 1)[:, None]
    ends = (starts + numbers * each + np.minimum(numbers, longer)).T
    firsts, lasts = ends[:, :-1].ravel(), ends[:, 1:].ravel()
    return firsts[lasts > firsts], lasts[lasts > firsts]


def _leaves(
    levels: list[_Intervals], likely: PointCounts, light: float
) -> tuple[IntArray, IntArray]:
    """The starts and counts of intervals that were not cut; light neighbours of one are joined."""
    starts, counts = levels[0].starts, levels[0].counts
    for level in levels[1:]:
        parent = np.searchsorted(starts, level.starts, side="right") - 1
        kept = np.setdiff1d(np.arange(len(starts)), parent)
        joined = _joined(level.without(likely), parent, light)
        starts = np.concatenate([starts[kept], level.starts[joined]])
        counts = np.concatenate([counts[kept], np.add.reduceat(level.counts, joined)])
        order = np.argsort(starts)
        starts, counts = starts[order], counts[order]
    return starts, counts


def _joined(counts: IntArray, parent: IntArray, light: float) -> IntArray:
    """The places of parts that begin an interval: a part joins those before it while all are light.

    Parts of different intervals are never joined.
    """
    begins, held = [0], int(counts[0])
    for place in range(1, len(parent)):
        count = int(counts[place])
        if parent[place] != parent[place - 1] or held + count > light:
            begins.append(place)
            held = 0
        held += count
    return np.array(begins)
