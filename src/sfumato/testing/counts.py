"""Requests and tables of counts in memory, for tests of methods that publish."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.axes import Axis, Grid
from sfumato.frequencies import Frequencies
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
        Grid("abcdefghij"[place], Kind.INTEGER, Bounds(0, size - 1), nullable)
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
