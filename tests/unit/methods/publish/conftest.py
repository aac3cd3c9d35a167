"""Requests and counted points in memory, and least squares by dense matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.data.counting.axes import Axis, Grid
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.counting.grouping import group
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Rows, Unit
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.price import price

if TYPE_CHECKING:
    from sfumato.privacy.estimation.blocks import Nesting
    from sfumato.privacy.noise.entropy import Entropy

Floats = NDArray[np.float64]
Requested = Callable[..., Request]
Counted = Callable[[Request, Sequence[Sequence[int]] | NDArray[np.int64]], Frequencies]


@pytest.fixture
def request_for() -> Requested:
    """A request for columns x, y, ... of so many points each."""

    def make(
        sizes: Sequence[int],
        *,
        nullable: bool = False,
        unit: Unit | None = None,
        boxes: NDArray[np.int64] | None = None,
        postprocess: tuple[str, ...] = (),
        **cost: Any,
    ) -> Request:
        axes: tuple[Axis, ...] = tuple(
            Grid(name, Kind.INTEGER, Bounds(0, size - 1), nullable)
            for name, size in zip("xyz", sizes, strict=False)
        )
        return Request(
            dataset="people",
            axes=axes,
            unit=unit or Rows(),
            price=price(**(cost or {"epsilon": 1})),
            boxes=boxes,
            postprocess=postprocess,
        )

    return make


@pytest.fixture
def counted() -> Counted:
    """Frequencies of rows of codes."""

    def make(request: Request, rows: Sequence[Sequence[int]] | NDArray[np.int64]) -> Frequencies:
        codes = np.array(rows, dtype=np.int64).reshape(-1, len(request.axes))
        merged = group(
            tuple(codes.T), [axis.size for axis in request.axes], np.ones(len(codes), np.int64)
        )
        cells = tuple(codes[merged.representatives].T)
        return Frequencies(request.axes, cells, merged.counts)

    return make


@pytest.fixture
def clusters() -> NDArray[np.int64]:
    """Two thousand points on 64 x 32 cells, most of them in two clusters."""
    generator = np.random.default_rng(3)
    centres = np.array([[10, 5], [40, 20]])
    near = generator.normal(centres[generator.integers(0, 2, 1800)], 2.0)
    far = generator.uniform([0, 0], [63, 31], (200, 2))
    points: NDArray[np.int64] = np.clip(np.rint(np.concatenate([near, far])), 0, [63, 31]).astype(
        np.int64
    )
    return points


class Told:
    """Noise that was drawn beforehand."""

    def __init__(self, variance: float, drawn: Floats) -> None:
        self.variance = variance
        self.drawn = drawn

    def steps(self, values: NDArray[Any], _entropy: Entropy) -> Floats:
        return np.asarray(values + self.drawn[: len(values)])


def product(matrices: Sequence[Floats]) -> Floats:
    """The Kronecker product of several."""
    found = np.ones((1, 1))
    for one in matrices:
        found = np.asarray(np.kron(found, one), dtype=np.float64)
    return found


def block_matrix(nesting: Nesting, level: int) -> Floats:
    """Which cells, those behind the last included, are in which block."""
    width = nesting.widths[level]
    return product([np.eye(nesting.size // width), np.ones((1, width))])


def box_rows(nestings: Sequence[Nesting], boxes: NDArray[np.int64]) -> Floats:
    """Each box as a row over all cells."""
    found = []
    for box in boxes:
        sides = [
            np.array([low <= code <= high for code in range(nesting.size)], dtype=np.float64)
            for nesting, (low, high) in zip(nestings, box, strict=True)
        ]
        found.append(product([side[None] for side in sides])[0])
    return np.array(found)


@pytest.fixture
def told() -> type[Told]:
    return Told


@pytest.fixture
def dense() -> Callable[..., tuple[Floats, Floats]]:
    """Give the estimate of all cells and its covariance, from counts of levels with variances."""

    def solve(
        nestings: Sequence[Nesting],
        levels: Sequence[tuple[int, ...]],
        variances: Sequence[float],
        counts: Sequence[Floats],
    ) -> tuple[Floats, Floats]:
        rows = [
            product([block_matrix(one, at) for one, at in zip(nestings, level, strict=True)])
            for level in levels
        ]
        weighed = [matrix / variance for matrix, variance in zip(rows, variances, strict=True)]
        information = sum(a.T @ b for a, b in zip(weighed, rows, strict=True))
        covariance = np.asarray(np.linalg.inv(information), dtype=np.float64)
        target = sum(a.T @ y.ravel() for a, y in zip(weighed, counts, strict=True))
        return covariance @ target, covariance

    return solve


@pytest.fixture
def rows_of() -> Callable[..., Floats]:
    return box_rows
