"""Similarity: different values may mean the same, so a class of them reveals what they share.

*Attacker*: knows what values mean (by the hierarchy of the sensitive column, or because close
numbers are alike), and a person's class.
*Success*: the share of people in classes whose values all lie under one label of the hierarchy
below the root. For numbers and dates: within the share `near` of the column's range, and also of
all people in order, because a few huge numbers do not make all others alike.
*Baseline*: the same after the values are dealt out to the classes at random.
*Victims*: those people.
*Reference*: Li, Li and Venkatasubramanian, t-Closeness, 2007, section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.taxonomy import grow
from sfumato.attack.beliefs import believed
from sfumato.attack.case import cannot_run, needed_sensitive
from sfumato.data.schema.column import Kind

if TYPE_CHECKING:
    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.attack.beliefs import Hit
    from sfumato.attack.case import Case
    from sfumato.attack.classes import ClassValues
    from sfumato.attack.finding import Finding
    from sfumato.data.schema.column import Column

NAME = "similarity"
_ORDERED = (Kind.INTEGER, Kind.REAL, Kind.DATE)


def run(case: Case) -> Finding:
    """Look for classes whose values are alike."""
    columns = [
        column
        for column in needed_sensitive(case, NAME)
        if column.hierarchy is not None or column.kind in _ORDERED
    ]
    if not columns:
        raise cannot_run(
            NAME,
            "no sensitive column is a number or a date or has a hierarchy, so nothing says which "
            "values are alike. Declare a hierarchy of the sensitive column.",
        )
    return believed(
        case,
        NAME,
        lambda column, values: alike(column, values, case.options.near),
        columns=columns,
        attacker="knows what values mean, and which class a person is in",
        meaning=f"People of whose {case.options.sensitive or 'sensitive value'} much is certain",
        reference="Li et al. 2007",
    )


def alike(column: Column, values: ClassValues, near: float) -> Hit:
    """Return the rule that finds cells in classes with one label or a narrow range."""
    marks: list[tuple[FloatArray, float]] = []
    # Each mark has numbers for every value, and how far apart they may lie in a class.
    if column.hierarchy is not None:
        taxonomy = grow(column, values.names)
        leaves = taxonomy.locate(values.names)
        codes = taxonomy.codes[leaves].astype(np.float64)
        marks += [(codes[:, level : level + 1], 0.0) for level in range(1, taxonomy.height)]
    if column.kind in _ORDERED:
        marks.append((_positions(values), near))
    return lambda values_found: _within(values_found, marks)


def _positions(values: ClassValues) -> FloatArray:
    """Return the position of each value in the range, and its mean rank among all people."""
    days = [value.toordinal() if hasattr(value, "toordinal") else value for value in values.names]
    line = np.array([np.nan if day is None else float(day) for day in days])
    known = np.flatnonzero(~np.isnan(line))
    order = known[np.argsort(line[known], kind="stable")]
    people = values.totals[order]
    positions = np.full((len(line), 2), np.nan)  # what is missing has no place
    span = line[order[-1]] - line[order[0]] if len(order) else 0.0
    positions[order, 0] = (line[order] - line[order[:1]]) / (span or 1.0)
    # The mean rank of the people with a value, as a share of all people.
    positions[order, 1] = (np.cumsum(people) - people / 2) / max(people.sum(), 1)
    return positions


def _within(values: ClassValues, marks: list[tuple[FloatArray, float]]) -> BoolArray:
    classes = len(values.sizes)
    hit = np.zeros(classes, dtype=bool)
    for mark, width in marks:
        mine = mark[values.values]
        low = np.full((classes, mine.shape[1]), np.inf)
        high = -low
        np.minimum.at(low, values.owners, mine)
        np.maximum.at(high, values.owners, mine)
        hit |= (high - low <= width).all(axis=1)  # a missing number is near nothing
    cell_hits: BoolArray = hit[values.owners]
    return cell_hits
