"""Sparse releases: domains of up to 2^60 cells, nearly all empty, in time of the occupied cells.

Noise on every cell of such a domain could not be stored. So the release is a choice made after the
noise: cells whose noisy count passes a threshold, or a sample of fixed size. Empty cells are all
alike, and only the chosen ones are materialized: their number, positions and noise are drawn from
exactly the distribution that noise on every cell would give.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.counting.axes import Grid
from sfumato.data.counting.grouping import keys
from sfumato.data.schema.column import Kind
from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.domain import blank_cells, figure_name
from sfumato.methods.publish.measurement import SingleNoise, noise_error
from sfumato.privacy.accounting.elementary import exp_down, exp_up, log_down, round_down
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.spending import spendings
from sfumato.privacy.noise.discrete import geometric
from sfumato.privacy.noise.entropy import BLOCK, Draws, collect
from sfumato.privacy.noise.exponential import bernoulli_exp
from sfumato.privacy.noise.selection import uniform_integers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.noise.entropy import Entropy


# Noisy counts of at least a threshold, those as far from 0 on either side, or a priority sample.
METHODS = ("threshold", "filter", "priority")

# The default number of released empty cells, or of sampled cells; and the largest one.
_SIZE = 1000
_LARGEST_SIZE = 1 << 22


def prepare(
    request: Request, *, method: object = None, size: object = None, threshold: object = None
) -> ThresholdFilter | PrioritySample:
    """Read the method and the size of the release.

    For a priority sample `size` is the number of sampled cells. Else it is the largest mean number
    of released empty cells, which determines the threshold unless `threshold` is given.
    """
    chosen = options.choice("threshold" if method is None else method, "method", METHODS)
    if request.postprocess:
        raise ParameterError(
            "option_not_applicable",
            "A sparse release has no post-processing, as most cells are not in it. Leave it out.",
        )
    if threshold is not None and (size is not None or chosen == "priority"):
        raise ParameterError(
            "options_conflict",
            "A sparse release takes either a threshold or a size, and a priority sample only a "
            "size. Leave one out.",
        )
    cells, noise = NumberedCells(request.axes), _noise(request)
    cell_count = _SIZE if size is None else options.whole(size, "size", least=1, most=_LARGEST_SIZE)
    if chosen == "priority":
        return PrioritySample(cells, noise, cell_count)
    sides = 2 if chosen == "filter" else 1
    if threshold is None:
        return ThresholdFilter(
            cells, noise, least_threshold(cells, noise, sides, cell_count), sides
        )
    least = least_threshold(cells, noise, sides, _LARGEST_SIZE)
    level = options.whole(threshold, "threshold", least=least, most=1 << 53)
    return ThresholdFilter(cells, noise, level, sides)


def _noise(request: Request) -> Geometric:
    """Laplace noise, whatever the price: its effect on empty cells can be drawn exactly."""
    epsilon = spendings(request.price)[0].pure_epsilon()
    return Geometric(epsilon=epsilon, l1_sensitivity=request.sensitivity.l1)


# *Which cells pass.* The probability p of a cell is irrational. We take a rational scale s for
# which p' = 1 - exp(-1/s) is p or slightly more. The number of cells between two that pass with
# probability p' is a geometric variable of scale s, which is drawn exactly. A proposed cell is kept
# with probability p / p', by a coin that compares as many digits of a uniform number and of the
# probability as needed. So cells pass independently with probability p' (p / p') = p, exactly.
# Decision `exact-noise`.

# The most cells of a sparse release.
MAX_CELLS = 1 << 60

# Entries of a mask of boxes and cells that is computed at once.
_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class NumberedCells:
    """All cells of some declared axes, numbered in lexicographic order of their codes."""

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        if self.count > MAX_CELLS:
            raise ParameterError(
                "problem_too_large",
                f"{' x '.join(axis.column for axis in self.axes)} has {self.count:,} cells; at "
                f"most {MAX_CELLS:,} can be numbered. Take fewer columns or a coarser step.",
            )

    @cached_property
    def count(self) -> int:
        """The number of cells, those of missing values included."""
        return prod(axis.size for axis in self.axes)

    def occupied(self, counter: Counter) -> tuple[IntArray, IntArray]:
        """Return the occupied cells, in order, and the rows in each."""
        counts = counter.of([axis.column for axis in self.axes])
        return keys(counts.codes, counts.sizes)[0], counts.counts

    def table(self, numbers: IntArray, figures: NDArray[Any]) -> pa.Table:
        """One row for each of these cells, in order of their numbers: values and a count."""
        order = np.argsort(numbers)
        quotients, arrays = numbers[order], []
        for axis in reversed(self.axes):
            quotients, codes = np.divmod(quotients, axis.size)
            arrays.append(axis.decode(codes))
        names = [axis.column for axis in self.axes]
        return pa.Table.from_arrays(
            [*reversed(arrays), pa.array(figures[order])],
            names=[*names, figure_name(self.axes, "count")],
        )

    def box_sums(self, table: pa.Table, boxes: IntArray) -> FloatArray:
        """Sum the counts of a table made by `table` over boxes of inclusive codes."""
        codes = [_codes(axis, table.column(axis.column)) for axis in self.axes]
        counted = table.column(figure_name(self.axes, "count"))
        figures = np.asarray(counted, dtype=np.float64)
        sums = np.empty(len(boxes))
        at_once = max(1, _AT_ONCE // max(len(figures), 1))
        for first in range(0, len(boxes), at_once):
            chunk = boxes[first : first + at_once]
            inside = np.ones((len(chunk), len(figures)), dtype=bool)
            for index, axis_codes in enumerate(codes):
                inside &= (axis_codes >= chunk[:, index, :1]) & (axis_codes <= chunk[:, index, 1:])
            sums[first : first + at_once] = inside @ figures
        return sums


def empty_cells(occupied: IntArray, ranks: IntArray) -> IntArray:
    """Return the empty cells of these ranks, from 0; ranks and occupied cells are in order."""
    # c_j - j empty cells precede the occupied cell c_j.
    empty_before = occupied - np.arange(len(occupied))
    return np.asarray(ranks + np.searchsorted(empty_before, ranks, side="right"))


def _codes(axis: Axis, values: pa.ChunkedArray) -> IntArray:
    """Return the codes of released values; missing values get codes beyond all others."""
    if not isinstance(axis, Grid):
        return np.asarray(pc.index_in(values, value_set=axis.values), dtype=np.int64)
    first = axis.decode(np.zeros(1, dtype=np.int64))
    step = axis.bounds.grid_step or 1
    missing = np.asarray(pc.is_null(values, nan_is_null=True))
    if axis.kind is Kind.REAL:
        reals = np.nan_to_num(np.asarray(values.fill_null(0.0)))
        points = np.rint((reals - first[0].as_py()) / float(step)).astype(np.int64)
    else:
        if axis.kind is Kind.DATE:
            values, first = values.cast(pa.int32()), first.cast(pa.int32())
        # A difference of two 64-bit integers fits an unsigned one.
        unsigned = np.asarray(values.fill_null(0), dtype=np.int64).view(np.uint64)
        low = np.asarray(first, dtype=np.int64).view(np.uint64)
        points = ((unsigned - low) // np.uint64(step)).astype(np.int64)
    return np.where(missing, axis.points, points)


Bounds = tuple[Fraction, Fraction]
# For a number of bits, bounds on a probability below 1; they converge as the bits grow.
Chance = Callable[[int], Bounds]

_BITS = 256
_WORD_BITS = 64
# A probability so small that among 2^60 cells one passes once in 2^40 draws; it bounds the skips.
_SMALLEST = Fraction(1, 1 << 100)


def power(scale: Fraction, exponent: int, bits: int) -> Bounds:
    """Bounds on exp(-exponent / scale), at most 2^-bits apart."""
    level = exponent / scale
    if level > bits:
        return Fraction(0), Fraction(1, 1 << bits)
    return exp_down(-level, bits), exp_up(-level, bits)


class Passing:
    """Draw which cells pass, where each passes with the same probability below 1.

    *Guarantee*: each cell passes independently with exactly this probability.
    *Edges*: without cells, or with a tiny probability, none may pass; at most 2^60 cells.
    *Reference*: Cormode, Procopiuc, Srivastava & Tran 2012, section 4; the argument above.
    """

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        highest = max(chance(_BITS)[1], _SMALLEST)
        self._scale = round_down(-1 / log_down(1 - highest, _BITS))
        # A random word below this is certainly below p / p', without more digits.
        self._sure = min(
            (self._ratio(_BITS)[0] * (1 << _WORD_BITS)).__floor__(), (1 << _WORD_BITS) - 1
        )

    def draw(self, cells: int, entropy: Entropy) -> IntArray:
        """Return the numbers of [0, cells) that pass, in order."""
        candidates = self._propose(cells, entropy)
        random_words = entropy.words(max(len(candidates), BLOCK))[: len(candidates)]
        accepted = random_words < np.uint64(self._sure)
        for index in np.flatnonzero(~accepted).tolist():
            accepted[index] = below(self._ratio, int(random_words[index]), entropy)
        return candidates[accepted]

    def _propose(self, cells: int, entropy: Entropy) -> IntArray:
        """Return the numbers that pass with probability p'."""
        chunks = [np.empty(0, dtype=np.int64)]
        position = 0
        while position < cells:
            expected = (cells - position) * -math.expm1(-float(1 / self._scale))
            draws = int(expected + 6 * math.sqrt(expected)) + BLOCK
            skips = geometric(self._scale, draws, entropy)
            # Skips are clamped to the end. Sums that overflow come after the first one beyond it.
            ends = position + np.cumsum(np.minimum(skips, cells).astype(np.int64) + 1)
            beyond = np.flatnonzero(ends > cells)
            chunks.append(ends[: beyond[0] if len(beyond) else None] - 1)
            position = cells if len(beyond) else int(ends[-1])
        return np.concatenate(chunks)

    def _ratio(self, bits: int) -> Bounds:
        """Bounds on p / p', the probability that a proposed cell is kept."""
        low, high = self._chance(bits)
        proposed_low = 1 - exp_up(-1 / self._scale, bits)
        proposed_high = 1 - exp_down(-1 / self._scale, bits)
        return low / proposed_high, high / proposed_low


def below(chance: Chance, prefix: int, entropy: Entropy) -> bool:
    """Whether the uniform number that begins with these 64 binary digits is below a probability."""
    digits = _WORD_BITS
    while True:
        low, high = chance(_BITS + digits)
        if prefix + 1 <= low * (1 << digits):
            return True
        if prefix >= high * (1 << digits):
            return False
        prefix = prefix << _WORD_BITS | int(entropy.words(1)[0])
        digits += _WORD_BITS


# *Priority sample.* A cell of noisy count v, with its own uniform U in (0, 1), has the priority
# |v| / U. The `size` cells of the highest priorities are released, each with sign(v) max(|v|, T),
# where T is the next priority, but at least a public level L. Given all other cells, a cell is in
# the sample with probability min(1, |v| / T), so its estimate (0 outside the sample) is unbiased.
#
# *Empty cells.* Only cells with a priority above L matter. Let L be whole and U = (J - 1 + W) / L,
# J uniform in {1, ..., L} and W in (0, 1): the priority is above L when |v| >= J. For an empty cell
# and a = exp(-1 / scale)
#
#     P(|v| >= J) = sum_j P(|v| >= j) / L = 2 a (1 - a^L) / (L (1 + a) (1 - a)),
#
# and given that it passes, P(J = j) is proportional to a^j, and |v| - J is geometric for every J.
# All of this is drawn exactly. W is drawn after the noise, for every cell alike, with 53 digits.
# Decisions `exact-noise` and `sparse-releases`.

# The largest magnitude of a released count.
_WIDEST = (1 << 63) - 1


class SparseMethod(SingleNoise):
    """A method that releases few of very many cells; all other cells count as 0."""

    cells: NumberedCells

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released table without rows: its name and columns."""
        return {"sparse": blank_cells(self.cells.axes)}

    def ranges(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Sum the released cells of each box."""
        return self.cells.box_sums(tables["sparse"], boxes)


@dataclass(frozen=True)
class ThresholdFilter(SparseMethod):
    """Noise on every cell; cells with a noisy count of at least the threshold are released.

    With two sides, noisy counts of at most minus the threshold are released too.

    *Guarantee*: epsilon-differential privacy: noise on all cells, and a choice that depends only on
    noisy counts. Empty cells are released like all others.
    *Sensitivity*: L1, of a histogram under the privacy unit.
    *Error*: of a cell with a high count that of the noise. Cells below the threshold are mostly
    left out, so sums over the release are biased; `error` has the figures.
    *Edges*: a threshold of at least 1; counts are clamped to 64 bits.
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
        """The error of a cell far above the threshold, and the effects of the threshold."""
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
        """Return the cells that pass, in order."""
        occupied, rows = self.cells.occupied(counter)
        noisy = narrowed(self.noise.steps(rows, entropy))
        passes = (np.abs(noisy) if self.sides == 2 else noisy) >= self.threshold
        ranks = self._passing.draw(self.cells.count - len(occupied), entropy)
        beyond = geometric(self.noise.scale, len(ranks), entropy)
        empty_counts = narrowed(beyond + self.threshold)
        if self.sides == 2:
            empty_counts = signed(empty_counts, entropy)
        numbers = np.concatenate([occupied[passes], empty_cells(occupied, ranks)])
        return {"sparse": self.cells.table(numbers, np.concatenate([noisy[passes], empty_counts]))}

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
        """Return the variance of each sum over a box of empty cells."""
        beyond, mean = self.threshold + self._mean_beyond, self.error["empty_mean"]
        # Beyond the threshold the noise is geometric: its variance is mean (1 + mean).
        spread = self._mean_beyond * (1 + self._mean_beyond)
        cell_variance: float = self._chance * (spread + beyond**2) - mean**2
        return cells_in(boxes) * cell_variance

    @cached_property
    def _passing(self) -> Passing:
        return Passing(partial(tail, self.noise.scale, self.threshold, self.sides))

    @property
    def _chance(self) -> float:
        """The probability that an empty cell is released."""
        return _tail(self.noise, self.threshold, self.sides)

    @property
    def _mean_beyond(self) -> float:
        """The mean excess over the threshold of a released empty cell."""
        rate = float(1 / self.noise.scale)
        return math.exp(-rate) / -math.expm1(-rate)


def tail(scale: Fraction, threshold: int, sides: int, bits: int) -> Bounds:
    """Bounds on the probability that discrete Laplace noise passes a threshold on one or two sides.

    It is a^t / (1 + a) for t >= 1, a = exp(-1 / scale), and twice that for two sides.
    """
    low, high = power(scale, threshold, bits)
    base_low, base_high = power(scale, 1, bits)
    return sides * low / (1 + base_high), sides * high / (1 + base_low)


def gaussian_tail(variance: Fraction, threshold: int, bits: int) -> Bounds:
    """Bounds on the probability that discrete Gaussian noise is at least a threshold of 1 or more.

    It is S(t) / (1 + 2 S(1)) for S(t), the sum of exp(-k^2 / (2 variance)) over k >= t.
    """
    # Terms below 2^32 units are left to a bound, and each term is wrong by a unit more than the one
    # before: with 96 more bits the sum of up to 2^20 terms is right to the bits asked for.
    work = bits + 96
    low, high = _gaussian_sum(variance, threshold, work)
    least, most = _gaussian_sum(variance, 1, work)
    one = 1 << work
    return Fraction(low, one + 2 * most), Fraction(high, one + 2 * least)


def _gaussian_sum(variance: Fraction, first: int, work: int) -> tuple[int, int]:
    """Bounds on S(first), in units of 2^-work; about 25 standard deviations of terms."""
    one = 1 << work

    def power(exponent: int) -> tuple[int, int]:
        level = Fraction(-exponent) / (2 * variance)
        return (exp_down(level, work) * one).__floor__(), (exp_up(level, work) * one).__ceil__()

    # A term is the one before times a ratio, and a ratio the one before times exp(-1 / variance).
    low, high = power(first**2)
    ratio_low, ratio_high = power(2 * first + 1)
    step_low, step_high = power(2)
    total_low = total_high = 0
    while high >> 32:  # rounded up, a term would never come down to 1
        total_low, total_high = total_low + low, total_high + high
        low, high = low * ratio_low >> work, -(-high * ratio_high >> work)
        ratio_low = ratio_low * step_low >> work
        ratio_high = -(-ratio_high * step_high >> work)
    # Ratios fall: what is left is at most a geometric series.
    return total_low, total_high + high * one // (one - ratio_high) + 1


def least_threshold(cells: NumberedCells, noise: Geometric, sides: int, size: int) -> int:
    """Return the least threshold at which at most `size` empty cells are released on average."""
    # cells sides a^t / (1 + a) <= size, for all cells: the number of empty cells is private.
    most = cells.count * _tail(noise, 0, sides) / size
    level = math.ceil(math.log(most) * float(noise.scale)) if most > 1 else 1
    return max(level, 1)


def _tail(noise: Geometric, threshold: int, sides: int) -> float:
    rate = float(1 / noise.scale)
    return sides * math.exp(-threshold * rate) / (1 + math.exp(-rate))


def _reach(noise: Geometric, beta: float) -> int:
    """Return the least t for which the noise is below -t with probability at most beta."""
    rate = float(1 / noise.scale)
    # P(noise <= -t - 1) = a^(t + 1) / (1 + a).
    reached = -math.log(beta * (1 + math.exp(-rate))) / rate
    return max(math.ceil(reached) - 1, 0)


def cells_in(boxes: IntArray) -> FloatArray:
    """Return the number of cells of each box."""
    lengths = np.maximum(boxes[:, :, 1] - boxes[:, :, 0] + 1, 0)
    return np.asarray(lengths.prod(axis=1, dtype=np.float64))


def narrowed(values: NDArray[Any]) -> IntArray:
    """Integers clamped so that their negatives fit 64 bits too."""
    return np.asarray(np.clip(values, -_WIDEST, _WIDEST), dtype=np.int64)


def signed(magnitudes: IntArray, entropy: Entropy) -> IntArray:
    """Give each magnitude a fair random sign."""
    negative = (entropy.words(len(magnitudes)) & np.uint64(1)).astype(bool)
    return np.where(negative, -magnitudes, magnitudes)


# Levels of a sample are below this, so that counts fit 64 bits.
_HIGHEST = 1 << 62


@dataclass(frozen=True)
class PrioritySample(SparseMethod):
    """Noise on every cell; a priority sample of at most `size` cells is released.

    *Guarantee*: epsilon-differential privacy: noise on all cells, and a choice that depends only on
    noisy counts and coins. Empty cells are sampled like all others.
    *Sensitivity*: L1, of a histogram under the privacy unit.
    *Error*: unbiased in every cell and every sum of cells. A cell whose noisy count is below the
    level of the sample is rarely released, and then with the level as its count.
    *Edges*: fewer than `size` cells only where few cells have noise other than 0; counts are
    clamped to 64 bits.
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
                parameter="size",
            )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The size of the sample, and the level below which cells are ignored."""
        return {"method": "priority", "size": self.size, "level": self.level}

    @property
    def error(self) -> Mapping[str, Any]:
        """The error of a cell far above the level, and of an empty cell."""
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
        """The public level: almost surely more than `size` cells have a priority above it."""
        return self._level(self.size + 6 * math.sqrt(self.size) + 20)

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Return the sampled cells, in order, with their estimates."""
        occupied, rows = self.cells.occupied(counter)
        noisy = narrowed(self.noise.steps(rows, entropy))
        thresholds = uniform_integers(self.level, len(noisy), entropy) + 1
        passes = thresholds <= np.abs(noisy)
        ranks = self._passing.draw(self.cells.count - len(occupied), entropy)
        empty_thresholds = _truncated(self.noise.scale, self.level, len(ranks), entropy) + 1
        beyond = geometric(self.noise.scale, len(ranks), entropy)
        empty_counts = signed(narrowed(empty_thresholds + beyond), entropy)
        numbers = np.concatenate([occupied[passes], empty_cells(occupied, ranks)])
        values = np.concatenate([noisy[passes], empty_counts])
        sampled, estimates = self._sample(
            values, np.concatenate([thresholds[passes], empty_thresholds]), entropy
        )
        return {"sparse": self.cells.table(numbers[sampled], estimates)}

    def _sample(
        self, values: IntArray, thresholds: IntArray, entropy: Entropy
    ) -> tuple[NDArray[np.intp], FloatArray]:
        """Return the indices of the highest priorities among these cells, and their estimates."""
        digits = (entropy.words(len(values)) >> np.uint64(11)).astype(np.float64)
        priorities = np.abs(values) * (self.level / (thresholds - 1 + (digits + 0.5) * 2.0**-53))
        order = np.argsort(-priorities, kind="stable")
        level = priorities[order[self.size]] if len(order) > self.size else float(self.level)
        sampled = order[: self.size]
        sampled_values = values[sampled]
        return sampled, np.sign(sampled_values) * np.maximum(np.abs(sampled_values), level)

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
        """Return the variance of each sum over a box of nearly empty cells; more rows raise it."""
        return cells_in(boxes) * self._empty_variance

    @cached_property
    def _passing(self) -> Passing:
        return Passing(partial(above, self.noise.scale, self.level))

    @property
    def _empty_variance(self) -> float:
        """E |X| max(|X|, T) for the noise X and the expected level T."""
        level, rate = self._typical, float(1 / self.noise.scale)
        beyond = 1 / math.expm1(rate)
        # Beyond T the noise is T + G, G geometric, which adds G T + G^2 to |X| T.
        tail = 2 * math.exp(-level * rate) / (1 + math.exp(-rate))
        return level / math.sinh(rate) + tail * (level * beyond + beyond * (1 + 2 * beyond))

    @cached_property
    def _typical(self) -> int:
        """The expected level of the sample where few cells have rows."""
        return self._level(self.size)

    def _level(self, expected_cells: float) -> int:
        """The highest level above which so many empty cells are expected to have a priority."""
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
    """Bounds on the probability that the priority of an empty cell is above the level."""
    low, high = power(scale, 1, bits)
    power_low, power_high = power(scale, level, bits)
    # a / (1 - a^2) increases with a.
    return (
        2 * low * (1 - power_high) / (level * (1 - low**2)),
        2 * high * (1 - power_low) / (level * (1 - high**2)),
    )


def _truncated(scale: Fraction, limit: int, size: int, entropy: Entropy) -> IntArray:
    """Geometric variables conditioned on being below a limit, by rejection."""

    def geometrics(count: int) -> Draws:
        drawn = geometric(scale, count, entropy)
        return Draws(drawn[drawn < limit].astype(np.int64))

    def uniforms(count: int) -> Draws:
        drawn = uniform_integers(limit, count, entropy)
        return Draws(drawn[bernoulli_exp(drawn, rate=1 / scale, entropy=entropy)])

    # Either proposal is kept with probability at least 1 - 1/e.
    return collect(size, 0.7, geometrics if limit > scale else uniforms)
