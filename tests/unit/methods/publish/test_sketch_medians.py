"""The stated deviation of a median is that of many medians of noises."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.methods.publish.sketch import median_stddev
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.privacy.mechanisms.spending import Noise

NOISES: list[Noise] = [
    Geometric(epsilon=Fraction(1)),
    Geometric(epsilon=Fraction(1, 20)),
    Gaussian(rho=Fraction(1, 2)),
    Gaussian(rho=Fraction(1, 500)),
]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_medians_are_as_far_off_as_stated(noise: Noise, size: int) -> None:
    drawn = noise.steps(np.zeros((20_000, size), dtype=np.int64), SeededEntropy(size))
    found = float(np.median(drawn.astype(np.float64), axis=1).std())
    # 20,000 medians tell their deviation to 1 % and better.
    assert median_stddev(noise, size) == pytest.approx(found, rel=0.03)


@pytest.mark.parametrize("size", [3, 4])
def test_a_wide_law_is_that_of_its_limit(size: int) -> None:
    narrow, wide = (Geometric(epsilon=Fraction(1, scale)) for scale in (200, 10**7))
    assert median_stddev(wide, size) == pytest.approx(
        median_stddev(narrow, size) * 10**7 / 200, rel=1e-4
    )


def test_one_noise_is_its_own_median() -> None:
    for noise in NOISES:
        assert median_stddev(noise, 1) == pytest.approx(noise.stddev, rel=1e-6)


def test_nothing_is_left_of_noise_that_is_hardly_there() -> None:
    assert median_stddev(Geometric(epsilon=Fraction(5000)), 3) == 0
