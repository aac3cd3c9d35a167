"""Linking: whoever has a named list with quasi-identifiers looks people up in a release.

*Attacker*: has a list of people with exact values, and picks at random among the released rows
that each of them fits.
*Success*: a person i fits m_i released rows. Of a class of s rows that G people fit, each of these
is in it with chance s / max(G, s), where the G people are those of the original, or of the list
where the original is not given; a pick is right with the sum of these chances over the classes that
i fits, at most 1, divided by m_i. Tried are all people of the list or, with the original, those of
them who are in it: by a column that names people where both have one, else by their values.
*Baseline*: a pick among all released rows.
*Victims*: people who fit one released row alone, which is theirs.
*Reference*: Sweeney, k-Anonymity: a model for protecting privacy, 2002.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attack.case import cannot_run, needed_quasi
from sfumato.attack.classes import boxes
from sfumato.attack.finding import MOST_EXAMPLES, Finding, Rate, plain
from sfumato.attack.matching import fitting
from sfumato.counting.grouping import keys
from sfumato.schema.column import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.attack.case import Case, HeldTable
    from sfumato.attack.classes import Boxes
    from sfumato.counting.frequencies import Frequencies

    Ints = NDArray[np.int64]
    Reals = NDArray[np.float64]

NAME = "link"


def run(case: Case) -> Finding:
    """Look every person of the list up in the release."""
    held = case.known or case.original
    if held is None:
        raise cannot_run(
            NAME, "it needs a list of people. Give one with --known FILE, or --original FILE."
        )
    quasi = needed_quasi(case, NAME, held, *_also(case.original))
    names = [column.name for column in quasi]
    person = naming(case, held)
    people = held.counted([*names, *person])
    real = None if case.original is None else case.original.counted(names)
    found = boxes(case.release, quasi, [people, *([real] if real is not None else [])])
    rows, chance, crowd = candidates(found, people, real)
    present = in_original(people, names, person, case)
    right = present * np.divide(chance, rows, out=np.zeros(len(rows)), where=rows > 0)
    tried = float((present * people.counts).sum())
    alone = (rows == 1) & (right > 0)
    told = [f"Looked up by {', '.join(names)}."]
    if not len(crowd):
        told.append("Nobody of the list fits a released row.")
    return Finding(
        attack=NAME,
        attacker=f"has a list of people with {', '.join(names)}, and looks each of them up",
        meaning="People whose released row is found",
        success=Rate.share(float((right * people.counts).sum()), tried),
        baseline=Rate.share(tried / max(found.rows, 1), tried),
        victims=round(float((right * people.counts)[alone].sum())),
        examples=examples(people, person or names, np.flatnonzero(alone)),
        remarks=told,
        rows=people.total + found.rows,
        reference="Sweeney 2002",
    )


def _also(table: HeldTable | None) -> list[HeldTable]:
    return [] if table is None else [table]


def naming(case: Case, held: HeldTable) -> list[str]:
    """The column that names people in both the list and the original, or at least in the list."""
    for column in case.schema.by_role(Role.IDENTIFIER):
        if column.name in held.names and (
            case.original is None or column.name in case.original.names
        ):
            return [column.name]
    return []


def candidates(
    found: Boxes, people: Frequencies, real: Frequencies | None
) -> tuple[Ints, Reals, Ints]:
    """For each person: rows that fit, and the chance to be in the classes of these at all.

    And for each class how many people fit it, of the original or else of the list.
    """
    points, crowd = found.locate(people), crowds(found, people if real is None else real)
    share = found.sizes / np.maximum(crowd, found.sizes)
    rows, chance = np.zeros(len(people)), np.zeros(len(people))
    for mine, theirs in fitting(points, found):  # pairs may be too many to be kept
        rows += np.bincount(mine, found.sizes[theirs], len(people))
        chance += np.bincount(mine, share[theirs], len(people))
    return rows.astype(np.int64), np.minimum(chance, 1.0), crowd[crowd > 0].astype(np.int64)


def crowds(found: Boxes, people: Frequencies) -> Reals:
    """How many people fit each class."""
    crowd: Reals = np.zeros(len(found))
    for mine, theirs in fitting(found.locate(people), found):
        crowd += np.bincount(theirs, people.counts[mine], len(found))
    return crowd


def in_original(
    people: Frequencies, names: Sequence[str], person: Sequence[str], case: Case
) -> Reals:
    """The chance of each person of a list to be in the original; 1 where it is not given."""
    if case.original is None or case.known is None:
        return np.ones(len(people))
    if person:
        there = case.original.counted(person)
        values = people.axis(person[0]).decode(np.arange(people.axis(person[0]).size))
        known = pc.is_in(values, value_set=there.axis(person[0]).decode(there.codes[0]))
        codes = people.codes[people.columns.index(person[0])]
        present: Reals = np.asarray(known, dtype=np.float64)[codes]
        return present
    real = case.original.counted(names)
    mine, theirs = same_keys(people.marginal(names), real, names)
    order = np.argsort(theirs)
    places = np.searchsorted(theirs[order], mine).clip(max=len(order) - 1)
    found = np.where(theirs[order][places] == mine, real.counts[order][places], 0)
    shares: Reals = np.minimum(found / people.marginal(names).counts, 1.0)
    return shares


def same_keys(one: Frequencies, other: Frequencies, names: Sequence[str]) -> tuple[Ints, Ints]:
    """Numbers for the combinations of two tables, equal where the values are."""
    codes, sizes = [], []
    for name in names:
        mine, theirs = one.axis(name), other.axis(name)
        values = [axis.decode(np.arange(axis.size)) for axis in (mine, theirs)]
        every = pa.concat_arrays(values).dictionary_encode(null_encoding="encode").indices
        number = every.to_numpy(zero_copy_only=False).astype(np.int64)
        codes.append(
            np.concatenate(
                [
                    number[: mine.size][one.codes[one.columns.index(name)]],
                    number[mine.size :][other.codes[other.columns.index(name)]],
                ]
            )
        )
        sizes.append(int(number.max(initial=0)) + 1)
    key, _ = keys(codes, sizes)
    return key[: len(one)], key[len(one) :]


def examples(people: Frequencies, names: Sequence[str], places: Ints) -> list[dict[str, Any]]:
    """Some people by name, for the owner."""
    shown = places[:MOST_EXAMPLES]
    values = [
        people.axis(name).decode(people.codes[people.columns.index(name)][shown]).to_pylist()
        for name in names
    ]
    return [
        {name: plain(one) for name, one in zip(names, row, strict=True)}
        for row in zip(*values, strict=True)
    ]
