from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.data.schema.column import Kind
from sfumato.data.schema.constraints import DeclaredRows
from sfumato.data.schema.domain import Bounds, Values
from sfumato.errors import ParameterError
from sfumato.methods.learn.array_tables import (
    DeclaredTable,
    class_column,
    class_numbers,
    number_column,
    numbers,
)

ROWS = np.array([[1.0, 2.0], [np.nan, 4.0], [np.inf, -np.inf]])


def test_an_array_has_numbered_features_and_what_is_no_number_is_missing() -> None:
    declared = DeclaredTable.of(ROWS, (0, 10))
    assert declared.names == ("x0", "x1")
    assert declared.domains == (Bounds(Decimal("0.0"), Decimal("10.0")),) * 2
    assert declared.read(ROWS).to_pydict() == {"x0": [1.0, None, None], "x1": [2.0, 4.0, None]}


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame({"age": [1, 2], "sex": ["F", "M"]}),
        pl.DataFrame({"age": [1, 2], "sex": ["F", "M"]}),
        pa.table({"age": [1, 2], "sex": ["F", "M"]}),
        {"age": [1, 2], "sex": ["F", "M"]},
        [{"age": 1, "sex": "F"}, {"age": 2, "sex": "M"}],
    ],
)
def test_a_table_of_anybody_keeps_its_names(rows: object) -> None:
    declared = DeclaredTable.of(rows, {"sex": ["F", "M"], "age": (0, 100), "more": (0, 1)})
    assert declared.names == ("age", "sex")
    assert declared.domains[1] == Values(("F", "M"))
    assert declared.read(rows).to_pydict() == {"age": [1.0, 2.0], "sex": ["F", "M"]}


def test_what_rows_hold_changes_nothing_that_is_declared() -> None:
    """Two tables that differ in every value have the same schema, whatever is in them."""
    low = DeclaredTable.of(np.zeros((3, 2)), [(0, 1), (2, 3)])
    high = DeclaredTable.of(np.full((3, 2), 1e300), [(0, 1), (2, 3)])
    assert low.schema(None, 3) == high.schema(None, 3)
    assert low.schema(None, 3).constraints == (DeclaredRows(3),)
    assert low.schema(None, None).constraints == ()


def test_a_target_has_a_name_that_no_feature_has() -> None:
    declared = DeclaredTable.of({"target": [1.0], "target_": [2.0]}, (0, 1))
    assert declared.target == "target__"


def test_classes_are_numbered_as_declared_and_others_are_missing() -> None:
    column, listed = class_column("ill", np.array(["no", "yes"]))
    assert (column.kind, column.domain) == (Kind.INTEGER, Values((0, 1)))
    assert class_numbers(["yes", "no", "perhaps", "yes"], listed).to_pylist() == [1, 0, None, 1]


def test_a_number_has_declared_bounds() -> None:
    assert number_column("cost", (0, 9)).domain == Bounds(Decimal("0.0"), Decimal("9.0"))
    assert numbers([1, np.nan, 3]).to_pylist() == [1.0, None, 3.0]


@pytest.mark.parametrize(
    ("rows", "bounds", "code"),
    [
        (ROWS, None, "bounds_missing"),
        (ROWS, [(0, 1)], "bounds_invalid"),
        (ROWS, [(0, 1), 2], "bounds_invalid"),
        (ROWS, "0 to 1", "bounds_invalid"),
        (ROWS, {"x0": (0, 1)}, "bounds_missing"),
        (np.zeros(3), (0, 1), "array_invalid"),
        (np.zeros((3, 0)), (0, 1), "array_invalid"),
    ],
)
def test_what_is_not_declared_is_refused(rows: object, bounds: object, code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        DeclaredTable.of(rows, bounds)
    assert refused.value.code == code


@pytest.mark.parametrize("classes", [None, [], [1, 1]])
def test_classes_that_are_not_declared_are_refused(classes: Any) -> None:
    with pytest.raises(ParameterError) as refused:
        class_column("ill", classes)
    assert refused.value.code == "parameter_missing"


@pytest.mark.parametrize(("bounds", "code"), [(None, "bounds_missing"), (["a"], "bounds_invalid")])
def test_a_number_without_bounds_is_refused(bounds: object, code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        number_column("cost", bounds)
    assert refused.value.code == code


def test_rows_of_another_shape_are_refused() -> None:
    declared = DeclaredTable.of(ROWS, (0, 10))
    for rows, code in ((np.zeros((2, 3)), "array_invalid"), ({"x0": [1]}, "column_unknown")):
        with pytest.raises(ParameterError) as refused:
            declared.read(rows)
        assert refused.value.code == code
