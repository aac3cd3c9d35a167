"""Approximate zero-concentrated differential privacy: rhos add up, and so do deltas."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.privacy.accounting.composition import total
from sfumato.privacy.accounting.events import (
    ApproxEvent,
    ConcentratedEvent,
    ExponentialChoice,
    GaussianNoise,
    ThresholdKeysEvent,
)
from sfumato.privacy.accounting.losses import (
    Pure,
    Zcdp,
    delta_left,
    pure_to_zcdp,
    zcdp_delta,
    zcdp_to_approx,
)

if TYPE_CHECKING:
    from sfumato.privacy.accounting.composition import Amounts
    from sfumato.privacy.accounting.events import Event, Leaf


def price(leaf: Leaf) -> Amounts:
    """Price a leaf as (rho, delta) of approximate zCDP, exactly."""
    zero = Fraction(0)
    match leaf:
        case GaussianNoise() | ConcentratedEvent():
            return leaf.rho, zero
        case ExponentialChoice(epsilon=epsilon):
            # A bounded range is an interval of losses, and Hoeffding's lemma halves epsilon.
            return epsilon**2 / 8, zero
        case ThresholdKeysEvent(delta=delta):
            return zero, delta
        case ApproxEvent(epsilon=epsilon, delta=delta):
            return pure_to_zcdp(Pure(epsilon=epsilon)).rho, delta
        case _:
            return pure_to_zcdp(Pure(epsilon=leaf.epsilon)).rho, zero


def guarantee(event: Event) -> tuple[Zcdp, Fraction]:
    """State the loss of an event as delta-approximate rho-zCDP, exactly.

    *Guarantee*: sum of rhos, sum of deltas, also when events are chosen adaptively; epsilon enters
    as epsilon^2 / 2, the exponential mechanism as epsilon^2 / 8.
    *Edges*: pure events alone are often cheaper under basic composition.
    *Reference*: Bun & Steinke 2016, Propositions 1.4 and 8.7; Cesar & Rogers 2021 for bounded
    range; Canonne, Kamath & Steinke 2020 for discrete Gaussian noise.
    """
    amounts = total(event, price)
    assert amounts is not None
    rho, delta = amounts
    return Zcdp(rho=rho), delta


def epsilon(event: Event, *, delta: Fraction) -> Fraction:
    """Find the epsilon of an event at a total delta, rounded up."""
    loss, spent = guarantee(event)
    return zcdp_to_approx(loss, delta=delta_left(delta, spent)).epsilon


def delta(event: Event, *, epsilon: Fraction) -> Fraction:
    """Find the total delta of an event at an epsilon, rounded up and at most 1."""
    loss, spent = guarantee(event)
    return min(Fraction(1), spent + zcdp_delta(loss, epsilon=epsilon))
