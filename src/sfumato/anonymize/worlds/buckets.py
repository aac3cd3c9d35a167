"""Bucketized tables: rows without their sensitive values, and the values of each group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.worlds.bounds import SelectableRows
from sfumato.anonymize.worlds.question import conjunction, parse
from sfumato.anonymize.worlds.selection import ReleasedTable
from sfumato.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.worlds.bounds import AnswerBounds
    from sfumato.anonymize.worlds.question import Formula
    from sfumato.anonymize.worlds.selection import Selected
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.schema import Schema


def answer_buckets(
    sql: str, rows: Frequencies, values: Frequencies, schema: Schema, *, group: str = "group"
) -> AnswerBounds:
    """Answer a question on a bucketized release.

    `rows` is counted over the quasi-identifiers and the group, `values` over the group and the
    sensitive columns. If a question selects a of the n rows of a group and b of its values, between
    a + b - n and min(a, b) rows satisfy both conditions.
    """
    question = parse(sql, schema)
    mine: list[list[Formula]] = [[], []]
    for condition in question.conjuncts:
        mine[_side(condition.columns, rows, values)].append(condition)
    measured = _side([question.measure], rows, values) if question.measure else 1
    sides = [
        _Side(
            table,
            schema,
            conjunction(conditions),
            question.measure if at == measured else None,
            group,
        )
        for at, (table, conditions) in enumerate(zip((rows, values), mine, strict=True))
    ]
    names = sorted({*sides[0].names, *sides[1].names}, key=str)
    (sure, may, chance), (other_sure, other_may, other_chance) = (s.totals(names) for s in sides)
    sizes = sides[0].sizes(names)
    # Frechet bounds: of n rows, a and b chosen ones overlap in at least a + b - n.
    least = np.maximum(0, sure + other_sure - sizes)
    most = np.minimum(may, other_may)
    met = (chance if measured else other_chance) / np.maximum(sizes, 1)
    return sides[measured].choice(names, least, most, met).answer(question.aggregate)


def _side(columns: Sequence[str], rows: Frequencies, values: Frequencies) -> int:
    """Return 0 if columns are in the rows, 1 if they are in the values."""
    for side, table in enumerate((rows, values)):
        if all(column in table.columns for column in columns):
            return side
    raise QueryError(
        "question_not_supported",
        "A condition names quasi-identifiers and sensitive columns at once, but a bucketized "
        "release keeps them in two tables. Join conditions of the two kinds only by AND.",
    )


class _Side:
    """One of the two tables, with the conditions on its columns."""

    def __init__(
        self, table: Frequencies, schema: Schema, where: Formula, measure: str | None, group: str
    ) -> None:
        released = ReleasedTable.of(table, schema, where, measure)
        self._counts = released.counts
        self._selected: Selected = released.select(where)[1]
        index = table.columns.index(group)
        present, self._numbers = np.unique(table.codes[index], return_inverse=True)
        self.names: list[object] = table.axes[index].decode(present).to_pylist()

    def _groups(self, names: Sequence[object]) -> IntArray:
        numbers = {name: number for number, name in enumerate(names)}
        return np.array([numbers[name] for name in self.names], dtype=np.int64)[self._numbers]

    def sizes(self, names: Sequence[object]) -> IntArray:
        """Return how many rows each group has."""
        return np.bincount(self._groups(names), self._counts, len(names)).astype(np.int64)

    def totals(self, names: Sequence[object]) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the selected rows of each group: at least, at most and in expectation."""
        groups, chosen = self._groups(names), self._selected
        sure, may = (
            np.bincount(groups, self._counts * selected, len(names)).astype(np.int64)
            for selected in (chosen.certain, chosen.possible)
        )
        chance = np.bincount(groups, self._counts * chosen.chance, len(names)).astype(np.float64)
        return sure, may, chance

    def choice(
        self, names: Sequence[object], least: IntArray, most: IntArray, met: FloatArray
    ) -> SelectableRows:
        """Return the selected entries, and how many of each group may satisfy both conditions."""
        may = np.flatnonzero(self._selected.possible)
        groups, chosen = self._groups(names)[may], self._selected
        return SelectableRows(
            groups,
            self._counts[may],
            chosen.low[may],
            chosen.high[may],
            chosen.middle[may],
            chosen.chance[may] * met[groups],
            least,
            most,
        )
