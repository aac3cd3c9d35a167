"""The lowest frequencies of a series of counts, and the smooth series that they make."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.methods import options
from sfumato.methods.publish.domain import CellsMethod, Domain
from sfumato.methods.publish.measurement import (
    ColumnNorms,
    SingleNoise,
    least_noise,
    noise_name,
    one_axis,
)
from sfumato.methods.publish.postprocess import caveat, check, with_missing
from sfumato.privacy.mechanisms.base import widened

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy

# Cosines and sines are rounded to whole multiples of 1 / SCALE.
SCALE = 1 << 24

# How many coefficients are kept if nobody says: the mean and nine waves.
DEFAULT_COEFFICIENTS = 10

# The most entries of the matrix of cosines and sines, which is made row by row.
MAX_MATRIX_ENTRIES = 1 << 28


def prepare_series(request: Request, *, coefficients: object = None) -> Series:
    """Choose the noise of least variance for the first coefficients, real and imaginary."""
    domain = Domain((one_axis(request, "fourier"),))
    check(request.postprocess)
    most = domain.shape[0] // 2 + 1
    coefficient_count = (
        min(DEFAULT_COEFFICIENTS, most)
        if coefficients is None
        else options.whole(coefficients, "coefficients", least=1, most=most)
    )
    options.whole(
        coefficient_count * domain.shape[0],
        "coefficients times points",
        least=1,
        most=MAX_MATRIX_ENTRIES,
    )
    waves = Waves(domain.shape[0], coefficient_count)
    columns = waves.columns
    least = least_noise(request, columns)
    return Series(domain, waves, least, columns.missing_weight(least), request.postprocess)


@dataclass(frozen=True)
class Waves:
    """Whole-number cosines and sines of the first frequencies 0, 1, ..., over equidistant points.

    Rows come in the order cosine 0, cosine 1, sine 1, cosine 2, ...; the highest possible
    frequency of an even number of points, like 0, has no sine.
    """

    points: int
    coefficients: int

    @cached_property
    def frequencies(self) -> list[int]:
        """The frequency of each row."""
        row_frequencies = [0]
        for frequency in range(1, self.coefficients):
            row_frequencies += [frequency] * (1 if 2 * frequency == self.points else 2)
        return row_frequencies

    @cached_property
    def gains(self) -> FloatArray:
        """How much each row counts in the inverse: 1 alone, 2 where a negative frequency joins."""
        alone = [frequency in (0, self.points / 2) for frequency in self.frequencies]
        return np.where(alone, 1.0, 2.0)

    def row(self, index: int) -> FloatArray:
        """One cosine or sine."""
        frequency = self.frequencies[index]
        # Reduced before it is turned into an angle, so that long series lose no digits.
        angles = 2 * np.pi / self.points * (frequency * np.arange(self.points) % self.points)
        is_sine = index > 0 and self.frequencies[index - 1] == frequency
        return np.asarray(np.sin(angles) if is_sine else np.cos(angles))

    def whole_row(self, index: int) -> IntArray:
        """One cosine or sine as it is measured, times SCALE."""
        return np.asarray(np.rint(self.row(index) * SCALE), dtype=np.int64)

    @property
    def columns(self) -> ColumnNorms:
        """The exact norms of the rounded matrix: cosines and sines both count."""
        l1 = np.zeros(self.points, dtype=np.int64)
        # Squares are below 2^48 each; beyond 2^14 rows their sum could pass 64 bits.
        l2_squared = np.zeros(self.points, dtype=object if self.coefficients >= 1 << 13 else int)
        for index in range(len(self.frequencies)):
            entries = self.whole_row(index)
            l1 += np.abs(entries)
            l2_squared += entries**2
        return ColumnNorms(l1=int(l1.max()), l2_squared=int(l2_squared.max()), signed=True)

    def measured(self, counts: IntArray) -> NDArray[Any]:
        """The matrix's product with counts along the last axis; entries are at most SCALE."""
        counts = widened(counts, SCALE)
        rows = [counts @ self.whole_row(index) for index in range(len(self.frequencies))]
        return np.stack(rows, axis=-1)

    def inverse(self, noisy: FloatArray) -> FloatArray:
        """The series that has these coefficients and no others."""
        series = np.zeros((*noisy.shape[:-1], self.points))
        for index, gain in enumerate(self.gains.tolist()):
            series += noisy[..., index, None] * (self.row(index) * (gain / SCALE / self.points))
        return series

    def ranges_gain(self, lengths: IntArray) -> FloatArray:
        """The sum of the squared weights of noises in a range, which its length decides alone.

        Over w points, a cosine's sum squared and its sine's make (sin(pi f w / n) / sin(pi f /
        n))^2; the highest frequency's cosine adds up to 0 or 1 in absolute value, as the same says.
        """
        squared_weights = lengths.astype(np.float64) ** 2
        for frequency in range(1, self.coefficients):
            gain = 1.0 if 2 * frequency == self.points else 4.0
            turns = np.pi / self.points * (frequency * lengths % (2 * self.points))
            squared_weights += (
                gain * (np.sin(turns) / math.sin(math.pi * frequency / self.points)) ** 2
            )
        return np.asarray(squared_weights / (SCALE * self.points) ** 2)


@dataclass(frozen=True)
class Series(SingleNoise, CellsMethod):
    """Noise on the first Fourier coefficients of a series of counts, the others set to zero.

    *Guarantee*: the price in full, epsilon or rho, for all coefficients together.
    *Sensitivity*: the largest column of the rounded matrix of cosines and sines, in L1 or L2,
    computed exactly; twice that where people are replaced, as columns may be opposite.
    *Error*: the noise part has the same variance in every cell, (4 k - 3) / (n SCALE)^2 times the
    noise's for k coefficients of n points, and a closed form for ranges. What the frequencies left
    out would have told is a bias that depends on the data and is not known beforehand.
    *Edges*: rounding is off by at most 2^-25 of the rows a coefficient. Missing values are counted
    apart. Counts may be negative.
    *Reference*: Rastogi & Nath 2010, Algorithm 1, with both parts of each coefficient counted.
    """

    table: ClassVar[str] = "fourier"
    domain: Domain
    waves: Waves
    noise: Noise
    missing_weight: int
    steps: tuple[str, ...] = ()

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How many coefficients are kept, and the noise that was chosen."""
        return {
            "coefficients": self.waves.coefficients,
            "noise": noise_name(self.noise),
        }

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise in each cell, and that of missing values."""
        cell = self.ranges_variance(np.zeros((1, 1, 2), dtype=np.int64))
        note = "noise alone; frequencies left out add a bias that depends on the data"
        stated: dict[str, Any] = {"cell": {"sd": math.sqrt(cell[0])}, "note": note}
        if len(self.domain.missing_codes[0]):
            stated["missing"] = {"sd": self.noise.stddev / self.missing_weight}
        return {**stated, "note": f"{note}; {caveat(self.steps)}"} if self.steps else stated

    def smooth(self, counts: IntArray, entropy: Entropy) -> FloatArray:
        """The noisy smooth series of counts along the last axis."""
        noisy = self.noise.steps(self.waves.measured(counts), entropy)
        return self.waves.inverse(noisy.astype(np.float64))

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One row for every cell."""
        interior, nulls = self.domain.split(counter)
        smooth = self.smooth(interior, entropy)
        weighted = widened(nulls, self.missing_weight) * self.missing_weight
        missing = self.noise.steps(weighted, entropy) / self.missing_weight
        inner, outer = smooth, missing.astype(np.float64)
        if self.steps:
            inner, outer = with_missing(inner, outer, self.steps)
        return {"fourier": self.domain.table(inner, outer)}

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
        """The variance of each estimate, exactly; the bias of smoothing is not in it."""
        lengths = np.maximum(boxes[:, 0, 1] - boxes[:, 0, 0] + 1, 0)
        return self.waves.ranges_gain(lengths) * self.noise.variance
