"""Quantiles by the exponential mechanism over the ranges between neighbouring values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.unit import Rows, quantile_sensitivity
from sfumato.errors import ParameterError
from sfumato.exact_numbers import exact, integer_at_least, positive, store
from sfumato.privacy.accounting.events import ExponentialChoice
from sfumato.privacy.mechanisms.base import check_beta, integers, widened
from sfumato.privacy.noise.selection import choose_within, uniform_below

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import IntArray
    from sfumato.data.schema.unit import Unit
    from sfumato.privacy.noise.entropy import Entropy

# The largest denominator of a rank: scores are counted in its parts, and must stay small.
_FINEST_RANK = 10**6
LARGEST_SIZE = 2**63 - 1
"""The most grid points: so many that every point and every length of a range fits 64 bits."""

_ROWS = Rows()


@dataclass(frozen=True)
class Counted:
    """How often each grid point occurs in each group, in any order; groups are 0, 1, ...

    The number of groups is public; a group may have no rows at all.
    """

    points: IntArray
    counts: IntArray
    groups: IntArray
    group_count: int

    @classmethod
    def of(cls, points: ArrayLike) -> Counted:
        """Count the grid points of one group, given row by row."""
        distinct_points, counts = np.unique(
            integers(points, "points", dimensions=1), return_counts=True
        )
        return cls(distinct_points, counts, np.zeros(len(distinct_points), dtype=np.int64), 1)


@dataclass(frozen=True, kw_only=True)
class Quantile:
    """Choose a grid point by the distance of its rank from the requested one.

    With L rows below a point, U up to and including it and n in all, the score of the point is
    -max(0, L - q n, q n - U). The score is constant between neighbouring values. So a choice among
    these ranges, weighted by their lengths, followed by a uniform point within the chosen range,
    has the same distribution as a choice among all points.

    *Guarantee*: epsilon-differential privacy of bounded range epsilon for each group; groups of
    disjoint people compose in parallel.
    *Sensitivity*: Of the score, known from the unit: max(q, 1 - q) a row under add/remove (1/2 at
    the median), 1 a row under replace-one. The engine keeps the bound on a person's rows.
    *Error*: The rank of the answer is off by more than 2 sensitivity log(size / beta) / epsilon
    with probability at most beta.
    *Edges*: Points are 0, ..., size - 1, others are moved to the nearer end; the engine leaves
    NULLs out. An empty group gives a uniform point, and no group no point. Scores are exact for
    any number of rows.
    *Reference*: Smith 2011, Algorithm 2; McSherry & Talwar 2007.
    """

    epsilon: Fraction
    rank: Fraction
    size: int
    unit: Unit = _ROWS
    granule: int = 1
    """The count that stands for one whole row, where weighted rows may count less than it."""

    def __post_init__(self) -> None:
        rank = exact(self.rank, "rank")
        if not 0 <= rank <= 1 or rank.denominator > _FINEST_RANK:
            raise ParameterError(
                "parameter_out_of_range",
                f"The rank of a quantile must lie between 0 and 1 with at most six decimals, "
                f"not {rank}.",
                parameter="rank",
                given=rank,
            )
        store(
            self,
            epsilon=positive(self.epsilon, "epsilon"),
            rank=rank,
            size=integer_at_least(self.size, "size", least=1),
            granule=integer_at_least(self.granule, "granule", least=1),
        )
        if self.size > LARGEST_SIZE:
            raise ParameterError(
                "parameter_out_of_range",
                f"A quantile is chosen among at most 2^63 - 1 points, not {self.size:,}.",
                hint="Declare narrower bounds or a coarser step.",
                parameter="size",
                given=self.size,
            )

    @property
    def sensitivity(self) -> Fraction:
        """The largest change of any point's score by one person, in granules."""
        return self.granule * quantile_sensitivity(self.unit, self.rank)

    @property
    def event(self) -> ExponentialChoice:
        """The cost of the quantile of one group."""
        return ExponentialChoice(epsilon=self.epsilon)

    def sample(self, values: Counted, entropy: Entropy) -> IntArray:
        """Choose a grid point for each group."""
        if not values.group_count:
            return np.zeros(0, dtype=np.int64)
        ranges = _Ranges.of(values, self.rank, self.size)
        chosen = choose_within(
            ranges.scores,
            ranges.starts,
            # Scores are counted in 1 / denominator of the rank.
            rate=self.epsilon / (2 * self.sensitivity * self.rank.denominator),
            weights=ranges.lengths.astype(object),
            entropy=entropy,
        )
        return ranges.firsts[chosen] + uniform_below(ranges.lengths[chosen], entropy)

    def bound(self, beta: float) -> float:
        """Give an error of the rank, in granules, exceeded with probability at most beta."""
        likely = math.log(self.size / check_beta(beta))
        return 2 * float(self.sensitivity / self.epsilon) * likely


@dataclass(frozen=True)
class _Ranges:
    """Runs of grid points of equal score; the runs of group g begin at starts[g].

    Points, stops and lengths lie within 0 and the size, which fits 64 bits. Scores are at most the
    rank's denominator times the rows of all groups: `widened` decides what they are computed in.
    """

    firsts: IntArray
    lengths: IntArray
    scores: NDArray[Any]
    starts: IntArray

    @classmethod
    def of(cls, values: Counted, rank: Fraction, size: int) -> _Ranges:
        points, counts, groups = _merged(values, widened(values.counts, rank.denominator), size)
        groups_before = np.searchsorted(groups, np.arange(values.group_count + 1))
        totals = np.concatenate((np.zeros(1, dtype=counts.dtype), np.cumsum(counts)))
        base = totals[groups_before[:-1]]
        group_totals = totals[groups_before[1:]] - base
        # Each value yields two ranges, the gap before it and its own point; each group yields one
        # more, the gap at its end. Empty ranges are removed below.
        gap = 2 * np.arange(len(points)) + groups
        last = 2 * groups_before[1:] + np.arange(values.group_count)
        firsts = np.zeros(2 * len(points) + values.group_count, dtype=np.int64)
        stops = np.zeros_like(firsts)
        below, up_to = (np.zeros(len(firsts), dtype=totals.dtype) for _ in range(2))
        before = totals[:-1] - base[groups]
        below[gap], up_to[gap], stops[gap] = before, before, points
        below[gap + 1], up_to[gap + 1], stops[gap + 1] = before, before + counts, points + 1
        below[last], up_to[last], stops[last] = group_totals, group_totals, size
        firsts[1:] = stops[:-1]
        firsts[np.concatenate(([0], last[:-1] + 1))] = 0
        total = np.repeat(group_totals, np.diff(np.concatenate(([-1], last))))
        target, denominator = rank.numerator * total, rank.denominator
        scores = -np.maximum(
            0, np.maximum(denominator * below - target, target - denominator * up_to)
        )
        nonempty = stops > firsts
        starts = np.concatenate(([0], np.cumsum(nonempty)[last[:-1]]))
        return cls(firsts[nonempty], (stops - firsts)[nonempty], scores[nonempty], starts)


def _merged(
    values: Counted, counts: NDArray[Any], size: int
) -> tuple[IntArray, NDArray[Any], IntArray]:
    """Sort by group and point, and add up the counts of equal ones."""
    points = np.clip(values.points, 0, size - 1)
    order = np.lexsort((points, values.groups))
    points, counts, groups = points[order], counts[order], values.groups[order]
    if not len(points):
        return points, counts, groups
    new = np.concatenate(([True], (np.diff(points) != 0) | (np.diff(groups) != 0)))
    starts = np.flatnonzero(new)
    return points[starts], np.add.reduceat(counts, starts), groups[starts]
