"""Linkability: the release links two records of different lists to the same person.

*Attacker*: has two lists without names, with different columns of the same people, and finds the
released row that is nearest to each record. Two records with the same nearest row are taken for one
person.
*Success*: the share of people whose two records have the same nearest row. If several rows are
equally near, one is picked at random for each record, and the chance of the same pick counts.
*Baseline*: two released rows at random.
*Control*: the same for people who are not in the data.
*Reference*: Giomi, Boenisch, Wehmeyer and Tasnadi 2023, with one neighbour; WP216 2014.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import cannot_run, needed
from sfumato.attack.finding import Finding, Rate
from sfumato.attack.records import Crowd, records
from sfumato.data.schema.column import Role
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.attack.case import Case
    from sfumato.attack.records import CodedRows
    from sfumato.data.schema.column import Column

NAME = "linkability"


def run(case: Case) -> Finding:
    """Link two halves of each person's columns through the release."""
    original = needed(case.original, NAME, "the original, whose people are linked", "original")
    tables = [case.release.table, original, *([] if case.control is None else [case.control])]
    first, second = _lists(case, set.intersection(*(set(table.names) for table in tables)))
    traits, (released, *people) = records(NAME, [*first, *second], tables)
    halves = range(len(first)), range(len(first), len(traits))
    crowds = [Crowd.of(traits, half, released) for half in halves]
    rates = [
        linked(crowds, released, table, case.options.guesses, number)
        for number, table in enumerate(people)
    ]
    tried = rates[0].tried
    lists = [", ".join(column.name for column in half) for half in (first, second)]
    return Finding(
        attack=NAME,
        attacker=f"has one list with {lists[0]} and one with {lists[1]}, and the release",
        meaning="People whose records in two lists are linked",
        success=rates[0],
        baseline=Rate.share(tried / released.rows, tried),
        control=rates[1] if len(rates) > 1 else None,
        remarks=[f"{tried:,} people were tried by the nearest of {released.rows:,} released rows."],
        rows=sum(table.rows for table in (released, *people)),
        reference="Giomi et al. 2023",
    )


def _lists(case: Case, names: set[str]) -> tuple[list[Column], list[Column]]:
    """Return the columns of the first list, and those of the second: all others."""
    known = [
        column
        for column in case.schema.columns
        if column.name in names and column.role is not Role.IDENTIFIER
    ]
    if len(known) < 2:
        raise cannot_run(NAME, "two lists need two columns that all tables have.")
    asked = case.options.first
    for name in asked:
        if name not in names:
            raise cannot_run(
                NAME,
                f"the tables have no column {quoted(name)} for the first list; "
                + suggestion(name, sorted(names)),
            )
    # Every other column by default, so that both lists have columns of each kind.
    chosen = [column for column in known if column.name in asked] if asked else known[::2]
    second_list = [column for column in known if column not in chosen]
    if not second_list:
        raise cannot_run(
            NAME, f"no column is left for the second list. Name fewer in {option('first')}."
        )
    return chosen, second_list


def linked(
    crowds: Sequence[Crowd], released: CodedRows, people: CodedRows, most: int, number: int
) -> Rate:
    """Return the share of people whose two halves have the same nearest row."""
    drawn = people.codes[:, people.drawn(most, number)]
    cut, size = len(crowds[0].traits), drawn.shape[1]
    near = [
        crowd.nearest(half) for crowd, half in zip(crowds, (drawn[:cut], drawn[cut:]), strict=True)
    ]
    picked = [
        np.bincount(
            nearest.people,
            np.bincount(crowd.owners, released.counts, len(crowd))[nearest.crowd],
            size,
        )
        for nearest, crowd in zip(near, crowds, strict=True)
    ]
    # Rows that are nearest to both halves, divided by all pairs of picks: the chance of one row.
    second_crowd, wide = crowds[1], len(crowds[1])
    known, both = near[1].people * wide + near[1].crowd, np.zeros(size)
    for mine, rows in crowds[0].rows(near[0]):
        sought = mine * wide + second_crowd.owners[rows]
        positions = np.searchsorted(known, sought).clip(max=len(known) - 1)
        both += np.bincount(mine, released.counts[rows] * (known[positions] == sought), size)
    return Rate.share(float((both / (picked[0] * picked[1])).sum()), size)
