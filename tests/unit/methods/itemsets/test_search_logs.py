from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.methods.itemsets.counts import (
    korolova_threshold,
    prepare_search_log,
    zealous_threshold,
)
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from tests.unit.methods.itemsets.conftest import MakeRequest, MakeRows


def test_published_thresholds() -> None:
    assert 20 / math.log(10) == pytest.approx(8.6859, abs=1e-4)
    assert korolova_threshold(20, math.log(10), 1e-5) == pytest.approx(140.0, abs=0.01)
    assert zealous_threshold(5, 5, 1e-5) == pytest.approx(63.146, abs=1e-3)
    assert zealous_threshold(5, 10, 1e-5) == pytest.approx(125.292, abs=1e-3)


def test_the_threshold_is_the_published_one_for_whole_noise(make_request: MakeRequest) -> None:
    # Half of epsilon chooses, so that ln 10 is left for it.
    epsilon = 2 * Fraction(math.log(10)).limit_denominator(10**6)
    method = prepare_search_log(
        make_request(max_rows=20, epsilon=epsilon, delta=Fraction(1, 10**5))
    )
    threshold, noise = method.chosen.threshold, method.chosen.noise
    assert threshold is not None
    if isinstance(noise, Geometric):
        assert 140 <= threshold.threshold <= 142
    assert 20 * noise.tail(threshold.threshold - 20) <= threshold.delta


def test_tau_of_one_scale_with_noise_of_the_other_is_caught() -> None:
    """The wrong twin shows a person of five items a hundred times as often as it claims."""
    wrong = Geometric(epsilon=Fraction(1, 2), l1_sensitivity=Fraction(5))
    right = Geometric(epsilon=Fraction(1), l1_sensitivity=Fraction(5))
    tau = math.ceil(zealous_threshold(5, 5, 1e-5))
    assert 5 * wrong.tail(tau - 1) > Fraction(1, 1000)
    assert 5 * right.tail(tau) < Fraction(1, 10**5)


def test_choosing_and_counting_together_cost_the_price(make_request: MakeRequest) -> None:
    request = make_request(max_rows=4, epsilon=1, delta=Fraction(1, 10**3))
    method = prepare_search_log(request)
    spent = total(method.event, basic_price)
    if spent is not None:
        assert spent == (Fraction(1), Fraction(1, 10**3))


def test_counts_of_what_passed_are_not_biased_by_what_chose_it(make_request: MakeRequest) -> None:
    """The wrong twin tells of the count that passed, which is high for all that did."""
    request = make_request(max_rows=4, epsilon=1, delta=Fraction(1, 10**3))
    method = prepare_search_log(request)
    level = method.parameters["threshold"]
    counts = np.full(40_000, level - round(method.chosen.noise.stddev))
    places, fresh = method.sample_queries(counts, SeededEntropy(2))
    _, reused = method.chosen.sample(counts, SeededEntropy(3))
    off = 6 * method.noise.stddev / math.sqrt(len(places))
    assert abs(fresh.mean() - counts[0]) < off
    assert abs(reused.mean() - counts[0]) > off


def test_rows_count_as_often_as_they_come(make_request: MakeRequest, make_rows: MakeRows) -> None:
    request = make_request(max_rows=3, epsilon=8, delta=Fraction(1, 10**3))
    rows = make_rows(request, [["rain"] * 9] * 100)
    released = prepare_search_log(request).release(rows, SeededEntropy(1))["queries"]
    assert released["item"].to_pylist() == ["rain"]
    assert released["count"][0].as_py() == pytest.approx(300, abs=15)
