"""Counts by class and bin in one pass, of rows and of people."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
from tests.fixtures.class_learning import FEATURES, PERSON, STAGE, Row, spread, table

from sfumato.data.counting.contribution import FULL_WEIGHT
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.learn.bins import BinnedSpace, ClassCounter, ClassLabels, table_sensitivity
from sfumato.methods.learn.splits import SplitTrees
from sfumato.methods.method import Dataset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.data.schema.unit import Unit

SPACE, LABELS = BinnedSpace.of(FEATURES, 4), ClassLabels.of(STAGE)
TREE = SplitTrees(SPACE, np.array([[0, 2, 1]]), np.array([[1, 0, 2]]))


def counted(rows: list[Row], unit: Unit, *, by_tree: bool = False) -> list[NDArray[np.int64]]:
    with closing(open_duckdb(table(rows))) as engine:
        schema = Schema("people", (PERSON, *FEATURES, STAGE))
        data = Dataset("people", engine, engine.table, schema, unit)
        counter = ClassCounter(data, SPACE, LABELS)
        if by_tree:
            return counter.tables(counter.bins, within=TREE.leaves[0], layer=TREE.layer())
        return counter.tables(counter.bins)


def test_every_feature_is_counted_by_class() -> None:
    rows = spread(100)
    rows[7] = (*rows[7][:-1], None)  # no class: left out
    rows[8] = (*rows[8][:-1], 9)
    kept = [row for row in rows if row[-1] in {1, 2, 3}]
    bins = SPACE.encode(table(kept))
    for place, found in enumerate(counted(rows, Rows())):
        expected = np.zeros((3, SPACE.sizes[place]), dtype=np.int64)
        for row, cell in zip(kept, bins[:, place], strict=True):
            expected[row[-1] - 1, cell] += 1
        assert found.tolist() == expected.tolist()
        assert found.sum() == 98


def test_the_nodes_of_a_tree_part_the_counts() -> None:
    rows = spread(100)
    reached = TREE.find_leaves(SPACE.encode(table(rows)))[:, 0]
    whole, parted = counted(rows, Rows()), counted(rows, Rows(), by_tree=True)
    for one, parts in zip(whole, parted, strict=True):
        assert parts.sum(axis=0).tolist() == one.tolist()
        assert parts.sum(axis=(1, 2)).tolist() == np.bincount(reached, minlength=4).tolist()


def test_rows_of_a_person_with_too_many_count_as_parts() -> None:
    unit = Entity("person", max_rows=2)
    many = [(1, *row[1:]) for row in spread(5)]
    few = [(2, *row[1:]) for row in spread(2)]
    nobody = [(None, *row[1:]) for row in spread(3)]
    for found in counted(many + few + nobody, unit):
        assert found.sum() == 5 * (2 * FULL_WEIGHT // 5) + 2 * FULL_WEIGHT


def test_no_rows_are_counted_as_nothing() -> None:
    for unit in (Rows(), Entity("person", max_rows=2)):
        assert all(not one.any() for one in counted([], unit))
        assert all(not one.any() for one in counted([], unit, by_tree=True))


def test_a_person_moves_a_table_by_all_of_their_rows() -> None:
    found = table_sensitivity(Entity("person", 3, relation=Neighbours.REPLACE_ONE))
    assert found.l1 == 6 * FULL_WEIGHT
    assert found.l2_squared == 18 * FULL_WEIGHT**2
    assert table_sensitivity(Rows()).l1 == 1
