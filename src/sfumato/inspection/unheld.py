"""Who is unique where not all combinations fit in memory: what does not is measured in the engine.

Decision 0248.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

from sfumato.counting.frequencies import Frequencies, count
from sfumato.counting.room import (
    TooManyCombinationsError,
    class_sizes,
    most_combinations,
    smallest_crowds,
)
from sfumato.counting.room import combinations as count_combinations
from sfumato.inspection.reidentification import Reidentification, attacker
from sfumato.inspection.uniqueness import SMALL, SetRisk, most_telling_first, set_risk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlglot import exp

    from sfumato.counting.room import SizeCounts
    from sfumato.engines.base import Engine


class UnheldTable:
    """A table of which some sets of columns have too many combinations."""

    def __init__(
        self, engine: Engine, table: exp.Table, quasi: Sequence[str], person: str | None
    ) -> None:
        self._engine, self._table, self._person = engine, table, person
        self._quasi = tuple(quasi)
        # The larger sets are counted first, and smaller ones rolled up from what fits of them.
        self._held: list[Frequencies] = []

    def _sizes(self, columns: Sequence[str]) -> SizeCounts:
        """How many rows, or people, have which number of them in their groups."""
        if self._person is None:
            return class_sizes(self._engine, self._table, columns)
        return smallest_crowds(self._engine, self._table, columns, self._person)

    def reidentification(self) -> Reidentification:
        """The risk by all quasi-identifiers, of whoever knows that the target is there."""
        found = self._sizes(self._quasi)
        rows = found.rows if self._person is None else found.classes
        prosecutor = attacker(rows, found.sizes)
        return Reidentification(prosecutor, prosecutor, prosecutor)

    def rows(self) -> int:
        """How many rows there are."""
        return int(class_sizes(self._engine, self._table, ()).rows.sum())

    def uniqueness(
        self, largest: int, progress: Callable[[int, int], None] | None
    ) -> list[SetRisk]:
        """Measure every set of up to `largest` columns and the full set, most telling first."""
        width = len(self._quasi)
        sizes = range(min(largest, width), 0, -1)
        expected, found = sum(comb(width, size) for size in sizes), {}
        found[self._quasi] = self._measured(self._quasi)
        for size in sizes:
            held: list[Frequencies] = []
            for columns in combinations(self._quasi, size):
                found[columns] = self._risk(columns, held)
                if progress is not None:
                    progress(len(found) - 1, expected)
            self._held = held
        return most_telling_first(found.values())

    def _risk(self, columns: tuple[str, ...], held: list[Frequencies]) -> SetRisk:
        """Measure a set from what is held, by counting it here, or in the engine."""
        if self._person is not None:
            return self._measured(columns)
        parents = [one for one in self._held if set(one.columns).issuperset(columns)]
        room = most_combinations(len(columns)) - sum(map(len, held))
        try:
            if parents:
                table = min(parents, key=len).marginal(columns)
            else:
                table = count(self._engine, self._table, columns, most=max(room, 0))
        except TooManyCombinationsError:
            return self._measured(columns)
        if len(table) <= room:
            held.append(table)
        return set_risk(columns, table.counts)

    def _measured(self, columns: tuple[str, ...]) -> SetRisk:
        """Measure a set in the engine."""
        of = self._sizes(columns)
        by_rows = self._person is None
        many = of.rows if by_rows else of.classes
        groups = len(of) if by_rows else count_combinations(self._engine, self._table, columns)
        return SetRisk(
            columns,
            int(many.sum()),
            groups,
            int(many[of.sizes == 1].sum()),
            int(many[of.sizes < SMALL].sum()),
        )
