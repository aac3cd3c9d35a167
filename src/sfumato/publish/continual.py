"""Running counts of a feed: how many rows up to each date, time or number, as they grow.

Each running count uses only what was measured up to its own place, so the same figures could have
been told day by day.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import ParameterError
from sfumato.mechanisms.base import widened
from sfumato.mechanisms.spending import spendings
from sfumato.publish import options
from sfumato.publish.domain import Domain, blank_cells
from sfumato.publish.measurement import (
    ColumnNorms,
    SingleNoise,
    noise_name,
    one_axis,
    without_postprocess,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.counting.frequencies import Counter
    from sfumato.mechanisms.spending import Noise
    from sfumato.noise.entropy import Entropy
    from sfumato.publish.request import Request

SCALE = 1 << 20
"""The square root's entries are rounded to whole multiples of 1 / SCALE."""

LONGEST_ROOT = 1 << 13
"""The most points of a square root, whose work grows with their square."""


def prepare(request: Request, *, method: object = None) -> Continual:
    """Choose a factor of the running sum and its noise by least error; `method` fixes the factor.

    The error is that of the request's ranges, or else of all running counts.
    """
    domain = Domain((one_axis(request, "continual"),))
    without_postprocess(request, "continual")
    points = domain.shape[0]
    factors: list[DyadicTree | SquareRoot] = [DyadicTree(points)]
    if points <= LONGEST_ROOT:
        factors.append(SquareRoot(points))
    if method is not None:
        name = options.choice(method, "method", (DyadicTree.name, SquareRoot.name))
        factors = [factor for factor in factors if factor.name == name]
    if not factors:
        raise ParameterError(
            "root_too_long",
            f"The square root takes at most {LONGEST_ROOT:,} points, but column "
            f"{request.columns[0]!r} has {points:,}. Take method 'tree' or a coarser step.",
        )
    ways = [
        Continual(domain, factor, spending.noise(factor.columns.sensitivity(request)))
        for factor in factors
        for spending in spendings(request.price)
    ]
    boxes = request.boxes

    def mean_variance(way: Continual) -> float:
        if boxes is None or not len(boxes):
            return float(way.running_variance.mean())
        return float(way.ranges_variance(boxes).mean())

    return min(ways, key=mean_variance)


@dataclass(frozen=True)
class DyadicTree:
    """Sums over dyadic blocks: a running count adds up one block for each digit 1 of its place.

    Only blocks that end at an odd multiple of their length are ever used, and only they count.
    """

    points: int
    name: ClassVar[str] = "tree"

    @property
    def levels(self) -> int:
        """How many lengths of blocks there are: 1, 2, 4, ..."""
        return self.points.bit_length()

    @property
    def columns(self) -> ColumnNorms:
        """The first point is in a block of every length."""
        return ColumnNorms(l1=self.levels, l2_squared=self.levels, signed=False)

    def running(
        self, counts: NDArray[np.int64], noise: Noise, entropy: Entropy
    ) -> NDArray[np.float64]:
        """Noisy running counts along the last axis."""
        sums = np.zeros((*counts.shape[:-1], self.points + 1), dtype=np.int64)
        np.cumsum(counts, axis=-1, out=sums[..., 1:])
        places = np.arange(1, self.points + 1)
        running = np.zeros(counts.shape)
        for level in range(self.levels):
            ends = np.arange(1 << level, self.points + 1, 2 << level)
            blocks = sums[..., ends] - sums[..., ends - (1 << level)]
            noisy = noise.steps(blocks, entropy).astype(np.float64)
            used = (places >> level) & 1 == 1
            running[..., used] += noisy[..., places[used] >> (level + 1)]
        return running

    def blocks_between(
        self, low: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The sum of the squared weights of noises in the count from low up to, not with, stop."""
        # Digits before the first one that differs stand for the same blocks, which cancel.
        differing = np.frexp((low ^ stop).astype(np.float64))[1]
        kept = (np.int64(1) << differing.astype(np.int64)) - 1
        return np.asarray(
            np.bitwise_count(low & kept).astype(np.float64) + np.bitwise_count(stop & kept)
        )


@dataclass(frozen=True)
class SquareRoot:
    """The square root of the running sum: a lower triangular matrix with itself as other factor.

    Its entries depend on the distance to the diagonal alone: 1, 1/2, 3/8, ..., here in whole
    multiples of 1 / SCALE. What undoes the rounding goes into the other factor.
    """

    points: int
    name: ClassVar[str] = "root"

    @cached_property
    def entries(self) -> NDArray[np.int64]:
        """The entries by distance to the diagonal, times SCALE."""
        steps = 1 - 1 / (2 * np.arange(1, self.points))
        entries = np.cumprod(np.append(1.0, steps)) * SCALE
        return np.asarray(np.rint(entries), dtype=np.int64)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The other factor, by distance: convolved with the entries it gives 1, 1, 1, ..."""
        entries = self.entries.astype(np.float64)
        weights = np.zeros(self.points)
        for place in range(self.points):
            before = entries[1 : place + 1] @ weights[:place][::-1]
            weights[place] = (1 - before) / entries[0]
        return weights

    @property
    def columns(self) -> ColumnNorms:
        """The first column has every entry."""
        return ColumnNorms(
            l1=int(self.entries.sum()), l2_squared=int((self.entries**2).sum()), signed=False
        )

    def running(
        self, counts: NDArray[np.int64], noise: Noise, entropy: Entropy
    ) -> NDArray[np.float64]:
        """Noisy running counts along the last axis."""
        measured = _convolved(widened(counts, SCALE), self.entries)
        return _convolved(noise.steps(measured, entropy).astype(np.float64), self.weights)

    def blocks_between(
        self, low: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The sum of the squared weights of noises in the count from low up to, not with, stop."""
        own = np.append(0.0, np.cumsum(self.weights**2))
        found: NDArray[np.float64] = own[stop - low]
        for length in np.unique(stop - low).tolist():
            chosen = (stop - low) == length
            change = self.weights[length:] - self.weights[: self.points - length]
            found[chosen] += np.append(0.0, np.cumsum(change**2))[low[chosen]]
        return found


def _convolved(rows: NDArray[Any], entries: NDArray[Any]) -> NDArray[Any]:
    """Each series times the lower triangular matrix that has these entries by distance."""
    size = rows.shape[-1]
    flat = [np.convolve(row, entries)[:size] for row in rows.reshape(-1, size)]
    return np.stack(flat).reshape(rows.shape)


@dataclass(frozen=True)
class Continual(SingleNoise):
    """Noise on a factor of the running sum, and running counts put together from it.

    *Guarantee*: the price in full, epsilon or rho, for all running counts together.
    *Sensitivity*: the largest column of the measured factor, in L1 or L2, times that of a
    histogram under the privacy unit: for a tree over n points 1 + floor(log2 n) blocks, for the
    square root what its rounded entries add up to.
    *Error*: unbiased. A tree's running count has as many noises as its place has digits 1; the
    square root's has (1 + log(n) / pi) of them, its own factor's largest column included, which
    Gaussian noise makes small and Laplace noise does not. Exact for each place and each range.
    *Edges*: missing values are counted apart, behind the last point, and are in no running count.
    Running counts may fall.
    *Reference*: Dwork, Naor, Pitassi & Rothblum 2010; Chan, Shi & Song 2011; Fichtenberger,
    Henzinger & Upadhyay 2023, Theorem 1.
    """

    domain: Domain
    factor: DyadicTree | SquareRoot
    noise: Noise

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The factor and the noise that were chosen."""
        return {"method": self.factor.name, "noise": noise_name(self.noise)}

    @cached_property
    def running_variance(self) -> NDArray[np.float64]:
        """The variance of each running count."""
        stop = np.arange(1, self.factor.points + 1)
        return self.factor.blocks_between(np.zeros_like(stop), stop) * self.noise.variance

    @property
    def error(self) -> Mapping[str, Any]:
        """Of running counts, on average and at worst, and of missing values."""
        stated = {
            "running": {
                "sd": math.sqrt(self.running_variance.mean()),
                "largest_sd": math.sqrt(self.running_variance.max()),
            }
        }
        if len(self.domain.missing_codes[0]):
            stated["missing"] = {"sd": self.noise.stddev / self._missing_weight}
        return stated

    @property
    def _missing_weight(self) -> int:
        return self.factor.columns.missing_weight(self.noise)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        return {"continual": blank_cells(self.domain.axes, "running")}

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The running count at every point; then, where values may be missing, how many are."""
        interior, nulls = self.domain.split(counter)
        running = self.factor.running(interior, self.noise, entropy)
        weighted = widened(nulls, self._missing_weight) * self._missing_weight
        missing = self.noise.steps(weighted, entropy) / self._missing_weight
        table = self.domain.table(running, missing.astype(np.float64), name="running")
        return {"continual": table}

    def ranges(
        self, tables: Mapping[str, pa.Table], boxes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Estimate the rows in each range: one running count less another."""
        running = np.append(0.0, self.domain.interior(tables["continual"], "running"))
        low, stop = _ends(boxes)
        return np.asarray(running[stop] - running[low])

    def ranges_variance(self, boxes: NDArray[np.int64]) -> NDArray[np.float64]:
        """The exact variance of each estimate."""
        return self.factor.blocks_between(*_ends(boxes)) * self.noise.variance


def _ends(boxes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first place of each range and the one behind its last; the same for an empty range."""
    low = boxes[:, 0, 0]
    return low, np.maximum(boxes[:, 0, 1] + 1, low)
