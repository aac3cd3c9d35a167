"""Inspect a table: guess its columns, find who is unique, estimate how likely a match is."""

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
from sfumato.data.inspection.reidentification import Reidentification, reidentification
from sfumato.data.inspection.uniqueness import LARGEST, SetRisk, uniqueness
from sfumato.data.inspection.uniqueness_in_engine import UnheldTable
from sfumato.data.schema.column import Role
from sfumato.data.schema.names import count as plural
from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlglot import exp

    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.base import Engine
    from sfumato.data.inspection.roles import Guess

_SHOWN = 8
MOST_SETS = 20_000
"""At most so many sets of columns are examined; with more columns the sets get smaller."""


def _describe_risk(risk: SetRisk) -> str:
    return f"{' + '.join(risk.columns)}: unique for {100 * risk.unique_share:.0f} %"


@dataclass(frozen=True, repr=False)
class Inspection(Shown):
    """What inspecting a table found. It describes private data: it is for its steward only.

    Where the unit is a person, `person` names their column, and sets and risks count people.
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
        worst = f"; {_describe_risk(highest[0])} of the {self.counted}" if highest else ""
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
        columns = plural(len(self.guesses), "column")
        line = f"{plural(self.rows, 'row')}, {columns}{worst}"
        return Card(line, facts if rows else {}, table if rows else None, notes)

    @property
    def counted(self) -> str:
        """What sets and risks count."""
        return "rows" if self.person is None else "people"

    @property
    def full(self) -> SetRisk:
        """The risk by all quasi-identifiers together."""
        return max(self.sets, key=lambda risk: len(risk.columns))

    @property
    def left_out(self) -> str | None:
        """What was not examined because there are too many sets, in words; None if nothing was."""
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
    """Inspect a table whose columns have these roles, and whose rows may belong to a `person`.

    It may be drawn from a `population`, counted over its quasi-identifiers.
    """
    quasi = [guess.column.name for guess in guesses if guess.column.role is Role.QUASI]
    if person in quasi or not quasi:
        person = None  # whoever knows a person's name looks for rows
    names = quasi if person is None else [*quasi, person]
    largest = largest_within(len(quasi))
    rows = int(class_sizes(engine, table, ()).rows.sum())
    # Rows of nobody are measured part by part where they are many; all else is held, if it fits.
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
    """The combinations of some columns if they fit; not even tried where as many as rows do not."""
    most = most_combinations(len(names))
    if rows > most:
        return None
    try:
        return count(engine, table, names, most=most)
    except TooManyCombinationsError:
        return None


def largest_within(width: int) -> int:
    """The largest size up to `LARGEST` for which all sets of up to that size can be examined."""
    largest, sets = 1, width
    while largest < LARGEST and sets + comb(width, largest + 1) <= MOST_SETS:
        largest += 1
        sets += comb(width, largest)
    return largest
