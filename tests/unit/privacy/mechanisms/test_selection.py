"""Exponential mechanism, permute-and-flip, noisy max, randomized response: laws and edges."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.privacy.accounting import events
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.randomized_response import RandomizedResponse
from sfumato.privacy.mechanisms.selection import Exponential, NoisyMax, PermuteAndFlip
from sfumato.testing.audit import fit, fit_uniform
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONE = Fraction(1)
DRAWS = 100_000
SELECTIONS = [Exponential, PermuteAndFlip, NoisyMax]


def rows(scores: list[int], count: int = DRAWS) -> NDArray[np.int64]:
    return np.broadcast_to(np.array(scores), (count, len(scores)))


def follows(draws: NDArray[np.int64], law: NDArray[np.float64]) -> bool:
    return fit(draws, lambda points: law[points]).p_value > 1e-6


def test_exponential_has_its_law_with_the_factor_two() -> None:
    scores = [0, 3, 1, 1]
    draws = Exponential(epsilon=ONE, candidates=4, sensitivity=Fraction(2)).sample(
        rows(scores), SeededEntropy(1)
    )
    weights = np.exp(np.array(scores) / 4)
    assert follows(draws, weights / weights.sum())
    assert not follows(draws, weights**2 / (weights**2).sum())


def test_exponential_with_prior_and_monotone_scores() -> None:
    scores = [0, 2, 1]
    mechanism = Exponential(
        epsilon=ONE, candidates=3, monotone=True, prior=(Fraction(6), Fraction(1, 3), Fraction(2))
    )
    weights = np.array([6, 1 / 3, 2]) * np.exp(scores)
    draws = mechanism.sample(rows(scores), SeededEntropy(2))
    assert follows(draws, weights / weights.sum())


def permute_and_flip_law(scores: list[int], rate: float) -> NDArray[np.float64]:
    law = np.zeros(len(scores))
    accept = [math.exp(rate * (score - max(scores))) for score in scores]
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for candidate in order:
            law[candidate] += reached * accept[candidate] / len(orders)
            reached *= 1 - accept[candidate]
    return law


def test_permute_and_flip_has_its_law() -> None:
    scores = [0, 3, 1, 2]
    draws = PermuteAndFlip(epsilon=Fraction(2), candidates=4).sample(rows(scores), SeededEntropy(3))
    assert follows(draws, permute_and_flip_law(scores, 1.0))


def test_permute_and_flip_loses_less_than_exponential() -> None:
    scores = np.array([0, 3, 1, 2])
    weights = np.exp(scores)
    flipped = permute_and_flip_law(scores.tolist(), 1.0)
    assert flipped @ scores > weights @ scores / weights.sum()


def noisy_max_law(scores: list[int], rate: float) -> NDArray[np.float64]:
    """Sum over the noise of each candidate and of the ties among the others."""
    reach = np.arange(-30, 31)
    alpha = math.exp(-rate)
    mass = (1 - alpha) / (1 + alpha) * alpha ** np.abs(reach)
    law = np.zeros(len(scores))
    for joint in itertools.product(range(len(reach)), repeat=len(scores)):
        noisy = [score + int(reach[at]) for score, at in zip(scores, joint, strict=True)]
        best = [at for at, value in enumerate(noisy) if value == max(noisy)]
        law[best] += math.prod(mass[at] for at in joint) / len(best)
    return law


def test_noisy_max_has_its_law() -> None:
    scores = [0, 1]
    draws = NoisyMax(epsilon=Fraction(2), candidates=2).sample(rows(scores), SeededEntropy(4))
    assert follows(draws, noisy_max_law(scores, 1.0))


@pytest.mark.parametrize("selection", SELECTIONS)
def test_equal_scores_are_equally_likely(selection: Any) -> None:
    draws = selection(epsilon=ONE, candidates=7).sample(rows([4] * 7), SeededEntropy(5))
    assert fit_uniform(draws, 7).p_value > 1e-6


@pytest.mark.parametrize("selection", SELECTIONS)
def test_extreme_scores_neither_overflow_nor_fail(selection: Any) -> None:
    scores = [-(10**6), 10**6, 10**6, -(2**62)]
    draws = selection(epsilon=ONE, candidates=4).sample(rows(scores, 1_000), SeededEntropy(6))
    assert set(draws.tolist()) == {1, 2}


@pytest.mark.parametrize("selection", SELECTIONS)
def test_bound_is_passed_as_rarely_as_it_says(selection: Any) -> None:
    scores = [0] * 9 + [40]
    mechanism = selection(epsilon=Fraction(1, 5), candidates=10)
    assert mechanism.bound(0.5) < 40 or selection is NoisyMax
    draws = mechanism.sample(rows(scores), SeededEntropy(7))
    lost = 40 - np.array(scores)[draws]
    beta = 0.2
    assert (lost > mechanism.bound(beta)).mean() <= beta


@pytest.mark.parametrize("selection", SELECTIONS)
def test_scores_of_wrong_shape_or_type_are_refused(selection: Any) -> None:
    mechanism = selection(epsilon=ONE, candidates=3)
    for scores, code in (
        (np.zeros((5, 2), dtype=np.int64), "array_invalid"),
        (np.int64(1), "array_invalid"),
        (np.array([1.0, math.nan, 2.0]), "array_invalid"),
        (np.array([1.0, math.inf, 2.0]), "array_invalid"),
    ):
        with pytest.raises(ParameterError) as caught:
            mechanism.sample(scores, SeededEntropy(8))
        assert caught.value.code == code


@pytest.mark.parametrize("selection", SELECTIONS)
def test_one_row_gives_one_choice_and_a_single_candidate_wins(selection: Any) -> None:
    mechanism = selection(epsilon=ONE, candidates=1)
    assert mechanism.sample(np.array([5]), SeededEntropy(9)).tolist() == 0
    assert mechanism.sample(np.array([[5], [6]]), SeededEntropy(9)).tolist() == [0, 0]
    with pytest.raises(ParameterError):
        selection(epsilon=ONE, candidates=0)


def test_costs_of_choices() -> None:
    assert Exponential(epsilon=ONE, candidates=2).event == events.ExponentialChoice(epsilon=ONE)
    for selection in (PermuteAndFlip, NoisyMax):
        assert selection(epsilon=ONE, candidates=2).event == events.PureEvent(epsilon=ONE)


def test_prior_is_checked_and_enters_the_bound() -> None:
    with pytest.raises(ParameterError) as caught:
        Exponential(epsilon=ONE, candidates=2, prior=(ONE,))
    assert caught.value.code == "array_invalid"
    with pytest.raises(ParameterError):
        Exponential(epsilon=ONE, candidates=2, prior=(ONE, Fraction(0)))
    even = Exponential(epsilon=ONE, candidates=2, prior=(ONE, ONE))
    assert even.bound(0.1) == pytest.approx(Exponential(epsilon=ONE, candidates=2).bound(0.1))
    skewed = Exponential(epsilon=ONE, candidates=2, prior=(ONE, Fraction(9)))
    assert skewed.bound(0.1) == pytest.approx(2 * math.log(100))


@pytest.mark.parametrize("categories", [2, 3, 16, 256])
def test_randomized_response_has_its_law(categories: int) -> None:
    mechanism = RandomizedResponse(epsilon=Fraction(1), categories=categories)
    truth = math.e / (math.e + categories - 1)
    assert mechanism.truth == pytest.approx(truth)
    assert mechanism.falsehood == pytest.approx(truth / math.e)
    value = categories - 2
    law = np.full(categories, truth / math.e)
    law[value] = truth
    assert follows(mechanism.sample(np.full(DRAWS, value), SeededEntropy(10)), law)


def test_grid_of_a_hundred_cells_at_ln_three() -> None:
    """epsilon = ln 3 on a 10 x 10 grid: the truth with probability 3 / 102."""
    mechanism = RandomizedResponse(epsilon=Fraction(math.log(3)), categories=100)
    assert mechanism.truth == pytest.approx(3 / 102)


def test_randomized_response_estimates_without_bias() -> None:
    mechanism = RandomizedResponse(epsilon=Fraction(1), categories=4)
    truths = np.repeat([0, 1, 2], [50_000, 30_000, 20_000])
    answers = mechanism.sample(truths, SeededEntropy(11))
    estimate = mechanism.estimate(np.bincount(answers, minlength=4))
    error = np.abs(estimate - [50_000, 30_000, 20_000, 0])
    assert error.max() < mechanism.bound(1e-6, people=100_000)
    assert error[3] < 4.9 * mechanism.stddev(100_000)
    assert estimate.sum() == pytest.approx(100_000)


def test_warner_variance_for_fixed_data() -> None:
    """p (1 - p) / (N (2p - 1)^2) for the frequency, so N times as much for the count."""
    mechanism = RandomizedResponse(epsilon=Fraction(1), categories=2)
    p = mechanism.truth
    assert mechanism.stddev(1000) ** 2 == pytest.approx(1000 * p * (1 - p) / (2 * p - 1) ** 2)


def test_codes_outside_the_categories_are_refused_without_naming_them() -> None:
    with pytest.raises(ParameterError) as caught:
        RandomizedResponse(epsilon=ONE, categories=3).sample([0, 77], SeededEntropy(12))
    assert caught.value.code == "value_outside_domain"
    assert "77" not in caught.value.message
    with pytest.raises(ParameterError):
        RandomizedResponse(epsilon=ONE, categories=1)


def test_geometric_at_half_epsilon_is_exponential_with_distance_scores() -> None:
    """The exponential mechanism that claims epsilon weighs a count by exp(-epsilon |o - n| / 2)."""
    epsilon = Fraction(3, 2)
    exponential = Exponential(epsilon=epsilon, candidates=201)
    geometric = Geometric(epsilon=epsilon / 2)
    assert exponential.rate == 1 / geometric.scale
    outputs = np.arange(-100, 101)
    alpha = math.exp(-0.75)
    law = (1 - alpha) / (1 + alpha) * alpha ** np.abs(outputs - 3)
    chosen = exponential.sample(rows((-np.abs(outputs - 3)).tolist(), 20_000), SeededEntropy(13))
    added = geometric.sample(np.full(DRAWS, 3), SeededEntropy(14))
    assert follows(chosen, law)
    assert follows(added + 100, law)


def test_randomized_response_at_half_epsilon_is_exponential_with_equality_scores() -> None:
    epsilon = Fraction(2)
    mechanism = RandomizedResponse(epsilon=epsilon / 2, categories=5)
    law = np.full(5, mechanism.falsehood)
    law[1] = mechanism.truth
    chosen = Exponential(epsilon=epsilon, candidates=5).sample(
        rows([0, 1, 0, 0, 0]), SeededEntropy(15)
    )
    assert follows(chosen, law)
    assert follows(mechanism.sample(np.full(DRAWS, 1), SeededEntropy(16)), law)
