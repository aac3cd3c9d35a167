"""What attacks have in common: the most that theory lets them know, and many copies of a class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@pytest.fixture
def most_right() -> Callable[[float, int], int]:
    """The most bits that are guessed right under a pure epsilon, but for a chance of 1e-6.

    Each of n independent fair bits is one person's. Whatever is made of epsilon-private answers,
    the number of right guesses is below a binomial of n trials with chance
    e^epsilon / (1 + e^epsilon) (Steinke, Nasr & Jagielski 2023, Proposition 5.7).
    """

    def bound(epsilon: float, bits: int) -> int:
        return int(stats.binom.isf(1e-6, bits, 1 / (1 + math.exp(-epsilon))))

    return bound


@pytest.fixture
def secrets() -> Callable[[int], NDArray[Any]]:
    """Fair bits, always the same: what an attack finds must depend on our noise alone."""

    def draw(count: int) -> NDArray[Any]:
        return np.random.default_rng(7).integers(0, 2, count)

    return draw
