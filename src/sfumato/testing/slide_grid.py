"""A generated grid of 64,909 cells, as on a well-known slide on noisy counts, and its figures."""

from __future__ import annotations

import math

import numpy as np

from sfumato.axes import Grid
from sfumato.frequencies import Frequencies
from sfumato.privacy.price import price
from sfumato.privacy.units import Rows
from sfumato.publish.request import Request
from sfumato.schema.column import Kind
from sfumato.schema.domain import Bounds

SIDES = (13, 4993)
CELLS = SIDES[0] * SIDES[1]

AVERAGES = {"1": 1.02, "0.1": 9.12, "0.01": 98.56, "0.001": 1003.23}
"""The slide's average error by epsilon."""

LARGEST = {"1": 13, "0.1": 109, "0.01": 1041, "0.001": 9663}
"""The slide's largest error by epsilon."""

_AXES = tuple(
    Grid(name, Kind.INTEGER, Bounds(0, side - 1, 1), nullable=False)
    for name, side in zip(("row", "column"), SIDES, strict=True)
)


def sparse_grid() -> Frequencies:
    """A law of Zipf: the r-th fullest cell has 5000 // r rows, 59,909 cells are empty.

    Cell c is the r-th with r = 1 + (31337 c mod 64909), so that full cells lie scattered.
    """
    ranks = 1 + 31337 * np.arange(CELLS, dtype=np.int64) % CELLS
    counts = (5000 // ranks).reshape(SIDES)
    return Frequencies(_AXES, np.nonzero(counts), counts[counts > 0])


def grid_request(epsilon: str, *steps: str) -> Request:
    """Ask for a histogram of the grid, with named post-processing."""
    return Request(
        dataset="grid", axes=_AXES, unit=Rows(), price=price(epsilon=epsilon), postprocess=steps
    )


def largest_at(share: float, epsilon: float) -> int:
    """The least t that all raw errors are within, with at least this probability."""
    # P(all within t) = (1 - 2 a^(t + 1) / (1 + a))^cells, a = exp(-epsilon).
    each = -math.expm1(math.log(share) / CELLS)
    reached = -math.log(each * (1 + math.exp(-epsilon)) / 2) / epsilon
    return max(math.ceil(reached) - 1, 0)


def mean_and_deviation(epsilon: float) -> tuple[float, float]:
    """The expected average of all raw errors, 1 / sinh(epsilon), and its standard deviation."""
    mean = 1 / math.sinh(epsilon)
    variance = 1 / (2 * math.sinh(epsilon / 2) ** 2) - mean**2
    return mean, math.sqrt(variance / CELLS)
