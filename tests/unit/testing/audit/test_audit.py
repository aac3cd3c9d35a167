"""The auditor itself: its bounds are right, it accuses rarely, and it sees what it should."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.data.schema.unit import Neighbours
from sfumato.privacy.accounting.losses import Approx, Pure
from sfumato.testing.audit import (
    Curve,
    audit,
    climb,
    epsilon_bound,
    fit,
    fit_uniform,
    lowest_bit,
    mu_bound,
    neighbours,
    on_grid,
    patterns,
    reachable,
    small_tables,
    worst,
)
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

ONE = Pure(epsilon=Fraction(1))


def generator(entropy: Entropy) -> np.random.Generator:
    return np.random.default_rng(entropy.words(4))


def response(value: int, count: int, entropy: Entropy) -> NDArray[Any]:
    """Randomized response of exactly epsilon 1: the hardest to accuse wrongly."""
    truth = math.e / (1 + math.e)
    return np.where(generator(entropy).random(count) < truth, value, 1 - value)


def binomial_tail(hits: int, trials: int, probability: float) -> float:
    return sum(
        math.comb(trials, count) * probability**count * (1 - probability) ** (trials - count)
        for count in range(hits, trials + 1)
    )


def test_epsilon_bound_is_the_ratio_of_clopper_pearson_ends() -> None:
    """At the lower end just alpha / 2 of the law lies at or above what was seen, and so on."""
    alpha, trials = 1e-3, 50
    bound = float(epsilon_bound(30, 0, trials, delta=0, alpha=alpha))
    upper_for_none = 1 - (alpha / 2) ** (1 / trials)
    lower = math.exp(bound) * upper_for_none
    assert binomial_tail(30, trials, lower) == pytest.approx(alpha / 2, rel=1e-6)


def test_epsilon_bound_subtracts_delta_and_knows_when_nothing_is_known() -> None:
    plain = float(epsilon_bound(900, 100, 1000, delta=0, alpha=1e-6))
    less = float(epsilon_bound(900, 100, 1000, delta=0.1, alpha=1e-6))
    assert less < plain
    assert epsilon_bound(0, 0, 1000, delta=0, alpha=1e-6) == -math.inf
    assert epsilon_bound(5, 5, 1000, delta=0.5, alpha=1e-6) == -math.inf
    assert math.isfinite(float(epsilon_bound(1000, 1000, 1000, delta=0, alpha=1e-6)))


def test_mu_bound_grows_towards_the_truth() -> None:
    """Halves of N(0, 1) and N(1, 1) cut at 1/2: rates 0.691 and 0.309."""
    bounds = [
        float(mu_bound(round(0.6915 * n), round(0.3085 * n), n, alpha=1e-6))
        for n in (10**3, 10**4, 10**5, 10**6)
    ]
    assert bounds == sorted(bounds)
    assert 0.98 < bounds[-1] < 1
    assert mu_bound(0, 0, 100, alpha=1e-6) == -math.inf


def test_alarms_on_a_mechanism_at_its_claim_are_rarer_than_alpha() -> None:
    entropy = SeededEntropy(11)
    alarms = sum(
        audit(response, (0, 1), ONE, entropy=entropy, draws=600, alpha=0.05).violated
        for _ in range(300)
    )
    # 15 are allowed on average; 40 would come up with probability below 1e-6 at a rate of 0.05.
    assert alarms < 40


def test_audit_reaches_a_tight_mechanism_and_reports_what_it_saw() -> None:
    found = audit(response, (0, 1), ONE, entropy=SeededEntropy(12))
    assert not found.violated
    assert found.power > 0.95
    assert found.feature == "value"
    assert "stays within the claimed 1" in found.sentence()
    strict = audit(response, (0, 1), Pure(epsilon=Fraction(1, 2)), entropy=SeededEntropy(12))
    assert strict.violated
    assert "VIOLATES the claimed 0.5" in strict.sentence()


def test_audit_of_equal_sides_sees_nothing() -> None:
    found = audit(response, (1, 1), ONE, entropy=SeededEntropy(13))
    assert found.lower_bound < 0.01


def test_audit_looks_in_both_directions() -> None:
    """Only the second table ever gives a 1, and that never the larger share."""

    def rare(value: int, count: int, entropy: Entropy) -> NDArray[Any]:
        return (generator(entropy).random(count) < 0.01 * value).astype(np.int64)

    for pair in ((0, 1), (1, 0)):
        assert audit(rare, pair, ONE, entropy=SeededEntropy(14)).violated
        lenient = Approx(epsilon=Fraction(1), delta=Fraction(1, 50))
        assert not audit(rare, pair, lenient, entropy=SeededEntropy(14)).violated


@pytest.mark.parametrize("kind", ["object", "bool", "text"])
def test_audit_reads_outputs_of_any_type(kind: str) -> None:
    def told(value: int, count: int, entropy: Entropy) -> NDArray[Any]:
        del entropy
        outputs = np.full(count, value)
        if kind == "object":
            return (outputs.astype(object) + 1) * 10**30
        return outputs.astype(np.bool_) if kind == "bool" else outputs.astype(object).astype(str)

    assert audit(told, (0, 1), ONE, entropy=SeededEntropy(15), draws=2_000).violated


def test_curve_claim_is_audited_by_mu() -> None:
    def normal(value: int, count: int, entropy: Entropy) -> NDArray[Any]:
        return np.round(value + generator(entropy).normal(0, 1, count), 3)

    entropy = SeededEntropy(16)
    found = audit(normal, (0, 1), Curve(1.0), entropy=entropy)
    assert not found.violated
    assert found.power > 0.9
    assert audit(normal, (0, 1), Curve(0.85), entropy=entropy).violated


def test_lowest_bit_and_grid() -> None:
    values = np.array([1.0, 0.5, 0.75, 3.0, 1 + 2.0**-52, -(2.0**-30), 0.0])
    assert lowest_bit(values).tolist() == [0, -1, -2, 0, -52, -30, 4096]
    assert on_grid(values, 0.25).tolist() == [True, True, True, True, False, False, True]


def test_reachable_outputs_are_those_with_a_seed_nearby() -> None:
    feature = reachable(lambda seed: seed / 4.0, lambda output: np.round(output * 4), spread=1)
    assert feature.keys(np.array([0.25, 0.3, 7.75])).tolist() == [1, 0, 1]


def test_fit_accepts_the_law_and_rejects_another() -> None:
    def mass(points: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(0.5 * 0.5**points * (points >= 0))

    draws = np.random.default_rng(3).geometric(0.5, 100_000) - 1
    assert fit(draws, mass).p_value > 1e-6
    other = np.random.default_rng(3).geometric(0.48, 100_000) - 1
    assert fit(other, mass).p_value < 1e-6
    # What the law cannot give at all is not overlooked.
    assert fit(np.append(draws, np.full(40, -3)), mass).p_value < 1e-6


def test_fit_uniform() -> None:
    draws = np.random.default_rng(4).integers(0, 7, 70_000)
    assert fit_uniform(draws, 7).p_value > 1e-6
    assert fit_uniform(draws % 6, 7).p_value < 1e-6
    assert fit_uniform(np.tile(np.arange(7), 100), 7).statistic == 0


def test_patterns_are_neighbouring_answers() -> None:
    for first, second in patterns(6):
        assert np.abs(first - second).max() == 1


def test_small_tables_are_neighbours_and_complete() -> None:
    added = list(small_tables((0, 1), relation=Neighbours.ADD_REMOVE, most=2))
    assert ((0,), ()) in added
    assert all(len(first) == len(second) + 1 for first, second in added)
    replaced = list(small_tables((0, 1), relation=Neighbours.REPLACE_ONE, most=2))
    assert ((0, 1), (1, 1)) in replaced
    assert all(len(first) == len(second) for first, second in replaced)


def test_neighbours_by_relation() -> None:
    assert neighbours((5, 6), (7,), relation=Neighbours.ADD_REMOVE) == [(6,), (5,), (5, 6, 7)]
    assert neighbours((5, 6), (7,), relation=Neighbours.REPLACE_ONE) == [(6, 7), (5, 7)]


def median_of_local_sensitivity(
    table: tuple[int, ...], count: int, entropy: Entropy
) -> NDArray[Any]:
    values = sorted(table)
    middle = len(values) // 2
    local = max(values[middle + 1] - values[middle], values[middle] - values[middle - 1])
    return np.round(values[middle] + generator(entropy).laplace(0, max(local, 1e-9), count), 2)


def test_climbing_finds_the_pair_that_betrays_the_local_sensitivity() -> None:
    poor = ((0, 1, 2, 3, 4), (0, 1, 2, 3, 3))
    entropy = SeededEntropy(17)
    assert not audit(median_of_local_sensitivity, poor, ONE, entropy=entropy).violated
    pair = climb(
        median_of_local_sensitivity,
        poor,
        (0, 1, 2, 3, 4),
        ONE,
        relation=Neighbours.REPLACE_ONE,
        entropy=entropy,
        steps=60,
        draws=1_000,
    )
    assert len(pair[0]) == len(pair[1]) == 5
    found = audit(median_of_local_sensitivity, pair, ONE, entropy=entropy, draws=10_000)
    assert found.lower_bound > 3


def test_worst_chooses_the_most_telling_pair_of_small_tables() -> None:
    def noisy_over_size(table: tuple[int, ...], count: int, entropy: Entropy) -> NDArray[Any]:
        noise = np.round(generator(entropy).laplace(0, 1, count))
        return (sum(table) + noise) / max(len(table), 1)

    entropy = SeededEntropy(18)
    pairs = small_tables((0, 1), relation=Neighbours.ADD_REMOVE)
    pair = worst(noisy_over_size, pairs, ONE, entropy=entropy, draws=1_000)
    assert audit(noisy_over_size, pair, ONE, entropy=entropy, draws=10_000).violated


def test_climbing_under_add_remove_walks_until_a_size_tells() -> None:
    def told_from_four_on(table: tuple[int, ...], count: int, entropy: Entropy) -> NDArray[Any]:
        del entropy
        return np.full(count, len(table) >= 4)

    pair = climb(
        told_from_four_on,
        ((0,), (0, 0)),
        (0,),
        ONE,
        relation=Neighbours.ADD_REMOVE,
        entropy=SeededEntropy(19),
        draws=100,
    )
    assert {len(pair[0]), len(pair[1])} == {3, 4}
