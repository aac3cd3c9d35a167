"""Growing a tree over private rows: boxes are divided, rows follow, and blocks are measured.

At every moment the boxes that were not divided, with the blocks of missing values, are a partition
of all rows. A measurement is of boxes of the partition, so its sensitivity is that of a histogram.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.publish.spatial.tree import Tree

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.publish.purse import Noise
    from sfumato.publish.spatial.space import Space

LARGEST = 1 << 22
"""The most boxes that a tree may end in."""


@dataclass
class Division:
    """Some boxes while they are divided, with the occupied cells in them."""

    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    origins: NDArray[np.int64]
    """The place of the box that each is a part of, among those that were to be divided."""
    codes: NDArray[np.int64]
    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    """The box in which each cell lies."""

    def sizes(self, axis: int) -> NDArray[np.int64]:
        """How many codes of an axis each box spans."""
        return self.highs[:, axis] - self.lows[:, axis] + 1

    def cut(self, axis: int, cuts: NDArray[np.int64]) -> None:
        """Cut each box in two behind a code; behind its last code it stays whole."""
        lower_ends = self.highs.copy()
        lower_ends[:, axis] = cuts
        upper_starts = self.lows.copy()
        upper_starts[:, axis] = cuts + 1
        beyond = self.codes[:, axis] > cuts[self.places]
        old, second = self._divide(np.where(cuts < self.highs[:, axis], 2, 1), beyond)
        is_upper = second[:, None] == 1
        self.highs = np.where(is_upper, self.highs[old], lower_ends[old])
        self.lows = np.where(is_upper, upper_starts[old], self.lows[old])

    def evenly(self, axis: int, parts: NDArray[np.int64]) -> None:
        """Cut each box into parts of equal size, give or take a code; at most as many as codes."""
        sizes, starts = self.sizes(axis), self.lows[:, axis]
        parts = np.minimum(parts, sizes)
        offsets = self.codes[:, axis] - starts[self.places]
        # Part j begins at floor(j size / parts), so this is the part of an offset.
        within = ((offsets + 1) * parts[self.places] - 1) // sizes[self.places]
        old, which = self._divide(parts, within)
        self.lows, self.highs = self.lows[old], self.highs[old]
        self.lows[:, axis] = starts[old] + which * sizes[old] // parts[old]
        self.highs[:, axis] = starts[old] + (which + 1) * sizes[old] // parts[old] - 1

    def _divide(
        self, parts: NDArray[np.int64], within: NDArray[np.int64] | NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Move the cells to their parts; give the box of each part, and its place within it."""
        firsts = np.cumsum(parts) - parts
        old = np.repeat(np.arange(len(parts)), parts)
        self.places = firsts[self.places] + within
        self.origins = self.origins[old]
        return old, np.arange(len(old)) - firsts[old]


class Growth:
    """A tree while it grows: the boxes so far, and what was measured of each."""

    def __init__(
        self,
        space: Space,
        codes: NDArray[np.int64],
        rows: NDArray[np.int64],
        missing: NDArray[np.int64],
    ) -> None:
        self._codes, self._rows, self._missing = codes, rows, missing
        self._lows = np.zeros((1, len(space.shape)), dtype=np.int64)
        self._highs = np.array([space.shape], dtype=np.int64) - 1
        self._parents = np.array([-1])
        self._last = np.array([0])  # the undivided boxes
        self._newest = 0  # the first of those that came last
        self._places = np.zeros(len(rows), dtype=np.int64)  # of each cell, among those
        self._weighted, self._precisions = np.zeros(1), np.zeros(1)
        self._missing_weighted, self._missing_precision = np.zeros(len(missing)), 0.0

    def counts(self) -> NDArray[np.int64]:
        """The rows in each undivided box: private."""
        counts: NDArray[np.int64] = np.zeros(len(self._last), dtype=np.int64)
        np.add.at(counts, self._places, self._rows)
        return counts

    def sizes(self) -> NDArray[np.int64]:
        """How many codes of each axis each undivided box spans."""
        return np.asarray(self._highs[self._last] - self._lows[self._last] + 1)

    def measure(
        self,
        noise: Noise,
        entropy: Entropy,
        *,
        chosen: NDArray[np.bool_] | None = None,
        missing: bool = True,
    ) -> None:
        """Count the partition with noise, and average with what was measured before.

        Only the chosen of the undivided boxes if some are chosen, and the blocks of missing values
        unless they are left out.
        """
        nodes = self._last if chosen is None else self._last[chosen]
        counts = self.counts() if chosen is None else self.counts()[chosen]
        apart = self._missing if missing else self._missing[:0]
        figures = noise.steps(np.concatenate([counts, apart]), entropy).astype(np.float64)
        precision = 1 / noise.variance
        self._weighted[nodes] += precision * figures[: len(nodes)]
        self._precisions[nodes] += precision
        if missing:
            self._missing_weighted += precision * figures[len(nodes) :]
            self._missing_precision += precision

    def estimates(self) -> NDArray[np.float64]:
        """What was measured of each undivided box: no longer private."""
        return np.asarray(self._weighted[self._last] / self._precisions[self._last])

    @property
    def newest(self) -> NDArray[np.bool_]:
        """Which of the undivided boxes came last: only these are ever divided."""
        return np.asarray(self._last >= self._newest)

    def room(self, parts: int) -> int:
        """How many of the undivided boxes may be divided into so many parts each."""
        return (LARGEST - len(self._last)) // max(parts - 1, 1)

    def begin(self, chosen: NDArray[np.bool_]) -> Division:
        """Take the chosen undivided boxes to be divided; one that is passed over stays whole."""
        self._chosen = chosen & self.newest
        self._moving = self._chosen[self._places]
        rank = np.cumsum(self._chosen) - 1
        nodes = self._last[self._chosen]
        return Division(
            self._lows[nodes],
            self._highs[nodes],
            np.arange(len(nodes)),
            self._codes[self._moving],
            self._rows[self._moving],
            rank[self._places[self._moving]],
        )

    def end(self, division: Division) -> None:
        """Put the parts in the place of the boxes that were divided."""
        kept = self._last[~self._chosen]
        added = np.arange(len(division.origins))
        rank = np.cumsum(~self._chosen) - 1
        self._places = rank[self._places]
        self._places[self._moving] = len(kept) + division.places
        self._parents = np.append(self._parents, self._last[self._chosen][division.origins])
        self._newest = len(self._lows)
        self._last = np.append(kept, self._newest + added)
        self._lows = np.concatenate([self._lows, division.lows])
        self._highs = np.concatenate([self._highs, division.highs])
        nothing = np.zeros(len(added))
        self._weighted = np.append(self._weighted, nothing)
        self._precisions = np.append(self._precisions, nothing)

    @property
    def tree(self) -> Tree:
        """The boxes so far."""
        return Tree(self._lows, self._highs, self._parents)

    @property
    def measured(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The mean of each node's measurements, and its precision: 0 where there is none."""
        known = self._precisions > 0
        means = np.divide(self._weighted, self._precisions, out=np.zeros(len(known)), where=known)
        return means, self._precisions

    @property
    def missing(self) -> tuple[NDArray[np.float64], float]:
        """What was measured of the blocks of missing values, and the precision of each."""
        return self._missing_weighted / self._missing_precision, self._missing_precision
