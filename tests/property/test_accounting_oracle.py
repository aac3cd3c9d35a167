"""Random compositions against dp-accounting: within 1e-6 of it, and never below.

"Below" allows for 1e-12 of rounding in the oracle's own float64 arithmetic. dp-accounting 0.6
forgets the count of a repeated randomized response in its loss distributions, so the oracle is
given every event on its own.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.privacy.accounting import loss_distributions as pld
from sfumato.privacy.accounting import renyi, zcdp
from sfumato.privacy.accounting.events import (
    ApproxEvent,
    Composed,
    Event,
    ExponentialChoice,
    GaussianNoise,
    Leaf,
    Parallel,
    PureEvent,
    RandomizedResponseEvent,
    Repeated,
    ThresholdKeysEvent,
)

dp_accounting = pytest.importorskip("dp_accounting", reason="needs sfumato[accounting]")

REPLACE_ONE = dp_accounting.NeighboringRelation.REPLACE_ONE
ADD_REMOVE = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
ORDERS = tuple(map(Fraction, ("1.1", "2", "5", "13", "34", "128")))
RANDOM = np.random.default_rng(20)


@pytest.fixture(autouse=True)
def _same_draws_for_every_test() -> None:
    """Begin anew, so that what a test draws does not depend on which tests ran before it."""
    RANDOM.bit_generator.state = np.random.default_rng(20).bit_generator.state


Bag = list[tuple[Leaf, int]]


def _event(bag: Bag) -> Event:
    return Composed(tuple(Repeated(leaf, count) for leaf, count in bag))


def _gaussian() -> GaussianNoise:
    return GaussianNoise(
        variance=Fraction(int(RANDOM.integers(100, 10_000)), 16),
        l2_sensitivity_squared=Fraction(int(RANDOM.integers(1, 9))),
    )


def _response(largest: int = 2000) -> RandomizedResponseEvent:
    # No multiple of 1e-4, on which the oracle's rounding of losses depends on the last bit.
    epsilon = Fraction(int(RANDOM.integers(20, largest)), 1009)
    return RandomizedResponseEvent(epsilon=epsilon, categories=int(RANDOM.integers(2, 8)))


def _bag(*makers: Any, most: int) -> Bag:
    chosen = [makers[i] for i in RANDOM.integers(0, len(makers), RANDOM.integers(1, 5))]
    return [(maker(), int(RANDOM.integers(1, most))) for maker in chosen]


def _delta() -> Fraction:
    return Fraction(int(RANDOM.integers(1, 1000)), 10 ** int(RANDOM.integers(8, 13)))


def _oracle_event(leaf: Leaf) -> Any:
    match leaf:
        case GaussianNoise():
            multiplier = math.sqrt(leaf.variance / leaf.l2_sensitivity_squared)
            return dp_accounting.GaussianDpEvent(multiplier)
        case RandomizedResponseEvent(epsilon=epsilon, categories=categories):
            noise = categories / (math.exp(epsilon) + categories - 1)
            return dp_accounting.RandomizedResponseDpEvent(noise, categories)
        case PureEvent(epsilon=epsilon):
            return dp_accounting.dp_event.DiscreteLaplaceDpEvent(float(epsilon), 1)
        case _:
            raise AssertionError(leaf)


def _oracle(accountant: Any, bag: Bag, delta: Fraction) -> float:
    for leaf, count in bag:
        for _ in range(count):
            accountant.compose(_oracle_event(leaf))
    return float(accountant.get_epsilon(float(delta)))


def _assert_close_and_not_below(found: Fraction, oracle: float) -> None:
    assert oracle > 0
    assert float(found) >= oracle * (1 - 1e-12)
    assert float(found) <= oracle + 1e-6


def test_renyi_agrees_with_dp_accounting_on_500_random_compositions() -> None:
    for _ in range(500):
        bag, delta = _bag(_gaussian, _response, most=6), _delta()
        accountant = dp_accounting.rdp.RdpAccountant(
            [float(order) for order in ORDERS], REPLACE_ONE
        )
        found = renyi.epsilon(_event(bag), delta=delta, orders=ORDERS)
        _assert_close_and_not_below(found, _oracle(accountant, bag, delta))


def test_zcdp_agrees_with_dp_accounting_on_500_random_compositions() -> None:
    """The oracle knows only given orders, so it is asked at the best one."""
    for _ in range(500):
        bag, delta = _bag(_gaussian, most=20), _delta()
        rho = float(zcdp.guarantee(_event(bag))[0].rho)
        low, high = 0.0, math.sqrt(-math.log(delta) / rho)
        for _ in range(80):
            middle = (low + high) / 2
            above = rho * middle**2 + math.log1p(middle) >= -math.log(delta)
            low, high = (low, middle) if above else (middle, high)
        accountant = dp_accounting.rdp.RdpAccountant([1 + high], REPLACE_ONE)
        found = zcdp.epsilon(_event(bag), delta=delta)
        _assert_close_and_not_below(found, _oracle(accountant, bag, delta))


def test_loss_distributions_agree_with_dp_accounting_on_500_random_compositions() -> None:
    for _ in range(500):
        bag, delta = _bag(lambda: _response(500), most=4), _delta()
        accountant = dp_accounting.pld.PLDAccountant(REPLACE_ONE)
        found = pld.epsilon(_event(bag), delta=delta)
        _assert_close_and_not_below(found, _oracle(accountant, bag, delta))


def test_pure_events_cost_what_discrete_laplace_noise_of_one_step_costs() -> None:
    """On multiples of the interval, where the oracle rounds no loss either."""
    for _ in range(10):
        bag: Bag = [
            (PureEvent(epsilon=Fraction(int(RANDOM.integers(100, 5000)), 10**4)), int(count))
            for count in RANDOM.integers(1, 5, 2)
        ]
        delta = _delta()
        oracle = _oracle(dp_accounting.pld.PLDAccountant(ADD_REMOVE), bag, delta)
        assert float(pld.epsilon(_event(bag), delta=delta)) == pytest.approx(oracle, abs=1e-6)


def test_discrete_gaussian_noise_is_never_below_its_exact_delta() -> None:
    variance, steps = Fraction(6), np.arange(-80, 81)
    weights = np.exp(-(steps.astype(float) ** 2) / (2 * float(variance)))
    mass = weights / weights.sum()
    event = GaussianNoise(variance=variance, l2_sensitivity_squared=Fraction(1))
    for epsilon in (Fraction(1, 10), Fraction(1, 2), Fraction(1)):
        truth = np.maximum(mass[1:] - math.exp(epsilon) * mass[:-1], 0).sum()
        truth = max(truth, np.maximum(mass[:-1] - math.exp(epsilon) * mass[1:], 0).sum())
        found = float(pld.delta(event, epsilon=epsilon))
        assert truth * (1 - 1e-12) <= found <= truth + 1e-4


def test_the_oracle_forgets_the_count_of_randomized_response() -> None:
    """Ten at once cost it 1.1 instead of 11; when this fails, the oracle has been repaired."""
    response = RandomizedResponseEvent(epsilon=Fraction(11, 10), categories=2)
    accountant = dp_accounting.pld.PLDAccountant(REPLACE_ONE)
    accountant.compose(_oracle_event(response), 10)
    assert accountant.get_epsilon(1e-9) < 1.2
    assert float(pld.epsilon(Repeated(response, 10), delta=Fraction(1, 10**9))) > 10.9


def test_no_accountant_is_better_than_loss_distributions() -> None:
    delta = Fraction(1, 10**6)
    response = RandomizedResponseEvent(epsilon=Fraction(300, 1009), categories=3)
    for leaf in (response, PureEvent(epsilon=Fraction(1, 5))):
        event = Repeated(leaf, 20)
        exact = pld.delta(event, epsilon=pld.epsilon(event, delta=delta))
        assert float(exact) == pytest.approx(float(delta), rel=1e-3)
        # Twenty losses rounded up by less than 1e-4 each.
        floor = pld.epsilon(event, delta=delta) - Fraction(20, 10**4)
        assert floor <= renyi.epsilon(event, delta=delta) <= zcdp.epsilon(event, delta=delta)
        assert renyi.delta(event, epsilon=Fraction(3)) <= zcdp.delta(event, epsilon=Fraction(3))


def test_choices_of_bounded_range_cost_a_quarter_in_zcdp() -> None:
    choice = ExponentialChoice(epsilon=Fraction(1, 10))
    assert (
        4 * zcdp.guarantee(choice)[0].rho
        == zcdp.guarantee(PureEvent(epsilon=choice.epsilon))[0].rho
    )
    delta = Fraction(1, 10**6)
    many = Repeated(choice, 100)
    assert renyi.epsilon(many, delta=delta) < renyi.epsilon(
        Repeated(PureEvent(epsilon=choice.epsilon), 100), delta=delta
    )


@pytest.mark.parametrize(
    "event",
    [
        GaussianNoise(variance=Fraction(4), l2_sensitivity_squared=Fraction(2)),
        Parallel(
            (PureEvent(epsilon=Fraction(1)), PureEvent(epsilon=Fraction(2))), Neighbours.ADD_REMOVE
        ),
    ],
)
def test_loss_distributions_refuse_what_has_no_known_worst_pair(event: Event) -> None:
    with pytest.raises(ParameterError) as refused:
        pld.epsilon(event, delta=Fraction(1, 10**6))
    assert refused.value.code == "event_unsupported"


@pytest.mark.parametrize("accountant", [zcdp, renyi, pld])
def test_a_delta_below_that_of_the_events_is_refused(accountant: Any) -> None:
    keys = ThresholdKeysEvent(delta=Fraction(1, 10**6))
    event = Composed((keys, ApproxEvent(epsilon=Fraction(1), delta=Fraction(1, 10**6))))
    with pytest.raises(ParameterError) as refused:
        accountant.epsilon(event, delta=Fraction(1, 10**6))
    assert refused.value.code == "parameter_out_of_range"
    assert accountant.epsilon(event, delta=Fraction(3, 10**6)) > 0
    assert accountant.delta(event, epsilon=Fraction(10)) >= Fraction(2, 10**6) * (
        1 - Fraction(1, 10**5)
    )
