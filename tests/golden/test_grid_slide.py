"""The slide of a grid of 64,909 cells with noise at four epsilons: average and largest errors.

One seed for all. Over seeds an average would leave its 4 standard errors once in 16,000, and a
maximum its 0.1 % and 99.9 % quantiles once in 500.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.fixtures.counts import (
    SLIDE_AVERAGES,
    SLIDE_CELLS,
    largest_at,
    mean_and_deviation,
    slide_grid,
    slide_request,
)

from sfumato.methods.publish.histogram import prepare
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray


def errors(epsilon: str, *steps: str) -> NDArray[np.float64]:
    """How far each released count is from the truth."""
    truth = slide_grid()
    released = prepare(slide_request(epsilon, *steps)).release(truth, SeededEntropy(64_909))
    counts: NDArray[np.float64] = np.asarray(released["histogram"]["count"], dtype=np.float64)
    return np.abs(counts - truth.dense().ravel())


def test_the_grid_is_sparse() -> None:
    truth = slide_grid()
    assert SLIDE_CELLS == 64_909
    assert len(truth) == 5000
    assert truth.total == sum(5000 // rank for rank in range(1, 5001))
    assert int(truth.counts.max()) == 5000


@pytest.mark.parametrize("epsilon", SLIDE_AVERAGES)
def test_raw_errors_are_those_of_the_exact_law(epsilon: str) -> None:
    found, rate = errors(epsilon), float(epsilon)
    mean, deviation = mean_and_deviation(rate)
    assert abs(found.mean() - mean) < 4 * deviation
    assert largest_at(0.001, rate) <= found.max() <= largest_at(0.999, rate)


@pytest.mark.parametrize("epsilon", SLIDE_AVERAGES)
def test_non_negative_counts_are_nearer_than_those_of_the_slide(epsilon: str) -> None:
    assert errors(epsilon, "nonnegative").mean() < SLIDE_AVERAGES[epsilon]
    assert errors(epsilon, "nonnegative", "integer").mean() < SLIDE_AVERAGES[epsilon]
