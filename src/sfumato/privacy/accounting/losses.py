"""Privacy losses as exact rationals, and the conversions between them, each with its direction.

A conversion to a weaker guarantee rounds its result up; a conversion that finds room within a
guarantee rounds it down. So a result never claims more privacy than there is. Every Renyi order
above 1 gives a valid bound: the search for the best order decides only how tight the bound is.

In the searches, `excess` is the order minus 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.exact_numbers import RHO_UNIT, floor_units, not_negative, positive_delta, probability
from sfumato.privacy.accounting.elementary import exp_up, log_down, log_up, round_down, round_up

if TYPE_CHECKING:
    from collections.abc import Callable

_ZERO = Fraction(0)


@dataclass(frozen=True, kw_only=True)
class Pure:
    """epsilon-differential privacy."""

    epsilon: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", not_negative(self.epsilon, "epsilon"))


@dataclass(frozen=True, kw_only=True)
class Approx:
    """(epsilon, delta)-differential privacy."""

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", not_negative(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", probability(self.delta, "delta"))


@dataclass(frozen=True, kw_only=True)
class Zcdp:
    """rho-zero-concentrated differential privacy."""

    rho: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", not_negative(self.rho, "rho"))


Loss = Pure | Approx | Zcdp
"""A guarantee of one of the three kinds that Sfumato claims."""


def pure_to_zcdp(loss: Pure) -> Zcdp:
    """Convert a pure loss to zCDP: rho = epsilon^2 / 2, exactly (Bun & Steinke 2016, Prop. 1.4)."""
    return Zcdp(rho=loss.epsilon**2 / 2)


def zcdp_to_approx(loss: Zcdp, *, delta: Fraction) -> Approx:
    """Convert zCDP to (epsilon, delta) at the best order, epsilon rounded up.

    *Reference*: Canonne, Kamath & Steinke 2020, Proposition 12 with divergence = order rho.
    """
    delta = positive_delta(delta)
    if loss.rho == 0:
        return Approx(epsilon=loss.rho, delta=delta)
    target = log_up(1 / delta)
    # The derivative in the order vanishes where rho (order - 1)^2 + log(order) = log(1 / delta).
    order = _order_where(lambda excess: loss.rho * excess**2 + log_up(1 + excess, 64) >= target)
    divergence = order * loss.rho
    return Approx(
        epsilon=renyi_epsilon(order=order, divergence=divergence, delta=delta), delta=delta
    )


def zcdp_delta(loss: Zcdp, *, epsilon: Fraction) -> Fraction:
    """Find the delta of zCDP at an epsilon, at the best order, rounded up."""
    rho = loss.rho
    if rho == 0:
        return rho
    order = _order_where(
        lambda excess: rho * (2 * excess + 1) + log_up(excess / (1 + excess), 64) >= epsilon
    )
    return renyi_delta(order=order, divergence=order * rho, epsilon=epsilon)


def approx_to_zcdp(loss: Approx) -> Zcdp:
    """Find the largest zCDP loss that implies an (epsilon, delta), rounded down."""
    target = log_down(1 / positive_delta(loss.delta))

    def is_within_epsilon(excess: Fraction) -> bool:
        """Whether the rho for which this order is the best one stays within the epsilon."""
        slack = target - log_down(1 + excess, 64)
        return (
            slack * (2 * excess + 1) / excess**2 + log_down(excess / (1 + excess), 64)
            <= loss.epsilon
        )

    order = _order_where(is_within_epsilon)
    # The epsilon at this order for rho = 0; the rest of the epsilon pays for order * rho.
    free = renyi_epsilon(order=order, divergence=_ZERO, delta=loss.delta, floor=False)
    return Zcdp(rho=max(_ZERO, round_down((loss.epsilon - free) / order)))


def spendable_rho(*, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The rho that an (epsilon, delta) pays for, in whole units of `RHO_UNIT`.

    It is one unit below the largest, so that converting it back, which rounds up, cannot give more
    than the epsilon.
    """
    largest = approx_to_zcdp(Approx(epsilon=epsilon, delta=delta)).rho
    return max(floor_units(largest, RHO_UNIT) - 1, 0) * RHO_UNIT


def renyi_epsilon(
    *, order: Fraction, divergence: Fraction, delta: Fraction, floor: bool = True
) -> Fraction:
    """Convert a Renyi divergence to the epsilon of an (epsilon, delta), rounded up.

    epsilon = divergence + log(1 - 1/order) - log(order delta) / (order - 1), and at least 0 unless
    `floor` is off (Canonne, Kamath & Steinke 2020, Proposition 12).
    """
    delta = positive_delta(delta)
    epsilon = divergence + log_up(1 - 1 / order) - log_down(order * delta) / (order - 1)
    return round_up(max(epsilon, _ZERO) if floor else epsilon)


def renyi_delta(*, order: Fraction, divergence: Fraction, epsilon: Fraction) -> Fraction:
    """Convert a Renyi divergence to the delta of an (epsilon, delta), rounded up and at most 1.

    log delta = (order - 1) (divergence - epsilon + log(1 - 1/order)) - log(order) (the same
    proposition).
    """
    exponent = (order - 1) * (divergence - epsilon + log_up(1 - 1 / order)) - log_down(order)
    # exp(-1000) is far below any delta in use; raising smaller ones to it keeps the bound valid
    # and the rational numbers short.
    return min(exp_up(max(min(exponent, _ZERO), Fraction(-1000))), Fraction(1))


def delta_left(delta: Fraction, spent: Fraction) -> Fraction:
    """Subtract the delta that events took from a total delta; the rest pays for the conversion.

    Raises
    ------
    ParameterError
        If nothing is left for the conversion.
    """
    if probability(delta, "delta") <= spent:
        raise ParameterError(
            "parameter_out_of_range",
            f"delta {float(delta):.3e} leaves nothing beyond the {float(spent):.3e} that the "
            "events take themselves.",
            hint="Give a larger delta.",
            parameter="delta",
        )
    return delta - spent


def _order_where(reached: Callable[[Fraction], bool]) -> Fraction:
    """Find, to 40 binary digits, the order 1 + x at whose x a monotone condition becomes true."""
    low = high = Fraction(1)
    # Without this limit, a delta within 2^-64 of 1 would move the order towards 1 for ever.
    while low > Fraction(1, 2**64) and reached(low):
        low, high = low / 4, low
    while not reached(high):
        low, high = high, high * 4
    # The bracket spans a factor of 4, so 42 bisections give 40 binary digits.
    for _ in range(42):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return 1 + high
