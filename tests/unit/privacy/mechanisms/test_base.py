"""What holds for every mechanism: its description, its cost from public facts."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric, Laplace, TruncatedGeometric
from sfumato.privacy.mechanisms.quantile import Quantile
from sfumato.privacy.mechanisms.randomized_response import RandomizedResponse
from sfumato.privacy.mechanisms.sample_aggregate import SampleAggregate
from sfumato.privacy.mechanisms.selection import Exponential, NoisyMax, PermuteAndFlip
from sfumato.privacy.mechanisms.smooth_median import SmoothMedian
from sfumato.privacy.mechanisms.sparse_vector import SparseVector
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys

if TYPE_CHECKING:
    from sfumato.privacy.mechanisms.base import AdditiveNoise, Mechanism

ONE = Fraction(1)
ADDITIVE: list[AdditiveNoise] = [
    Geometric(epsilon=ONE),
    TruncatedGeometric(epsilon=ONE, low=0, high=9),
    Laplace(epsilon=ONE, l1_sensitivity=ONE, granule=Fraction(1, 8)),
    Gaussian(rho=ONE),
]
ALL: list[Mechanism] = [
    *ADDITIVE,
    Exponential(epsilon=ONE, candidates=3),
    PermuteAndFlip(epsilon=ONE, candidates=3),
    NoisyMax(epsilon=ONE, candidates=3),
    RandomizedResponse(epsilon=ONE, categories=3),
    Quantile(epsilon=ONE, rank=Fraction(1, 2), size=5),
    SmoothMedian(epsilon=ONE, rows=5, size=5),
    SparseVector(epsilon=ONE, cutoff=1),
    ThresholdKeys(noise=Geometric(epsilon=ONE), delta=Fraction(1, 100), max_groups=1),
    SampleAggregate(epsilon=ONE, blocks=5, low=Fraction(0), high=ONE, granule=Fraction(1, 8)),
]


@pytest.mark.parametrize("mechanism", ALL, ids=lambda mechanism: type(mechanism).__name__)
def test_mechanism_describes_itself(mechanism: Mechanism) -> None:
    text = type(mechanism).__doc__ or ""
    for heading in ("Guarantee", "Sensitivity", "Error", "Edges", "Reference"):
        assert f"*{heading}*: " in text


@pytest.mark.parametrize("mechanism", ALL, ids=lambda mechanism: type(mechanism).__name__)
def test_mechanism_is_a_value_and_costs_the_same_each_time(mechanism: Mechanism) -> None:
    assert mechanism.event == mechanism.event
    assert hash(mechanism) == hash(mechanism)
    with pytest.raises(FrozenInstanceError):
        mechanism.epsilon = Fraction(9)  # type: ignore[attr-defined]


@pytest.mark.parametrize("mechanism", ADDITIVE, ids=lambda mechanism: type(mechanism).__name__)
def test_rarer_errors_are_larger(mechanism: AdditiveNoise) -> None:
    assert mechanism.stddev**2 == pytest.approx(mechanism.variance)
    assert 0 < mechanism.bound(0.1) < mechanism.bound(0.001)
