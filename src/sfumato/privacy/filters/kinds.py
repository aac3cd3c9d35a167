"""Filters: limits on a loss that hold however each question depends on earlier answers.

A filter counts in whole units: what an event costs is computed exactly and rounded up once, a
limit is rounded down. All counts fit a signed 64-bit integer, because a cost above the limit is
not counted but breaks the filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.privacy import composition as basic
from sfumato.privacy import renyi, zcdp
from sfumato.privacy.composition import total
from sfumato.privacy.losses import Approx, Pure, Zcdp, renyi_epsilon, zcdp_to_approx
from sfumato.privacy.numbers import (
    DELTA_UNIT,
    EPSILON_UNIT,
    RHO_UNIT,
    ceil_units,
    exact,
    floor_units,
    positive,
    positive_delta,
    probability,
)

if TYPE_CHECKING:
    from sfumato.privacy.composition import Amounts
    from sfumato.privacy.events import Event, Leaf


@dataclass(frozen=True, kw_only=True)
class PureFilter:
    """Epsilons add up to at most `epsilon`.

    *Guarantee*: epsilon-differential privacy.
    *Edges*: an event with a delta, and Gaussian noise, break it.
    *Reference*: Rogers et al. 2016, Theorem 3.6.
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        _store(self, epsilon=positive(self.epsilon, "epsilon"))

    @property
    def limits(self) -> Quantities:
        """Name the limit and its unit."""
        return (("epsilon", self.epsilon, EPSILON_UNIT),)

    def price(self, leaf: Leaf) -> Amounts | None:
        """Price a leaf by its epsilon."""
        amounts = basic.basic_price(leaf)
        return None if amounts is None or amounts[1] else amounts[:1]

    def loss(self) -> Pure:
        """State what the filter promises on its own."""
        return Pure(epsilon=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ApproxFilter:
    """Epsilons and deltas add up to at most `epsilon` and `delta`.

    *Guarantee*: (epsilon, delta)-differential privacy.
    *Edges*: Gaussian noise breaks it, as it has no epsilon of its own.
    *Reference*: Rogers et al. 2016, Theorem 3.6.
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        _store(self, epsilon=positive(self.epsilon, "epsilon"), delta=positive_delta(self.delta))

    @property
    def limits(self) -> Quantities:
        """Name the limits and their units."""
        return ("epsilon", self.epsilon, EPSILON_UNIT), ("delta", self.delta, DELTA_UNIT)

    def price(self, leaf: Leaf) -> Amounts | None:
        """Price a leaf by its epsilon and delta."""
        return basic.basic_price(leaf)

    def loss(self) -> Approx:
        """State what the filter promises on its own."""
        return Approx(epsilon=self.epsilon, delta=self.delta)


@dataclass(frozen=True, kw_only=True)
class ZcdpFilter:
    """Rhos and deltas of approximate zCDP add up to at most `rho` and `delta`.

    *Guarantee*: delta-approximate rho-zCDP; (epsilon, delta + conversion_delta)-differential
    privacy by the tight conversion.
    *Edges*: expresses every event; pure ones enter as epsilon^2 / 2.
    *Reference*: Feldman & Zrnic 2021; Whitehouse et al. 2023, Theorem 1.
    """

    rho: Fraction
    delta: Fraction
    conversion_delta: Fraction

    def __post_init__(self) -> None:
        _store(
            self,
            rho=positive(self.rho, "rho"),
            delta=probability(self.delta, "delta"),
            conversion_delta=positive_delta(self.conversion_delta),
        )

    @property
    def limits(self) -> Quantities:
        """Name the limits and their units."""
        return ("rho", self.rho, RHO_UNIT), ("delta", self.delta, DELTA_UNIT)

    def price(self, leaf: Leaf) -> Amounts | None:
        """Price a leaf by its rho and delta."""
        return zcdp.price(leaf)

    def loss(self) -> Approx:
        """State what the filter promises on its own, epsilon rounded up."""
        loss = zcdp_to_approx(Zcdp(rho=self.rho), delta=self.conversion_delta)
        return Approx(epsilon=loss.epsilon, delta=self.delta + self.conversion_delta)


@dataclass(frozen=True, kw_only=True)
class RenyiFilter:
    """Renyi divergences of one order, fixed at creation, add up to at most `divergence`.

    *Guarantee*: (order, divergence)-Renyi differential privacy; (epsilon, conversion_delta)-
    differential privacy by the tight conversion.
    *Edges*: an event with a delta breaks it.
    *Reference*: Feldman & Zrnic 2021, Theorem 4.3; Lécuyer 2021.
    """

    order: Fraction
    divergence: Fraction
    conversion_delta: Fraction

    def __post_init__(self) -> None:
        _store(
            self,
            order=exact(self.order, "order"),
            divergence=positive(self.divergence, "divergence"),
            conversion_delta=positive_delta(self.conversion_delta),
        )
        if self.order <= 1:
            raise ParameterError(
                "order_out_of_range", f"order must be above 1, but {self.order} was given."
            )

    @property
    def limits(self) -> Quantities:
        """Name the limit and its unit."""
        return (("divergence", self.divergence, EPSILON_UNIT),)

    def price(self, leaf: Leaf) -> Amounts | None:
        """Price a leaf by its divergence of the filter's order."""
        delta, divergence = renyi.price(leaf, (self.order,))
        return None if delta else (divergence,)

    def loss(self) -> Approx:
        """State what the filter promises on its own, epsilon rounded up."""
        delta = self.conversion_delta
        epsilon = renyi_epsilon(order=self.order, divergence=self.divergence, delta=delta)
        return Approx(epsilon=epsilon, delta=delta)


Filter = PureFilter | ApproxFilter | ZcdpFilter | RenyiFilter
"""A limit on one way of counting."""

Quantities = tuple[tuple[str, Fraction, Fraction], ...]
"""The name, the limit and the unit of each quantity that a filter counts."""


def units_of(one: Filter) -> tuple[int, ...]:
    """Count the whole units that a filter allows."""
    counts = tuple(floor_units(limit, unit) for _, limit, unit in one.limits)
    if max(counts) >= 2**63:
        raise ParameterError(
            "limit_too_large",
            "A limit must fit a 64-bit count of its units: epsilon below 9e9, rho below 9.2.",
        )
    return counts


def cost_of(one: Filter, event: Event) -> tuple[int, ...] | None:
    """Count the units that an event takes, rounded up; None when it would break the filter."""
    amounts = total(event, one.price)
    if amounts is None:
        return None
    counts = tuple(
        ceil_units(amount, unit) for amount, (_, _, unit) in zip(amounts, one.limits, strict=True)
    )
    return counts if within(counts, units_of(one)) else None


def within(counts: tuple[int, ...], limits: tuple[int, ...]) -> bool:
    """Tell whether no count passes its limit."""
    return all(count <= limit for count, limit in zip(counts, limits, strict=True))


def _store(one: object, **values: Fraction) -> None:
    for name, value in values.items():
        object.__setattr__(one, name, value)
