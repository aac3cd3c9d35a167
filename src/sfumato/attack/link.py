"""Linking: an attacker with a named list looks people up in a release by quasi-identifiers.

*Attacker*: has a list of people with exact values, and picks at random among the released rows that
each of them fits.
*Success*: person i fits m_i released rows. If a class has s rows and G people fit it, each of them
is in it with chance s / max(G, s); the G people are those of the original, or of the list without
one. A pick is right with the sum of these chances over the classes that i fits, at most 1, divided
by m_i. All people of the list are tried; with an original only those who are in it, matched by a
column that names people or else by their values. Where the schema says whose rows are, people are
counted, and a person is found if any row of theirs is.
*Baseline*: a pick among all released rows.
*Victims*: people who fit exactly one released row, which is theirs.

*Synthetic tables*: rows of a synthetic table are nobody's. A row that looks like a person's proves
nothing, because rows of common people arise without knowing any of them. A person counts as found
as far as the picked row carries their whole record *more often* than it would without them in the
data. The comparison is with people who are not in the data (`control`), or else with the other rows
of the original: they are a fresh sample as far as this person goes, and each person is left out in
turn. If m released rows fit what is known and s of them carry the rest, a pick is right with chance
s / m. Decision `matching`. Rows count as people's unless the side-car or the owner says that a
table is synthetic; a remark says how many rows fit nobody in the original (dummies, typing errors).
*Reference*: Sweeney, k-Anonymity: a model for protecting privacy, 2002.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import cannot_run, needed, needed_quasi
from sfumato.attack.classes import boxes, boxes_of
from sfumato.attack.finding import Finding, Rate, percent
from sfumato.attack.matching import (
    alike,
    candidates,
    crowds,
    examples,
    fitting,
    in_original,
    naming,
    same_keys,
)
from sfumato.attack.person_counts import counted_people, person_in, persons, rate
from sfumato.data.schema.column import Role
from sfumato.errors import CallerError, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.attack.case import Case, HeldTable
    from sfumato.attack.classes import Boxes
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column


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
    quasi = needed_quasi(case, NAME, held, *filter(None, [case.original]))
    if case.is_synthetic:
        return linked(case, NAME, quasi)
    names = [column.name for column in quasi]
    named, unit = naming(case, held), person_in(case, held)
    people = held.counted([*dict.fromkeys([*names, *named, *unit])])
    real = None if case.original is None else case.original.counted(names)
    released = boxes(case.release, quasi, [people, *([real] if real is not None else [])])
    rows, chance, crowd = candidates(released, people, real)
    present = in_original(people, names, named, case)
    # A pick among m fitting rows finds the right row with its chance to be there, divided by m.
    right = np.divide(chance, rows, out=np.zeros(len(rows)), where=rows > 0)
    weight = present * people.counts
    success = rate(people, unit, right, weight)
    # One fitting row, which is the person's with a chance above 0.
    alone = (rows == 1) & (right > 0) & (weight > 0)
    remarks = [f"Looked up by {', '.join(names)}."]
    if not crowd.any():
        remarks.append("Nobody of the list fits a released row.")
    if case.unmatched_share:
        remarks.append(
            f"{percent(case.unmatched_share)} of the released rows fit nobody in the original, and "
            "all are taken as people's; of a synthetic table say so with "
            '"synthetic".'
        )
    remarks += counted_people(unit, "a person is found if any of their rows is")
    guess = np.full(len(people), 1 / max(released.rows, 1))
    return Finding(
        attack=NAME,
        attacker=f"has a list of people with {', '.join(names)}, and looks each of them up",
        meaning="People whose released row is found",
        success=success,
        baseline=rate(people, unit, guess, weight),
        victims=_victims(people, unit, alone, right * weight),
        examples=examples(people, named or names, np.flatnonzero(alone)),
        remarks=remarks,
        rows=people.total + released.rows,
        reference="Sweeney 2002",
    )


def _victims(
    people: Frequencies,
    unit: list[str],
    alone: BoolArray,
    matched: FloatArray,
) -> int:
    """Count people whose only fitting row is theirs; rows if no column identifies people."""
    if not unit:
        return round(float(matched[alone].sum()))
    return len(np.unique(persons(people, unit)[alone]))


def unmatched_share(case: Case) -> float:
    """Return the share of released rows that fit nobody in the original.

    These are the rows of a class beyond the number of people who fit it.
    """
    quasi = [] if case.original is None else case.quasi(case.original)
    if case.original is None or not quasi or case.release.buckets is not None:
        return 0.0
    people = case.original.counted([column.name for column in quasi])
    try:
        released = boxes(case.release, quasi, [people])
    except CallerError:  # the attack itself reads the labels and reports what is wrong
        return 0.0
    return float(np.maximum(released.sizes - crowds(released, people), 0).sum()) / max(
        released.rows, 1
    )


def linked(case: Case, attack: str, quasi: Sequence[Column]) -> Finding:
    """Look people up in a synthetic table, and subtract what is found of people not in the data."""
    original = needed(
        case.original, attack, "the original, because the table is synthetic", "original"
    )
    names, other_names = [column.name for column in quasi], _other_columns(case, original)
    named, unit = naming(case, case.known or original), person_in(case, original)
    people = original.counted([*dict.fromkeys([*names, *other_names, *named, *unit])])
    strangers = _strangers(case, [*names, *other_names])
    table = case.release.table.counted([*names, *other_names])
    released = boxes_of(table, quasi, [people, *([] if strangers is None else [strangers])])
    # With a list only its people are looked up: original and list change roles.
    on_list = in_original(people, names, named, replace(case, original=case.known, known=original))
    weight = on_list * people.counts
    mine = Picks.of(released, table, people, other_names)
    if strangers is None:
        compared_with, fresh = (
            "a fresh sample of the same people",
            left_out(people, names, other_names, released.rows),
        )
        chance, alone = rate(people, unit, fresh.right, weight), fresh.certain(weight)
    else:
        compared_with, fresh = (
            "people not in the data",
            Picks.of(released, table, strangers, other_names),
        )
        everyone = strangers.counts.astype(np.float64)
        chance = rate(strangers, [], fresh.right, everyone)
        alone = fresh.certain(everyone) * weight.sum() / max(strangers.total, 1)
    success = rate(people, unit, mine.right, weight)
    # Common records are carried by chance; only the excess over the comparison group is a leak.
    beyond = success.minus(chance)
    shown = np.flatnonzero(mine.alone & (mine.right > 0) & (weight > 0) & (beyond.low > 0))
    remark = (
        f"Looked up by {', '.join(names)}. Rows of this table are synthetic: a picked row equals "
        f"the whole record of {percent(success.value)} of people, and of {percent(chance.value)} "
        f"of {compared_with}; only the excess counts as found."
    )
    return Finding(
        attack=attack,
        attacker=f"has a list of people with {', '.join(names)}, and looks each of them up",
        meaning="People whose released row is found",
        success=beyond,
        baseline=Rate.share(success.tried / max(released.rows, 1), success.tried),
        victims=max(0, round(mine.certain(weight) - alone)) if beyond.low else 0,
        examples=examples(people, named or names, shown),
        remarks=[remark, *counted_people(unit, "a person is found if any of their rows is")],
        rows=people.total + released.rows,
        reference="Sweeney 2002",
    )


def _strangers(case: Case, names: Sequence[str]) -> Frequencies | None:
    """Return the control group, if it has these columns."""
    control = case.control
    return None if control is None or not {*names} <= control.names else control.counted(names)


def _other_columns(case: Case, original: HeldTable) -> list[str]:
    """Return the columns that the attacker does not know and reads from the found row."""
    return [
        column.name
        for column in case.schema.columns
        if column.role in (Role.SENSITIVE, Role.OTHER)
        and column.name in case.release.table.names & original.names
        and column.name != case.schema.unit.column
    ]


@dataclass(frozen=True, eq=False)
class Picks:
    """For each person the chance that a pick is right, and whether only one row fits."""

    right: FloatArray
    alone: BoolArray

    def certain(self, weight: FloatArray) -> float:
        """Return the expected number of people whose only fitting row carries their record."""
        return float((self.right * self.alone * weight).sum())

    @classmethod
    def of(
        cls, released: Boxes, table: Frequencies, people: Frequencies, other_names: Sequence[str]
    ) -> Picks:
        """Pick one of the fitting rows for each person."""
        own, held = same_keys(people, table, other_names)
        rows, carry = np.zeros(len(people)), np.zeros(len(people))
        for mine, theirs in fitting(released.locate(people), released):
            rows += np.bincount(mine, released.sizes[theirs], len(people))
            carries = own[mine] == held[theirs]
            carry += np.bincount(mine[carries], released.sizes[theirs[carries]], len(people))
        right = np.divide(carry, rows, out=np.zeros(len(rows)), where=rows > 0)
        return cls(right, rows == 1)


def left_out(
    people: Frequencies, names: Sequence[str], other_names: Sequence[str], released: int
) -> Picks:
    """Return the picks if the other rows of the original were released, leaving each person out.

    A release with fewer rows contains each of them with the chance rows / people.
    """
    # The other rows are a fresh sample as far as this person goes: the person adds nothing to them.
    known, alike_in_all = (alike(people, columns) for columns in (names, [*names, *other_names]))
    right = (alike_in_all - 1) / np.maximum(known - 1, 1)
    released_share = min(1.0, released / max(people.total, 1))
    # `known` counts the person too: with one other fitting row that row would be the only pick.
    return Picks(right * released_share, known == 2)
