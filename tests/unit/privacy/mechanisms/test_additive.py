"""Geometric, truncated geometric, Laplace and Gaussian: laws, parameters, errors, edges."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.privacy.accounting.events import GaussianNoise, LaplaceNoise
from sfumato.privacy.mechanisms.base import add, integers, to_floats
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric, Laplace, TruncatedGeometric
from sfumato.testing.audit import fit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

HALF = Fraction(1, 2)
DRAWS = 100_000


def zeros(size: int = DRAWS) -> NDArray[np.int64]:
    return np.zeros(size, dtype=np.int64)


def geometric_mass(points: NDArray[np.int64], rate: float) -> NDArray[np.float64]:
    alpha = math.exp(-rate)
    return np.asarray((1 - alpha) / (1 + alpha) * alpha ** np.abs(points))


@pytest.mark.parametrize("epsilon", [HALF, Fraction(2)])
def test_geometric_has_its_law(epsilon: Fraction) -> None:
    """alpha is exp(-epsilon / sensitivity); zero comes neither doubled nor never."""
    draws = Geometric(epsilon=epsilon, l1_sensitivity=Fraction(3)).sample(zeros(), SeededEntropy(1))
    rate = float(epsilon / 3)
    assert fit(draws, lambda points: geometric_mass(points, rate)).p_value > 1e-6
    assert fit(draws, lambda points: geometric_mass(points, rate * 1.05)).p_value < 1e-6


def test_geometric_states_its_cost_and_error() -> None:
    mechanism = Geometric(epsilon=HALF, l1_sensitivity=Fraction(3))
    assert mechanism.event == LaplaceNoise(scale=Fraction(6), l1_sensitivity=Fraction(3))
    assert mechanism.event.epsilon == HALF
    points = np.arange(-2000, 2001)
    mass = geometric_mass(points, 1 / 6)
    assert mechanism.variance == pytest.approx(float((mass * points**2).sum()))
    assert mechanism.stddev == pytest.approx(math.sqrt(mechanism.variance))


@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-6])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(10)])
def test_geometric_bound_is_the_least_whole_one(epsilon: Fraction, beta: float) -> None:
    points = np.arange(-2000, 2001)
    mass = geometric_mass(points, float(epsilon))
    bound = Geometric(epsilon=epsilon).bound(beta)
    assert mass[np.abs(points) > bound].sum() <= beta * (1 + 1e-9)
    assert bound == 0 or mass[np.abs(points) > bound - 1].sum() > beta


def test_geometric_tail_is_a_close_upper_bound() -> None:
    mechanism = Geometric(epsilon=HALF)
    for steps in (1, 5, 60):
        with localcontext(prec=60):
            exact = (Decimal(-steps) / 2).exp() / (1 + Decimal("-0.5").exp())
        assert 0 <= mechanism.tail(steps) / Fraction(exact) - 1 < Fraction(1, 10**30)


def test_geometric_vector_keeps_shape_and_draws_apart() -> None:
    noisy = Geometric(epsilon=Fraction(1, 100)).sample(
        np.zeros((3, 500), dtype=np.int64), SeededEntropy(2)
    )
    assert noisy.shape == (3, 500)
    assert not np.array_equal(noisy[0], noisy[1])
    empty = Geometric(epsilon=HALF).sample(np.zeros(0, dtype=np.int64), SeededEntropy(2))
    assert empty.size == 0


def test_sums_near_the_ends_of_64_bits_do_not_wrap() -> None:
    largest = np.iinfo(np.int64).max
    noisy = Geometric(epsilon=Fraction(1, 100)).sample(np.full(2_000, largest), SeededEntropy(3))
    assert noisy.dtype == object
    assert min(noisy.tolist()) > largest - 100_000
    assert max(noisy.tolist()) > largest


def test_integers_beyond_64_bits_are_noised_exactly() -> None:
    values = np.array([10**30, -(10**30)], dtype=object)
    noisy = Geometric(epsilon=Fraction(10)).sample(values, SeededEntropy(4))
    assert abs(noisy[0] - 10**30) < 100
    assert abs(noisy[1] + 10**30) < 100


@pytest.mark.parametrize("values", [np.array([1.5]), np.array(["a"]), np.array([True])])
def test_what_is_not_an_integer_is_refused_by_type(values: NDArray[Any]) -> None:
    with pytest.raises(ParameterError) as caught:
        Geometric(epsilon=HALF).sample(values, SeededEntropy(5))
    assert caught.value.code == "array_invalid"
    assert "1.5" not in caught.value.message


def test_unsigned_and_narrow_integers_are_read() -> None:
    assert integers(np.array([1], dtype=np.uint8), "values").dtype == np.int64
    assert integers(np.array([2**63], dtype=np.uint64), "values")[0] == 2**63
    assert integers([], "values").size == 0
    with pytest.raises(ParameterError, match="2 dimensions"):
        integers([1], "values", dimensions=2)


def test_addition_narrows_when_it_can() -> None:
    total = add(np.array([2**70], dtype=object), np.array([5 - 2**70], dtype=object))
    assert total.dtype == np.int64
    assert total[0] == 5


@pytest.mark.parametrize("epsilon", [0, -1, "nan", None])
def test_bad_parameters_are_refused_before_anything_else(epsilon: Any) -> None:
    for make in (
        lambda: Geometric(epsilon=epsilon),
        lambda: TruncatedGeometric(epsilon=epsilon, low=0, high=5),
        lambda: Laplace(epsilon=epsilon, l1_sensitivity=Fraction(1), granule=Fraction(1)),
        lambda: Gaussian(rho=epsilon),
    ):
        with pytest.raises(ParameterError):
            make()


@pytest.mark.parametrize("beta", [0.0, 1.0, -1.0, math.nan, math.inf])
def test_beta_must_be_a_probability(beta: float) -> None:
    for mechanism in (Geometric(epsilon=HALF), Gaussian(rho=HALF)):
        with pytest.raises(ParameterError) as caught:
            mechanism.bound(beta)
        assert caught.value.code == "parameter_out_of_range"


def test_truncation_gathers_the_tails_at_the_declared_ends() -> None:
    mechanism = TruncatedGeometric(epsilon=Fraction(1), low=0, high=4)
    draws = mechanism.sample(np.full(DRAWS, 1), SeededEntropy(6))
    points = np.arange(-500, 501)
    mass = geometric_mass(points - 1, 1.0)
    law = np.array([mass[np.clip(points, 0, 4) == at].sum() for at in range(5)])
    assert fit(draws, lambda at: law[at]).p_value > 1e-6
    assert mechanism.event == Geometric(epsilon=Fraction(1)).event


def test_truncation_never_errs_by_more_than_its_range() -> None:
    mechanism = TruncatedGeometric(epsilon=Fraction(1, 1000), low=0, high=4)
    assert mechanism.bound(1e-9) == 4
    assert mechanism.stddev == 4
    assert mechanism.variance == 16
    with pytest.raises(ParameterError) as caught:
        TruncatedGeometric(epsilon=Fraction(1), low=4, high=4)
    assert caught.value.code == "bounds_invalid"


def test_laplace_scale_is_sensitivity_over_epsilon_on_the_grid() -> None:
    """Lap(S / epsilon), never S / epsilon times Lap(1 / epsilon)."""
    mechanism = Laplace(epsilon=Fraction(2), l1_sensitivity=Fraction(3), granule=Fraction(1, 8))
    assert mechanism.on_steps.scale == Fraction(12)
    assert mechanism.event == LaplaceNoise(scale=Fraction(12), l1_sensitivity=Fraction(24))
    assert mechanism.stddev == pytest.approx(math.sqrt(2) * 1.5, rel=0.01)
    released = mechanism.sample(zeros(), SeededEntropy(7))
    assert (
        fit((released * 8).astype(np.int64), lambda points: geometric_mass(points, 1 / 12)).p_value
        > 1e-6
    )
    assert mechanism.bound(0.05) == pytest.approx(1.5 * math.log(20), rel=0.05)
    assert mechanism.variance == pytest.approx(mechanism.stddev**2)


def test_gaussian_has_its_law_cost_and_error() -> None:
    mechanism = Gaussian(
        rho=Fraction(1, 8), l2_sensitivity_squared=Fraction(2), granule=Fraction(1, 2)
    )
    assert mechanism.steps_variance == 32
    assert mechanism.event == GaussianNoise(
        variance=Fraction(32), l2_sensitivity_squared=Fraction(8)
    )
    assert mechanism.event.rho == Fraction(1, 8)
    points = np.arange(-200, 201)
    mass = np.exp(-(points**2) / 64)
    mass /= mass.sum()
    released = mechanism.sample(zeros(), SeededEntropy(8))
    steps = (released * 2).astype(np.int64)
    assert fit(steps, lambda at: mass[at + 200]).p_value > 1e-6
    assert mechanism.variance == 8
    assert mechanism.stddev == pytest.approx(math.sqrt(8))
    bound = mechanism.bound(0.01)
    assert mass[np.abs(points) / 2 > bound].sum() <= 0.01
    for steps_out in (1, 10, 30):
        assert float(mechanism.tail(steps_out)) >= mass[points >= steps_out].sum()


def test_floats_are_made_from_whole_steps_alone() -> None:
    assert to_floats(np.array([3, -5]), Fraction(1, 100)).tolist() == [0.03, -0.05]
    assert to_floats(np.array([10**25], dtype=object), Fraction(1, 10)).tolist() == [1e24]
