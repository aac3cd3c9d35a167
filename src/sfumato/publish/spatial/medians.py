"""Private medians of all boxes of a level at once, by the exponential mechanism over their cuts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.selection import choose_within
from sfumato.noise.uniform import uniform_below
from sfumato.privacy.events import ExponentialChoice

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.publish.spatial.growth import Division


@dataclass(frozen=True, kw_only=True)
class Medians:
    """Cut each of some disjoint boxes in two where about half of its rows lie on either side.

    The candidates are the cuts behind each code of the box but its last. A cut with L rows up to it
    and R behind it has the score -|L - R|, which is constant between neighbouring values found: one
    choice among these ranges, weighted by their lengths, and a uniform cut within is the same law.

    *Guarantee*: epsilon-differential privacy of bounded range epsilon for the cuts of all boxes
    together. A person who moves d rows of a box moves each of its scores by at most d, so the
    logarithm of the chances of its cuts moves within a range of epsilon d / sensitivity; boxes are
    disjoint and cut independently, so the ranges add up, and so do the rows: to the sensitivity.
    *Sensitivity*: L1, of a histogram of rows: m for a person of m rows that comes or goes, 2 m for
    one that is replaced; established by the privacy unit.
    *Error*: |L - R| is above the best of its box by more than 2 sensitivity log(cuts / beta) /
    epsilon with probability at most beta.
    *Edges*: a box of one code has no cut and stays whole; an empty box is cut anywhere.
    *Reference*: McSherry & Talwar 2007, Theorem 6; Cormode, Procopiuc, Srivastava, Shen & Yu 2012
    (there with a score of -|rank - n/2|, half of ours, of half the sensitivity).
    """

    epsilon: Fraction
    sensitivity: Fraction

    @property
    def event(self) -> ExponentialChoice:
        """What the cuts of all boxes cost."""
        return ExponentialChoice(epsilon=self.epsilon)

    def sample(self, division: Division, axis: int, entropy: Entropy) -> NDArray[np.int64]:
        """The code behind which to cut each box; its last code where there is only one."""
        cuts = division.highs[:, axis].copy()
        wide = np.flatnonzero(division.sizes(axis) > 1)
        if not len(wide):
            return cuts
        begins, lengths, scores, boxes = _ranges(division, axis)
        chosen = choose_within(
            scores,
            np.searchsorted(boxes, wide),
            rate=self.epsilon / (2 * self.sensitivity),
            weights=lengths,
            entropy=entropy,
        )
        cuts[wide] = division.lows[wide, axis] + begins[chosen]
        cuts[wide] += uniform_below(lengths[chosen], entropy)
        return cuts


def _ranges(
    division: Division, axis: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Ranges of cuts of equal score: first cut, as offset in its box, length, score, and box."""
    sizes = division.sizes(axis)
    offsets, rows, places = _occupied(division, axis, int(sizes.max(initial=1)))
    totals = np.concatenate([[0], np.cumsum(rows)])
    bounds = np.searchsorted(places, np.arange(len(sizes) + 1))
    # Each box has one range before its first value and one behind each value.
    opening = bounds[:-1] + np.arange(len(sizes))
    behind = np.arange(len(offsets)) + places + 1
    begins, below, boxes = (np.zeros(len(offsets) + len(sizes), dtype=np.int64) for _ in range(3))
    begins[behind] = offsets
    below[behind] = totals[1:] - totals[bounds[places]]
    boxes[behind], boxes[opening] = places, np.arange(len(sizes))
    ends = sizes[boxes] - 1
    ends[:-1] = np.where(boxes[1:] == boxes[:-1], begins[1:], ends[:-1])
    scores = -np.abs(2 * below - (totals[bounds[1:]] - totals[bounds[:-1]])[boxes])
    kept = ends > begins
    return begins[kept], (ends - begins)[kept], scores[kept], boxes[kept]


def _occupied(
    division: Division, axis: int, span: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The offsets that occur in each box, in order, with how many rows have each."""
    places = division.places
    keys = places * span + (division.codes[:, axis] - division.lows[places, axis])
    order = np.argsort(keys)
    keys = keys[order]
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    if not len(firsts):
        return keys, keys, keys
    rows = np.add.reduceat(division.rows[order], firsts)
    found, offsets = np.divmod(keys[firsts], span)
    return offsets, rows, found
