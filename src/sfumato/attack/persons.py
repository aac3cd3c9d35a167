"""Several rows a person: findings are about people where a column says whose rows they are.

The schema's privacy unit names that column. A person is hit where any row of theirs is: whoever is
found by one visit of five is found. Guesses about rows are taken to be independent of each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.finding import Rate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.attack.case import Case, HeldTable
    from sfumato.counting.frequencies import Frequencies

    Ints = NDArray[np.int64]
    Reals = NDArray[np.float64]

ROWS_COUNTED = "Rows are counted, not people: a person has several."
"""Said by attacks that do not bring a person's rows together."""


def person_in(case: Case, table: HeldTable) -> list[str]:
    """The column that says whose a row is, where there is one in a table; else nothing."""
    column = case.schema.unit.column
    return [column] if column is not None and column in table.names else []


def persons(table: Frequencies, column: list[str]) -> Ints:
    """The person of each combination, numbered; without a column each of its rows is one."""
    if not column:
        return np.arange(len(table))
    codes = table.codes[table.columns.index(column[0])]
    found: Ints = np.unique(codes, return_inverse=True)[1]
    return found


def any_row(person: Ints, chance: Reals, rows: Reals) -> Reals:
    """The chance of each person that a guess about any of so many rows of theirs is right."""
    with np.errstate(divide="ignore"):
        missed = np.log1p(-np.clip(chance, 0.0, 1.0))
    some = rows > 0
    found: Reals = 1 - np.exp(
        np.bincount(person[some], missed[some] * rows[some], int(person.max(initial=-1)) + 1)
    )
    return found


def rate(table: Frequencies, column: list[str], chance: Reals, rows: Reals) -> Rate:
    """The share of people who are hit, of those who have rows; without a column, that of rows."""
    if not column:
        return Rate.share(float((chance * rows).sum()), float(rows.sum()))
    person = persons(table, column)
    tried = np.bincount(person, rows) > 0
    return Rate.share(float(any_row(person, chance, rows)[tried].sum()), float(tried.sum()))
