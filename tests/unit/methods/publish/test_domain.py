"""Cells of declared columns: the interior and the nulls of missing values."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.counting.axes import Grid, Listed
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.errors import ParameterError
from sfumato.methods.publish.domain import Domain, points

AGE = Grid("age", Kind.INTEGER, Bounds(0, 2), nullable=True)
SEX = Listed("sex", pa.array(["f", "m", None]), declared=True)
DOMAIN = Domain((AGE, SEX))


def test_points_leave_missing_values_out() -> None:
    assert (points(AGE), points(SEX)) == (3, 2)
    assert points(Grid("x", Kind.REAL, Bounds(0, 1, step=Decimal("0.5")), nullable=True)) == 3


def test_counts_fall_apart_into_interior_and_rim() -> None:
    codes = (np.array([0, 0, 2, 3, 3]), np.array([0, 2, 1, 1, 2]))
    counts = Frequencies((AGE, SEX), codes, np.array([5, 1, 7, 2, 3]))
    interior, nulls = DOMAIN.split(counts)
    assert interior.tolist() == [[5, 0], [0, 0], [0, 7]]
    # (0, missing), (1, missing), (2, missing), then everything whose age is missing.
    assert nulls.tolist() == [1, 0, 0, 0, 2, 3]


def test_a_table_has_every_cell_once_and_reads_back() -> None:
    interior = np.arange(6.0).reshape(3, 2)
    table = DOMAIN.table(interior, np.arange(6))
    assert table.num_rows == 12
    assert table.slice(0, 2).to_pylist() == [
        {"age": 0, "sex": "f", "count": 0.0},
        {"age": 0, "sex": "m", "count": 1.0},
    ]
    assert table.to_pylist()[-1] == {"age": None, "sex": None, "count": 5.0}
    assert DOMAIN.interior(table).tolist() == interior.tolist()


def test_without_missing_values_there_is_no_rim() -> None:
    domain = Domain((Grid("x", Kind.INTEGER, Bounds(0, 3), nullable=False),))
    interior, nulls = domain.split(Frequencies(domain.axes, (np.array([1]),), np.array([4])))
    assert (interior.tolist(), nulls.size) == ([0, 4, 0, 0], 0)


def test_too_many_cells_are_refused_with_a_way_out() -> None:
    wide = Grid("x", Kind.INTEGER, Bounds(0, 10**9), nullable=False)
    with pytest.raises(ParameterError, match="sparse") as refused:
        Domain((wide,))
    assert refused.value.code == "problem_too_large"
