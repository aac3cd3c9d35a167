"""Starting points that are far from each other and from the border, drawn without data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.noise.selection import uniform_integers

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray
    from sfumato.privacy.noise.entropy import Entropy


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
