"""From noisy statistics to the figures that were asked for, each with its error.

Errors count the noise alone: not what clamping and bounding took away, of which nothing public is
known.
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
from sfumato.query.ratios import BETA, ratio
from sfumato.query.statistic import Total, parts
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.privacy.units import Unit
    from sfumato.query.plan import Argument, Measure
    from sfumato.query.ratios import Noisy
    from sfumato.query.split import Mechanism
    from sfumato.query.statistic import Statistic

    Floats = NDArray[np.float64]

_INTEGERS = np.iinfo(np.int64)
_SUM_BITS = 29  # of so many bits 2^34 terms fit


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
) -> Figures:
    """Make a measure of its statistics."""
    made_of = parts(measure, unit)
    first = noisy[made_of[0]]
    match measure.function:
        case Function.SUM:
            assert measure.argument is not None
            return _scaled(first, measure.argument, exact=_is_whole(made_of[0]))
        case Function.AVERAGE | Function.VARIANCE | Function.STDDEV:
            values, stddev, bound = ratio(measure, made_of, [noisy[part] for part in made_of])
            return Figures(pa.array(values), stddev, bound)
        case Function.QUANTILE:
            assert measure.argument is not None
            return Figures(_points(first.values, measure.argument), None, None, first.margin(BETA))
        case _:
            return Figures(pa.array(_whole(first.values)), *_even(first, 1.0))


def spread_factor(mechanism: Mechanism, beta: float) -> float:
    """How many sds a weighted sum of such noises passes with probability at most beta."""
    if isinstance(mechanism, Gaussian):
        return math.sqrt(2 * math.log(2 / beta))
    return math.sqrt(4 / (9 * beta))


def _is_whole(one: Statistic) -> bool:
    """Whether sums of a statistic are integers that stay inside 64 bits, whatever the data."""
    if not isinstance(one, Total) or one.argument.step.denominator != 1:
        return False
    return one.largest.bit_length() <= _SUM_BITS


def _even(noisy: Noisy, step: float) -> tuple[Floats, Floats]:
    """The sd and the bound of a figure that is a statistic, in every group."""
    groups = len(noisy.values)
    bound = np.broadcast_to(noisy.margin(BETA), groups) * step
    return np.full(groups, math.sqrt(noisy.variance) * step), bound


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
