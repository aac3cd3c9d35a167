"""Floating-point noise: its bits tell which value it was added to."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.privacy.accounting.losses import Pure
from sfumato.testing.audit import Audit, Curve, on_grid, reachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

ONE = Pure(epsilon=Fraction(1))


def float_laplace(value: float, size: int, generator: Generator) -> Any:
    uniform = generator.integers(1, 2**53, size) * 2.0**-53
    sign = generator.choice([-1.0, 1.0], size)
    return value + sign * np.log(uniform)


def box_muller(value: float, size: int, generator: Generator) -> Any:
    first, second = generator.integers(1, 2**53, (2, size)) * 2.0**-53
    return value + 4 * np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)


def test_inverse_transform_laplace_is_caught_by_its_bits(accuse: Callable[..., Audit]) -> None:
    found = accuse(float_laplace, (0.0, 1.0), ONE)
    assert found.violated, found.sentence()
    assert found.feature in {"lowest bit", "exponent"}


def test_box_muller_is_caught_by_its_bits(accuse: Callable[..., Audit]) -> None:
    found = accuse(box_muller, (0.0, 1.0), Curve(0.25))
    assert found.violated, found.sentence()
    assert found.feature == "lowest bit"


def test_inverse_transform_laplace_is_caught_by_its_support(accuse: Callable[..., Audit]) -> None:
    def away_from_zero(value: float, size: int, generator: Generator) -> Any:
        # Far out all low bits are alike; what is left is the set of values that can occur.
        uniform = generator.integers(2**50, 2**52, size) * 2.0**-53
        return value - np.log(uniform)

    def forward(seed: NDArray[Any]) -> Any:
        return np.asarray(0.0 - np.log(seed * 2.0**-53))

    def inverse(output: NDArray[np.float64]) -> Any:
        return np.round(np.exp(-output) * 2.0**53)

    found = accuse(away_from_zero, (0.0, 2.0**-20), ONE, extra=[reachable(forward, inverse)])
    assert found.violated, found.sentence()


def test_rounding_float_noise_at_a_large_value_is_caught(accuse: Callable[..., Audit]) -> None:
    """Uniforms of 32 bits, noise of scale 2^41, rounded to integers: most can never occur."""
    scale, location = 2.0**41, 2.0**40

    def rounded(value: float, size: int, generator: Generator) -> Any:
        uniform = generator.integers(1, 2**32, size) * 2.0**-32
        return np.round(value - scale * np.log(uniform))

    def forward(seed: NDArray[Any]) -> Any:
        return np.round(location - scale * np.log(np.maximum(seed, 1) * 2.0**-32))

    def inverse(output: NDArray[np.float64]) -> Any:
        return np.round(np.exp((location - output) / scale) * 2.0**32)

    claim = Pure(epsilon=Fraction(1, 2))
    found = accuse(rounded, (location, location + 1), claim, extra=[reachable(forward, inverse)])
    assert found.violated, found.sentence()
    assert found.feature == "reachable"


def test_float_noise_leaves_the_declared_grid() -> None:
    outputs = float_laplace(0.0, 1_000, np.random.default_rng(7))
    assert not on_grid(outputs, 2.0**-20).all()
    assert on_grid(np.round(outputs * 2.0**20) / 2.0**20, 2.0**-20).all()
