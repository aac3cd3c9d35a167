"""Wrong noise on counts and sums: each must be caught on a pair of neighbouring answers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.privacy.accounting.losses import Pure
from sfumato.testing.audit import Audit, Curve

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

ONE = Pure(epsilon=Fraction(1))
TWO = Pure(epsilon=Fraction(2))


def two_sided(generator: Generator, epsilon: float, size: Any) -> NDArray[np.int64]:
    draws = generator.geometric(1 - math.exp(-epsilon), (2, *np.atleast_1d(size)))
    return np.asarray(draws[0] - draws[1])


def doubled_zero(count: int, size: int, generator: Generator) -> Any:
    magnitude = generator.geometric(1 - math.exp(-1), size) - 1
    return count + generator.choice([-1, 1], size) * magnitude


def zero_never_drawn(count: int, size: int, generator: Generator) -> Any:
    magnitude = generator.geometric(1 - math.exp(-1), size)
    return count + generator.choice([-1, 1], size) * magnitude


def scale_halved(count: int, size: int, generator: Generator) -> Any:
    return count + two_sided(generator, 2.0, size)


def scale_ten_percent_short(count: int, size: int, generator: Generator) -> Any:
    return np.round(count + generator.laplace(0, 0.9, size), 2)


def scaled_unit_laplace(count: int, size: int, generator: Generator) -> Any:
    """S/epsilon * Lap(1/epsilon) at S = 1, epsilon = 2, where Lap(S/epsilon) is right."""
    return np.round(count + 0.5 * generator.laplace(0, 1 / 2, size), 3)


def truncated_at_table_size(count: int, size: int, generator: Generator) -> Any:
    return np.clip(count + two_sided(generator, 1.0, size), 0, count)


def noise_cut_off(count: int, size: int, generator: Generator) -> Any:
    return count + np.clip(two_sided(generator, 1.0, size), -3, 3)


def resampled_until_positive(count: int, size: int, generator: Generator) -> Any:
    """Redraw while the answer is negative: the acceptance rate depends on the true count."""
    answers = count + two_sided(generator, 1.0, size)
    while (negative := answers < 0).any():
        answers[negative] = count + two_sided(generator, 1.0, int(negative.sum()))
    return answers


def absolute_noise(count: int, size: int, generator: Generator) -> Any:
    return count + np.abs(two_sided(generator, 1.0, size))


def same_noise_for_two_queries(counts: tuple[int, int], size: int, generator: Generator) -> Any:
    noise = two_sided(generator, 0.5, size)
    return np.stack((counts[0] + noise, counts[1] + noise), axis=1)


def charged_once_for_two_answers(counts: tuple[int, int], size: int, generator: Generator) -> Any:
    return np.array(counts) + two_sided(generator, 1.0, (size, 2))


def seeded_by_the_answer(count: int, size: int, generator: Generator) -> Any:
    del generator
    return np.full(size, count + two_sided(np.random.default_rng(count), 1.0, 1)[0])


def scale_from_the_data(values: tuple[int, ...], size: int, generator: Generator) -> Any:
    return np.round(sum(values) + generator.laplace(0, max(values, default=0) or 1e-3, size))


def sum_bounded_by_upper_end(values: tuple[int, ...], size: int, generator: Generator) -> Any:
    """Values lie in [-10, 1]; the sensitivity is 10, not the upper end."""
    return sum(values) + two_sided(generator, 1.0, size)


def histogram_sensitivity_one(cells: tuple[int, ...], size: int, generator: Generator) -> Any:
    """Under replace-one two cells change, so the sensitivity is 2."""
    return np.array(cells) + two_sided(generator, 1.0, (size, 2))


WRONG: list[tuple[Callable[..., Any], Any, Pure]] = [
    (doubled_zero, (10, 11), ONE),
    (zero_never_drawn, (10, 11), ONE),
    (scale_halved, (10, 11), ONE),
    (scale_ten_percent_short, (10, 11), ONE),
    (scaled_unit_laplace, (10, 11), TWO),
    (truncated_at_table_size, (3, 4), ONE),
    (noise_cut_off, (10, 11), ONE),
    (resampled_until_positive, (0, 1), ONE),
    (absolute_noise, (10, 11), ONE),
    (same_noise_for_two_queries, ((5, 5), (6, 5)), ONE),
    (charged_once_for_two_answers, ((5, 5), (6, 6)), ONE),
    (seeded_by_the_answer, (10, 11), ONE),
    (scale_from_the_data, ((1, 1, 10), (1, 1)), ONE),
    (sum_bounded_by_upper_end, ((1, -10), (1,)), ONE),
    (histogram_sensitivity_one, ((5, 5), (6, 4)), ONE),
]


@pytest.mark.parametrize(("wrong", "pair", "claim"), WRONG, ids=[row[0].__name__ for row in WRONG])
def test_wrong_noise_is_caught(
    accuse: Callable[..., Audit], wrong: Callable[..., Any], pair: Any, claim: Pure
) -> None:
    found = accuse(wrong, pair, claim)
    assert found.violated, found.sentence()


def test_gaussian_of_three_quarters_of_its_stddev_is_caught_by_its_curve(
    accuse: Callable[..., Audit],
) -> None:
    stddev = 4.0

    def short(value: int, size: int, generator: Generator) -> Any:
        return np.round(value + generator.normal(0, 0.75 * stddev, size), 2)

    def right(value: int, size: int, generator: Generator) -> Any:
        return np.round(value + generator.normal(0, stddev, size), 2)

    claim = Curve(1 / stddev)
    assert accuse(short, (0, 1), claim).violated
    assert not accuse(right, (0, 1), claim).violated
