"""Renyi accounting: divergences of each order add up, and so do deltas."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from sfumato.privacy.accounting.composition import total
from sfumato.privacy.accounting.elementary import exp_down, exp_up, log_down, log_up
from sfumato.privacy.accounting.events import (
    ApproxEvent,
    ConcentratedEvent,
    ExponentialChoice,
    GaussianNoise,
    RandomizedResponseEvent,
    ThresholdKeysEvent,
)
from sfumato.privacy.accounting.losses import delta_left, renyi_delta, renyi_epsilon

if TYPE_CHECKING:
    from sfumato.privacy.accounting.composition import Amounts
    from sfumato.privacy.accounting.events import Event, Leaf

ORDERS: tuple[Fraction, ...] = (
    *(1 + Fraction(tenth, 10) for tenth in range(1, 100)),
    *map(Fraction, range(11, 64)),
    *map(Fraction, (64, 80, 96, 128, 192, 256, 512, 1024)),
)
"""Orders among which the accountant takes the best one: dense near 1, where large losses have
their best order, and sparse above 64, where only tiny losses do."""


def price(leaf: Leaf, orders: tuple[Fraction, ...] = ORDERS) -> Amounts:
    """Price a leaf as (delta, one divergence per order), each rounded up."""
    match leaf:
        case ThresholdKeysEvent(delta=delta):
            return delta, *(Fraction(0) for _ in orders)
        case ApproxEvent(epsilon=epsilon, delta=delta):
            return delta, *(_pure(epsilon, 2, order) for order in orders)
        case GaussianNoise() | ConcentratedEvent():
            return Fraction(0), *(order * leaf.rho for order in orders)
        case ExponentialChoice(epsilon=epsilon):
            # Bounded range and pure privacy hold at once, and neither implies the other's bound.
            ranges = [order * epsilon**2 / 8 for order in orders]
            pures = [_pure(epsilon, 2, order) for order in orders]
            return Fraction(0), *map(min, ranges, pures)
        case RandomizedResponseEvent(epsilon=epsilon, categories=categories):
            return Fraction(0), *(_pure(epsilon, categories, order) for order in orders)
        case _:
            return Fraction(0), *(_pure(leaf.epsilon, 2, order) for order in orders)


@lru_cache(maxsize=4096)
def _pure(epsilon: Fraction, categories: int, order: Fraction) -> Fraction:
    """Bound the divergence of randomized response; with two categories the worst of all pure ones.

    Of order a it is log((e^(a eps) + e^((1 - a) eps) + k - 2) / (e^eps + k - 1)) / (a - 1), here
    with e^(a eps) and e^eps taken out of numerator and denominator.
    """
    twice, once = (2 * order - 1) * epsilon, order * epsilon
    numerator = 1 + _decay_up(twice) + (categories - 2) * _decay_up(once)
    denominator = 1 + (categories - 1) * (exp_down(-epsilon) if epsilon < _FAR else Fraction(0))
    return min(epsilon, epsilon + (log_up(numerator) - log_down(denominator)) / (order - 1))


def _decay_up(exponent: Fraction) -> Fraction:
    return exp_up(-min(exponent, _FAR))


# exp(-200) < 2^-288 is below the 128 bits of the logarithm, so a larger exponent changes nothing.
_FAR = Fraction(200)


def epsilon(event: Event, *, delta: Fraction, orders: tuple[Fraction, ...] = ORDERS) -> Fraction:
    """Find the epsilon of an event at a total delta over the best order, rounded up.

    *Guarantee*: (epsilon, delta) for events that are fixed beforehand, or chosen adaptively with
    parameters fixed beforehand.
    *Edges*: a delta no larger than what the events themselves take is refused.
    *Reference*: Mironov 2017; Canonne, Kamath & Steinke 2020, Proposition 12.
    """
    spent, divergences = _curve(event, orders)
    remaining_delta = delta_left(delta, spent)
    return min(
        renyi_epsilon(order=order, divergence=divergence, delta=remaining_delta)
        for order, divergence in zip(orders, divergences, strict=True)
    )


def delta(event: Event, *, epsilon: Fraction, orders: tuple[Fraction, ...] = ORDERS) -> Fraction:
    """Find the total delta of an event at an epsilon over the best order, rounded up, at most 1."""
    spent, divergences = _curve(event, orders)
    return min(
        Fraction(1),
        spent
        + min(
            renyi_delta(order=order, divergence=divergence, epsilon=epsilon)
            for order, divergence in zip(orders, divergences, strict=True)
        ),
    )


def _curve(event: Event, orders: tuple[Fraction, ...]) -> tuple[Fraction, tuple[Fraction, ...]]:
    amounts = total(event, partial(price, orders=orders))
    assert amounts is not None
    return amounts[0], amounts[1:]
