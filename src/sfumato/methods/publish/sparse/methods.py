"""Which cells of a huge domain are released: those that pass a threshold, or a priority sample.

In a priority sample a cell of noisy count v, with a uniform U in (0, 1) of its own, has the
priority |v| / U. The `size` cells of the highest priorities are released, each with
sign(v) max(|v|, T), where T is the next priority, but at least a public level L. Given all other
cells, a cell is in the sample with probability min(1, |v| / T), so its estimate, 0 if it is not, is
v on average.

*Empty cells.* Only cells with a priority above L matter. Let L be whole and U = (J - 1 + W) / L,
J uniform in {1, ..., L} and W in (0, 1): the priority is above L when |v| >= J. For an empty cell

    P(|v| >= J) = sum_j P(|v| >= j) / L = 2 a (1 - a^L) / (L (1 + a) (1 - a)),  a = exp(-1 / scale),

and of those that pass P(J = j) is proportional to a^j, and |v| - J is geometric whatever J. All of
it is drawn exactly; W, drawn after the noise and for every cell alike, has 53 digits.

Decisions `exact-noise` and `sparse-releases`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.methods.publish.domain import blank_cells
from sfumato.methods.publish.measurement import SingleNoise, noise_error
from sfumato.methods.publish.sparse.cells import Passing, empty_cells, power
from sfumato.privacy.noise.discrete import geometric
from sfumato.privacy.noise.entropy import Draws, collect
from sfumato.privacy.noise.exponential import bernoulli_exp
from sfumato.privacy.noise.selection import uniform_integers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.sparse.cells import Bounds, NumberedCells
    from sfumato.privacy.mechanisms.laplace import Geometric
    from sfumato.privacy.noise.entropy import Entropy

_WIDEST = (1 << 63) - 1


class SparseMethod(SingleNoise):
    """A method that releases few of very many cells; what was left out counts as 0."""

    cells: NumberedCells

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        return {"sparse": blank_cells(self.cells.axes)}

    def ranges(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Add up the released cells of each box."""
        return self.cells.box_sums(tables["sparse"], boxes)


@dataclass(frozen=True)
class ThresholdFilter(SparseMethod):
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

    cells: NumberedCells
    noise: Geometric
    threshold: int
    sides: int

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
            "cell": noise_error(self.noise),
            "threshold": self.threshold,
            "empty_released": self.cells.count * self._chance,
            "kept95": self.threshold + _reach(self.noise, 0.05),
            "empty_mean": self._chance * beyond if self.sides == 1 else 0.0,
            "note": "cell holds for counts from kept95 on; a cell nearer to the threshold is there "
            "only by high noise. Cells below it are mostly left out: a range is short of them, and "
            "has empty_mean too much for each empty cell; its stated deviation is that of a range "
            "that no one is in",
        }

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The cells that pass, in order."""
        occupied, rows = self.cells.occupied(counter)
        noisy = narrowed(self.noise.steps(rows, entropy))
        passes = (np.abs(noisy) if self.sides == 2 else noisy) >= self.threshold
        ranks = self._passing.draw(self.cells.count - len(occupied), entropy)
        beyond = geometric(self.noise.scale, len(ranks), entropy)
        upgraded = narrowed(beyond + self.threshold)
        if self.sides == 2:
            upgraded = signed(upgraded, entropy)
        numbers = np.concatenate([occupied[passes], empty_cells(occupied, ranks)])
        return {"sparse": self.cells.table(numbers, np.concatenate([noisy[passes], upgraded]))}

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
        """The variance of each sum, if no one is in the box."""
        beyond, mean = self.threshold + self._mean_beyond, self.error["empty_mean"]
        # Beyond the threshold the noise is geometric, with as much variance as mean (1 + mean).
        spread = self._mean_beyond * (1 + self._mean_beyond)
        cell_variance: float = self._chance * (spread + beyond**2) - mean**2
        return cells_in(boxes) * cell_variance

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


def least_threshold(cells: NumberedCells, noise: Geometric, sides: int, size: int) -> int:
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


def cells_in(boxes: IntArray) -> FloatArray:
    """How many cells each box has."""
    lengths = np.maximum(boxes[:, :, 1] - boxes[:, :, 0] + 1, 0)
    return np.asarray(lengths.prod(axis=1, dtype=np.float64))


def narrowed(values: NDArray[Any]) -> IntArray:
    """Integers cut to those that have a negative and an absolute value in 64 bits."""
    return np.asarray(np.clip(values, -_WIDEST, _WIDEST), dtype=np.int64)


def signed(magnitudes: IntArray, entropy: Entropy) -> IntArray:
    """Each with a fair random sign."""
    negative = (entropy.words(len(magnitudes)) & np.uint64(1)).astype(bool)
    return np.where(negative, -magnitudes, magnitudes)


_HIGHEST = 1 << 62


@dataclass(frozen=True)
class PrioritySample(SparseMethod):
    """Noise on every cell, of which a priority sample of at most `size` cells is released.

    *Guarantee*: epsilon-differential privacy: noise on all cells, and a choice that depends on
    nothing but noisy counts and coins. Cells that no one is in are sampled like all others.
    *Sensitivity*: L1, of a histogram under the privacy unit.
    *Error*: unbiased in every cell and every sum of cells; a cell whose noisy count is below the
    level of the sample is there rarely and then with the level as its count.
    *Edges*: fewer than `size` cells only where hardly any more have noise other than 0; counts are
    cut to 64 bits.
    *Reference*: Duffield, Lund & Thorup 2007; Cormode, Procopiuc, Srivastava & Tran 2012, 4.4.
    """

    cells: NumberedCells
    noise: Geometric
    size: int

    def __post_init__(self) -> None:
        if self.level >= _HIGHEST:
            raise ParameterError(
                "parameter_out_of_range",
                f"A sample of {self.size:,} of {self.cells.count:,} cells with noise of this scale "
                "would need counts beyond 64 bits. Take more cells into the sample, a coarser "
                "domain, or a larger epsilon.",
            )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The size of the sample and the level below which no cell is looked at."""
        return {"method": "priority", "size": self.size, "level": self.level}

    @property
    def error(self) -> Mapping[str, Any]:
        """Of a cell that is sampled whatever its noise, and of one that is empty."""
        return {
            "cell": noise_error(self.noise),
            "empty_cell": {"sd": math.sqrt(self._empty_variance)},
            "level": self._typical,
            "note": "cell holds for counts far above the level; unbiased; a count below the level "
            "is mostly left out and else stands as the level. Level, empty_cell and the stated "
            "deviation of ranges are for few rows against the noise of all cells together",
        }

    @cached_property
    def level(self) -> int:
        """The public level: nearly surely more than `size` cells have a priority above it."""
        return self._level(self.size + 6 * math.sqrt(self.size) + 20)

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The sampled cells, in order, with their estimates."""
        occupied, rows = self.cells.occupied(counter)
        noisy = narrowed(self.noise.steps(rows, entropy))
        thresholds = uniform_integers(self.level, len(noisy), entropy) + 1
        passes = thresholds <= np.abs(noisy)
        ranks = self._passing.draw(self.cells.count - len(occupied), entropy)
        empty_thresholds = _truncated(self.noise.scale, self.level, len(ranks), entropy) + 1
        beyond = geometric(self.noise.scale, len(ranks), entropy)
        upgraded = signed(narrowed(empty_thresholds + beyond), entropy)
        numbers = np.concatenate([occupied[passes], empty_cells(occupied, ranks)])
        values = np.concatenate([noisy[passes], upgraded])
        sampled, estimates = self._sample(
            values, np.concatenate([thresholds[passes], empty_thresholds]), entropy
        )
        return {"sparse": self.cells.table(numbers[sampled], estimates)}

    def _sample(
        self, values: IntArray, thresholds: IntArray, entropy: Entropy
    ) -> tuple[NDArray[np.intp], FloatArray]:
        """The places of the highest priorities among these cells, and their estimates."""
        digits = (entropy.words(len(values)) >> np.uint64(11)).astype(np.float64)
        priorities = np.abs(values) * (self.level / (thresholds - 1 + (digits + 0.5) * 2.0**-53))
        order = np.argsort(-priorities, kind="stable")
        level = priorities[order[self.size]] if len(order) > self.size else float(self.level)
        sampled = order[: self.size]
        sampled_values = values[sampled]
        return sampled, np.sign(sampled_values) * np.maximum(np.abs(sampled_values), level)

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
        """The variance of each sum, if hardly anyone is there; rows raise the level, and it."""
        return cells_in(boxes) * self._empty_variance

    @cached_property
    def _passing(self) -> Passing:
        return Passing(partial(above, self.noise.scale, self.level))

    @property
    def _empty_variance(self) -> float:
        """E |X| max(|X|, T) of the noise X at the level T to be expected."""
        level, rate = self._typical, float(1 / self.noise.scale)
        beyond = 1 / math.expm1(rate)
        # Beyond T the noise is T + G, G geometric: G T + G^2 is what |X| T falls short of.
        tail = 2 * math.exp(-level * rate) / (1 + math.exp(-rate))
        return level / math.sinh(rate) + tail * (level * beyond + beyond * (1 + 2 * beyond))

    @cached_property
    def _typical(self) -> int:
        return self._level(self.size)

    def _level(self, expected_cells: float) -> int:
        """The highest level above which about so many empty cells have a priority."""
        rate = float(1 / self.noise.scale)
        low, high = 1, _HIGHEST
        while low < high:
            middle = (low + high + 1) // 2
            share = -math.expm1(-middle * rate) / (middle * math.sinh(rate))
            low, high = (
                (middle, high) if self.cells.count * share >= expected_cells else (low, middle - 1)
            )
        return low


def above(scale: Fraction, level: int, bits: int) -> Bounds:
    """Bound the chance that the priority of an empty cell is above the level."""
    low, high = power(scale, 1, bits)
    power_low, power_high = power(scale, level, bits)
    # a / (1 - a^2) rises with a.
    return (
        2 * low * (1 - power_high) / (level * (1 - low**2)),
        2 * high * (1 - power_low) / (level * (1 - high**2)),
    )


def _truncated(scale: Fraction, limit: int, size: int, entropy: Entropy) -> IntArray:
    """Geometric variables given that they are below a limit."""

    def geometrics(count: int) -> Draws:
        drawn = geometric(scale, count, entropy)
        return Draws(drawn[drawn < limit].astype(np.int64))

    def uniforms(count: int) -> Draws:
        drawn = uniform_integers(limit, count, entropy)
        return Draws(drawn[bernoulli_exp(drawn, rate=1 / scale, entropy=entropy)])

    # Either is kept with a chance of at least 1 - 1/e.
    return collect(size, 0.7, geometrics if limit > scale else uniforms)
