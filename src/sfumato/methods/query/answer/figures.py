"""Figures of an answer from noisy statistics, each with its error.

Errors describe the noise alone, and not the bias of clamping and bounding, which is private. The
error of a ratio of noisy figures is not symmetric, in small groups least of all. Its 95 % bound
therefore comes from a box: with probability 95 % the true count and sums are all within their
margins of the released ones, and for all such values the true ratio lies between two ends. The
bound reaches to the farther end, or, if the box contains too few rows for a ratio, to the farther
end of the possible range. Only released figures and declared bounds are used. Decision
`answer-error-bars`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.schema.column import Kind
from sfumato.methods.query.plan import Function
from sfumato.methods.query.plan.statistics import Total, statistics_of
from sfumato.privacy.mechanisms.base import to_floats
from sfumato.privacy.mechanisms.gaussian import Gaussian

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.query.plan import Argument, Measure
    from sfumato.methods.query.plan.allocation import Mechanism
    from sfumato.methods.query.plan.statistics import Statistic

    Ends = tuple[FloatArray, FloatArray]

BETA = 0.05


@dataclass(frozen=True)
class NoisyStatistic:
    """A noisy statistic, group by group, with the variance of its noise and a margin of it.

    The noise exceeds `margin(beta)` with probability at most beta. The margin is one number, or one
    for each group.
    """

    values: NDArray[Any]
    variance: float
    margin: Callable[[float], Any]


def ratio(
    measure: Measure,
    components: Sequence[Statistic],
    noisy: Sequence[NoisyStatistic],
    beta: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """An average, variance or standard deviation of each group, its sd and its bound.

    If the group is certainly large enough, linear propagation of the noises gives the sd. Otherwise
    the sd is the bound itself, because no error exceeds it.
    """
    total = components[1]
    assert isinstance(total, Total)
    step = float(total.argument.step)
    if measure.function is Function.AVERAGE:
        mean, spread, ends = _average(noisy, total, beta)
        stddev, bound = _error_of(mean, spread, ends)
        return (float(total.centre) + mean) * step, stddev * step, bound * step
    squares = components[2]
    assert isinstance(squares, Total)
    variance, spread, ends = _variance(noisy, total, squares, beta)
    scale = step * 2.0**total.shift
    if measure.function is Function.VARIANCE:
        stddev, bound = _error_of(variance, spread, ends)
        return variance * scale**2, stddev * scale**2, bound * scale**2
    root = np.sqrt(variance)
    # |sqrt(v + e) - sqrt(v)| is at most sqrt(|e|), and about e / (2 sqrt(v)) for large v.
    nearest, known = np.maximum(2 * root, np.sqrt(spread)), np.isfinite(spread)
    unmoved = np.where(known, 0.0, np.inf)
    moved = np.divide(spread, nearest, out=unmoved, where=known & (nearest > 0))
    stddev, bound = _error_of(root, moved, (np.sqrt(ends[0]), np.sqrt(ends[1])))
    return root * scale, stddev * scale, bound * scale


def _average(
    noisy: Sequence[NoisyStatistic], total: Total, beta: float
) -> tuple[FloatArray, FloatArray, Ends]:
    """Means of terms, their linear sd (infinite if the group may be too small), and their ends."""
    rows, sums = _boxes(noisy, beta)
    # A noisy count may be zero or negative; a mean needs at least one row.
    count = np.maximum(noisy[0].values.astype(np.float64), 1.0)
    mean = _clip_means(noisy[1].values.astype(np.float64) / count, total)
    # Linear propagation of s / n: the variance is (var s + (s / n)^2 var n) / n^2.
    spread = np.sqrt(noisy[1].variance + mean**2 * noisy[0].variance) / count
    is_small = rows[0] < 1
    return mean, np.where(is_small, np.inf, spread), _means(sums, rows, total, is_small)


def _variance(
    noisy: Sequence[NoisyStatistic], total: Total, squares: Total, beta: float
) -> tuple[FloatArray, FloatArray, Ends]:
    """Sample variances of terms, their linear sd as above, and their ends.

    Of n terms between -reach and reach the sample variance is at most reach^2 n / (n - 1), twice
    reach^2 for two of them; of fewer than two there is none.
    """
    rows, sums, of_squares = _boxes(noisy, beta)
    reach = float(max(abs(end) for end in total.ends))
    count = np.maximum(noisy[0].values.astype(np.float64), 1.0)
    mean = _clip_means(noisy[1].values.astype(np.float64) / count, total)
    second = _clip_means(noisy[2].values.astype(np.float64) / count, squares)
    # E[y^2] - E[y]^2 of noisy moments may be negative or above the largest possible variance.
    variance = np.clip(second + squares.square_centre - mean**2, 0.0, reach**2)
    # The sample variance divides by n - 1.
    variance *= count / np.maximum(count - 1, 1.0)
    # Linear propagation of v = s2 / n - (s1 / n)^2 through the noise of n, s1 and s2.
    from_count = (second - 2 * mean**2) ** 2 * noisy[0].variance
    from_mean = 4 * mean**2 * noisy[1].variance
    spread = np.sqrt(noisy[2].variance + from_mean + from_count) / count
    is_small = rows[0] < 2
    means, seconds = (
        _means(sums, rows, total, is_small),
        _means(of_squares, rows, squares, is_small),
    )
    # The square of the mean over its interval; zero is the least if the interval contains zero.
    largest = np.maximum(means[0] ** 2, means[1] ** 2)
    smallest = np.where(means[0] * means[1] < 0, 0, np.minimum(means[0] ** 2, means[1] ** 2))
    lowest = np.clip(seconds[0] + squares.square_centre - largest, 0.0, reach**2)
    highest = np.clip(seconds[1] + squares.square_centre - smallest, 0.0, reach**2)
    low, high = (np.maximum(end, 2.0) for end in rows)
    ends = np.where(is_small, 0, lowest * (high / (high - 1))), highest * (low / (low - 1))
    return (
        variance,
        np.where(is_small, np.inf, spread),
        (ends[0], np.where(is_small, 2 * reach**2, ends[1])),
    )


def _boxes(noisy: Sequence[NoisyStatistic], beta: float) -> list[Ends]:
    """Intervals that contain all statistics at once with probability at least 1 - beta."""
    boxes = []
    for statistic in noisy:
        # Union bound: count and sums each fail with an equal part of beta.
        values, margin = statistic.values.astype(np.float64), statistic.margin(beta / len(noisy))
        boxes.append((values - margin, values + margin))
    return boxes


def _means(sums: Ends, rows: Ends, total: Total, is_small: BoolArray) -> Ends:
    """The ends of sum / rows anywhere in a box; any mean of terms where rows may be too few."""
    low, high = (np.maximum(end, 1.0) for end in rows)
    # A negative sum is lowest over few rows, a positive one over many.
    lowest = np.where(sums[0] < 0, sums[0] / low, sums[0] / high)
    highest = np.where(sums[1] > 0, sums[1] / low, sums[1] / high)
    first, last = map(float, total.ends)
    return (
        np.where(is_small, first, _clip_means(lowest, total)),
        np.where(is_small, last, _clip_means(highest, total)),
    )


def _error_of(figures: FloatArray, spread: FloatArray, ends: Ends) -> Ends:
    """An sd and a bound: the distance from a figure to the farther of two ends."""
    bound = np.maximum(np.maximum(ends[1] - figures, figures - ends[0]), 0.0)
    return np.minimum(spread, bound), bound


def _clip_means(means: FloatArray, total: Total) -> FloatArray:
    """Clamp means of terms to the range of a term."""
    low, high = total.ends
    return np.clip(means, float(low), float(high))


_INTEGERS = np.iinfo(np.int64)
_SUM_BITS = 29  # 2^34 terms of 29 bits fit in 64 bits


@dataclass(frozen=True)
class Estimates:
    """A measure, group by group, in the unit that was asked for, with its error.

    If the error of the value is unknown, `ranks` bounds the error of its rank, in rows.
    """

    values: pa.Array
    stddev: FloatArray | None
    bound: FloatArray | None
    ranks: float | None = None


def estimates(
    measure: Measure, unit: Unit, noisy: Mapping[Statistic, NoisyStatistic], beta: float
) -> Estimates:
    """Compute a measure from its statistics; it exceeds its bound with probability at most beta."""
    components = statistics_of(measure, unit)
    first = noisy[components[0]]
    match measure.function:
        case Function.SUM:
            assert measure.argument is not None
            return _scale_sum(first, measure.argument, beta, exact=_is_whole(components[0]))
        case Function.AVERAGE | Function.VARIANCE | Function.STDDEV:
            used = [noisy[component] for component in components]
            values, stddev, bound = ratio(measure, components, used, beta)
            return Estimates(pa.array(values), stddev, bound)
        case Function.QUANTILE:
            assert measure.argument is not None
            return Estimates(
                _grid_values(first.values, measure.argument), None, None, first.margin(beta)
            )
        case _:
            return Estimates(pa.array(_to_int64(first.values)), *_uniform_error(first, 1.0, beta))


def spread_factor(mechanism: Mechanism, beta: float) -> float:
    """Standard deviations that a weighted sum of such noises exceeds with probability <= beta."""
    if isinstance(mechanism, Gaussian):
        # Two Gaussian tails: P(|x| > k sd) <= 2 exp(-k^2 / 2).
        return math.sqrt(2 * math.log(2 / beta))
    # Vysochanskij-Petunin: a unimodal variable exceeds k sds with probability at most 4 / (9 k^2).
    return math.sqrt(4 / (9 * beta))


def _is_whole(statistic: Statistic) -> bool:
    """Whether sums of a statistic are integers that stay inside 64 bits, whatever the data."""
    if not isinstance(statistic, Total) or statistic.argument.step.denominator != 1:
        return False
    return statistic.largest.bit_length() <= _SUM_BITS


def _uniform_error(
    noisy: NoisyStatistic, step: float, beta: float
) -> tuple[FloatArray, FloatArray]:
    """The sd and the bound of a figure that is a statistic, in every group."""
    groups = len(noisy.values)
    bound = np.broadcast_to(noisy.margin(beta), groups) * step
    return np.full(groups, math.sqrt(noisy.variance) * step), bound


def _scale_sum(noisy: NoisyStatistic, argument: Argument, beta: float, *, exact: bool) -> Estimates:
    """A sum in steps, as a sum of values."""
    errors = _uniform_error(noisy, float(argument.step), beta)
    if exact and noisy.values.dtype.kind != "f":
        # Exact: the sum in steps times a whole step, without a float between.
        total = noisy.values.astype(object) * argument.step.numerator
        return Estimates(pa.array(_to_int64(total)), *errors)
    return Estimates(pa.array(to_floats(noisy.values, argument.step)), *errors)


def _to_int64(values: NDArray[Any]) -> NDArray[Any]:
    """Clamp integers to 64 bits, which only noise of very small budgets exceeds; keep floats."""
    if values.dtype.kind == "f":
        return values
    return np.asarray(np.clip(values, _INTEGERS.min, _INTEGERS.max), dtype=np.int64)


def _grid_values(points: IntArray, argument: Argument) -> pa.Array:
    """Chosen points of a grid as values of its kind."""
    steps = points + argument.low
    match argument.kind:
        case Kind.REAL:
            return pa.array(to_floats(steps, argument.step))
        case Kind.BOOLEAN:
            return pa.array(steps != 0)
        case Kind.DATE:
            days = steps * int(argument.step)
            return pa.array(days.astype(np.int32)).cast(pa.date32())
        case _:
            return pa.array(steps * int(argument.step))
