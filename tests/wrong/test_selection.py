"""Wrong ways to choose: by score, by noisy maximum, by rank, by coin."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.privacy.accounting.losses import Pure
from sfumato.testing.audit import Audit, fit_uniform

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

ONE = Pure(epsilon=Fraction(1))
LOW = np.array([0] * 10 + [1])
HIGH = np.array([1] * 10 + [0])


def categories(weights: NDArray[Any], size: int, generator: Generator) -> Any:
    return generator.choice(len(weights), size, p=weights / weights.sum())


def exponential_without_the_two(scores: NDArray[Any], size: int, generator: Generator) -> Any:
    return categories(np.exp(scores), size, generator)


def noisy_max_of_monotone_scale(scores: NDArray[Any], size: int, generator: Generator) -> Any:
    return np.argmax(scores + generator.laplace(0, 1, (size, len(scores))), axis=1)


def noisy_max_with_its_value(scores: NDArray[Any], size: int, generator: Generator) -> Any:
    return np.max(scores + generator.laplace(0, 2, (size, len(scores))), axis=1)


def flip_without_permuting(scores: NDArray[Any], size: int, generator: Generator) -> Any:
    accept = generator.random((size, len(scores))) < np.exp((scores - scores.max()) / 2)
    return np.argmax(accept, axis=1)


def maximum_with_probability(scores: NDArray[Any], size: int, generator: Generator) -> Any:
    """The true maximum, now and then a random candidate."""
    other = generator.integers(0, len(scores), size)
    return np.where(generator.random(size) < 0.5, np.argmax(scores), other)


def quantile_of_half_sensitivity(values: NDArray[Any], size: int, generator: Generator) -> Any:
    """The 0.9 quantile on the grid 0, ..., 103 with the median's sensitivity 1/2."""
    grid = np.arange(104)
    rank = 0.9 * len(values)
    below = np.searchsorted(values, grid, "left")
    up_to = np.searchsorted(values, grid, "right")
    score = -np.maximum(0, np.maximum(below - rank, rank - up_to))
    return categories(np.exp(score), size, generator)


def median_of_local_sensitivity(values: NDArray[Any], size: int, generator: Generator) -> Any:
    middle = len(values) // 2
    local = max(values[middle + 1] - values[middle], values[middle] - values[middle - 1])
    return np.round(values[middle] + generator.laplace(0, max(local, 1e-9), size), 2)


def response_too_true(value: int, size: int, generator: Generator) -> Any:
    return np.where(generator.random(size) < 0.8, value, 1 - value)


def response_for_two_categories(value: int, size: int, generator: Generator) -> Any:
    """Sixteen categories, but the truth is told as often as with two."""
    truth = math.e / (1 + math.e)
    other = (value + generator.integers(1, 16, size)) % 16
    return np.where(generator.random(size) < truth, value, other)


def response_to_two_questions(value: int, size: int, generator: Generator) -> Any:
    """The same value randomized afresh on a second day, charged once."""
    truth = math.e / (1 + math.e)
    return np.where(generator.random((size, 2)) < truth, value, 1 - value)


QUANTILE = np.array([0] * 8 + [101] * 2)
WRONG: list[tuple[Callable[..., Any], Any, Pure]] = [
    (exponential_without_the_two, (LOW, HIGH), ONE),
    (noisy_max_of_monotone_scale, (LOW, HIGH), ONE),
    (noisy_max_with_its_value, (np.zeros(11), np.ones(11)), ONE),
    (flip_without_permuting, (np.array([0, 1]), np.array([1, 0])), ONE),
    (maximum_with_probability, (LOW, HIGH), ONE),
    (quantile_of_half_sensitivity, (QUANTILE, np.append(QUANTILE, 103)), ONE),
    (
        median_of_local_sensitivity,
        (np.array([0] * 5 + [1] * 4), np.array([0] * 6 + [1] * 3)),
        ONE,
    ),
    (response_too_true, (0, 1), ONE),
    (response_for_two_categories, (0, 1), ONE),
    (response_to_two_questions, (0, 1), ONE),
]


@pytest.mark.parametrize(("wrong", "pair", "claim"), WRONG, ids=[row[0].__name__ for row in WRONG])
def test_wrong_choice_is_caught(
    accuse: Callable[..., Audit], wrong: Callable[..., Any], pair: Any, claim: Pure
) -> None:
    found = accuse(wrong, pair, claim)
    assert found.violated, found.sentence()


def test_ties_broken_by_index_are_caught() -> None:
    generator = np.random.default_rng(7)
    draws = generator.geometric(0.4, (2, 100_000, 4))
    by_index = np.argmax(draws[0] - draws[1], axis=1)
    assert fit_uniform(by_index, 4).p_value < 1e-6


def slide_smooth_sensitivity(values: list[int], beta: float) -> float:
    """The inner maximum over 0 <= j <= d, where 0 <= j <= d + 1 is right; values in 0..10."""
    middle = (len(values) - 1) // 2

    def at(index: int) -> int:
        return 0 if index < 0 else 10 if index >= len(values) else values[index]

    return max(
        math.exp(-beta * far)
        * max(at(middle + j) - at(middle + j - far - 1) for j in range(far + 1))
        for far in range(len(values) + 1)
    )


def test_slide_smooth_sensitivity_is_caught_below_the_local_one() -> None:
    """No noise of ours makes the slip visible in outputs, so its definition is held against it."""
    values = [0, 0, 0, 10, 10]
    local = 10  # replacing a 0 by a 10 moves the median from 0 to 10
    assert slide_smooth_sensitivity(values, beta=0.5) < local
