"""Planted mistakes in sample and aggregate, each of which the audit must catch."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

STEPS, ONE = 1024, Fraction(1)


def noisy(total: float, sensitivity: float, count: int, entropy: Entropy) -> NDArray[Any]:
    on_sum = Geometric(epsilon=ONE, l1_sensitivity=Fraction(round(sensitivity * STEPS)))
    return on_sum.steps(np.full(count, round(total * STEPS)), entropy)


def range_from_data(outputs: list[float], count: int, entropy: Entropy) -> NDArray[Any]:
    """The range is that of the outputs found, and nothing was paid for it."""
    return noisy(sum(outputs), max(max(outputs) - min(outputs), 1 / STEPS), count, entropy)


def blocks_from_data(outputs: list[float], count: int, entropy: Entropy) -> NDArray[Any]:
    """The mean is over the blocks that hold people, whose number is private."""
    held = [one for one in outputs if not np.isnan(one)]
    return noisy(sum(held) / len(held), 1 / len(held), count, entropy)


def two_blocks_unpaid(outputs: list[float], count: int, entropy: Entropy) -> NDArray[Any]:
    """A person is in two blocks, and the noise is that of one."""
    return noisy(sum(outputs), 1, count, entropy)


def failure_dropped(outputs: list[float], count: int, entropy: Entropy) -> NDArray[Any]:
    """A block that failed counts as nothing instead of a constant within the range [5, 6]."""
    return noisy(float(np.nansum(outputs)), 1, count, entropy)


@pytest.mark.parametrize(
    ("wrong", "pair"),
    [
        (range_from_data, ([0.0, 0.0, 0.0], [0.0, 0.0, 1.0])),
        (blocks_from_data, ([1.0, 0.0, 0.0], [1.0, np.nan, np.nan])),
        (two_blocks_unpaid, ([0.0, 0.0, 0.5, 0.5], [1.0, 1.0, 0.5, 0.5])),
        (failure_dropped, ([5.0, 5.0, 5.0], [5.0, 5.0, np.nan])),
    ],
)
def test_a_planted_mistake_is_caught(
    wrong: Callable[..., NDArray[Any]], pair: tuple[list[float], list[float]]
) -> None:
    found = audit(wrong, pair, Pure(epsilon=ONE), entropy=SeededEntropy(1), draws=100_000)
    assert found.violated, found.sentence()
