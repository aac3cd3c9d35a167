"""Least squares by dense matrices: what the closed forms must agree with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.privacy.estimation.blocks import Nesting
    from sfumato.privacy.noise.entropy import Entropy

Floats = NDArray[np.float64]


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
