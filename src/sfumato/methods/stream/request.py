"""What is asked of a stream, from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.arguments import shown
from sfumato.errors import ParameterError
from sfumato.methods.stream.sensitivity import Participation
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.data.schema.unit import Unit
    from sfumato.methods.stream.sensitivity import Norms
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.mechanisms.spending import Noise, Spending

MOST_PERIODS = 1 << 20
# Of a stream: what each step told stands in one entry of a ledger.
MOST_CELLS = 1000


@dataclass(frozen=True, kw_only=True)
class StreamRequest:
    """Counts of so many cells, period by period, at one price for all of them."""

    unit: Unit
    price: Price
    cells: int = 1
    periods: int | None = None
    """How many there will be at most; None where it never ends."""
    window: int | None = None
    """The sum of the last so many periods; None for all since the beginning."""
    days: int | None = None
    """In how many periods a person counts at most, each time with the rows of the unit."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What else the method takes."""

    def __post_init__(self) -> None:
        most = {"periods": MOST_PERIODS, "window": MOST_PERIODS, "days": MOST_PERIODS}
        most["cells"] = MOST_CELLS
        for name, largest in most.items():
            value = getattr(self, name)
            if value is None and name != "cells":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
                raise ParameterError(
                    "parameter_out_of_range",
                    f"{name} of a stream must be a whole number from 1 to {largest:,}, not "
                    f"{shown(value)}.",
                )
        if self.window and self.periods and self.window > self.periods:
            raise ParameterError(
                "stream_invalid",
                f"A window of {self.window:,} periods is longer than the stream, which has "
                f"{self.periods:,}. Give a shorter window, or none for all since the beginning.",
            )
        _ = self.people  # refused where it cannot be bounded so

    @property
    def people(self) -> Participation:
        """How often one person can count."""
        return Participation(self.unit, self.days)

    @property
    def spendings(self) -> list[Spending]:
        """The ways to spend the price."""
        return spendings(self.price)

    def noise(self, norms: Norms, spending: Spending) -> Noise:
        """The noise that hides one person in all that is measured."""
        return spending.noise(self.people.sensitivity(norms))
