"""Count people instead of rows, if the schema's privacy unit names the column of the person.

A person is hit if any of their rows is hit. Guesses about different rows count as independent.
Attacks that guess person by person try one row of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import HeldTable
from sfumato.attack.finding import Rate
from sfumato.attack.sampling import shuffled
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.attack.case import Case


COUNTED = "Counted are people"
"""The beginning of the remark that rows of one person were combined."""


def person_in(case: Case, *tables: HeldTable) -> list[str]:
    """Return the column of the person, if all tables have it; otherwise an empty list.

    A quasi-identifier is never this column, because several people share its labels.
    """
    column = case.schema.unit.column
    if column is None or case.schema.column(column).role is Role.QUASI:
        return []
    return [column] if all(column in table.names for table in tables) else []


def counted_people(column: Sequence[str], means: str) -> list[str]:
    """Return the remark that people are counted, and when one is hit; nothing for rows."""
    return [f"{COUNTED}, by {column[0]}: {means}."] if column else []


def one_row_each(table: HeldTable, names: Sequence[str], column: Sequence[str]) -> HeldTable:
    """Return a table with one pseudorandom row of each person; all rows without a person column."""
    if not column:
        return table
    every = table.counted([*names, *column])
    order = shuffled(len(every), 4)
    # The first row of each person in a mixed order is a random one of theirs.
    first = order[np.unique(persons(every, column)[order], return_index=True)[1]]
    chosen = Frequencies(
        every.axes, tuple(codes[first] for codes in every.codes), np.ones(len(first), np.int64)
    )
    cached = {(*names, ""): chosen.marginal(names)}
    return HeldTable(table.engine, table.table, table.columns, cached)


def persons(table: Frequencies, column: Sequence[str]) -> IntArray:
    """Number the person of each combination; without a person column each combination is one."""
    if not column:
        return np.arange(len(table))
    codes = table.codes[table.columns.index(column[0])]
    numbers: IntArray = np.unique(codes, return_inverse=True)[1]
    return numbers


def count_people(table: Frequencies, column: Sequence[str]) -> int:
    """Count the people of a table; without a person column, its rows."""
    return int(persons(table, column).max(initial=-1)) + 1 if column else table.total


def any_row(person: IntArray, chance: FloatArray, rows: FloatArray) -> FloatArray:
    """Return for each person the chance that a guess is right about at least one of their rows."""
    with np.errstate(divide="ignore"):
        # A person with n rows is missed with the product of (1 - chance) over the rows.
        missed = np.log1p(-np.clip(chance, 0.0, 1.0))
    has_rows = rows > 0
    chances: FloatArray = 1 - np.exp(
        np.bincount(
            person[has_rows], missed[has_rows] * rows[has_rows], int(person.max(initial=-1)) + 1
        )
    )
    return chances


def rate(table: Frequencies, column: Sequence[str], chance: FloatArray, rows: FloatArray) -> Rate:
    """Return the share of people who are hit; without a person column, the share of rows."""
    if not column:
        return Rate.share(float((chance * rows).sum()), float(rows.sum()))
    person = persons(table, column)
    tried = np.bincount(person, rows) > 0
    return Rate.share(float(any_row(person, chance, rows)[tried].sum()), float(tried.sum()))
