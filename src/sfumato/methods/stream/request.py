"""Requests for streams, and the sensitivity of all that a stream measures; public facts alone.

A factor measures a matrix of whole numbers times the counts of the periods. A person with rows in
one period moves the result by a column; one with rows in several periods by the sum of as many
columns.
"""

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
# The figures of a step are stored in one entry of a ledger, which bounds the cells.
MOST_CELLS = 1000


@dataclass(frozen=True, kw_only=True)
class StreamRequest:
    """A request for counts of cells, period by period, at one price for all periods."""

    unit: Unit
    price: Price
    cells: int = 1
    periods: int | None = None
    """The most periods; None for a stream without end."""
    window: int | None = None
    """The number of last periods that are summed; None for all since the beginning."""
    days: int | None = None
    """The most periods in which a person counts, each with the rows of the unit."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of the method."""

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
        _ = self.people  # raises where the unit cannot be bounded so

    @property
    def people(self) -> Participation:
        """The bound on the periods of one person."""
        return Participation(self.unit, self.days)

    @property
    def spendings(self) -> list[Spending]:
        """The ways to spend the price."""
        return spendings(self.price)

    def noise(self, norms: Norms, spending: Spending) -> Noise:
        """The noise that hides one person in all measurements."""
        return spending.noise(self.people.sensitivity(norms))


@dataclass(frozen=True)
class Norms:
    """The largest norms of a sum of different columns of a matrix without negative entries."""

    l1: int
    l2_squared: int


@dataclass(frozen=True)
class Participation:
    """How often one person counts: the rows that the privacy unit bounds, and the periods.

    *Guarantee*: without `days`, at most the unit's `max_rows` rows of a person in the whole stream
    (with a unit of rows a single row, whose person may be in other rows too). With `days`, at most
    so many periods, and `max_rows` rows in each.
    *Sensitivity*: that of a histogram over cells under the unit, times the norm of the columns of
    so many different periods. Rows in one period weigh at least as much as rows in several, so
    without `days` all rows of a person are taken to be in one.
    *Edges*: a unit of rows takes no `days`, because the person of a row is unknown.
    *Reference*: Dwork, Naor, Pitassi & Rothblum 2010 for event and user level.
    """

    unit: Unit
    days: int | None = None

    def __post_init__(self) -> None:
        by_person = self.unit.by_person  # raises for rows of two people
        if self.days is not None and not by_person:
            raise ParameterError(
                "option_not_applicable",
                "days bounds in how many periods a person counts, but every row is taken to be a "
                "person of its own. Leave days out, or declare whose a row is as the unit.",
            )
        if self.days is not None and self.days < 1:
            raise ParameterError(
                "parameter_out_of_range",
                f"days must be at least 1, not {self.days}.",
                parameter="days",
                given=self.days,
            )

    @property
    def periods(self) -> int:
        """The number of periods in which one person can have all rows of the unit."""
        return 1 if self.days is None else self.days

    def sensitivity(self, norms: Norms) -> Sensitivity:
        """How far one person moves what a factor with these norms measures."""
        # A replacement removes one sum of columns and adds another; no entry is negative, so
        # |a - b|^2 is at most |a|^2 + |b|^2, which the grouped sensitivity includes already.
        person = count_sensitivity(self.unit, grouped=True)
        return Sensitivity(l1=person.l1 * norms.l1, l2_squared=person.l2_squared * norms.l2_squared)

    def sentence(self) -> str:
        """A sentence on what is hidden, and what is not."""
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
