"""Release of unknown keys: the threshold fits its noise, its groups and its relation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.privacy.accounting import events
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys
from sfumato.testing.entropy import SeededEntropy

DELTA = Fraction(1, 10**6)


def geometric(groups: int) -> Geometric:
    return Geometric(epsilon=Fraction(1), l1_sensitivity=Fraction(groups))


@pytest.mark.parametrize("groups", [1, 3, 40])
def test_threshold_is_the_least_that_delta_allows(groups: int) -> None:
    mechanism = ThresholdKeys(noise=geometric(groups), delta=DELTA, max_groups=groups)
    alpha = math.exp(-1 / groups)

    def risk(threshold: int) -> float:
        return groups * alpha ** (threshold - 1) / (1 + alpha)

    assert risk(mechanism.threshold) <= 1e-6 < risk(mechanism.threshold - 1)


def test_threshold_grows_with_what_one_person_can_do() -> None:
    base = ThresholdKeys(noise=geometric(1), delta=DELTA, max_groups=1)
    several = ThresholdKeys(noise=geometric(1), delta=DELTA, max_groups=1, max_count=7)
    assert several.threshold == base.threshold + 6
    replaced = ThresholdKeys(
        noise=geometric(1), delta=DELTA, max_groups=1, relation=Neighbours.REPLACE_ONE
    )
    halved = ThresholdKeys(noise=geometric(1), delta=DELTA / 2, max_groups=1)
    assert replaced.threshold == halved.threshold > base.threshold


def test_gaussian_noise_has_a_threshold_of_its_own() -> None:
    noise = Gaussian(rho=Fraction(1, 2), l2_sensitivity_squared=Fraction(9))
    mechanism = ThresholdKeys(noise=noise, delta=DELTA, max_groups=9)
    steps = mechanism.threshold - 1
    assert 9 * math.exp(-(steps**2) / 18) <= 1e-6 < 9 * math.exp(-((steps - 1) ** 2) / 18)
    assert mechanism.event == events.Composed((noise.event, events.ThresholdKeysEvent(delta=DELTA)))
    assert mechanism.stddev == 3
    assert mechanism.variance == 9


def test_only_keys_above_the_threshold_leave_with_their_noisy_counts() -> None:
    mechanism = ThresholdKeys(noise=geometric(1), delta=DELTA, max_groups=1)
    counts = np.array([1, 10**6, 2, 5_000, 1])
    released = mechanism.sample(counts, SeededEntropy(1))
    assert released.positions.tolist() == [1, 3]
    assert np.abs(released.counts - counts[[1, 3]]).max() < 100
    assert mechanism.sample(np.zeros(0, dtype=np.int64), SeededEntropy(1)).positions.size == 0


def test_counts_at_the_bound_are_rarely_withheld() -> None:
    mechanism = ThresholdKeys(noise=geometric(1), delta=DELTA, max_groups=1)
    count = int(mechanism.bound(0.01))
    released = mechanism.sample(np.full(50_000, count), SeededEntropy(2))
    assert len(released.positions) >= 0.99 * 50_000


def test_refusals() -> None:
    for delta in (Fraction(0), Fraction(1), Fraction(-1)):
        with pytest.raises(ParameterError):
            ThresholdKeys(noise=geometric(1), delta=delta, max_groups=1)
    noise = Gaussian(rho=Fraction(1), granule=Fraction(1, 2))
    with pytest.raises(ParameterError) as caught:
        ThresholdKeys(noise=noise, delta=DELTA, max_groups=1)
    assert caught.value.code == "bounds_invalid"
    for groups, count in ((0, 1), (1, 0)):
        with pytest.raises(ParameterError):
            ThresholdKeys(noise=geometric(1), delta=DELTA, max_groups=groups, max_count=count)


def test_F30_a_key_without_a_row_never_passes() -> None:
    """A million zeros: about half of them get noise above 0, and some get noise above 12."""
    mechanism = ThresholdKeys(noise=geometric(1), delta=DELTA, max_groups=1)
    counts = np.zeros(10**6, dtype=np.int64)
    assert (mechanism.noise.steps(counts, SeededEntropy(1)) >= mechanism.threshold - 3).any()
    loose = ThresholdKeys(noise=geometric(1), delta=Fraction(1, 4), max_groups=1)
    assert len(loose.sample(counts, SeededEntropy(1)).positions) == 0
