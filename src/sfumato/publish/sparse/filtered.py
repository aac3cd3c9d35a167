"""Cells whose noisy count passes a threshold, upwards or either way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.laplace import geometric
from sfumato.publish import blank
from sfumato.publish.sparse.cells import empty_cells
from sfumato.publish.sparse.passing import Passing, power

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.frequencies import Frequencies
    from sfumato.mechanisms.geometric import Geometric
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import Event
    from sfumato.publish.sparse.cells import Cells
    from sfumato.publish.sparse.passing import Bounds

_WIDEST = (1 << 63) - 1


@dataclass(frozen=True)
class Filtered:
    """Noise on every cell, of which those with a noisy count of at least the threshold are kept.

    With two sides, those at or below minus the threshold are kept too.
    *Guarantee*: epsilon-differential privacy: noise on all cells, and a choice that depends on
    nothing but noisy counts. Cells that no one is in are released like all others.
    *Sensitivity*: L1, of a histogram under the privacy unit.
    *Error*: a cell of a high count has the noise's; one below the threshold is mostly left out, so
    sums over the release are biased; `error` has the figures.
    *Edges*: a threshold of at least 1; counts are cut to 64 bits.
    *Reference*: Cormode, Procopiuc, Srivastava & Tran 2012, sections 4.1 and 4.2.
    """

    cells: Cells
    noise: Geometric
    threshold: int
    sides: int

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The method and its threshold."""
        method = "threshold" if self.sides == 1 else "filter"
        return {"method": method, "threshold": self.threshold}

    @property
    def error(self) -> Mapping[str, Any]:
        """Of a cell that is kept whatever its noise; how many empty cells come; what is lost."""
        beyond = self.threshold + self._mean_beyond
        return {
            "cell": {"sd": self.noise.stddev, "bound95": self.noise.bound(0.05)},
            "threshold": self.threshold,
            "empty_released": self.cells.count * self._chance,
            "kept95": self.threshold + _reach(self.noise, 0.05),
            "empty_mean": self._chance * beyond if self.sides == 1 else 0.0,
            "note": "cell holds for counts from kept95 on; a cell nearer to the threshold is there "
            "only by high noise. Cells below it are mostly left out: a range is short of them, and "
            "has empty_mean too much for each empty cell; its stated deviation is that of a range "
            "that no one is in",
        }

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        return {"sparse": blank.cells(self.cells.axes)}

    def release(self, counts: Frequencies, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The cells that pass, in order."""
        occupied = self.cells.numbers(counts)
        noisy = narrowed(self.noise.steps(counts.counts, entropy))
        passes = (np.abs(noisy) if self.sides == 2 else noisy) >= self.threshold
        ranks = self._passing.places(self.cells.count - len(occupied), entropy)
        beyond = geometric(self.noise.scale, len(ranks), entropy)
        upgraded = narrowed(beyond + self.threshold)
        if self.sides == 2:
            upgraded = signed(upgraded, entropy)
        numbers = np.concatenate([occupied[passes], empty_cells(occupied, ranks)])
        return {"sparse": self.cells.table(numbers, np.concatenate([noisy[passes], upgraded]))}

    def ranges(
        self, tables: Mapping[str, pa.Table], boxes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Add up the released cells of each box; what was left out counts as 0."""
        return self.cells.box_sums(tables["sparse"], boxes)

    def ranges_variance(self, boxes: NDArray[np.int64]) -> NDArray[np.float64]:
        """The variance of each sum, if no one is in the box."""
        beyond, mean = self.threshold + self._mean_beyond, self.error["empty_mean"]
        # Beyond the threshold the noise is geometric, with as much variance as mean (1 + mean).
        spread = self._mean_beyond * (1 + self._mean_beyond)
        each: float = self._chance * (spread + beyond**2) - mean**2
        return cells_in(boxes) * each

    @cached_property
    def _passing(self) -> Passing:
        return Passing(partial(tail, self.noise.scale, self.threshold, self.sides))

    @property
    def _chance(self) -> float:
        """How often an empty cell is released."""
        return _tail(self.noise, self.threshold, self.sides)

    @property
    def _mean_beyond(self) -> float:
        """How far beyond the threshold the noise of an empty cell is on average."""
        rate = float(1 / self.noise.scale)
        return math.exp(-rate) / -math.expm1(-rate)


def tail(scale: Fraction, threshold: int, sides: int, bits: int) -> Bounds:
    """Bound the chance that discrete Laplace noise is at least a threshold, or as far either way.

    It is a^t / (1 + a) for t >= 1, a = exp(-1 / scale), and twice that for both sides.
    """
    low, high = power(scale, threshold, bits)
    base_low, base_high = power(scale, 1, bits)
    return sides * low / (1 + base_high), sides * high / (1 + base_low)


def least_threshold(cells: Cells, noise: Geometric, sides: int, size: int) -> int:
    """The least threshold at which at most `size` empty cells are released on average."""
    # cells sides a^t / (1 + a) <= size; the domain is public, how many cells are empty is not.
    most = cells.count * _tail(noise, 0, sides) / size
    level = math.ceil(math.log(most) * float(noise.scale)) if most > 1 else 1
    return max(level, 1)


def _tail(noise: Geometric, threshold: int, sides: int) -> float:
    rate = float(1 / noise.scale)
    return sides * math.exp(-threshold * rate) / (1 + math.exp(-rate))


def _reach(noise: Geometric, beta: float) -> int:
    """The least t for which the noise is below -t with probability at most beta."""
    rate = float(1 / noise.scale)
    # P(noise <= -t - 1) = a^(t + 1) / (1 + a).
    reached = -math.log(beta * (1 + math.exp(-rate))) / rate
    return max(math.ceil(reached) - 1, 0)


def cells_in(boxes: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many cells each box has."""
    lengths = np.maximum(boxes[:, :, 1] - boxes[:, :, 0] + 1, 0)
    return np.asarray(lengths.prod(axis=1, dtype=np.float64))


def narrowed(values: NDArray[Any]) -> NDArray[np.int64]:
    """Integers cut to those that have a negative and an absolute value in 64 bits."""
    return np.asarray(np.clip(values, -_WIDEST, _WIDEST), dtype=np.int64)


def signed(magnitudes: NDArray[np.int64], entropy: Entropy) -> NDArray[np.int64]:
    """Each with a fair random sign."""
    negative = (entropy.words(len(magnitudes)) & np.uint64(1)).astype(bool)
    return np.where(negative, -magnitudes, magnitudes)
