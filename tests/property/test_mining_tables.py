"""No person moves what naive Bayes and trees read of rows by more than is claimed, in any SQL."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.class_learning import FEATURES, PERSON, STAGE, Row, spread, table

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity, Neighbours, Rows, Unit
from sfumato.methods.learn.bins import BinnedSpace, ClassCounter, ClassLabels, table_sensitivity
from sfumato.methods.learn.row_sums import whole_row
from sfumato.methods.learn.splits import SplitQuestions, SplitTrees
from sfumato.methods.method import Dataset

if TYPE_CHECKING:
    from numpy.typing import NDArray

SPACE, LABELS = BinnedSpace.of(FEATURES, 3), ClassLabels.of(STAGE)
TREE = SplitTrees(SPACE, np.array([[0, 2, 1]]), np.array([[1, 0, 1]]))
QUESTIONS = SplitQuestions(SPACE)
UNITS: list[Unit] = [
    *(Rows(relation=one) for one in Neighbours),
    *(Entity("person", 2, relation=one) for one in Neighbours),
]
OTHERS = spread(12)

CELLS = st.tuples(
    st.sampled_from([None, -5, 0, 33, 66, 99, 10**9]),
    st.sampled_from([None, float("nan"), float("-inf"), float("inf"), 0.0, 75.0]),
    st.sampled_from([None, "Rome", "Pisa", "Oslo"]),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, OTHERS[0][5]]),
    st.just("no"),
    st.sampled_from([None, 1, 2, 3, 7]),
)
PEOPLE = st.lists(CELLS, min_size=1, max_size=5)


def counted(rows: list[Row], unit: Unit) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """The tables of naive Bayes, and those of the second level of a tree."""
    with closing(open_duckdb(table(rows))) as engine:
        schema = Schema("people", (PERSON, *FEATURES, STAGE))
        data = Dataset("people", engine, engine.table, schema, unit)
        counter = ClassCounter(data, SPACE, LABELS)
        layered = counter.tables(counter.bins, within=TREE.leaves[0], layer=TREE.layer())
        return counter.tables(counter.bins), layered


def norms(before: NDArray[np.int64], after: NDArray[np.int64]) -> tuple[int, int]:
    moves = (before - after).ravel().astype(object)
    return int(np.abs(moves).sum()), int((moves**2).sum())


@pytest.mark.parametrize("unit", UNITS, ids=str)
@settings(deadline=None, max_examples=4)
@given(first=PEOPLE, second=PEOPLE)
def test_a_person_moves_tables_and_scores_by_what_is_claimed(
    unit: Unit, first: list[Row], second: list[Row]
) -> None:
    mine = [(99, *row) for row in (first if unit.by_person else first[:1])]
    yours = [(99, *row) for row in (second if unit.by_person else second[:1])]
    added = unit.relation is Neighbours.ADD_REMOVE
    before = counted(OTHERS if added else OTHERS + yours, unit)
    after = counted(OTHERS + mine, unit)
    claim, most = table_sensitivity(unit), unit.max_rows * whole_row(unit)
    for some, others in zip(before, after, strict=True):
        for one, other in zip(some, others, strict=True):
            l1, l2_squared = norms(one, other)
            assert l1 <= claim.l1
            assert l2_squared <= claim.l2_squared
    # Of a feature: what naive Bayes chooses by.
    for one, other in zip(before[0], after[0], strict=True):
        move = int(other.max(axis=0).sum() - one.max(axis=0).sum())
        assert (0 if added else -most) <= move <= most
    # Of questions, the best or the worst of every node at once: what a level chooses by.
    moved = scores(after[1]) - scores(before[1])
    assert moved.max(axis=1).sum() <= most
    assert moved.min(axis=1).sum() >= (0 if added else -most)
    # Of a stump with its classes.
    labelled = stumps(after[0]) - stumps(before[0])
    assert (0 if added else -most) <= labelled.min()
    assert labelled.max() <= most


def scores(tables: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    no, yes = QUESTIONS.sides(tables)
    return np.asarray(no.max(axis=1) + yes.max(axis=1))


def stumps(tables: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    no, yes = QUESTIONS.sides(tables)
    return no[:, None, :] + yes[None, :, :]


def test_the_claim_is_reached() -> None:
    """A claim that nobody can reach would let a smaller one pass unseen."""
    unit = Entity("person", 2, relation=Neighbours.REPLACE_ONE)
    cells = OTHERS[0][1:-1]
    one = counted([(99, *cells, 1)] * 4, unit)[0][0]
    other = counted([(99, *cells, 2)] * 4, unit)[0][0]
    assert norms(one, other)[0] == table_sensitivity(unit).l1
    assert norms(one, other)[1] == table_sensitivity(unit).l2_squared
