"""Conversions between losses: directed, monotone, tight, and inverse to each other."""

from __future__ import annotations

from contextlib import contextmanager
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.privacy.accounting import elementary, losses, renyi
from sfumato.privacy.accounting.events import PureEvent, RandomizedResponseEvent
from sfumato.privacy.accounting.losses import (
    Approx,
    Pure,
    Zcdp,
    approx_to_zcdp,
    pure_to_zcdp,
    renyi_delta,
    renyi_epsilon,
    zcdp_delta,
    zcdp_to_approx,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

# Its exp and ln are correctly rounded to 60 decimal digits, and the conversions to about 38.
REFERENCE = Context(prec=60)
MARGIN = Fraction(1, 10**30)

# Exact arithmetic on a busy machine has no time limit per example.
unhurried = settings(deadline=None)

rhos = st.fractions(min_value=Fraction(1, 10**9), max_value=50)
deltas = st.fractions(min_value=Fraction(1, 10**18), max_value=Fraction(1, 2))
epsilons = st.fractions(min_value=Fraction(1, 100), max_value=20)
orders = st.fractions(min_value=Fraction(21, 20), max_value=1000)


def _ln(value: Fraction) -> Fraction:
    ratio = REFERENCE.divide(Decimal(value.numerator), Decimal(value.denominator))
    return Fraction(REFERENCE.ln(ratio))


def _exp(value: Fraction) -> Fraction:
    ratio = REFERENCE.divide(Decimal(value.numerator), Decimal(value.denominator))
    return Fraction(REFERENCE.exp(ratio))


def _epsilon_at(order: Fraction, rho: Fraction, delta: Fraction) -> Fraction:
    return order * rho + _ln(1 - 1 / order) - _ln(order * delta) / (order - 1)


@unhurried
@given(order=orders, divergence=rhos, delta=deltas)
def test_epsilon_at_an_order_is_rounded_up(
    order: Fraction, divergence: Fraction, delta: Fraction
) -> None:
    truth = max(_epsilon_at(order, divergence / order, delta), Fraction(0))
    found = renyi_epsilon(order=order, divergence=divergence, delta=delta)
    assert truth - MARGIN**2 * (1 + truth) <= found <= truth + MARGIN * (1 + truth)


@unhurried
@given(order=orders, divergence=rhos, epsilon=epsilons)
def test_delta_at_an_order_is_rounded_up(
    order: Fraction, divergence: Fraction, epsilon: Fraction
) -> None:
    exponent = (order - 1) * (divergence - epsilon + _ln(1 - 1 / order)) - _ln(order)
    truth = _exp(max(Fraction(-1000), min(exponent, Fraction(0))))
    found = renyi_delta(order=order, divergence=divergence, epsilon=epsilon)
    assert truth * (1 - Fraction(1, 10**50)) <= found <= truth * (1 + MARGIN)
    assert found <= 1


@contextmanager
def _coarse() -> Iterator[None]:
    """Leave four binary digits to all bounds, so that a wrong direction cannot hide."""
    with pytest.MonkeyPatch.context() as patch:
        for module, names in (
            (losses, "log_up log_down exp_up"),
            (renyi, "log_up log_down exp_up exp_down"),
        ):
            for name in names.split():
                bound = getattr(elementary, name)
                patch.setattr(module, name, lambda value, _=0, bound=bound: bound(value, 4))
        renyi._pure.cache_clear()
        yield
    renyi._pure.cache_clear()


@unhurried
@given(order=orders, rho=rhos, delta=deltas, epsilon=epsilons, categories=st.integers(2, 10))
def test_directions_hold_at_any_precision(
    order: Fraction, rho: Fraction, delta: Fraction, epsilon: Fraction, categories: int
) -> None:
    loss = Approx(epsilon=epsilon, delta=delta)
    most = approx_to_zcdp(loss).rho
    with _coarse():
        found_epsilon = renyi_epsilon(order=order, divergence=order * rho, delta=delta)
        found_delta = renyi_delta(order=order, divergence=order * rho, epsilon=epsilon)
        event = RandomizedResponseEvent(epsilon=epsilon, categories=categories)
        divergence = renyi.price(event, (order,))[1]
        room = approx_to_zcdp(loss).rho
    assert found_epsilon >= _epsilon_at(order, rho, delta)
    exponent = (order - 1) * (order * rho - epsilon + _ln(1 - 1 / order)) - _ln(order)
    assert found_delta >= _exp(max(Fraction(-1000), min(exponent, Fraction(0))))
    assert divergence >= _response(epsilon, categories, order) * (1 - Fraction(1, 10**40))
    # The exact search finds the best order to 40 binary digits, so its rho to about 80.
    assert room <= most * (1 + Fraction(1, 10**18))


def _response(epsilon: Fraction, categories: int, order: Fraction) -> Fraction:
    high = _exp(order * epsilon) + _exp((1 - order) * epsilon) + categories - 2
    return _ln(high / (_exp(epsilon) + categories - 1)) / (order - 1)


@unhurried
@given(rho=rhos, delta=deltas, order=orders)
def test_no_order_gives_a_better_epsilon(rho: Fraction, delta: Fraction, order: Fraction) -> None:
    found = zcdp_to_approx(Zcdp(rho=rho), delta=delta).epsilon
    assert found <= max(Fraction(0), _epsilon_at(order, rho, delta)) * (1 + Fraction(1, 10**20))


@unhurried
@given(rho=rhos, delta=deltas, factor=st.fractions(min_value=1, max_value=10))
def test_conversion_is_monotone(rho: Fraction, delta: Fraction, factor: Fraction) -> None:
    small = zcdp_to_approx(Zcdp(rho=rho), delta=delta).epsilon
    slack = 1 + Fraction(1, 10**20)
    assert small <= zcdp_to_approx(Zcdp(rho=rho * factor), delta=delta).epsilon * slack
    assert zcdp_to_approx(Zcdp(rho=rho), delta=min(delta * factor, Fraction(1, 2))).epsilon <= (
        small * slack
    )


@unhurried
@given(epsilon=epsilons, delta=deltas)
def test_the_largest_rho_comes_back_to_its_epsilon(epsilon: Fraction, delta: Fraction) -> None:
    loss = approx_to_zcdp(Approx(epsilon=epsilon, delta=delta))
    again = zcdp_to_approx(loss, delta=delta).epsilon
    assert abs(again - epsilon) <= epsilon * Fraction(1, 10**18)
    more = zcdp_to_approx(Zcdp(rho=loss.rho * (1 + Fraction(1, 10**6))), delta=delta).epsilon
    assert more > epsilon


@unhurried
@given(rho=rhos, epsilon=epsilons)
def test_delta_and_epsilon_agree(rho: Fraction, epsilon: Fraction) -> None:
    delta = zcdp_delta(Zcdp(rho=rho), epsilon=epsilon)
    if Fraction(1, 10**300) < delta < Fraction(1, 2):
        again = zcdp_to_approx(Zcdp(rho=rho), delta=delta).epsilon
        assert abs(again - epsilon) <= epsilon * Fraction(1, 10**15)


def test_zcdp_for_three_and_a_millionth() -> None:
    loss = approx_to_zcdp(Approx(epsilon=Fraction(3), delta=Fraction(1, 10**6)))
    assert 0.18506 < loss.rho < 0.18507
    assert pure_to_zcdp(Pure(epsilon=Fraction(1))).rho == Fraction(1, 2) > loss.rho


@unhurried
@given(epsilon=epsilons, categories=st.integers(2, 10), order=orders)
def test_divergence_of_randomized_response_is_rounded_up(
    epsilon: Fraction, categories: int, order: Fraction
) -> None:
    truth = _response(epsilon, categories, order)
    event = RandomizedResponseEvent(epsilon=epsilon, categories=categories)
    found = renyi.price(event, (order,))[1]
    assert truth * (1 - Fraction(1, 10**40)) <= found <= truth + MARGIN
    pure = renyi.price(PureEvent(epsilon=epsilon), (order,))[1]
    assert found <= pure + MARGIN
    assert pure <= min(epsilon, order * epsilon**2 / 2)
