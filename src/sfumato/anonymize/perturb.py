"""Perturbation: sensitive numbers moved by noise, everything else as it is. Decision 0188."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from math import ceil, isinf, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.anonymize.buckets import ReleasedCodes, deal, rows_of
from sfumato.data.counting.axes import Grid
from sfumato.data.schema.advice import add_line
from sfumato.data.schema.domain import Bounds
from sfumato.errors import SchemaError
from sfumato.exact_numbers import positive
from sfumato.privacy.noise.discrete import discrete_gaussian
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from decimal import Decimal

    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column
    from sfumato.exact_numbers import Number
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.release.recoding import ByRow

    Draw = Callable[[Fraction, int], IntArray]

_NEAR = Fraction(1, 1_000_000)
_FINE, _FAR = 1000, 12
"""Moments are summed over steps of at least a thousandth of the deviation, 12 deviations far."""


def perturb(
    table: Frequencies,
    columns: Sequence[Column],
    *,
    stddev: Mapping[str, Number],
    unchanged: Sequence[str] = (),
    entropy: Entropy | None = None,
    draw: Draw | None = None,
) -> ByRow:
    """Add whole numbers of the declared step to each value, reflected at the declared bounds.

    *Guarantee*: none, neither syntactic nor differential privacy: values are blurred.
    *Error*: discrete Gaussian noise of the stated standard deviation, in the unit of the column, in
    days for dates. What would pass a bound is reflected there, so that no value is heaped on it and
    none is likelier to stay than by the noise alone; near a bound that moves values inward and
    lessens their deviation: see `moments`.
    *Edges*: NULL stays NULL; a value off the grid goes to its nearest point first, as `strays`
    counts. `draw` gives the numbers of steps for a variance and a number of rows; they are drawn
    exactly unless given.
    """
    source = SystemEntropy() if entropy is None else entropy
    steps = draw or (lambda variance, size: discrete_gaussian(variance, size, source))
    rows = rows_of(table)
    given = []
    for column in columns:
        grid, step = _grid(column)
        place = table.columns.index(column.name)
        points = _points(table.axes[place], grid, step)[table.codes[place][rows]]
        scale = positive(stddev[column.name], "stddev") / step
        moved = _reflected(points + steps(scale**2, len(points)), grid.points - 1)
        codes = np.where(points == grid.points, grid.points, moved).astype(np.int64)
        present, numbers = np.unique(codes, return_inverse=True)
        given.append(ReleasedCodes(column.name, numbers, grid.decode(present)))
    return deal(table, rows, given, unchanged)


class Moments(NamedTuple):
    """What noise does to a value: how far it moves it on average, and the deviation from that."""

    shift: float
    stddev: float


def moments(column: Column, stddev: Number, *, at_bound: bool) -> Moments:
    """The true moments of the noise on a value at a bound, or in the middle between the bounds.

    At a bound the shift is inward and largest, the deviation smallest. *Error*: below a thousandth,
    by summing the probabilities of all steps, of coarser ones where there are too many.
    """
    grid, step = _grid(column)
    scale = float(positive(stddev, "stddev") / step)
    coarser = max(1.0, scale / _FINE)
    fine, last = scale / coarser, round((grid.points - 1) / coarser)
    reach = ceil(_FAR * fine)
    steps = np.arange(-reach, reach + 1)
    odds = np.exp(-((steps / fine) ** 2) / 2)
    place = 0 if at_bound else last // 2
    moved = (_reflected(place + steps, last) - place) * coarser * float(step)
    mean = float(odds @ moved / odds.sum())
    return Moments(mean, sqrt(float(odds @ (moved - mean) ** 2 / odds.sum())))


class Strays(NamedTuple):
    """How many rows have a value that goes to a point of the grid before any noise."""

    outside: int
    between: int


def strays(table: Frequencies, column: Column) -> Strays:
    """Count the rows outside the declared bounds, and those between two points of the grid.

    Reals are between points where they are more than a millionth of a step away.
    """
    grid, step = _grid(column)
    low, high = _number(grid.bounds.low), _number(grid.bounds.high)
    place, outside, between = table.columns.index(column.name), 0, 0
    axis = table.axes[place]
    rows = np.bincount(table.codes[place], table.counts, axis.size).astype(np.int64)
    values = axis.decode(np.arange(axis.size)).to_pylist()
    for value, many in zip(values, rows.tolist(), strict=True):
        if value is None or value != value:
            continue
        if (isinstance(value, float) and isinf(value)) or not low <= _number(value) <= high:
            outside += many
        elif abs((steps := (_number(value) - low) / step) - round(steps)) > _NEAR:
            between += many
    return Strays(outside, between)


def _reflected(points: IntArray, last: int) -> IntArray:
    """Points of a line folded into 0 .. last, as between two mirrors."""
    if last == 0:
        return np.zeros_like(points)
    around = np.mod(points, 2 * last)
    folded: IntArray = np.minimum(around, 2 * last - around)
    return folded


def _grid(column: Column) -> tuple[Grid, Fraction]:
    """The declared grid of a column and its step."""
    grid = column.domain.stepped() if isinstance(column.domain, Bounds) else None
    if grid is None or grid.grid_step is None:
        line = "step = 0.5" if isinstance(column.domain, Bounds) else "bounds = [0, 100000]"
        raise SchemaError(
            "domain_missing",
            f"Column {column.name!r} cannot be perturbed: only numbers and dates with bounds, and "
            f"a step that divides them, can. {add_line(column.name, line)}",
        )
    return Grid(column.name, column.kind, grid, True), Fraction(grid.grid_step)


def _points(axis: Axis, grid: Grid, step: Fraction) -> IntArray:
    """The nearest point of the grid for every value of an axis, the upper of two; NULL behind."""
    low, last = _number(grid.bounds.low), grid.points - 1
    found = []
    for value in axis.decode(np.arange(axis.size)).to_pylist():
        if value is None or value != value:
            found.append(grid.points)
        elif isinstance(value, float) and isinf(value):
            found.append(last if value > 0 else 0)
        else:
            steps = (_number(value) - low) / step
            nearest = (2 * steps.numerator + steps.denominator) // (2 * steps.denominator)
            found.append(min(max(nearest, 0), last))
    return np.array(found, dtype=np.int64)


def _number(value: float | Decimal | date) -> Fraction:
    return Fraction(value.toordinal() if isinstance(value, date) else value)
