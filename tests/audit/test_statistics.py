"""The limits of statistical tests accuse what is right as rarely as they say, and see mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from tests.fixtures.counts import agrees
from tests.fixtures.statistics import (
    FALSE_ALARM,
    hits_between,
    power,
    power_of_variance,
    standard_errors,
)


@pytest.mark.parametrize(("draws", "chance"), [(1_000, 0.5), (100_000, 0.01), (50, 0.2)])
def test_hits_are_outside_as_rarely_as_is_said(draws: int, chance: float) -> None:
    least, most = hits_between(draws, chance)
    law = stats.binom(draws, chance)
    assert law.cdf(least - 1) + law.sf(most) <= FALSE_ALARM
    assert law.cdf(least) > FALSE_ALARM / 2
    assert law.sf(most - 1) > FALSE_ALARM / 2


def test_standard_errors_of_many_figures_hold_together() -> None:
    assert standard_errors() == pytest.approx(4.8916, abs=1e-4)
    assert 5.5 < standard_errors(40) < 5.6  # what `agrees` allows
    assert 20 * 2 * stats.norm.sf(standard_errors(20)) == pytest.approx(FALSE_ALARM)


def test_a_tenth_more_hits_among_a_hundred_thousand_are_seen() -> None:
    assert power(100_000, 0.1, 0.11) > 0.999
    assert power(100_000, 0.1, 0.1) <= FALSE_ALARM


def test_thirty_percent_less_noise_is_seen_in_two_thousand_runs() -> None:
    assert power_of_variance(2_000, 0.7) > 0.999
    errors = np.random.default_rng(3).normal(0, 1, (2_000, 1))
    assert agrees(errors, [1.0])
    assert not agrees(errors * 0.7**0.5, [1.0])
