"""Privacy loss distributions: near-exact accounting of a fixed set of events, by dp-accounting.

For reports only, never for budgets: the set of events must be fixed beforehand, and the arithmetic
is dp-accounting's (float64, pessimistic discretisation). Counts are expanded here and distributions
composed directly, because accountants of dp-accounting 0.6 ignore counts in some of their branches.

Decision `budgets`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterError
from sfumato.privacy.accounting.composition import flatten
from sfumato.privacy.accounting.elementary import exp_down, sqrt_down
from sfumato.privacy.accounting.events import (
    ApproxEvent,
    ConcentratedEvent,
    GaussianNoise,
    Parallel,
    RandomizedResponseEvent,
    ThresholdKeysEvent,
)

if TYPE_CHECKING:
    from sfumato.privacy.accounting.events import Event, Leaf

_INTERVAL = Fraction(1, 10**4)
"""The grid of the loss distributions: losses are rounded up to multiples of this epsilon."""


def epsilon(event: Event, *, delta: Fraction) -> Fraction:
    """Find the epsilon of an event at a total delta.

    *Guarantee*: (epsilon, delta) for events that are fixed beforehand, up to float64 rounding.
    *Edges*: a rho alone, parallel parts that differ and Gaussian noise on answers that can move by
    more than one grid step have no known worst pair and are refused (`event_unsupported`); a
    delta no larger than what the events themselves take is refused.
    *Reference*: Meiser & Mohammadi 2018; Koskela, Jälkö & Honkela 2020.
    """
    result = _distribution(event).get_epsilon_for_delta(float(delta))
    if not math.isfinite(result):
        raise ParameterError(
            "parameter_out_of_range",
            f"delta {float(delta):.3e} leaves nothing beyond what the events take themselves.",
            hint="Give a larger delta.",
            parameter="delta",
        )
    return Fraction(result)


def delta(event: Event, *, epsilon: Fraction) -> Fraction:
    """Find the total delta of an event at an epsilon."""
    return Fraction(_distribution(event).get_delta_for_epsilon(float(epsilon)))


def _distribution(event: Event) -> Any:
    library = _library()
    result = library.identity(float(_INTERVAL))
    for atom, count in flatten(event).items():
        if isinstance(atom, Parallel):
            raise _not_expressible("parallel parts that differ from each other")
        result = result.compose(_leaf(atom).self_compose(count))
    return result


def _leaf(leaf: Leaf) -> Any:
    match leaf:
        case GaussianNoise(l2_sensitivity_squared=square):
            # On a grid, a squared change of 1 is one answer moved by one step; larger ones spread
            # over answers in many ways, none of which is known to be the worst.
            if square != 1:
                raise _not_expressible("Gaussian noise on answers that move by more than one step")
            # Rounded towards 0: less noise than was drawn can only overstate the loss.
            stddev = math.nextafter(float(sqrt_down(leaf.variance)), 0)
            return _library().from_discrete_gaussian_mechanism(
                stddev, value_discretization_interval=float(_INTERVAL)
            )
        case ConcentratedEvent():
            raise _not_expressible("a rho of which no more is known")
        case ThresholdKeysEvent(delta=delta):
            return _points(Fraction(0), 2, delta)
        case ApproxEvent(epsilon=epsilon, delta=delta):
            return _points(epsilon, 2, delta)
        case RandomizedResponseEvent(epsilon=epsilon, categories=categories):
            return _points(epsilon, categories, Fraction(0))
        case _:
            return _points(leaf.epsilon, 2, Fraction(0))


def _points(epsilon: Fraction, categories: int, delta: Fraction) -> Any:
    """Build the losses of randomized response: epsilon, -epsilon, 0, and infinity by delta."""
    power = exp_down(epsilon)
    # Under the true answer's distribution: exp(epsilon) : 1 : k - 2 are the chances of the losses
    # epsilon, -epsilon and 0. A pure mechanism is dominated by k = 2 (Kairouz, Oh & Viswanath
    # 2015).
    share = (1 - delta) / (power + categories - 1)
    masses: dict[int, float] = {0: float(share * (categories - 2))}
    up, down = (epsilon / _INTERVAL).__ceil__(), (-epsilon / _INTERVAL).__ceil__()
    masses[up] = masses.get(up, 0.0) + float(share * power)
    masses[down] = masses.get(down, 0.0) + float(share)
    return _library().PrivacyLossDistribution.create_from_rounded_probability(
        masses, math.nextafter(float(delta), 1) if delta else 0.0, float(_INTERVAL)
    )


def _not_expressible(event_description: str) -> ParameterError:
    return ParameterError(
        "event_unsupported",
        f"Privacy loss distributions cannot express {event_description}.",
        hint="Use the zCDP or Renyi accountant.",
    )


def _library() -> Any:
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError:
        raise ParameterError(
            "package_missing",
            "Privacy loss distributions need dp-accounting: install sfumato[accounting], or use "
            "the zCDP or Renyi accountant.",
        ) from None
    return privacy_loss_distribution
