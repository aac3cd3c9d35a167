"""Families and members: what one person, with all rows in both tables, can move in any table.

Every person of a few rows is tried: added to other people, it moves tables of families by one row
and tables of members by the declared bound at most, and no row of anybody else.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.linked import CHILDREN, MOST, PARENTS, counted

from sfumato.data.schema.unit import Rows, count_sensitivity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from tests.fixtures.linked import Person

    from sfumato.data.schema.unit import Unit


def dense(people: Sequence[Person], **how: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    families, members = counted(people, **how)
    return families.dense(), members.dense()


def everybody() -> Iterator[Person]:
    parents = [one for size in (0, 1, 2) for one in combinations_with_replacement((0, 1), size)]
    children = [one for size in (0, 1, 3) for one in combinations_with_replacement((0, 1), size)]
    return product(parents, children)


EVERYBODY = list(everybody())


def marginals(table: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    axes = range(table.ndim)
    for kept in product((True, False), repeat=table.ndim):
        yield table.sum(axis=tuple(one for one in axes if not kept[one]))


def moves(rows: NDArray[np.int64], unit: Unit) -> int:
    """How far rows that come in move any table, which is no more than is claimed."""
    claimed = count_sensitivity(unit, grouped=True)
    for one in marginals(rows):
        assert np.abs(one).sum() <= claimed.l1
        assert (one**2).sum() <= claimed.l2_squared
    return int(np.abs(rows).sum())


def test_what_is_counted_of_anybody_keeps_to_the_bounds() -> None:
    families, members = dense(EVERYBODY, by_person=True)
    assert max(moves(one, PARENTS) for one in families) == 1
    assert max(moves(one, CHILDREN) for one in members) == MOST


@pytest.mark.parametrize("place", [0, 9, 20, 33, 41])
def test_nobody_else_moves_with_a_person(place: int) -> None:
    there = dense(EVERYBODY)
    gone = dense([*EVERYBODY[:place], ((), ()), *EVERYBODY[place + 1 :]])
    for old, new, unit in zip(gone, there, (PARENTS, CHILDREN), strict=True):
        assert (new >= old).all()
        moves(new - old, unit)


def test_children_that_nobody_bounded_are_seen() -> None:
    _, members = dense(EVERYBODY, unit=Rows(), by_person=True)
    with pytest.raises(AssertionError):
        for one in members:
            moves(one, CHILDREN)


@pytest.mark.parametrize(
    ("person", "family", "members"),
    [
        (((1,), ()), (1, 0), {}),
        (((1,), (0, 1)), (1, 2), {(0, 1, 2): 1, (1, 1, 2): 1}),
        (((1,), (0, 0, 0, 0)), (1, MOST), {(0, 1, MOST): MOST}),
        (((), (0, 1)), None, {}),  # an orphan's rows are in no table
    ],
)
def test_what_is_counted_of_a_person(
    person: Person, family: tuple[int, int] | None, members: dict[tuple[int, ...], int]
) -> None:
    families, of_children = dense([person], strangers=True)
    assert families.sum() == (family is not None)
    assert family is None or families[family] == 1
    assert of_children.sum() == sum(members.values())
    assert all(of_children[cell] == count for cell, count in members.items())


def test_of_several_rows_of_a_parent_one_is_taken_for_both_tables() -> None:
    families, members = dense([((0, 1), (0, 0))] * 20)
    assert families.sum() == 20
    assert members.sum() == 40
    assert np.array_equal(2 * families.sum(axis=1), members.sum(axis=(0, 2)))
    assert (families.sum(axis=1) > 0).all()  # a hash takes now the one, now the other


def test_empty_tables_count_nothing() -> None:
    assert [one.sum() for one in dense([])] == [0, 0]
