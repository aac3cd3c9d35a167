"""A priority sample of noisy counts: a fixed number of cells, and unbiased estimates.

A cell of noisy count v, with a uniform U in (0, 1) of its own, has the priority |v| / U. The
`size` cells of the highest priorities are released, each with sign(v) max(|v|, T), where T is the
next priority, but at least a public level L. Given all other cells, a cell is in the sample with
probability min(1, |v| / T), so its estimate, 0 if it is not, is v on average.

*Empty cells.* Only cells with a priority above L matter. Let L be whole and U = (J - 1 + W) / L,
J uniform in {1, ..., L} and W in (0, 1): the priority is above L when |v| >= J. For an empty cell

    P(|v| >= J) = sum_j P(|v| >= j) / L = 2 a (1 - a^L) / (L (1 + a) (1 - a)),  a = exp(-1 / scale),

and of those that pass P(J = j) is proportional to a^j, and |v| - J is geometric whatever J. All of
it is drawn exactly; W, drawn after the noise and for every cell alike, has 53 digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.noise.bernoulli import bernoulli_exp
from sfumato.noise.blocks import Draws, collect
from sfumato.noise.laplace import geometric
from sfumato.noise.uniform import uniform_integers
from sfumato.publish import blank
from sfumato.publish.sparse.cells import empty_cells
from sfumato.publish.sparse.filtered import cells_in, narrowed, signed
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

_HIGHEST = 1 << 62


@dataclass(frozen=True)
class Sampled:
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

    cells: Cells
    noise: Geometric
    size: int

    def __post_init__(self) -> None:
        if self.level >= _HIGHEST:
            raise ParameterError(
                "sample_too_thin",
                f"A sample of {self.size:,} of {self.cells.count:,} cells with noise of this scale "
                "would need counts beyond 64 bits. Take more cells into the sample, a coarser "
                "domain, or a larger epsilon.",
            )

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The size of the sample and the level below which no cell is looked at."""
        return {"method": "priority", "size": self.size, "level": self.level}

    @property
    def error(self) -> Mapping[str, Any]:
        """Of a cell that is sampled whatever its noise, and of one that is empty."""
        return {
            "cell": {"sd": self.noise.stddev, "bound95": self.noise.bound(0.05)},
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

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        return {"sparse": blank.cells(self.cells.axes)}

    def release(self, counts: Frequencies, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The sampled cells, in order, with their estimates."""
        occupied = self.cells.numbers(counts)
        noisy = narrowed(self.noise.steps(counts.counts, entropy))
        parts = uniform_integers(self.level, len(noisy), entropy) + 1
        passes = parts <= np.abs(noisy)
        ranks = self._passing.places(self.cells.count - len(occupied), entropy)
        empty_parts = _truncated(self.noise.scale, self.level, len(ranks), entropy) + 1
        beyond = geometric(self.noise.scale, len(ranks), entropy)
        upgraded = signed(narrowed(empty_parts + beyond), entropy)
        numbers = np.concatenate([occupied[passes], empty_cells(occupied, ranks)])
        values = np.concatenate([noisy[passes], upgraded])
        kept, estimates = self._sample(
            values, np.concatenate([parts[passes], empty_parts]), entropy
        )
        return {"sparse": self.cells.table(numbers[kept], estimates)}

    def _sample(
        self, values: NDArray[np.int64], parts: NDArray[np.int64], entropy: Entropy
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The places of the highest priorities among these cells, and their estimates."""
        digits = (entropy.words(len(values)) >> np.uint64(11)).astype(np.float64)
        priorities = np.abs(values) * (self.level / (parts - 1 + (digits + 0.5) * 2.0**-53))
        order = np.argsort(-priorities, kind="stable")
        level = priorities[order[self.size]] if len(order) > self.size else float(self.level)
        kept = order[: self.size]
        sampled = values[kept]
        return kept, np.sign(sampled) * np.maximum(np.abs(sampled), level)

    def ranges(
        self, tables: Mapping[str, pa.Table], boxes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Add up the estimates of the sampled cells of each box."""
        return self.cells.box_sums(tables["sparse"], boxes)

    def ranges_variance(self, boxes: NDArray[np.int64]) -> NDArray[np.float64]:
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

    def _level(self, wanted: float) -> int:
        """The highest level above which about so many empty cells have a priority."""
        rate = float(1 / self.noise.scale)
        low, high = 1, _HIGHEST
        while low < high:
            middle = (low + high + 1) // 2
            share = -math.expm1(-middle * rate) / (middle * math.sinh(rate))
            low, high = (middle, high) if self.cells.count * share >= wanted else (low, middle - 1)
        return low


def above(scale: Fraction, level: int, bits: int) -> Bounds:
    """Bound the chance that the priority of an empty cell is above the level."""
    low, high = power(scale, 1, bits)
    rest_low, rest_high = power(scale, level, bits)
    # a / (1 - a^2) rises with a.
    return (
        2 * low * (1 - rest_high) / (level * (1 - low**2)),
        2 * high * (1 - rest_low) / (level * (1 - high**2)),
    )


def _truncated(scale: Fraction, limit: int, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """Geometric variables given that they are below a limit."""

    def geometrics(count: int) -> Draws:
        drawn = geometric(scale, count, entropy)
        return Draws(drawn[drawn < limit].astype(np.int64))

    def uniforms(count: int) -> Draws:
        drawn = uniform_integers(limit, count, entropy)
        return Draws(drawn[bernoulli_exp(drawn, rate=1 / scale, entropy=entropy)])

    # Either is kept with a chance of at least 1 - 1/e.
    return collect(size, 0.7, geometrics if limit > scale else uniforms)
