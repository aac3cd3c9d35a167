"""The count sketch: a short summary of a huge table from which any cell can be estimated.

Each of `depth` lines hashes every cell into one of `width` buckets with a sign, by a public
function, and adds the signed counts up. The hash only spreads the cells: it is public and no source
of noise, and readers of the release compute it too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.domain import blank_figures
from sfumato.methods.publish.measurement import (
    ColumnNorms,
    SingleNoise,
    least_noise,
    noise_error,
    noise_name,
    without_postprocess,
)
from sfumato.privacy.mechanisms.laplace import Geometric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy

# Points per standard deviation: more of them change no result.
_FINE = 400
# Standard deviations beyond which the tails are negligible, for Gaussian and for Laplace noise.
_FAR, _FAR_BY_LAPLACE = 12, 40


def median_stddev(noise: Noise, size: int) -> float:
    """Return the standard deviation of the median of `size` independent noises.

    With F the distribution function of one noise, the k-th of n is at most t with the probability
    that at least k of n are, an incomplete beta function of F(t). For an even number 2 m the median
    is the mean of the middle two, a and b: E[((a + b) / 2)^2] = E[a^2 + b^2] / 2 -
    E[(b - a)^2] / 4, where b - a counts the points t with m noises up to t and m after it.

    *Reference*: David & Nagaraja 2003, Order Statistics, sections 2.1 and 3.1.
    """
    points, below = _distribution(noise)
    if size % 2:
        return math.sqrt(_square(points, below, size // 2 + 1, size))
    half = size // 2
    middle = (_square(points, below, half, size) + _square(points, below, half + 1, size)) / 2
    step = float(points[1] - points[0])
    lower, upper = below**half, (1 - below) ** half
    # Pairs s < t of points between the two, each in both orders, and the points themselves.
    before = np.cumsum(lower) - lower
    gap = step**2 * math.comb(size, half) * float((upper * (2 * before + lower)).sum())
    return math.sqrt(max(middle - gap / 4, 0.0))


def _distribution(noise: Noise) -> tuple[FloatArray, FloatArray]:
    """Return points of the noise, all or evenly spaced, and the distribution function there."""
    step = max(1, int(noise.stddev / _FINE))
    far = _FAR_BY_LAPLACE if isinstance(noise, Geometric) else _FAR
    reach = math.ceil(far * noise.stddev / step) + 2
    points = step * np.arange(-reach, reach + 1, dtype=np.float64)
    if isinstance(noise, Geometric):
        weights = np.exp(-np.abs(points) / float(noise.scale))
    else:
        weights = np.exp(-(points**2) / (2 * noise.variance))
    return points, np.minimum(np.cumsum(weights) / weights.sum(), 1.0)


def _square(points: FloatArray, below: FloatArray, order: int, size: int) -> float:
    """Return the mean square of the `order`-th smallest of `size` noises."""
    # It is at most t exactly if at least `order` of them are.
    above = 1 - below
    reached = sum(
        math.comb(size, count) * below**count * above ** (size - count)
        for count in range(order, size + 1)
    )
    probabilities = np.diff(reached, prepend=0.0)
    return float((probabilities * points**2).sum())


DEPTH, WIDTH = 3, 4096
MAX_DEPTH, MAX_WIDTH = 99, 1 << 24
MAX_CELLS = 1 << 62
MAX_RANGE_CELLS = 1 << 22


def prepare(
    request: Request, *, width: object = None, depth: object = None, seed: object = None
) -> Sketch:
    """Read the size of the sketch and the public seed of its hash; choose the noise."""
    without_postprocess(request, "sketch")
    cells = math.prod(axis.size for axis in request.axes)
    if cells > MAX_CELLS:
        raise ParameterError(
            "problem_too_large",
            f"{' x '.join(request.columns)} has {cells:.1e} cells; at most {MAX_CELLS:.1e} can "
            "be told apart. Take fewer columns or a coarser step.",
        )
    lines = DEPTH if depth is None else options.whole(depth, "depth", least=1, most=MAX_DEPTH)
    buckets = WIDTH if width is None else options.whole(width, "width", least=2, most=MAX_WIDTH)
    start = 0 if seed is None else options.whole(seed, "seed", least=0, most=(1 << 63) - 1)
    hashing = Hashing(lines, buckets, start)
    return Sketch(request.axes, hashing, least_noise(request, hashing.columns))


@dataclass(frozen=True)
class Hashing:
    """A public hash function: for each cell a bucket and a sign in each line."""

    depth: int
    width: int
    seed: int

    @property
    def columns(self) -> ColumnNorms:
        """The norms of a cell, which has one entry, 1 or -1, in every line."""
        return ColumnNorms(l1=self.depth, l2_squared=self.depth, signed=True)

    def hash_cells(self, cells: IntArray) -> tuple[IntArray, IntArray]:
        """Return the bucket and the sign of each cell in each line: two arrays (depth, cells)."""
        lines = _mixed(np.arange(1, self.depth + 1, dtype=np.uint64) ^ _mixed(np.uint64(self.seed)))
        hashed = _mixed(cells.astype(np.uint64)[None, :] ^ lines[:, None])
        buckets = (hashed >> np.uint64(1)) % np.uint64(self.width)
        signs = 1 - 2 * (hashed & np.uint64(1)).astype(np.int64)
        return buckets.astype(np.int64), signs

    def summary(self, cells: IntArray, counts: IntArray) -> IntArray:
        """Return the exact sketch of the cells that have rows."""
        buckets, signs = self.hash_cells(cells)
        lines = np.zeros((self.depth, self.width), dtype=np.int64)
        for line, (line_buckets, line_signs) in enumerate(zip(buckets, signs, strict=True)):
            np.add.at(lines[line], line_buckets, line_signs * counts)
        return lines


def _mixed(keys: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64: a fixed permutation of 64-bit words that mixes all bits."""
    mixed = np.atleast_1d(keys) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


@dataclass(frozen=True)
class Sketch(SingleNoise):
    """A count sketch with independent noise on every bucket.

    *Guarantee*: the price in full, epsilon or rho, for all lines together.
    *Sensitivity*: every row is in one bucket of each line, so depth times that of a count in L1 and
    depth in L2 squared; where people are replaced two signs may differ, so twice resp. four times.
    *Error*: an estimate is the median of the lines, more robust to large cells than their mean; its
    sd is that of the median of `depth` noises, as `error` states. An estimate by the mean is
    unbiased over seeds, with the noise's variance / depth. Other cells add a variance of (sum of
    squared counts) / (width depth), which depends on the data.
    *Edges*: missing values are codes like others; domains up to 2^62 cells; time and memory grow
    with the cells that have rows and with the sketch. The seed is public and hides nothing.
    *Reference*: Charikar, Chen & Farach-Colton 2002; Pagh & Thorup 2022, section 3; Steele, Lea &
    Flood 2014 for the hash.
    """

    axes: tuple[Axis, ...]
    hashing: Hashing
    noise: Noise

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the hash, and the chosen noise."""
        hashing = self.hashing
        return {
            "depth": hashing.depth,
            "width": hashing.width,
            "seed": hashing.seed,
            "hash": "splitmix64",
            "noise": noise_name(self.noise),
        }

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of a bucket and of an estimate by the median of the lines."""
        return {
            "bucket": noise_error(self.noise),
            "cell": {"sd": median_stddev(self.noise, self.hashing.depth)},
            "note": "noise alone; cells that share a bucket add what depends on the data",
        }

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released table without rows: its name and columns."""
        return {"sketch": blank_figures("line", "bucket", "count")}

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One row for every bucket of every line."""
        counts = counter.of([axis.column for axis in self.axes])
        summary = self.hashing.summary(self.cells(counts.codes), counts.counts)
        noisy = self.noise.steps(summary, entropy)
        figures = np.asarray(np.clip(noisy, -(2**63), 2**63 - 1), dtype=np.int64)
        line, bucket = np.indices(summary.shape).reshape(2, -1)
        arrays = [pa.array(line), pa.array(bucket), pa.array(figures.ravel())]
        return {"sketch": pa.Table.from_arrays(arrays, names=["line", "bucket", "count"])}

    def cells(self, codes: Sequence[NDArray[np.integer]]) -> IntArray:
        """Return the number of each combination of codes: mixed radix, the last column fastest."""
        numbers = np.zeros(len(codes[0]), dtype=np.int64)
        for axis, column in zip(self.axes, codes, strict=True):
            numbers = numbers * axis.size + column
        return numbers

    def estimate(
        self,
        tables: Mapping[str, pa.Table],
        codes: Sequence[NDArray[np.integer]],
        *,
        by: str = "median",
    ) -> FloatArray:
        """Estimate the count of any combinations of codes, by the median or the mean of lines."""
        lines = self._lines(tables, codes)
        median = options.choice(by, "by", ("median", "mean")) == "median"
        return np.asarray(np.median(lines, axis=0) if median else lines.mean(axis=0))

    def ranges(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Estimate the rows in each box: the median of the lines' sums over its cells."""
        sizes = np.maximum(boxes[:, :, 1] - boxes[:, :, 0] + 1, 0)
        asked = int(sizes.astype(object).prod(axis=1).sum())
        if asked > MAX_RANGE_CELLS:
            raise ParameterError(
                "problem_too_large",
                f"The ranges have {asked:,} cells; a sketch estimates at most {MAX_RANGE_CELLS:,} "
                "at a time. Ask for fewer or smaller ranges.",
            )
        estimates = np.zeros(len(boxes))
        for index, (box, size) in enumerate(zip(boxes, sizes, strict=True)):
            codes = np.indices(size).reshape(len(size), -1) + box[:, :1]
            estimates[index] = np.median(self._lines(tables, list(codes)).sum(axis=1))
        return estimates

    def _lines(
        self, tables: Mapping[str, pa.Table], codes: Sequence[NDArray[np.integer]]
    ) -> IntArray:
        """Return the estimate of each line for each combination of codes: (depth, cells)."""
        shape = (self.hashing.depth, self.hashing.width)
        lines = np.asarray(tables["sketch"].column("count")).reshape(shape)
        buckets, signs = self.hashing.hash_cells(self.cells(codes))
        return np.asarray(signs * lines[np.arange(len(lines))[:, None], buckets])
