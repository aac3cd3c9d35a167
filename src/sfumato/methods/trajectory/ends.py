"""From where to where paths lead, how long they are, and when they begin: small private tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.trajectory.measurement import Measuring


_EXACT = 16
_GROWTH = 1.25
_CLASSES = 6


def length_edges(most: int) -> IntArray:
    """The shortest path of each bin of lengths: single ones first, then ever wider ones."""
    edges = list(range(1, min(_EXACT, most) + 1))
    while edges[-1] < most:
        edges.append(max(int(edges[-1] * _GROWTH), edges[-1] + 1))
    return np.array([edge for edge in edges if edge <= most], dtype=np.int64)


@dataclass(frozen=True)
class Lengths:
    """How many paths have so many points, for each class of distance between their ends."""

    edges: IntArray
    most: int
    counts: FloatArray
    """(classes, bins), never negative."""

    def drawn(self, classes: IntArray, uniform: FloatArray) -> IntArray:
        """A length for each path of a class, even within a bin."""
        held = self.counts + 1e-9 * max(self.counts.sum(), 1) + 1e-12
        at, fraction = picked(held[classes], uniform)
        ends = np.append(self.edges[1:], self.most + 1)
        wide = ends[at] - self.edges[at]
        return self.edges[at] + np.minimum((fraction * wide).astype(np.int64), wide - 1)


def distance_classes(centres: FloatArray, start: IntArray, end: IntArray) -> IntArray:
    """Whether two cells are the same, or how far apart they are, in parts of the whole map."""
    wide = np.hypot(*(centres.max(axis=0) - centres.min(axis=0))) or 1.0
    apart = np.hypot(*(centres[start] - centres[end]).T) / wide
    return np.where(start == end, 0, 1 + np.minimum((apart * 8).astype(np.int64), _CLASSES - 2))


def measured_lengths(
    measuring: Measuring,
    lengths: IntArray,
    classes: IntArray,
    owners: IntArray,
    share: Fraction,
    *,
    most: int,
    cap: int,
) -> Lengths:
    """Measure them all at once; longer paths than the most count as the most."""
    edges = length_edges(most)
    bins = np.searchsorted(edges, np.minimum(lengths, most), side="right") - 1
    noisy = measuring.table(
        classes * len(edges) + bins, _CLASSES * len(edges), owners, share, cap=cap
    )
    return Lengths(edges, most, settled(noisy).reshape(_CLASSES, len(edges)))


def settled(noisy: FloatArray) -> FloatArray:
    """No count below 0, and the sum as it was measured: what is added is taken off the others."""
    total = max(float(noisy.sum()), 0.0)
    ordered = np.sort(noisy)[::-1]
    ranks = np.arange(1, len(noisy) + 1)
    levels = (np.cumsum(ordered) - total) / ranks
    fits = np.flatnonzero(ordered > levels)
    return np.maximum(noisy - (levels[fits[-1]] if len(fits) else np.inf), 0)


def picked(weights: FloatArray, uniform: FloatArray) -> tuple[IntArray, FloatArray]:
    """One place of each line by its weights, and what is left of the uniform number."""
    ends = np.cumsum(weights, axis=1)
    targets = uniform * ends[:, -1]
    at = (ends <= targets[:, None]).sum(axis=1).clip(max=weights.shape[1] - 1)
    lines = np.arange(len(at))
    own = weights[lines, at]
    fraction = (targets - (ends[lines, at] - own)) / np.where(own > 0, own, 1)
    return at, np.clip(fraction, 0, 1 - 2.0**-53)


def among(weights: FloatArray, uniform: FloatArray) -> IntArray:
    """Places by one list of weights for all."""
    ends = np.cumsum(weights)
    indices = np.searchsorted(ends, uniform * ends[-1], side="right")
    return np.asarray(np.minimum(indices, len(weights) - 1))
