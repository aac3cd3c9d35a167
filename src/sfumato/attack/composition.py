"""Composition: two releases of the same people, each safe, reveal together what neither reveals.

*Attacker*: has two releases that were made without knowledge of each other, and the
quasi-identifiers of people who are in both (from the list, else from the original).
*Success*: the share of these people for whom exactly one sensitive value is left after intersecting
the values of the classes that they fit in either release.
*Baseline*: the same with the better of the two releases alone.
*Victims*: those people.
*Reference*: Ganta, Kasiviswanathan and Smith, Composition attacks and auxiliary information, 2008.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import cannot_run, needed_quasi, needed_sensitive
from sfumato.attack.classes import boxes_of
from sfumato.attack.finding import Finding, Rate, of_columns
from sfumato.attack.matching import examples, fitting, naming
from sfumato.errors import option

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from sfumato.arrays import IntArray
    from sfumato.attack.case import Case, HeldRelease
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column


NAME = "composition"


def run(case: Case) -> Finding:
    """Intersect the values that two releases leave possible for each person."""
    if case.other is None:
        raise cannot_run(
            NAME, f"it needs a second release. Give it with {option('other', metavar='RELEASE')}."
        )
    if case.release.buckets is not None or case.other.buckets is not None:
        raise cannot_run(
            NAME, "one release is an anatomy, which names its groups; compare two tables."
        )
    held = case.known or case.original
    if held is None:
        raise cannot_run(
            NAME,
            f"it needs the people. Give them with {option('known', metavar='FILE')}, or "
            f"{option('original', metavar='FILE')}.",
        )
    quasi = needed_quasi(case, NAME, held, case.other.table)
    by_column = {
        column.name: _compose(case, case.other, quasi, column)
        for column in needed_sensitive(case, NAME)
        if column.name in case.other.table.names
    }
    if not by_column:
        raise cannot_run(NAME, "the two releases have no sensitive column in common.")
    return of_columns(by_column)


def _compose(
    case: Case, second_release: HeldRelease, quasi: Sequence[Column], column: Column
) -> Finding:
    held = case.known or case.original
    assert held is not None
    names = [column.name for column in quasi]
    person = naming(case, held)
    people = held.counted([*names, *person])
    values: dict[Any, int] = {}
    tables = [
        release.table.counted([*names, column.name]) for release in (case.release, second_release)
    ]
    numbered = [_number_values(table, column.name, values) for table in tables]
    width = max(len(values), 1)
    first, second = (
        _possible(table, quasi, people, numbers, width)
        for table, numbers in zip(tables, numbered, strict=True)
    )
    # A person's true value is possible in both releases, so the intersection always holds it.
    both = np.intersect1d(first, second)
    alone = [np.bincount(pairs // width, minlength=len(people)) for pairs in (first, second)]
    values_left = np.bincount(both // width, minlength=len(people))
    # People who fit no class of one release were suppressed there, and nothing is composed.
    in_both = (alone[0] > 0) & (alone[1] > 0)
    weight = people.counts * in_both
    hit = in_both & (values_left == 1)
    tried = int(weight.sum())
    # The baseline is the better single release, so that success measures the composition alone.
    single = max(float(weight[release == 1].sum()) for release in alone)
    pinned = float(weight[hit].sum())
    return Finding(
        attack=NAME,
        attacker=f"has two releases, and a list of people with {', '.join(names)}",
        meaning=f"People whose {column.name} is the only one that both leave possible",
        success=Rate.share(pinned, tried),
        baseline=Rate.share(single, tried),
        victims=round(pinned),
        examples=examples(people, person or names, np.flatnonzero(hit)),
        remarks=[
            f"Of {people.total:,} people {tried:,} fit both releases; {column.name} is guessed."
        ],
        rows=people.total,
        reference="Ganta et al. 2008",
    )


def _number_values(table: Frequencies, name: str, values: dict[Any, int]) -> IntArray:
    """Number the value of each row; both releases share the numbers in `values`."""
    codes = table.codes[table.columns.index(name)]
    present, value_index = np.unique(codes, return_inverse=True)
    known = table.axis(name).decode(present).to_pylist()
    numbers = [values.setdefault(value, len(values)) for value in known]
    return np.array(numbers, dtype=np.int64)[value_index]


def _possible(
    table: Frequencies, quasi: Sequence[Column], people: Frequencies, numbers: IntArray, width: int
) -> IntArray:
    """Return each pair of a person and a value of a class that the person fits once.

    A pair is the number person * width + value.
    """
    classes = boxes_of(table, quasi, [people])
    pairs = [
        np.unique(mine * width + numbers[theirs])
        for mine, theirs in fitting(classes.locate(people), classes)
    ]
    return np.unique(np.concatenate([*pairs, np.zeros(0, dtype=np.int64)]))
