"""Requests and counted points in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
