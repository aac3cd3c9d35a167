"""From noisy statistics to the figures that were asked for, each with its error.

Errors count the noise alone: not what clamping and bounding took away, of which nothing public is
known. Those of averages and variances follow from the noisy counts by linear propagation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.mechanisms.arrays import to_floats
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.query.plan import Function
from sfumato.query.statistic import Total, parts
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.privacy.units import Unit
    from sfumato.query.plan import Argument, Measure
    from sfumato.query.split import Mechanism
    from sfumato.query.statistic import Statistic

    Floats = NDArray[np.float64]

BETA = 0.05
GAUSS = math.sqrt(4 / (9 * BETA))
"""Standard deviations that any symmetric unimodal error passes with probability 5 % at most."""
NORMAL = math.sqrt(2 * math.log(2 / BETA))
"""The same for sums of Gaussian noise."""

_INTEGERS = np.iinfo(np.int64)
_SUM_BITS = 29  # of so many bits 2^34 terms fit


@dataclass(frozen=True)
class Noisy:
    """A noisy statistic, group by group, with the variance and a 95 % bound of its noise."""

    values: NDArray[Any]
    variance: float
    bound: float


@dataclass(frozen=True)
class Figures:
    """A measure, group by group, in the unit that was asked for, with its error.

    Where the error of the value cannot be told, `ranks` bounds that of its rank, in rows.
    """

    values: pa.Array
    stddev: Floats | None
    bound: Floats | None
    ranks: float | None = None


def figures(
    measure: Measure,
    unit: Unit,
    noisy: Mapping[Statistic, Noisy],
    mechanisms: Mapping[Statistic, Mechanism],
) -> Figures:
    """Make a measure of its statistics."""
    made_of = parts(measure, unit)
    first = noisy[made_of[0]]
    match measure.function:
        case Function.SUM:
            assert measure.argument is not None
            return _scaled(first, measure.argument, exact=_is_whole(made_of[0]))
        case Function.AVERAGE | Function.VARIANCE | Function.STDDEV:
            factor = spread_factor([mechanisms[part] for part in made_of])
            of_parts = [noisy[part] for part in made_of]
            values, stddev, bound = ratio(measure, made_of, of_parts, factor)
            return Figures(pa.array(values), stddev, bound)
        case Function.QUANTILE:
            assert measure.argument is not None
            return Figures(_points(first.values, measure.argument), None, None, first.bound)
        case _:
            return Figures(pa.array(_whole(first.values)), *_even(first, 1.0))


def ratio(
    measure: Measure, made_of: Sequence[Statistic], noisy: Sequence[Noisy], factor: float
) -> tuple[Floats, Floats, Floats]:
    """An average, variance or standard deviation of each group, its sd and its 95 % bound.

    An error is never told to be larger than the range of what is asked.
    """
    count = np.maximum(noisy[0].values.astype(np.float64), 1.0)
    total = made_of[1]
    assert isinstance(total, Total)
    reach, step = float(total.largest), float(total.argument.step)
    mean = _inside(noisy[1].values.astype(np.float64) / count, total)
    if measure.function is Function.AVERAGE:
        stddev = np.sqrt(noisy[1].variance + mean**2 * noisy[0].variance) / count
        widest = 2 * reach
        stddev, bound = np.minimum(stddev, widest), np.minimum(factor * stddev, widest)
        return (total.centre + mean) * step, stddev * step, bound * step
    squares = made_of[2]
    assert isinstance(squares, Total)
    second = _inside(noisy[2].values.astype(np.float64) / count, squares)
    unit = (step * 2.0**total.shift) ** 2
    variance = np.clip(second + squares.square_centre - mean**2, 0.0, reach**2) * unit
    variance *= count / np.maximum(count - 1, 1.0)
    by_count = (second - 2 * mean**2) ** 2 * noisy[0].variance
    by_mean = 4 * mean**2 * noisy[1].variance
    stddev = np.sqrt(noisy[2].variance + by_mean + by_count) / count
    spread = [np.minimum(error, reach**2) * unit for error in (stddev, factor * stddev)]
    if measure.function is Function.VARIANCE:
        return variance, spread[0], spread[1]
    root = np.sqrt(variance)
    # Near zero a root moves by the root of the error, further up by error / (2 root).
    moved = [error / np.maximum(2 * root, np.sqrt(error)) for error in spread]
    return root, moved[0], moved[1]


def _inside(means: Floats, total: Total) -> Floats:
    """Means of terms, moved to where means of terms can be."""
    low, high = total.ends
    return np.clip(means, float(low), float(high))


def spread_factor(mechanisms: Sequence[Mechanism]) -> float:
    """How many standard deviations bound 95 % of a sum of such noises."""
    return NORMAL if all(isinstance(one, Gaussian) for one in mechanisms) else GAUSS


def _is_whole(one: Statistic) -> bool:
    """Whether sums of a statistic are integers that stay inside 64 bits, whatever the data."""
    if not isinstance(one, Total) or one.argument.step.denominator != 1:
        return False
    return one.largest.bit_length() <= _SUM_BITS


def _even(noisy: Noisy, step: float) -> tuple[Floats, Floats]:
    """The same error for every group."""
    shape = len(noisy.values)
    return np.full(shape, math.sqrt(noisy.variance) * step), np.full(shape, noisy.bound * step)


def _scaled(noisy: Noisy, argument: Argument, *, exact: bool) -> Figures:
    """A sum in steps, as a sum of values."""
    errors = _even(noisy, float(argument.step))
    if exact and noisy.values.dtype.kind != "f":
        whole = noisy.values.astype(object) * argument.step.numerator
        return Figures(pa.array(_whole(whole)), *errors)
    return Figures(pa.array(to_floats(noisy.values, argument.step)), *errors)


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    """Integers of 64 bits, the noise of absurdly small budgets cut off; or floats as they are."""
    if values.dtype.kind == "f":
        return values
    return np.asarray(np.clip(values, _INTEGERS.min, _INTEGERS.max), dtype=np.int64)


def _points(points: NDArray[np.int64], argument: Argument) -> pa.Array:
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
