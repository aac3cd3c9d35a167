"""Estimates of who is alone in a population, on samples of one that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.attack.uniqueness import ClassSizes, dankar, deviation, pitman, snb, zayatz

if TYPE_CHECKING:
    from collections.abc import Callable


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
    """People who follow none of the laws: the smaller the sample, the further off."""
    drawn = np.random.default_rng(4).random(len(population)) < share
    sizes = np.bincount(population[drawn])
    sample = ClassSizes.of(sizes[sizes > 0], len(population))
    name, estimate = dankar(sample)
    assert name == "Pitman" if sample.fraction <= 0.1 else name in {"SNB", "Zayatz"}
    assert estimate == pytest.approx(alone(population), rel=within)
    spread = deviation(sample, lambda one: dankar(one)[1])
    assert 0 < spread < 0.25 * estimate


def pitman_people(theta: float, alpha: float, size: int) -> np.ndarray:
    """People who sit down one by one, as the process says: a new table, or an old one by size."""
    draws, classes, sizes = np.random.default_rng(8), [0], [1]
    for there in range(1, size):
        if draws.random() * (theta + there) < theta + alpha * len(sizes):
            sizes.append(0)
            chosen = len(sizes) - 1
        else:  # an old table with chance size - alpha: as somebody there, but for a share of alpha
            chosen = classes[int(draws.random() * there)]
            while draws.random() * sizes[chosen] >= sizes[chosen] - alpha:
                chosen = classes[int(draws.random() * there)]
        classes.append(chosen)
        sizes[chosen] += 1
    return np.array(classes)


def mean_of_samples(
    estimate: Callable[[ClassSizes], float | None], population: np.ndarray, share: float
) -> float:
    draws, found = np.random.default_rng(9), []
    for _ in range(10):
        drawn = draws.permutation(len(population))[: int(share * len(population))]
        sizes = np.bincount(population[drawn])
        one = estimate(ClassSizes.of(sizes[sizes > 0], len(population)))
        assert one is not None
        found.append(one)
    return float(np.mean(found))


def test_pitman_finds_people_of_its_own_law() -> None:
    """With theta a quarter of the people, the formula for many people would be a tenth too high."""
    people = pitman_people(10_000, 0.5, 40_000)
    for share in (0.1, 0.5, 0.9):
        found = mean_of_samples(pitman, people, share)
        assert found == pytest.approx(alone(people), rel=0.06 if share < 0.5 else 0.03)


def test_snb_finds_people_of_its_own_law() -> None:
    sizes = 1 + np.random.default_rng(10).negative_binomial(0.5, 0.1, 20_000)
    people = np.repeat(np.arange(len(sizes)), sizes)
    for share, within in ((0.1, 0.15), (0.2, 0.05), (0.5, 0.03)):
        assert mean_of_samples(snb, people, share) == pytest.approx(alone(people), rel=within)


def test_zayatz_finds_people_of_whom_most_are_drawn() -> None:
    people = pitman_people(100, 0.5, 20_000)
    assert mean_of_samples(zayatz, people, 0.7) == pytest.approx(alone(people), rel=0.03)


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

    from sfumato.attack.uniqueness import _fit_pitman

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
