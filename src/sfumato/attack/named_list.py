"""People of a list: what names them, which released rows they fit, who is in the original."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attack.finding import MOST_EXAMPLES, plain
from sfumato.attack.matching import fitting
from sfumato.data.counting.grouping import keys
from sfumato.data.schema.column import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.attack.case import Case, HeldTable
    from sfumato.attack.classes import Boxes
    from sfumato.data.counting.frequencies import Frequencies


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
) -> tuple[IntArray, FloatArray, FloatArray]:
    """For each person: rows that fit, and the chance to be in the classes of these at all.

    And for each class how many people fit it, of the original or else of the list.
    """
    points, crowd = found.locate(people), crowds(found, people if real is None else real)
    share = found.sizes / np.maximum(crowd, found.sizes)
    rows, chance = np.zeros(len(people)), np.zeros(len(people))
    for mine, theirs in fitting(points, found):  # pairs may be too many to be kept
        rows += np.bincount(mine, found.sizes[theirs], len(people))
        chance += np.bincount(mine, share[theirs], len(people))
    return rows.astype(np.int64), np.minimum(chance, 1.0), crowd


def crowds(found: Boxes, people: Frequencies, person: IntArray | None = None) -> FloatArray:
    """How many people fit each class: rows, or different people where it is said whose rows are."""
    crowd: FloatArray = np.zeros(len(found))
    pairs = [np.zeros(0, dtype=np.int64)]
    for mine, theirs in fitting(found.locate(people), found):
        if person is None:
            crowd += np.bincount(theirs, people.counts[mine], len(found))
        else:
            pairs.append(np.unique(person[mine] * len(found) + theirs))
    if person is not None:
        once = np.unique(np.concatenate(pairs))
        crowd += np.bincount(once % max(len(found), 1), minlength=len(found))
    return crowd


def in_original(
    people: Frequencies, names: Sequence[str], person: Sequence[str], case: Case
) -> FloatArray:
    """The chance of each person of a list to be in the original; 1 where it is not given."""
    if case.original is None or case.known is None:
        return np.ones(len(people))
    if person:
        there = case.original.counted(person)
        values = people.axis(person[0]).decode(np.arange(people.axis(person[0]).size))
        known = pc.is_in(values, value_set=there.axis(person[0]).decode(there.codes[0]))
        codes = people.codes[people.columns.index(person[0])]
        present: FloatArray = np.asarray(known, dtype=np.float64)[codes]
        return present
    real = case.original.counted(names)
    mine, theirs = same_keys(people, real, names)
    order = np.argsort(theirs)
    places = np.searchsorted(theirs[order], mine).clip(max=len(order) - 1)
    found = np.where(theirs[order][places] == mine, real.counts[order][places], 0)
    shares: FloatArray = np.minimum(found / alike(people, names), 1.0)
    return shares


def alike(people: Frequencies, names: Sequence[str]) -> IntArray:
    """How many rows have the same values in some columns as each combination."""
    owner = alike_in(people, names)
    found: IntArray = np.bincount(owner, people.counts).astype(np.int64)[owner]
    return found


def alike_in(people: Frequencies, names: Sequence[str]) -> IntArray:
    """The place of each combination among those of some of the columns, in their order."""
    places = [people.columns.index(name) for name in names]
    key, _ = keys([people.codes[one] for one in places], [people.sizes[one] for one in places])
    owner: IntArray = np.unique(key, return_inverse=True)[1]
    return owner


def same_keys(
    one: Frequencies, other: Frequencies, names: Sequence[str]
) -> tuple[IntArray, IntArray]:
    """Numbers for the combinations of two tables, equal where the values are."""
    codes, sizes = [np.zeros(len(one) + len(other), dtype=np.int64)], [1]
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


def examples(people: Frequencies, names: Sequence[str], places: IntArray) -> list[dict[str, Any]]:
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
