"""What a caller offers for an answer or a release: epsilon or rho, with or without a delta."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from sfumato import exact_numbers
from sfumato.errors import ParameterError
from sfumato.privacy.accounting.composition import basic_price, total

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.data.schema.unit import Unit
    from sfumato.privacy.accounting.events import Event


_DIGITS = 6
"""Of an amount so many are told, rounded up: 1/3 is told as 0.333334."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """A pure epsilon or a rho, and a delta; exactly one of the first two."""

    epsilon: Fraction | None = None
    rho: Fraction | None = None
    delta: Fraction = Fraction(0)

    def to_record(self) -> dict[str, Any]:
        """Write the price as JSON-able data; exact numbers become texts like "1/10"."""
        given = {"epsilon": self.epsilon, "rho": self.rho, "delta": self.delta or None}
        return {name: str(one) for name, one in given.items() if one is not None}

    def sentence(self) -> str:
        """Say the price in words."""
        return amounts_in_words(Price.to_record(self))  # whatever else a kind of price writes down

    def charged(self, event: Event) -> Self:
        """The price without a delta that an event does not use; Gaussian noise uses all of it."""
        amounts = total(event, basic_price)
        return self if amounts is None else replace(self, delta=min(self.delta, amounts[1]))

    def promise(self, unit: Unit, **more: object) -> tuple[str, str, dict[str, object]]:
        """The guarantee of what was released for the price: its kind, a sentence, parameters."""
        hides = unit.sentence()
        parameters = {**self.to_record(), "unit": hides, **more}
        return "differential privacy", f"{self.sentence()}. {hides}", parameters


def amounts_in_words(record: Mapping[str, str]) -> str:
    """The amounts that a price wrote down as people write them: 0.1 for 1/10."""
    return " and ".join(
        f"{name} {exact_numbers.plain(Fraction(record[name]), digits=_DIGITS, up=True)}"
        for name in ("epsilon", "rho", "delta")
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

    `maximum` is the largest epsilon that the owner of the data allows.
    """
    if (epsilon is None) == (rho is None):
        raise ParameterError(
            "options_conflict", "Give either epsilon or rho as the cost, and not both."
        )
    return Price(
        epsilon=None if epsilon is None else exact_numbers.epsilon(epsilon, maximum=maximum),
        rho=None if rho is None else exact_numbers.rho(rho, maximum=exact_numbers.rho_of(maximum)),
        delta=exact_numbers.delta(delta),
    )
