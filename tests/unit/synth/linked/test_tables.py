"""Families and members: what one person, with all rows in both tables, can move in any table.

Every person of a few rows is tried: added to other people, it moves tables of families by one row
and tables of members by the declared bound at most, and no row of anybody else.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from sfumato.counting.axes import declared
from sfumato.counting.frequencies import BoundedCounter
from sfumato.engines.sources import open_duckdb
from sfumato.privacy.units import Entity, Rows, count_sensitivity
from sfumato.schema.column import Column, Kind
from sfumato.schema.domain import Bounds
from sfumato.synth.linked.tables import LinkedTables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.counting.axes import Axis
    from sfumato.privacy.units import Unit

MOST = 2
PARENTS, CHILDREN = Entity("who", 1), Entity("whose", MOST)
Person = tuple[tuple[int, ...], tuple[int, ...]]
"""The values of a person's rows in the parent table, and in the child table."""


def axis(name: str, high: int) -> Axis:
    return declared(Column(name, Kind.INTEGER, domain=Bounds(0, high), nullable=False))


FAMILY = (axis("a", 1), axis("n", MOST))
MEMBER = (axis("b", 1), axis("p.a", 1), axis("p.n", MOST))


def counted(
    people: Sequence[Person],
    *,
    strangers: bool = False,
    unit: Unit = CHILDREN,
    by_person: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The whole tables of families and of members; of each person, first axis, if asked."""
    parents = [(who, one) for who, (rows, _) in enumerate(people) for one in rows]
    children = [(who, one) for who, (_, rows) in enumerate(people) for one in rows]
    if strangers:
        parents, children = [*parents, (None, 1)], [*children, (None, 1), (None, 0)]
    last = len(people) - 1
    found = []
    with ExitStack() as stack:
        engine = open_duckdb(_table("who", "a", parents))
        stack.callback(engine.close)
        lent = stack.enter_context(engine.lend(_table("whose", "b", children)))
        tables = LinkedTables(
            engine, engine.table, lent, PARENTS, CHILDREN,
            ["a"], ["b"], Kind.INTEGER, "n", {"a": "p.a", "n": "p.n"},
        )  # fmt: skip
        views = stack.enter_context(tables.opened("salt"))
        sides = ((FAMILY, Rows(), "who"), (MEMBER, unit, "whose"))
        for view, (axes, counts_as, key) in zip(views, sides, strict=True):
            asked = (axis(key, last), *axes) if by_person else axes
            counter = BoundedCounter(engine, view, asked, counts_as, "salt")
            found.append(counter.of([one.column for one in asked]).dense())
    return found[0], found[1]


def _table(key: str, name: str, rows: Sequence[tuple[int | None, int]]) -> pa.Table:
    keys, values = [one for one, _ in rows], [one for _, one in rows]
    return pa.table({key: pa.array(keys, pa.int64()), name: pa.array(values, pa.int64())})


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
    families, members = counted(EVERYBODY, by_person=True)
    assert max(moves(one, PARENTS) for one in families) == 1
    assert max(moves(one, CHILDREN) for one in members) == MOST


@pytest.mark.parametrize("place", [0, 9, 20, 33, 41])
def test_nobody_else_moves_with_a_person(place: int) -> None:
    there = counted(EVERYBODY)
    gone = counted([*EVERYBODY[:place], ((), ()), *EVERYBODY[place + 1 :]])
    for old, new, unit in zip(gone, there, (PARENTS, CHILDREN), strict=True):
        assert (new >= old).all()
        moves(new - old, unit)


def test_children_that_nobody_bounded_are_seen() -> None:
    _, members = counted(EVERYBODY, unit=Rows(), by_person=True)
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
    families, of_children = counted([person], strangers=True)
    assert families.sum() == (family is not None)
    assert family is None or families[family] == 1
    assert of_children.sum() == sum(members.values())
    assert all(of_children[cell] == count for cell, count in members.items())


def test_of_several_rows_of_a_parent_one_is_taken_for_both_tables() -> None:
    families, members = counted([((0, 1), (0, 0))] * 20)
    assert families.sum() == 20
    assert members.sum() == 40
    assert np.array_equal(2 * families.sum(axis=1), members.sum(axis=(0, 2)))
    assert (families.sum(axis=1) > 0).all()  # a hash takes now the one, now the other


def test_empty_tables_count_nothing() -> None:
    assert [one.sum() for one in counted([])] == [0, 0]
