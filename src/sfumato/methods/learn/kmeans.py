"""Groups of rows that are alike, by their centres: k-means in rounds that are fixed ahead.

Decision `learn-rounds`.
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
    on_grid,
    reach_of,
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
"""The reach of a round: rows farther from their centre are drawn to that distance."""
_FAR = Fraction(1, 2)
"""The reach around the middle of the bounds, where the first look at all rows is."""
_MIDDLE = Fraction(1, 5)
"""The share of the price for where all rows lie; the rounds have the rest, in equal parts."""
_START = 0.6
"""Half the width of the cube in which starting points lie, around where all rows do."""
_MOVES = 0.25
"""How far a centre is expected to move in a round, in every coordinate."""
_FLOOR = 0.1
"""A count is taken to be at least this part of an equal share of all rows."""


def count_weight(reach: int) -> int:
    """What counts weigh beside sums of offsets: cbrt(4 r^2 C), C the reach, r = .225.

    For C = d, offsets as wide as the bounds, counts and each coordinate's sum get shares as
    cbrt(4 d r^2) to 1 of d + cbrt(4 d r^2). *Reference*: Su et al. 2016, section 4.3.
    """
    return max(round(float(np.cbrt(4 * 0.225**2 * reach / GRID)) * GRID), 1)


def moved(centres: FloatArray, counts: FloatArray, sums: FloatArray, sum_sd: float) -> FloatArray:
    """Centres after a round: each goes where its rows are, less far the less that is known.

    Counts have a floor, so that nothing asks which are empty: what few rows say is mostly noise of
    known size, and is shrunk to its part of what is expected of a move.
    """
    total = max(float(np.maximum(counts, 0).sum()), float(len(counts)))
    sizes = np.maximum(counts, total * _FLOOR / len(counts))
    known = 1 / (1 + (sum_sd / (sizes * _MOVES)) ** 2)
    return np.asarray(np.clip(centres + (known / sizes)[:, None] * sums, -1, 1))


@dataclass(frozen=True)
class Clustering:
    """Rounds of Lloyd's algorithm on noisy counts and sums, from points that are far apart.

    *Guarantee*: the price in full: a fifth for where all rows lie, equal parts of the rest for
    rounds whose number is fixed before any row is read.
    *Sensitivity*: a row is in one group, adds 1 to its count and at most `reach` to the sums of its
    offsets from that group's centre, all coordinates together (`rounds`).
    *Error*: of a centre of n rows in one round, `sum` / n in each coordinate; what is known ahead
    of the sums and counts of the last round.
    *Edges*: no rows, equal rows and empty groups give centres like all others: noise, shrunk.
    *Reference*: Blum, Dwork, McSherry & Nissim 2005; Su, Cao, Li, Bertino & Jin 2016.
    """

    space: FeatureSpace
    clusters: int
    middle: OffsetRound
    each: OffsetRound
    rounds: int

    @property
    def event(self) -> Event:
        """What it costs."""
        return Composed((self.middle.event, *(self.each.event for _ in range(self.rounds))))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How many clusters and rounds, and how far from its centre a row counts in full."""
        reach = round(self.each.reach / GRID, 6)
        return {"clusters": self.clusters, "rounds": self.rounds, "reach": reach}

    @property
    def error(self) -> Mapping[str, Any]:
        """Of the size of a cluster, and of the sum of its offsets, of which a centre is made."""
        return {
            "size": {"sd": self.each.count_sd, "bound95": self.each.counts.bound(0.05)},
            "sum": {"sd": self.each.sum_sd},
            "note": "a centre of n rows is off by about sum / n in each coordinate, from -1 to 1",
        }

    @property
    def facts(self) -> Mapping[str, Any]:
        """How columns become coordinates."""
        return self.space.facts()

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The centres, and how many rows each has."""
        return self._tables(np.zeros((0, self.space.size)), np.zeros(0))

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Look where all rows lie, start around there, and move centres round by round."""
        rows = GriddedRows(salted.data, self.space.expressions(), self.space.size)
        centres, counts = self._started(rows, entropy), np.zeros(self.clusters)
        for _ in range(self.rounds):
            places = on_grid(centres)
            layers, nearest = nearest_layers(places)
            told = rows.tell(places, self.each.reach, nearest, layers)
            counts, sums = self.each.sample(told, entropy)
            centres = moved(places / GRID, counts, sums, self.each.sum_sd)
        return self._tables(centres, counts)

    def _started(self, rows: GriddedRows, entropy: Entropy) -> FloatArray:
        """Points that are far apart, around the noisy mean of all rows."""
        start = packed_points(self.clusters, rows.width, _START, entropy)
        return np.asarray(np.clip(rows.middle(self.middle, entropy) + start, -1, 1))

    def _tables(self, centres: FloatArray, counts: FloatArray) -> Mapping[str, pa.Table]:
        """Centres in coordinates from -1 to 1, one after the other, and the sizes of clusters."""
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
    """The centres of clusters: a row belongs to the nearest one."""

    @cached_property
    def space(self) -> FeatureSpace:
        """How rows become coordinates."""
        return FeatureSpace.from_facts(self.facts)

    @cached_property
    def centres(self) -> FloatArray:
        """The centres, a row each, in coordinates from -1 to 1."""
        values = self.tables["centres"].column("value").to_numpy()
        return np.asarray(values, dtype=np.float64).reshape(-1, self.space.size)

    def check(self) -> None:
        """A number for each coordinate of each centre, and at least one centre."""
        assert len(self.centres)
        assert np.isfinite(self.centres).all()

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The number of each row's cluster, and how far it is from the centre."""
        places = self.space.encode(rows)
        squares = (places**2).sum(axis=1)[:, None] + (self.centres**2).sum(axis=1)
        far = np.maximum(squares - 2 * places @ self.centres.T, 0)
        nearest = far.argmin(axis=1).astype(np.int64)
        away = np.sqrt(far[np.arange(len(far)), nearest])
        return {"cluster": pa.array(nearest), "distance": pa.array(away)}


MODEL = ClusterModel


def prepare(
    request: LearningRequest, *, clusters: object = _CLUSTERS, rounds: object = _ROUNDS
) -> Clustering:
    """Find clusters, as many as are wanted, from public facts alone."""
    wanted = options.whole(clusters, "clusters", least=1, most=MOST_CLUSTERS)
    often = options.whole(rounds, "rounds", least=1, most=MOST_ROUNDS)
    space = FeatureSpace(request.features)
    near, far = (reach_of(one, space.size) for one in (_NEAR, _FAR))
    spending = best_spending(request.price, request.unit, near)

    def made(reach: int, share: Fraction) -> OffsetRound:
        weight = count_weight(reach)
        return OffsetRound.of(spending, request.unit, reach, weight=weight, share=share)

    return Clustering(
        space=space,
        clusters=wanted,
        middle=made(far, _MIDDLE),
        each=made(near, (1 - _MIDDLE) / often),
        rounds=often,
    )


# Starting points that are far from each other and from the border, drawn without data.

_HALVINGS = 12
_TRIES = 64
_FINE = 1 << 20


def packed_points(points: int, width: int, half: float, entropy: Entropy) -> FloatArray:
    """So many points of the cube [-half, half]^width, as far apart as trying found.

    Balls of one radius around them do not meet and lie within the cube. The radius is found by
    halving: it grows where so many points found a place in a fixed number of tries, and shrinks
    where they did not. At radius 0 everything has a place.

    *Reference*: Su, Cao, Li, Bertino & Jin 2016, section 4.2 (sphere packing).
    """
    low, high = 0.0, half
    best = _drawn(points, width, entropy) * half
    for _ in range(_HALVINGS):
        radius = (low + high) / 2
        tries = _drawn(_TRIES + points, width, entropy) * (half - radius)
        found = _apart(tries, points, 2 * radius)
        if len(found) == points:
            low, best = radius, found
        else:
            high = radius
    return best


def _apart(tries: FloatArray, points: int, distance: float) -> FloatArray:
    """The first so many of some tries that keep their distance from those before."""
    kept: list[FloatArray] = []
    for one in tries:
        if len(kept) < points and all(np.linalg.norm(one - two) >= distance for two in kept):
            kept.append(one)
    return np.array(kept).reshape(len(kept), tries.shape[1])


def _drawn(points: int, width: int, entropy: Entropy) -> FloatArray:
    """Points of the cube [-1, 1]^width, all alike likely."""
    places = uniform_integers(2 * _FINE + 1, points * width, entropy).reshape(points, width)
    return np.asarray(places / _FINE - 1, dtype=np.float64)
