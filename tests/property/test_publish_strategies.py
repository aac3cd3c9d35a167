"""What one person can do to what is measured never passes what was charged: brute force."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.counts import request_for, whole_numbers

from sfumato.data.schema.unit import Entity, Neighbours, Unit
from sfumato.methods.publish.continual import column_norms
from sfumato.methods.publish.fourier import Waves
from sfumato.methods.publish.mwem import MarginalQueries, ParityQueries, RangeQueries, prepare
from sfumato.methods.publish.sketch import Hashing
from sfumato.methods.stream.factorization import DyadicTree, SquareRoot

if TYPE_CHECKING:
    from sfumato.methods.publish.measurement import ColumnNorms

Matrix = np.ndarray[Any, np.dtype[np.int64]]
UNITS = st.builds(
    lambda rows, relation: Entity("who", rows, relation=relation),
    st.integers(1, 3),
    st.sampled_from(Neighbours),
)


def tree_matrix(points: int) -> Matrix:
    """A row for every block that ends at an odd multiple of its length."""
    rows = []
    for level in range(points.bit_length()):
        for end in range(1 << level, points + 1, 2 << level):
            row = np.zeros(points, dtype=np.int64)
            row[end - (1 << level) : end] = 1
            rows.append(row)
    return np.array(rows)


def root_matrix(points: int) -> Matrix:
    entries = SquareRoot(points).entries
    far = np.subtract.outer(np.arange(points), np.arange(points))
    return np.where(far >= 0, entries[np.abs(far)], 0)


def waves_matrix(points: int) -> Matrix:
    waves = Waves(points, points // 2 + 1)
    return waves.measured(np.eye(points, dtype=np.int64)).T


def sketch_matrix(points: int) -> Matrix:
    hashing = Hashing(3, 2, seed=points)
    columns = [hashing.summary(np.array([cell]), np.array([1])) for cell in range(points)]
    return np.stack([column.ravel() for column in columns], axis=1)


CASES: list[tuple[Any, Any]] = [
    (tree_matrix, lambda points: column_norms(DyadicTree(points))),
    (root_matrix, lambda points: column_norms(SquareRoot(points))),
    (waves_matrix, lambda points: Waves(points, points // 2 + 1).columns),
    (sketch_matrix, lambda _: Hashing(3, 2, 0).columns),
]


@st.composite
def changes(draw: st.DrawFn, points: int, unit: Unit) -> Matrix:
    """What one person can do to the counts: come or go, or be replaced."""
    rows = unit.max_rows if isinstance(unit, Entity) else 1

    def person() -> Matrix:
        cells = draw(st.lists(st.integers(0, points - 1), max_size=rows))
        return np.bincount(np.array(cells, dtype=np.int64), minlength=points)

    return person() - person() if unit.relation is Neighbours.REPLACE_ONE else person()


@given(st.data(), st.sampled_from(CASES), st.integers(1, 9), UNITS)
def test_measured_change_stays_within_the_sensitivity(
    data: st.DataObject, case: Any, points: int, unit: Entity
) -> None:
    matrix, norms = case
    columns: ColumnNorms = norms(points)
    allowed = columns.sensitivity(request_for(whole_numbers(points), unit=unit))
    moved = matrix(points) @ data.draw(changes(points, unit))
    assert np.abs(moved).sum() <= allowed.l1
    assert int((moved.astype(object) ** 2).sum()) <= allowed.l2_squared


@given(st.integers(1, 9))
def test_norms_are_reached_by_one_row(points: int) -> None:
    """Nothing is paid that no row can use."""
    for matrix, norms in CASES:
        measured = np.abs(matrix(points))
        assert measured.sum(axis=0).max() == norms(points).l1
        assert (measured.astype(object) ** 2).sum(axis=0).max() == norms(points).l2_squared


@given(st.data(), UNITS)
def test_answers_of_queries_move_no_further_than_charged(data: st.DataObject, unit: Entity) -> None:
    for name, queries in (
        ("ranges", RangeQueries.dyadic((3, 2))),
        ("marginals", MarginalQueries((3, 2), 2)),
        ("parities", ParityQueries((3, 2), 2)),
    ):
        made = prepare(request_for(whole_numbers(3, 2), unit=unit), queries=name)
        change = data.draw(changes(6, unit)).reshape(1, 3, 2)
        assert Fraction(np.abs(queries.answers(change)).max()) <= made.sensitivity.l1
