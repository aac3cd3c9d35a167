"""Inspect a table: roles of columns, uniqueness and re-identification risk."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

from sfumato.data.counting.frequencies import count
from sfumato.data.counting.memory_limit import (
    TooManyCombinationsError,
    cells_of,
    class_sizes,
    most_combinations,
)
from sfumato.data.inspection.risk import (
    LARGEST,
    Reidentification,
    SetRisk,
    UnheldTable,
    reidentification,
    uniqueness,
)
from sfumato.data.schema.column import Role
from sfumato.data.schema.names import count as plural
from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlglot import exp

    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.base import Engine
    from sfumato.data.inspection.guesses import Guess

_SHOWN = 8
MOST_SETS = 20_000
"""The largest number of sets that are examined; with more columns the sets get smaller."""


@dataclass(frozen=True, repr=False)
class Inspection(Shown):
    """The result of inspecting a table. It describes private data and is for the owner only.

    Where `person` names a column of people, sets and risks count people, else rows.
    """

    rows: int
    guesses: tuple[Guess, ...]
    largest: int
    sets: tuple[SetRisk, ...]
    reidentification: Reidentification
    person: str | None = None

    def _card(self) -> Card:
        highest = sorted(
            self.sets, key=lambda set_risk: (-set_risk.unique_share, len(set_risk.columns))
        )
        worst = ""
        if highest:
            columns, share = " + ".join(highest[0].columns), 100 * highest[0].unique_share
            worst = f"; {columns}: unique for {share:.1f} % of the {self.counted}"
        risk = self.reidentification
        attackers = {"prosecutor": risk.prosecutor, "journalist": risk.journalist}
        facts = {
            f"Risk, {name}": f"{100 * attacker.highest:.1f} % at most, "
            f"{100 * attacker.average:.1f} % mean"
            for name, attacker in attackers.items()
        }
        rows = [
            (" + ".join(set_risk.columns), f"{100 * set_risk.unique_share:.1f} %")
            for set_risk in highest
        ]
        table = CardTable(("Columns", "Unique"), rows[:_SHOWN], max(0, len(rows) - _SHOWN))
        roles = [f"{guess.column.name} is {guess.column.role}" for guess in self.guesses]
        notes = [f"{'; '.join(roles)}.", *([self.left_out] if self.left_out else [])]
        column_count = plural(len(self.guesses), "column")
        line = f"{plural(self.rows, 'row')}, {column_count}{worst}"
        return Card(line, facts if rows else {}, table if rows else None, notes)

    @property
    def counted(self) -> str:
        """The noun for what sets and risks count."""
        return "rows" if self.person is None else "people"

    @property
    def full(self) -> SetRisk:
        """The risk by all quasi-identifiers together."""
        return max(self.sets, key=lambda risk: len(risk.columns))

    @property
    def left_out(self) -> str | None:
        """A note on the sizes of sets that were left out; None if none was."""
        width = max((len(set_risk.columns) for set_risk in self.sets), default=0)
        if self.largest >= min(LARGEST, width - 1):
            return None
        return (
            f"{width:,} quasi-identifiers have too many sets to examine all of up to {LARGEST}: "
            f"those of {self.largest + 1} to {LARGEST} columns were left out. Give columns that "
            "nobody outside can know the role 'other' in the schema."
        )


def inspect(
    engine: Engine,
    table: exp.Table,
    guesses: Sequence[Guess],
    *,
    progress: Callable[[float, float], None] | None = None,
    person: str | None = None,
    population: Frequencies | None = None,
) -> Inspection:
    """Inspect a table.

    Parameters
    ----------
    engine, table
        The table to inspect.
    guesses : sequence of Guess
        The columns with their roles.
    progress : callable, optional
        Called with the number of sets done and the number in all.
    person : str, optional
        The column that names the person of a row.
    population : Frequencies, optional
        Counts over the quasi-identifiers of a population of which the table is a sample.

    Raises
    ------
    TooManyCombinationsError
        If there is a population and the combinations of the table exceed the memory limit.
    """
    quasi = [guess.column.name for guess in guesses if guess.column.role is Role.QUASI]
    if person in quasi or not quasi:
        person = None  # an attacker who knows the name of a person looks for rows
    names = quasi if person is None else [*quasi, person]
    largest = largest_within(len(quasi))
    rows = int(class_sizes(engine, table, ()).rows.sum())
    # Only rows without a person and without a population can be measured in parts.
    by_parts = person is None and population is None and bool(quasi)
    frequencies = _held(engine, table, names, rows if by_parts else 0)
    if frequencies is None and population is not None:
        raise TooManyCombinationsError.of(names, cells_of(engine, table, names))
    if frequencies is None:
        unheld = UnheldTable(engine, table, tuple(quasi), person, rows, largest)
        sets, risk = unheld.uniqueness(progress), unheld.reidentification()
    else:
        risk, sets = reidentification(frequencies, population, person=person), []
        if quasi:
            sets = uniqueness(frequencies, largest=largest, progress=progress, person=person)
    return Inspection(
        rows=rows,
        guesses=tuple(guesses),
        largest=largest,
        sets=tuple(sets),
        reidentification=risk,
        person=person,
    )


def _held(engine: Engine, table: exp.Table, names: Sequence[str], rows: int) -> Frequencies | None:
    """The combinations of some columns, or None where they, or `rows`, exceed the memory limit."""
    most = most_combinations(len(names))
    if rows > most:
        return None
    try:
        return count(engine, table, names, most=most)
    except TooManyCombinationsError:
        return None


def largest_within(width: int) -> int:
    """Return the largest size, up to `LARGEST`, of sets that number at most `MOST_SETS` in all."""
    largest, sets = 1, width
    while largest < LARGEST and sets + comb(width, largest + 1) <= MOST_SETS:
        largest += 1
        sets += comb(width, largest)
    return largest
