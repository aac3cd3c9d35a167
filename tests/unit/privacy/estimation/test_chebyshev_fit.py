"""The nearest vertex against a solver that is not ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sfumato.privacy.estimation.chebyshev_fit import nearest_vertex

if TYPE_CHECKING:
    from numpy.typing import NDArray


def least(matrix: NDArray[np.float64], target: NDArray[np.float64]) -> float:
    one = np.ones((len(target), 1))
    found = linprog(
        np.append(np.zeros(matrix.shape[1]), 1.0),
        A_ub=np.block([[matrix, -one], [-matrix, -one]]),
        b_ub=np.append(target, -target),
        method="highs",
    )
    assert found.fun is not None
    return float(found.fun)


@given(
    rows=st.integers(1, 12),
    columns=st.integers(1, 40),
    counts=st.sampled_from([0, 1, 20, 100_000]),
    noise=st.sampled_from([0, 1, 40, 3000]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_no_vector_comes_nearer_and_few_entries_are_used(
    rows: int, columns: int, counts: int, noise: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    matrix = generator.choice([-1.0, 1.0], (rows, columns))
    matrix[0] = 1
    truth = generator.poisson(counts, columns)
    noisy = matrix @ truth + generator.integers(-noise, noise + 1, rows)
    target = noisy.astype(np.float64)
    found = nearest_vertex(matrix, target)
    assert found is not None
    assert found.min() >= 0
    assert np.count_nonzero(found) <= np.linalg.matrix_rank(matrix)
    size = max(1.0, float(np.abs(target).max()))
    assert np.abs(matrix @ found - target).max() <= least(matrix, target) + 1e-6 * size


@pytest.mark.parametrize("bits", [1, 4, 7])
def test_a_table_that_fits_is_found(bits: int) -> None:
    codes = np.arange(1 << bits)
    matrix = np.where(np.bitwise_count(codes[:, None] & codes) & 1, -1.0, 1.0)
    truth = np.random.default_rng(1).integers(0, 1000, 1 << bits)
    found = nearest_vertex(matrix, (matrix @ truth).astype(np.float64))
    assert found is not None
    np.testing.assert_array_equal(np.rint(found), truth)
