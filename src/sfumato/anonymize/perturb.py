"""Perturbation: sensitive numbers moved by noise, everything else as it is."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from math import isinf
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.dealing import Given, deal, rows_of
from sfumato.axes import Grid
from sfumato.errors import SchemaError
from sfumato.noise.entropy import SystemEntropy
from sfumato.noise.gaussian import discrete_gaussian
from sfumato.privacy.numbers import positive
from sfumato.schema.domain import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from decimal import Decimal

    from numpy.typing import NDArray

    from sfumato.axes import Axis
    from sfumato.frequencies import Frequencies
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.numbers import Number
    from sfumato.recoding import ByRow
    from sfumato.schema.column import Column

    Ints = NDArray[np.int64]
    Draw = Callable[[Fraction, int], Ints]


def perturb(
    table: Frequencies,
    columns: Sequence[Column],
    *,
    stddev: Mapping[str, Number],
    unchanged: Sequence[str] = (),
    entropy: Entropy | None = None,
    draw: Draw | None = None,
) -> ByRow:
    """Add whole numbers of the declared step to each value, clamped into the declared bounds.

    *Guarantee*: none, neither syntactic nor differential privacy: values are blurred.
    *Error*: discrete Gaussian noise of the stated standard deviation before clamping, which is in
    the unit of the column, in days for dates.
    *Edges*: NULL stays NULL; a value off the grid goes to its nearest point first. `draw` gives the
    numbers of steps for a variance and a number of rows; they are drawn exactly unless given.
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
        moved = np.clip(points + steps(scale**2, len(points)), 0, grid.points - 1)
        codes = np.where(points == grid.points, grid.points, moved).astype(np.int64)
        present, numbers = np.unique(codes, return_inverse=True)
        given.append(Given(column.name, numbers, grid.decode(present)))
    return deal(table, rows, given, unchanged)


def _grid(column: Column) -> tuple[Grid, Fraction]:
    """The declared grid of a column and its step."""
    if not isinstance(column.domain, Bounds) or column.domain.grid_step is None:
        raise SchemaError(
            "domain_missing",
            f"Column {column.name!r} cannot be perturbed: its bounds and step are not declared. "
            "Declare them, e.g. bounds = [0, 100000] and step = 500.",
        )
    return Grid(column.name, column.kind, column.domain, True), Fraction(column.domain.grid_step)


def _points(axis: Axis, grid: Grid, step: Fraction) -> Ints:
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
