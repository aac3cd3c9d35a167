"""The privacy cost that a caller offers for an answer or a release: epsilon or rho, and a delta."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from sfumato import exact_numbers
from sfumato.errors import ParameterError
from sfumato.exact_numbers import DELTA_UNIT, EPSILON_UNIT, RHO_UNIT
from sfumato.privacy.accounting.composition import basic_price, total

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.data.schema.unit import Unit
    from sfumato.privacy.accounting.events import Event


_NAMES = ("epsilon", "rho", "delta")

_DIGITS = 6
"""Significant digits of a shown amount, rounded up: 1/3 is shown as 0.333334."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """Exactly one of a pure epsilon and a rho, and a delta."""

    epsilon: Fraction | None = None
    rho: Fraction | None = None
    delta: Fraction = Fraction(0)

    def to_record(self) -> dict[str, Any]:
        """Write the price as JSON-able data; exact numbers become texts like "1/10"."""
        amounts = {"epsilon": self.epsilon, "rho": self.rho, "delta": self.delta or None}
        return {name: str(amount) for name, amount in amounts.items() if amount is not None}

    @classmethod
    def from_record(cls, record: Mapping[str, str]) -> Price:
        """Read the amounts that `to_record` wrote."""
        amounts = {name: Fraction(record[name]) for name in _NAMES if name in record}
        return Price(**amounts)

    def sentence(self) -> str:
        """State the amounts of the price: 'epsilon 0.5 and delta 1e-6'."""
        # Price's own record: subclasses add fields to theirs that are not amounts.
        return amounts_in_words(Price.to_record(self))

    def charged(self, event: Event) -> Self:
        """The price with the delta cut to what the event uses; Gaussian noise uses all of it."""
        amounts = total(event, basic_price)
        return self if amounts is None else replace(self, delta=min(self.delta, amounts[1]))

    def promise(self, unit: Unit, **extra_parameters: object) -> tuple[str, str, dict[str, object]]:
        """The guarantee of a release at this price: its kind, a sentence, and its parameters."""
        unit_sentence = unit.sentence()
        parameters = {**self.to_record(), "unit": unit_sentence, **extra_parameters}
        return "differential privacy", f"{self.sentence()}. {unit_sentence}", parameters


def amounts_in_words(record: Mapping[str, str]) -> str:
    """Format the amounts of a price's record as decimals: 0.1 for "1/10"."""
    return " and ".join(
        f"{name} {exact_numbers.plain(Fraction(record[name]), digits=_DIGITS, up=True)}"
        for name in _NAMES
        if name in record
    )


def price(
    *,
    epsilon: object = None,
    rho: object = None,
    delta: object = 0,
    maximum: Fraction = exact_numbers.EPSILON_MAXIMUM,
) -> Price:
    """Read the price that a caller offers: exactly one of epsilon and rho.

    Parameters
    ----------
    epsilon, rho : number or text, optional
        The loss. Read exactly: 0.1 and "1/10" are one tenth; then cut to whole units, so that
        three thirds fit an epsilon of 1.
    delta : number or text
        The failure probability, from 0 to below 1.
    maximum : Fraction
        The largest epsilon that the owner of the data allows; it also limits rho.

    Raises
    ------
    ParameterError
        If both or neither of epsilon and rho are given, or an amount is out of range.

    Example
    -------
    >>> price(epsilon="1/3", delta=1e-6).sentence()
    'epsilon 0.333334 and delta 1e-6'
    """
    if (epsilon is None) == (rho is None):
        raise ParameterError(
            "options_conflict", "Give either epsilon or rho as the cost, and not both."
        )
    # A budget counts whole units and rounds every cost up: an uncut third would cost a unit more.
    rho_maximum = exact_numbers.rho_of(maximum)
    return Price(
        epsilon=None
        if epsilon is None
        else whole_units(exact_numbers.epsilon(epsilon, maximum=maximum), EPSILON_UNIT),
        rho=None
        if rho is None
        else whole_units(exact_numbers.rho(rho, maximum=rho_maximum), RHO_UNIT),
        delta=whole_units(exact_numbers.delta(delta), DELTA_UNIT),
    )


def whole_units(amount: Fraction, unit: Fraction) -> Fraction:
    """Cut an amount to whole units of a budget."""
    return exact_numbers.floor_units(amount, unit) * unit
