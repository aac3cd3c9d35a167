"""What is asked of a stream, from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.arguments import shown
from sfumato.data.schema.unit import Sensitivity, count_sensitivity
from sfumato.errors import ParameterError
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.data.schema.unit import Unit
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


# What one person moves in all that a stream ever measures, and the noise that hides it.
#
# A factor measures a matrix of whole numbers times the counts of the periods. A person who counts
# in
# one period moves it by a column; one who counts in several by the sum of as many columns.


@dataclass(frozen=True)
class Norms:
    """The largest norms of a sum of different columns of a matrix without negative entries."""

    l1: int
    l2_squared: int


@dataclass(frozen=True)
class Participation:
    """How often one person can count: by what the privacy unit bounds, and in how many periods.

    *Guarantee*: without `days`, at most the unit's `max_rows` rows of a person in the whole stream
    (with a unit of rows one row alone: its person may be in other rows). With `days`, at most so
    many periods, and `max_rows` rows in each.
    *Sensitivity*: that of a histogram over cells under the unit, times the norm of the columns of
    so many different periods. Rows in one period weigh at least as much as rows in several, so
    without `days` all rows of a person are taken to be in one.
    *Edges*: a unit of rows takes no `days`: nothing says whose a row is.
    *Reference*: Dwork, Naor, Pitassi & Rothblum 2010 for event and user level.
    """

    unit: Unit
    days: int | None = None

    def __post_init__(self) -> None:
        by_person = self.unit.by_person  # which refuses rows of two people, whatever the method
        if self.days is not None and not by_person:
            raise ParameterError(
                "option_not_applicable",
                "days bounds in how many periods a person counts, but every row is taken to be a "
                "person of its own. Leave days out, or declare whose a row is as the unit.",
            )
        if self.days is not None and self.days < 1:
            raise ParameterError(
                "parameter_out_of_range", f"days must be at least 1, not {self.days}."
            )

    @property
    def periods(self) -> int:
        """In how many different periods one person can count with all they may have there."""
        return 1 if self.days is None else self.days

    def sensitivity(self, norms: Norms) -> Sensitivity:
        """How far one person moves what a factor with these norms measures."""
        # Replaced, a person takes one sum of columns away and brings another; no entry is
        # negative, so |a - b|^2 is at most |a|^2 + |b|^2, which a grouped count has already.
        person = count_sensitivity(self.unit, grouped=True)
        return Sensitivity(l1=person.l1 * norms.l1, l2_squared=person.l2_squared * norms.l2_squared)

    def sentence(self) -> str:
        """Say what is hidden, and what is not."""
        if not self.unit.by_person:
            return (
                f"{self.unit.sentence()} Event level: somebody who is in many rows is hidden in "
                "each of them, not in all of them together."
            )
        if self.days is None:
            return (
                f"{self.unit.sentence()} Person level: over the whole stream, of which a person's "
                "first rows count."
            )
        return (
            f"{self.unit.sentence()} Person level: over the whole stream, of which a person's "
            f"first {self.days} periods count, with at most {self.unit.max_rows} rows in each."
        )
