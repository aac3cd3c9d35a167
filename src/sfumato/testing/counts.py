"""Requests and tables of counts in memory, for tests of methods that publish.

Among them a generated grid of 64,909 cells, as on a well-known slide on noisy counts, and its
figures.
"""

from __future__ import annotations

import math
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.counting.axes import Axis, Grid
from sfumato.counting.frequencies import Frequencies
from sfumato.privacy.price import price
from sfumato.privacy.units import Rows, Unit
from sfumato.publish.request import Request
from sfumato.schema.column import Kind
from sfumato.schema.domain import Bounds

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.noise.entropy import Entropy

_ROWS = Rows()


def whole_numbers(*points: int, nullable: bool = False) -> tuple[Axis, ...]:
    """Columns a, b, ... of the whole numbers from 0."""
    return tuple(
        Grid(chr(97 + place), Kind.INTEGER, Bounds(0, size - 1), nullable)
        for place, size in enumerate(points)
    )


def request_for(
    axes: tuple[Axis, ...],
    *,
    unit: Unit = _ROWS,
    boxes: ArrayLike | None = None,
    postprocess: tuple[str, ...] = (),
    **cost: Any,
) -> Request:
    """A request at a price, epsilon 1 if none is given; one column's ranges may come as pairs."""
    ranges = None if boxes is None else np.asarray(boxes, dtype=np.int64).reshape(-1, len(axes), 2)
    return Request(
        dataset="table",
        axes=axes,
        unit=unit,
        price=price(**(cost or {"epsilon": 1})),
        boxes=ranges,
        postprocess=postprocess,
    )


def frequencies(axes: tuple[Axis, ...], dense: ArrayLike) -> Frequencies:
    """The counts of a dense table that has a place for every code."""
    table = np.asarray(dense, dtype=np.int64)
    codes = np.nonzero(table)
    return Frequencies(axes, codes, table[codes])


class Silence:
    """Noise that is none: what a method gives without it is the truth, or its bias."""

    variance = 0.0

    def steps(self, values: NDArray[Any], _entropy: Entropy) -> NDArray[Any]:
        """The values themselves."""
        return np.asarray(values)


def agrees(errors: NDArray[np.float64], variances: ArrayLike) -> bool:
    """Whether errors (runs, figures) have mean 0 and these variances, within 5.6 standard errors.

    For up to 20 figures of many runs it says no to what is right with probability below 1e-6.
    """
    squares = errors**2
    runs = sqrt(len(errors))
    unbiased = np.abs(errors.mean(axis=0)) <= 5.6 * errors.std(axis=0) / runs
    spread = np.abs(squares.mean(axis=0) - variances) <= 5.6 * squares.std(axis=0) / runs
    return bool(unbiased.all() and spread.all())


SLIDE_SIDES = (13, 4993)
SLIDE_CELLS = SLIDE_SIDES[0] * SLIDE_SIDES[1]

SLIDE_AVERAGES = {"1": 1.02, "0.1": 9.12, "0.01": 98.56, "0.001": 1003.23}
"""The slide's average error by epsilon."""

SLIDE_LARGEST = {"1": 13, "0.1": 109, "0.01": 1041, "0.001": 9663}
"""The slide's largest error by epsilon."""

_SLIDE_AXES = tuple(
    Grid(name, Kind.INTEGER, Bounds(0, side - 1, 1), nullable=False)
    for name, side in zip(("row", "column"), SLIDE_SIDES, strict=True)
)


def slide_grid() -> Frequencies:
    """A law of Zipf: the r-th fullest cell has 5000 // r rows, 59,909 cells are empty.

    Cell c is the r-th with r = 1 + (31337 c mod 64909), so that full cells lie scattered.
    """
    ranks = 1 + 31337 * np.arange(SLIDE_CELLS, dtype=np.int64) % SLIDE_CELLS
    counts = (5000 // ranks).reshape(SLIDE_SIDES)
    return Frequencies(_SLIDE_AXES, np.nonzero(counts), counts[counts > 0])


def slide_request(epsilon: str, *steps: str) -> Request:
    """Ask for a histogram of the grid, with named post-processing."""
    return Request(
        dataset="grid",
        axes=_SLIDE_AXES,
        unit=Rows(),
        price=price(epsilon=epsilon),
        postprocess=steps,
    )


def largest_at(share: float, epsilon: float) -> int:
    """The least t that all raw errors are within, with at least this probability."""
    # P(all within t) = (1 - 2 a^(t + 1) / (1 + a))^cells, a = exp(-epsilon).
    each = -math.expm1(math.log(share) / SLIDE_CELLS)
    reached = -math.log(each * (1 + math.exp(-epsilon)) / 2) / epsilon
    return max(math.ceil(reached) - 1, 0)


def mean_and_deviation(epsilon: float) -> tuple[float, float]:
    """The expected average of all raw errors, 1 / sinh(epsilon), and its standard deviation."""
    mean = 1 / math.sinh(epsilon)
    variance = 1 / (2 * math.sinh(epsilon / 2) ** 2) - mean**2
    return mean, math.sqrt(variance / SLIDE_CELLS)
