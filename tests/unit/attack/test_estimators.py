"""Estimates of who is alone in a population, on samples of one that is known."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.attack.estimators import ClassSizes, dankar, deviation, pitman, snb, zayatz


@pytest.fixture(scope="module")
def population() -> np.ndarray:
    """200,000 people in classes of very different sizes, a fifth of them alone or nearly so."""
    draws = np.random.default_rng(3)
    classes = np.floor(np.exp(draws.normal(9, 2.2, 200_000))).astype(np.int64)
    return np.unique(classes, return_inverse=True)[1]


def alone(classes: np.ndarray) -> int:
    return int((np.bincount(classes) == 1).sum())


@pytest.mark.parametrize(
    ("share", "within"), [(0.02, 0.35), (0.05, 0.25), (0.09, 0.2), (0.3, 0.15), (0.6, 0.1)]
)
def test_the_rule_is_near_the_truth(population: np.ndarray, share: float, within: float) -> None:
    """Dankar et al. report relative errors of this size, larger for smaller samples."""
    drawn = np.random.default_rng(4).random(len(population)) < share
    sizes = np.bincount(population[drawn])
    sample = ClassSizes.of(sizes[sizes > 0], len(population))
    name, estimate = dankar(sample)
    assert name == "Pitman" if sample.fraction <= 0.1 else name in {"SNB", "Zayatz"}
    assert estimate == pytest.approx(alone(population), rel=within)
    spread = deviation(sample, lambda one: dankar(one)[1])
    assert 0 < spread < 0.25 * estimate


def test_a_whole_population_is_counted() -> None:
    sizes = np.array([1, 1, 1, 2, 5])
    assert zayatz(ClassSizes.of(sizes, 10)) == pytest.approx(3)
    assert snb(ClassSizes.of(sizes, 10)) == pytest.approx(3)


def test_nobody_alone_in_the_sample_is_nobody_alone() -> None:
    sample = ClassSizes.of(np.array([5, 6, 7]), 1000)
    assert zayatz(sample) == 0
    assert pitman(sample) is None
    assert dankar(sample) == ("Zayatz", 0)


def test_pitman_is_fitted_where_the_likelihood_is_largest() -> None:
    """By the formula of the likelihood, on a grid around the fit."""
    from math import lgamma, log

    from sfumato.attack.estimators import _fit_pitman

    sizes = np.array([1] * 60 + [2] * 20 + [3] * 8 + [9, 17, 30])
    fitted = _fit_pitman(ClassSizes.of(sizes, 10_000))
    assert fitted is not None

    def likelihood(theta: float, alpha: float) -> float:
        rows, classes = int(sizes.sum()), len(sizes)
        told = sum(log(theta + alpha * one) for one in range(1, classes))
        told -= sum(log(theta + one) for one in range(1, rows))
        return told + sum(lgamma(one - alpha) - lgamma(1 - alpha) for one in sizes.tolist())

    theta, alpha = fitted
    best = likelihood(theta, alpha)
    for factor in (0.9, 1.1):
        assert likelihood(theta * factor, alpha) < best
        assert likelihood(theta, alpha * factor) < best
