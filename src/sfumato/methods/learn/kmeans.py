"""Private k-means: Lloyd's algorithm on noisy sums, in a fixed number of rounds.

Decision `learning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.methods import options
from sfumato.methods.learn.features import GRID, FeatureSpace
from sfumato.methods.learn.model import Model
from sfumato.methods.learn.rounds import (
    GriddedRows,
    OffsetRound,
    best_spending,
    nearest_layers,
    reach_of,
    round_to_grid,
)
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.noise.selection import uniform_integers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy


MOST_CLUSTERS = 64
MOST_ROUNDS = 20
_CLUSTERS, _ROUNDS = 3, 4
_NEAR = Fraction(3, 10)
"""The reach of a round: offsets of rows beyond it are clipped."""
_FAR = Fraction(1, 2)
"""The reach of the first round, around the middle of the bounds."""
_MIDDLE = Fraction(1, 5)
"""The share of the price for the mean of all rows; the rounds share the rest equally."""
_START = 0.6
"""Half the width of the cube of starting points, around the mean of all rows."""
_MOVES = 0.25
"""The prior standard deviation of a centre's move in a round, in every coordinate."""
_NEGLIGIBLE = 0.005
"""The noise of a centre, in half widths, below which no offset is clipped."""
_FLOOR = 0.1
"""The least size of a cluster, as a share of an equal division of all rows."""


def count_weight(reach: int) -> int:
    """The weight of counts beside sums of offsets: cbrt(4 r^2 C), with C the reach and r = .225.

    For C = d, offsets as wide as the bounds, counts and each coordinate's sum get shares as
    cbrt(4 d r^2) to 1 of d + cbrt(4 d r^2). *Reference*: Su et al. 2016, section 4.3.
    """
    return max(round(float(np.cbrt(4 * 0.225**2 * reach / GRID)) * GRID), 1)


def update_centres(
    centres: FloatArray, counts: FloatArray, sums: FloatArray, sum_sd: float
) -> FloatArray:
    """Move each centre towards the mean of its rows, shrunk by the noise.

    The factor is v / (v + noise variance of the mean), v the prior variance of a move. Counts have
    a floor, so that no step depends on whether a cluster is empty: few rows give a mean that is
    mostly noise, and the factor is then near 0.
    """
    # Noisy counts may be negative, and all of them 0.
    total = max(float(np.maximum(counts, 0).sum()), float(len(counts)))
    sizes = np.maximum(counts, total * _FLOOR / len(counts))
    shrinkage = 1 / (1 + (sum_sd / (sizes * _MOVES)) ** 2)
    return np.asarray(np.clip(centres + (shrinkage / sizes)[:, None] * sums, -1, 1))


@dataclass(frozen=True)
class Clustering:
    """Rounds of Lloyd's algorithm on noisy counts and sums, from points that are far apart.

    *Guarantee*: the price in full: a fifth for the mean of all rows, equal parts of the rest for
    rounds whose number is fixed before any row is read.
    *Sensitivity*: a row is in one group, adds 1 to its count and at most `reach` to the sums of its
    offsets from that group's centre, all coordinates together (`rounds`).
    *Error*: of a centre of n rows in one round, `sum` / n in each coordinate; the noise of the sums
    and counts of the last round is known in advance.
    *Edges*: no rows, equal rows and empty groups give ordinary centres, of shrunk noise.
    *Reference*: Blum, Dwork, McSherry & Nissim 2005; Su, Cao, Li, Bertino & Jin 2016.
    """

    space: FeatureSpace
    clusters: int
    middle: OffsetRound
    lloyd_round: OffsetRound
    rounds: int

    @property
    def event(self) -> Event:
        """What it costs."""
        return Composed((self.middle.event, *(self.lloyd_round.event for _ in range(self.rounds))))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The number of clusters and of rounds, and the reach of a round."""
        reach = round(self.lloyd_round.reach / GRID, 6)
        return {"clusters": self.clusters, "rounds": self.rounds, "reach": reach}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of the size of a cluster, and of the sum of its offsets."""
        return {
            "size": {
                "sd": self.lloyd_round.count_sd,
                "bound95": self.lloyd_round.counts.bound(0.05),
            },
            "sum": {"sd": self.lloyd_round.sum_sd},
            "note": "a centre of n rows is off by about sum / n in each coordinate, from -1 to 1",
        }

    @property
    def facts(self) -> Mapping[str, Any]:
        """The declarations of the features."""
        return self.space.facts()

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables of centres and sizes, without a row."""
        return self._tables(np.zeros((0, self.space.size)), np.zeros(0))

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Find the mean of all rows, start around it, and move the centres round by round."""
        rows = GriddedRows(salted.data, self.space.expressions(), self.space.size)
        # The starting points are drawn before any row is read.
        start = packed_points(self.clusters, rows.width, _START, entropy)
        centres = np.clip(rows.middle(self.middle, entropy) + start, -1, 1)
        counts = np.zeros(self.clusters)
        for _ in range(self.rounds):
            gridded = round_to_grid(centres)
            layers, nearest = nearest_layers(gridded)
            # Only this reads rows; everything else in a round is post-processing.
            exact = rows.group_sums(gridded, self.lloyd_round.reach, nearest, layers)
            counts, sums = self.lloyd_round.sample(exact, entropy)
            centres = update_centres(gridded / GRID, counts, sums, self.lloyd_round.sum_sd)
        return self._tables(centres, counts)

    def _tables(self, centres: FloatArray, counts: FloatArray) -> Mapping[str, pa.Table]:
        """The released tables: centres in coordinates from -1 to 1, and sizes of clusters."""
        numbers = np.arange(len(centres), dtype=np.int64)
        coordinates = pa.array(self.space.names * len(centres), pa.string())
        clusters = pa.array(np.repeat(numbers, self.space.size))
        values = pa.array(np.round(centres, 6).ravel())
        sizes = np.rint(np.maximum(counts, 0)).astype(np.int64)
        return {
            "centres": pa.table({"cluster": clusters, "coordinate": coordinates, "value": values}),
            "sizes": pa.table({"cluster": pa.array(numbers), "size": pa.array(sizes)}),
        }


@dataclass(frozen=True, repr=False, kw_only=True)
class ClusterModel(Model):
    """The centres of clusters; predicts the nearest centre of a row."""

    @cached_property
    def space(self) -> FeatureSpace:
        """The coordinates of the features."""
        return FeatureSpace.from_facts(self.facts)

    @cached_property
    def centres(self) -> FloatArray:
        """The centres, (clusters, coordinates), from -1 to 1."""
        values = self.tables["centres"].column("value").to_numpy()
        return np.asarray(values, dtype=np.float64).reshape(-1, self.space.size)

    def check(self) -> None:
        """Refuse a model without centres, and infinite ones."""
        assert len(self.centres)
        assert np.isfinite(self.centres).all()

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The cluster of each row, and the distance from its centre."""
        points = self.space.encode(rows)
        squares = (points**2).sum(axis=1)[:, None] + (self.centres**2).sum(axis=1)
        distances = np.maximum(squares - 2 * points @ self.centres.T, 0)
        nearest = distances.argmin(axis=1).astype(np.int64)
        nearest_distance = np.sqrt(distances[np.arange(len(distances)), nearest])
        return {"cluster": pa.array(nearest), "distance": pa.array(nearest_distance)}


MODEL = ClusterModel


def prepare(
    request: LearningRequest, *, clusters: object = _CLUSTERS, rounds: object = _ROUNDS
) -> Clustering:
    """Plan `clusters` clusters in `rounds` rounds, from public facts."""
    cluster_count = options.whole(clusters, "clusters", least=1, most=MOST_CLUSTERS)
    round_count = options.whole(rounds, "rounds", least=1, most=MOST_ROUNDS)
    space = FeatureSpace(request.features)
    near, far = (reach_of(radius, space.size) for radius in (_NEAR, _FAR))
    spending = best_spending(request.price, request.unit, near)

    def plan_round(reach: int, share: Fraction) -> OffsetRound:
        weight = count_weight(reach)
        return OffsetRound.of(spending, request.unit, reach, weight=weight, share=share)

    share = (1 - _MIDDLE) / round_count
    # No offset is longer than twice the half width of every coordinate: nothing is clipped.
    unclipped = plan_round(2 * space.size * GRID, share)
    negligible = request.rows is not None and (
        unclipped.sum_sd * cluster_count <= _NEGLIGIBLE * request.rows
    )
    return Clustering(
        space=space,
        clusters=cluster_count,
        middle=plan_round(far, _MIDDLE),
        lloyd_round=unclipped if negligible else plan_round(near, share),
        rounds=round_count,
    )


# Random starting points that are far from each other and from the border; they need no data.

_HALVINGS = 12
_TRIES = 64
_FINE = 1 << 20


def packed_points(points: int, width: int, half: float, entropy: Entropy) -> FloatArray:
    """Points of the cube [-half, half]^width that are far apart, by random sphere packing.

    Balls of one radius around them are disjoint and lie within the cube. Bisection finds the
    radius: it grows if a fixed number of random candidates contains enough separated points, and
    shrinks otherwise. Radius 0 always succeeds.

    *Reference*: Su, Cao, Li, Bertino & Jin 2016, section 4.2 (sphere packing).
    """
    low, high = 0.0, half
    best = _uniform_points(points, width, entropy) * half
    for _ in range(_HALVINGS):
        radius = (low + high) / 2
        candidates = _uniform_points(_TRIES + points, width, entropy) * (half - radius)
        separated = _separated_points(candidates, points, 2 * radius)
        if len(separated) == points:
            low, best = radius, separated
        else:
            high = radius
    return best


def _separated_points(candidates: FloatArray, points: int, distance: float) -> FloatArray:
    """Choose up to `points` candidates, each at least `distance` from those before it."""
    chosen: list[FloatArray] = []
    for candidate in candidates:
        if len(chosen) < points and all(
            np.linalg.norm(candidate - point) >= distance for point in chosen
        ):
            chosen.append(candidate)
    return np.array(chosen).reshape(len(chosen), candidates.shape[1])


def _uniform_points(points: int, width: int, entropy: Entropy) -> FloatArray:
    """Uniform points of the cube [-1, 1]^width, on a grid of 2^21 + 1 steps."""
    steps = uniform_integers(2 * _FINE + 1, points * width, entropy).reshape(points, width)
    return np.asarray(steps / _FINE - 1, dtype=np.float64)
