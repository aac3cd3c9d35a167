"""Linking: whoever has a named list with quasi-identifiers looks people up in a release.

*Attacker*: has a list of people with exact values, and picks at random among the released rows
that each of them fits.
*Success*: a person i fits m_i released rows. Of a class of s rows that G people fit, each of these
is in it with chance s / max(G, s), where the G people are those of the original, or of the list
where the original is not given; a pick is right with the sum of these chances over the classes that
i fits, at most 1, divided by m_i. Tried are all people of the list or, with the original, those of
them who are in it: by a column that names people where both have one, else by their values.
Where the schema says whose rows are, people are counted: one is found if any row of theirs is.
*Baseline*: a pick among all released rows.
*Victims*: people who fit one released row alone, which is theirs.
Rows are taken as people's, also where some fit nobody in the original (dummies, typing errors):
remarks tell how many. Only where the side-car or the owner says that a table is synthetic are its
rows nobody's; what is found of people in one, `made_up` says.
*Reference*: Sweeney, k-Anonymity: a model for protecting privacy, 2002.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import cannot_run, needed_quasi
from sfumato.attack.classes import boxes
from sfumato.attack.finding import Finding, percent
from sfumato.attack.named_list import candidates, examples, in_original, naming
from sfumato.attack.persons import counted_people, person_in, persons, rate
from sfumato.attack.synthetic_link import linked
from sfumato.errors import option

if TYPE_CHECKING:
    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.attack.case import Case, HeldTable
    from sfumato.data.counting.frequencies import Frequencies

NAME = "link"


def run(case: Case) -> Finding:
    """Look every person of the list up in the release."""
    held = case.known or case.original
    if held is None:
        raise cannot_run(
            NAME,
            f"it needs a list of people. Give one with {option('known', metavar='FILE')}, or "
            f"{option('original', metavar='FILE')}.",
        )
    quasi = needed_quasi(case, NAME, held, *_also(case.original))
    if case.rows_are_nobodys:
        return linked(case, NAME, quasi)
    names = [column.name for column in quasi]
    named, unit = naming(case, held), person_in(case, held)
    people = held.counted([*dict.fromkeys([*names, *named, *unit])])
    real = None if case.original is None else case.original.counted(names)
    found = boxes(case.release, quasi, [people, *([real] if real is not None else [])])
    rows, chance, crowd = candidates(found, people, real)
    present = in_original(people, names, named, case)
    right = np.divide(chance, rows, out=np.zeros(len(rows)), where=rows > 0)
    weight = present * people.counts
    success = rate(people, unit, right, weight)
    alone = (rows == 1) & (right > 0) & (weight > 0)
    told = [f"Looked up by {', '.join(names)}."]
    if not crowd.any():
        told.append("Nobody of the list fits a released row.")
    if case.fitting_nobody:
        told.append(
            f"{percent(case.fitting_nobody)} of the released rows fit nobody in the original, and "
            "all are taken as people's; of a synthetic table say so with "
            '"synthetic".'
        )
    told += counted_people(unit, "one is found if any row of theirs is")
    guess = np.full(len(people), 1 / max(found.rows, 1))
    return Finding(
        attack=NAME,
        attacker=f"has a list of people with {', '.join(names)}, and looks each of them up",
        meaning="People whose released row is found",
        success=success,
        baseline=rate(people, unit, guess, weight),
        victims=_victims(people, unit, alone, right * weight),
        examples=examples(people, named or names, np.flatnonzero(alone)),
        remarks=told,
        rows=people.total + found.rows,
        reference="Sweeney 2002",
    )


def _victims(
    people: Frequencies,
    unit: list[str],
    alone: BoolArray,
    found: FloatArray,
) -> int:
    """People with a row that is the only one and theirs; rows where people are not told apart."""
    if not unit:
        return round(float(found[alone].sum()))
    return len(np.unique(persons(people, unit)[alone]))


def _also(table: HeldTable | None) -> list[HeldTable]:
    return [] if table is None else [table]
