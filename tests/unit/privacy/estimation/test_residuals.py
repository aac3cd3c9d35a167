"""Weighted least squares over marginals, against the normal equations written out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sfumato.privacy.estimation.residuals import MarginalLattice, ResidualEstimate

SIZES = {0: 3, 1: 2, 2: 4, 3: 1}
LEVELS = [
    [(0, 1), (0,), ()],
    [(0, 1, 2), (0, 1), (0,), ()],
    [(0, 1), (1, 2), (0, 2)],
    [(0,), (1,)],
    [(0, 3), (1, 3), (3,)],
    [(0, 1, 2), (0, 1), (0, 2), (1, 2), (0,), (1,), (2,), ()],
]


def design(levels: list[tuple[int, ...]]) -> np.ndarray:
    """One row for each figure of each level: which cells of the whole table it sums."""
    cells = list(product(*(range(SIZES[key]) for key in SIZES)))
    rows = [
        [
            float(all(cell[key] == at for key, at in zip(level, label, strict=True)))
            for cell in cells
        ]
        for level in levels
        for label in product(*(range(SIZES[key]) for key in level))
    ]
    return np.array(rows)


@pytest.mark.parametrize("levels", LEVELS)
def test_equals_weighted_least_squares(levels: list[tuple[int, ...]]) -> None:
    draw = np.random.default_rng(1)
    variances = {level: float(draw.uniform(1, 20)) for level in levels}
    figures = {level: draw.normal(0, 10, [SIZES[key] for key in level]) for level in levels}
    matrix = design(levels)
    weights = np.concatenate(
        [np.full(figures[level].size, variances[level] ** -0.5) for level in levels]
    )
    observed = np.concatenate([figures[level].ravel() for level in levels])
    inverse = np.linalg.pinv(matrix * weights[:, None])
    expected = matrix @ (inverse @ (observed * weights))
    covariance = matrix @ inverse @ inverse.T @ matrix.T
    sets, precisions = tuple(levels), np.array([1 / variances[level] for level in levels])
    estimate = ResidualEstimate(MarginalLattice(tuple(SIZES.values()), sets), sets, precisions)
    residuals = estimate.residuals(figures[level] for level in levels)
    found = [estimate.marginal(residuals, level) for level in levels]
    np.testing.assert_allclose(
        np.concatenate([table.ravel() for table in found]), expected, atol=1e-9
    )
    told = np.concatenate(
        [np.full(figures[level].size, estimate.cell_variance(level)) for level in levels]
    )
    np.testing.assert_allclose(np.diag(covariance), told, atol=1e-9)
