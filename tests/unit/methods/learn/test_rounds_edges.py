"""Whatever the rows are, a model comes out whose form tells nothing of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.methods.learn.learnt import fitted, model_of, people, planned

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Values
from sfumato.methods.learn.model import Model, load_model

KINDS: dict[str, dict[str, Any]] = {
    "kmeans": {"clusters": 3, "rounds": 1},
    "logistic": {},
    "logistic newton": {"solver": "newton"},
    "logistic balanced": {"class_weight": "balanced"},
    "perceptron": {"rounds": 2},
}
MISSING = pa.table(
    {
        "f0": pa.nulls(7, pa.float64()),
        "f1": pa.nulls(7, pa.float64()),
        "told": pa.nulls(7, pa.string()),
        "who": pa.nulls(7, pa.int64()),
    }
)
FORMS = {
    "kmeans": {"centres": 6, "sizes": 3},
    "logistic": {"coefficients": 3, "classes": 2},
    "perceptron": {"weights": 3},
}
TABLES = {
    "no rows": people(np.zeros((0, 2))),
    "all missing": MISSING,
    "equal rows of one class": people(np.full((40, 2), 0.7), ["yes"] * 40),
    "beyond the bounds": people([[1e300, -np.inf], [np.nan, np.inf]], ["yes", "no"]),
}


def _checked(kind: str, table: pa.Table, width: int = 2, **more: Any) -> Model:
    name = kind.split()[0]
    learning = planned(name, width, **{**KINDS[kind], **more})
    tables = fitted(learning, table)
    expected = learning.method.tables
    assert {one: tables[one].schema for one in tables} == {
        one: expected[one].schema for one in expected
    }
    assert all(one.num_rows == 0 for one in expected.values())
    for one in tables.values():
        for column in one.itercolumns():
            assert column.null_count == 0
            if pa.types.is_floating(column.type):
                assert np.isfinite(column.to_numpy()).all()
    found = model_of(learning, tables)
    found.check()
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", TABLES)
def test_a_model_comes_out_of_any_rows(kind: str, rows: str) -> None:
    found = _checked(kind, TABLES[rows])
    sizes = {name: one.num_rows for name, one in found.tables.items()}
    assert sizes == FORMS[kind.split()[0]]
    told = found.predict(MISSING)
    assert len(told) == 7
    assert len(set(told.tolist())) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", ["1e-6", 10**6])
def test_the_least_and_the_largest_price(kind: str, epsilon: object) -> None:
    cells = np.random.default_rng(5).uniform(-1, 1, (30, 1))
    found = _checked(kind, people(cells, ["yes", "no"] * 15), 1, epsilon=epsilon)
    assert len(found.predict(cells)) == 30
    assert "sd" in str(found.error)


def test_one_declared_class_is_always_told() -> None:
    target = Column("told", Kind.TEXT, domain=Values(("only",)))
    learning = planned("logistic", 2, target=target)
    found = model_of(learning, fitted(learning, people(np.zeros((9, 2)), ["only"] * 9)))
    assert found.predict(np.ones((3, 2))).tolist() == ["only"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_sixty_features(kind: str) -> None:
    cells = np.random.default_rng(5).uniform(-1, 1, (20, 60))
    _checked(kind, people(cells, ["yes", "no"] * 10), 60)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_the_same_from_its_file(kind: str, tmp_path: Any) -> None:
    cells = np.random.default_rng(6).uniform(-1, 1, (30, 2))
    found = _checked(kind, people(cells, ["yes", "no"] * 15), epsilon=3)
    again = load_model(found.save(tmp_path / "model.json"))
    assert again.predict(cells).tolist() == found.predict(cells).tolist()
    assert again.to_json() == found.to_json()
    assert kind.split()[0] in repr(found)
