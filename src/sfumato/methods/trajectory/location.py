"""Single places told with planar noise, beside a meter of what they give away together.

A place is moved at random so that near places are hard to tell apart (`local.locations`). That is a
promise about one place: n places of a person cost n times as much, and a path of them is not
private. So every release comes with its meter, in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.exact_numbers import exact, positive
from sfumato.methods.local.locations import LEAST, MOST, PlanarLaplace
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from sfumato.arrays import FloatArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.trajectory.cells import Box
    from sfumato.privacy.noise.entropy import Entropy

_CELLS = 1 << 10


@dataclass(frozen=True, repr=False, kw_only=True)
class LocationMeter(Shown):
    """What so many told places of one person cost together: the sum, never less."""

    epsilon: Fraction
    """For each unit of distance and each place."""
    location_count: int

    @property
    def total(self) -> Fraction:
        """For each unit of distance, all places together."""
        return self.epsilon * self.location_count

    def within(self, distance: Number) -> Fraction:
        """The epsilon of telling apart two paths whose places are all so far from each other."""
        return self.total * exact(distance, "distance")

    def _card(self) -> Card:
        facts: dict[str, Any] = {
            "places": self.location_count,
            "epsilon of each, for a unit of distance": float(self.epsilon),
            "of all": float(self.total),
            "distance that epsilon 1 hides": float(1 / self.total) if self.total else None,
        }
        return Card(
            f"{self.location_count:,} places cost epsilon {float(self.total):g} a unit", facts
        )


@dataclass(frozen=True, repr=False, kw_only=True)
class NoisyLocations(Shown):
    """Places with their noise, in the order they were given, and what they cost together."""

    locations: FloatArray
    meter: LocationMeter
    radius95: float
    """At least 95 % of places are within this distance of the true ones, while the map has room."""

    def _card(self) -> Card:
        count = f"{len(self.locations):,} places"
        line = f"{count}, at least 95 % within {self.radius95:g} of the true ones"
        return Card(line, {"meter": repr(self.meter)})


def epsilons_on(box: Box) -> tuple[float, float]:
    """The least and the largest epsilon for a unit of distance that places on a map can have."""
    cell = max(box.east - box.west, box.north - box.south) / _CELLS
    return float(LEAST) / cell, float(MOST) / cell


def randomize_locations(
    locations: ArrayLike,
    box: Box,
    *,
    epsilon: Number,
    scale: Sequence[float] = (1.0, 1.0),
    entropy: Entropy | None = None,
) -> NoisyLocations:
    """Tell the places of one person, (places, 2), within a declared box, by planar noise.

    `epsilon` is for each unit of distance and each place; the meter has what all cost. Coordinates
    must be projected; of degrees `scale` has the length of one eastwards and of one northwards.
    Noise is added to the places as they are given: nothing is rounded before.
    """
    exact_epsilon = positive(epsilon, "epsilon")
    sides = (box.east - box.west) * scale[0], (box.north - box.south) * scale[1]
    step = Fraction(max(sides)).limit_denominator(10**6) / _CELLS
    across, up = (max(int(np.ceil(side / float(step))), 1) for side in sides)
    mechanism = PlanarLaplace(
        [Fraction(box.west), Fraction(box.south)],
        step=step,
        cells=(across, up),
        epsilon=exact_epsilon,
        scale=[Fraction(value) for value in scale],
    )
    rows = mechanism.randomize(np.asarray(locations, dtype=np.float64).reshape(-1, 2), entropy).rows
    moved = np.stack([rows["east"], rows["north"]], axis=1).astype(np.float64)
    at = np.array([box.west, box.south]) + (moved + 0.5) * float(step) / np.array(scale)
    meter = LocationMeter(epsilon=exact_epsilon, location_count=len(rows))
    return NoisyLocations(locations=at, meter=meter, radius95=mechanism.radius(0.95))
