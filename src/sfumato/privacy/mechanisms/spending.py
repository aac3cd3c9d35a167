"""Spending a price: a pure epsilon for Laplace noise or a rho for Gaussian noise, in shares."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.privacy.accounting.elementary import sqrt_down
from sfumato.privacy.accounting.losses import spendable_rho
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric

if TYPE_CHECKING:
    from sfumato.data.schema.unit import Sensitivity
    from sfumato.privacy.accounting.price import Price

Noise = Geometric | Gaussian
"""Exact integer noise that is added to counts and sums."""


@dataclass(frozen=True, kw_only=True)
class Spending:
    """Exactly one of a pure epsilon and a rho, to be spent in shares that sum to 1."""

    epsilon: Fraction | None = None
    rho: Fraction | None = None

    def noise(self, sensitivity: Sensitivity, share: Fraction = Fraction(1)) -> Noise:
        """The noise that a share pays for, on a vector of answers of this sensitivity."""
        if self.epsilon is not None:
            return Geometric(epsilon=self.epsilon * share, l1_sensitivity=sensitivity.l1)
        assert self.rho is not None
        return Gaussian(rho=self.rho * share, l2_sensitivity_squared=sensitivity.l2_squared)

    def scaled(self, share: Fraction) -> Spending:
        """A share of the spending, as a spending of its own."""
        if self.epsilon is not None:
            return Spending(epsilon=self.epsilon * share)
        assert self.rho is not None
        return Spending(rho=self.rho * share)

    def choice_epsilon(self, share: Fraction = Fraction(1)) -> Fraction:
        """The epsilon that a share buys for an exponential choice, which costs rho = epsilon^2 / 8.

        *Reference*: Cesar & Rogers 2021.
        """
        return self._epsilon(8, share)

    def pure_epsilon(self, share: Fraction = Fraction(1)) -> Fraction:
        """The pure epsilon that a share buys, which costs rho = epsilon^2 / 2."""
        return self._epsilon(2, share)

    def _epsilon(self, factor: int, share: Fraction) -> Fraction:
        if self.epsilon is not None:
            return self.epsilon * share
        assert self.rho is not None
        # epsilon = sqrt(factor rho), rounded down: rounding up could cost more than the share.
        return sqrt_down(factor * self.rho * share, 64)


def spendings(price: Price, *, conversion: Fraction | None = None) -> list[Spending]:
    """List the ways to spend a price: an epsilon with a delta may also be spent as a rho.

    Parameters
    ----------
    price : Price
        The offered cost.
    conversion : Fraction, optional
        The part of the delta that pays for the conversion to rho; all of it by default.

    Returns
    -------
    list of Spending
        The pure epsilon first, then the rho if there is a delta and it buys one.
    """
    if price.rho is not None:
        return [Spending(rho=price.rho)]
    assert price.epsilon is not None
    options = [Spending(epsilon=price.epsilon)]
    delta = price.delta if conversion is None else conversion
    if delta:
        rho = spendable_rho(epsilon=price.epsilon, delta=delta)
        if rho > 0:
            options.append(Spending(rho=rho))
    return options
