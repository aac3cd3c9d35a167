"""Linking with rows that are nobody's: those of a synthetic table, or of one that was changed.

No row of such a table is a person's, so that a row which looks like a person's proves nothing:
rows of people who are common are made up without knowing any of them. A person counts as found as
far as the picked row carries their whole record, with what is not known of them, *more often* than
it would if they were not in the data: than that of people who are not (`control`), and else than
in the other rows of the original, which are a fresh sample as far as this person goes (each person
is left out in turn). Where m released rows fit what is known of a person and s of them carry the
rest too, a pick does with chance s / m.

Decision 0296.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import needed
from sfumato.attack.classes import boxes, boxes_of
from sfumato.attack.finding import Finding, Rate, percent
from sfumato.attack.matching import fitting
from sfumato.attack.named_list import alike, crowds, examples, in_original, naming, same_keys
from sfumato.attack.persons import counted_people, person_in, rate
from sfumato.data.schema.column import Role
from sfumato.errors import CallerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.attack.case import Case, HeldTable
    from sfumato.attack.classes import Boxes
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column


def fitting_nobody(case: Case) -> float:
    """The share of released rows that are more than there are people of the original who fit."""
    quasi = [] if case.original is None else case.quasi(case.original)
    if case.original is None or not quasi or case.release.buckets is not None:
        return 0.0
    people = case.original.counted([one.name for one in quasi])
    try:
        found = boxes(case.release, quasi, [people])
    except CallerError:  # whoever reads the labels says what is wrong with them
        return 0.0
    return float(np.maximum(found.sizes - crowds(found, people), 0).sum()) / max(found.rows, 1)


def linked(case: Case, attack: str, quasi: Sequence[Column]) -> Finding:
    """Look people up, and take off what would be found of people who are not there."""
    original = needed(
        case.original, attack, "the original, since its rows are nobody's", "original"
    )
    names, rest = [one.name for one in quasi], _rest(case, original)
    named, unit = naming(case, case.known or original), person_in(case, original)
    people = original.counted([*dict.fromkeys([*names, *rest, *named, *unit])])
    others = _strangers(case, [*names, *rest])
    table = case.release.table.counted([*names, *rest])
    found = boxes_of(table, quasi, [people, *([] if others is None else [others])])
    on_list = in_original(people, names, named, replace(case, original=case.known, known=original))
    weight = on_list * people.counts
    mine = Picks.of(found, table, people, rest)
    if others is None:
        who, fresh = "a fresh sample of the same people", left_out(people, names, rest, found.rows)
        chance, alone = rate(people, unit, fresh.right, weight), fresh.certain(weight)
    else:
        who, fresh = "people not in the data", Picks.of(found, table, others, rest)
        everyone = others.counts.astype(np.float64)
        chance = rate(others, [], fresh.right, everyone)
        alone = fresh.certain(everyone) * weight.sum() / max(others.total, 1)
    success = rate(people, unit, mine.right, weight)
    beyond = success.less(chance)
    shown = np.flatnonzero(mine.alone & (mine.right > 0) & (weight > 0) & (beyond.low > 0))
    told = (
        f"Looked up by {', '.join(names)}. Rows of this table are nobody's: a picked row carries "
        f"the whole record of {percent(success.value)} of people, and would of "
        f"{percent(chance.value)} of {who}; found is what goes beyond."
    )
    return Finding(
        attack=attack,
        attacker=f"has a list of people with {', '.join(names)}, and looks each of them up",
        meaning="People whose released row is found",
        success=beyond,
        baseline=Rate.share(success.tried / max(found.rows, 1), success.tried),
        victims=max(0, round(mine.certain(weight) - alone)) if beyond.low else 0,
        examples=examples(people, named or names, shown),
        remarks=[told, *counted_people(unit, "one is found if any row of theirs is")],
        rows=people.total + found.rows,
        reference="Sweeney 2002",
    )


def _strangers(case: Case, names: Sequence[str]) -> Frequencies | None:
    """People who are not in the data, where they are given with these columns."""
    control = case.control
    return None if control is None or not {*names} <= control.names else control.counted(names)


def _rest(case: Case, original: HeldTable) -> list[str]:
    """The columns that are not known of people, and that a row tells of them."""
    return [
        column.name
        for column in case.schema.columns
        if column.role in (Role.SENSITIVE, Role.OTHER)
        and column.name in case.release.table.names & original.names
        and column.name != case.schema.unit.column
    ]


@dataclass(frozen=True, eq=False)
class Picks:
    """The chance of each person that a pick is right, and whether it is the only row."""

    right: FloatArray
    alone: BoolArray

    def certain(self, weight: FloatArray) -> float:
        """How many people are right about their only row."""
        return float((self.right * self.alone * weight).sum())

    @classmethod
    def of(
        cls, found: Boxes, table: Frequencies, people: Frequencies, rest: Sequence[str]
    ) -> Picks:
        """Pick for each person among the rows that fit."""
        own, held = same_keys(people, table, rest)
        rows, carry = np.zeros(len(people)), np.zeros(len(people))
        for mine, theirs in fitting(found.locate(people), found):
            rows += np.bincount(mine, found.sizes[theirs], len(people))
            same = own[mine] == held[theirs]
            carry += np.bincount(mine[same], found.sizes[theirs[same]], len(people))
        right = np.divide(carry, rows, out=np.zeros(len(rows)), where=rows > 0)
        return cls(right, rows == 1)


def left_out(
    people: Frequencies, names: Sequence[str], rest: Sequence[str], released: int
) -> Picks:
    """The same if the other rows of the original were released: each is left out in turn.

    Of a release with fewer rows as many of them are supposed to be there as would be by chance.
    """
    known, whole = (alike(people, columns) for columns in (names, [*names, *rest]))
    right = (whole - 1) / np.maximum(known - 1, 1)
    there = min(1.0, released / max(people.total, 1))
    return Picks(right * there, known == 2)
