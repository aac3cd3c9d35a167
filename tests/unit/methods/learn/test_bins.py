"""Bins of columns in the engine and in memory, and the classes of a target."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp
from tests.fixtures.class_learning import FEATURES, ILL, SEEN, STAGE, spread, table

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.errors import ParameterError
from sfumato.methods.learn.bins import MOST_BINS, MOST_CLASSES, BinnedSpace, ClassLabels


def in_engine(space: BinnedSpace, rows: pa.Table) -> list[tuple[int, ...]]:
    with closing(open_duckdb(rows)) as engine:
        trees = space.space.expressions()
        inner = exp.select(*(exp.alias_(one, f"sf_x{at}") for at, one in enumerate(trees)))
        inner = inner.select("person").from_(engine.table.copy())
        bins = [exp.alias_(one, name) for name, one in space.layer().items()]
        query = exp.select("person", *bins).from_(inner.subquery("rows")).order_by("person")
        found = engine.run(query).to_pylist()
    return [tuple(one.values())[1:] for one in found]


@pytest.mark.parametrize("bins", [2, 3, 16, 64])
def test_bins_are_the_same_in_the_engine_and_in_memory(bins: int) -> None:
    space, rows = BinnedSpace.of(FEATURES, bins), table(spread(300))
    found = in_engine(space, rows)
    assert found == [tuple(one) for one in space.encode(rows).tolist()]
    assert (np.array(found) < np.array(space.sizes)).all()
    assert len({one[0] for one in found}) == bins


def test_few_points_and_values_have_a_bin_each() -> None:
    few = Column("few", Kind.INTEGER, domain=Bounds(1, 5))
    space = BinnedSpace.of((few, *FEATURES[2:4]), 16)
    assert space.sizes == (5, 4, 3)  # one more for what no city is; nobody says whether they smoke
    rows = pa.table(
        {
            "few": [1, 2, 3, 4, 5, 9, None],
            "city": ["Rome", "Pisa", "Bari", "Oslo", None, "Rome", "Rome"],
            "smokes": [True, False, None, True, True, True, True],
        }
    )
    assert space.encode(rows).T.tolist() == [
        [0, 1, 2, 3, 4, 4, 2],
        [0, 1, 2, 3, 3, 0, 0],
        [2, 0, 1, 2, 2, 2, 2],
    ]


def test_a_space_is_read_from_its_facts() -> None:
    space, rows = BinnedSpace.of(FEATURES, 7), table(spread(40))
    again = BinnedSpace.from_facts(space.facts())
    assert (again.encode(rows) == space.encode(rows)).all()
    for place, size in ((2, 9), (0, 0), (0, MOST_BINS + 1)):
        sizes = [size if at == place else one for at, one in enumerate(space.sizes)]
        with pytest.raises(ValueError, match="do not fit"):
            BinnedSpace.from_facts({**space.facts(), "sizes": sizes})


def test_questions_are_told_in_the_columns_own_values() -> None:
    space = BinnedSpace.of(FEATURES, 4)
    assert space.question(1, 1) == "weight > 75.0366?"
    assert space.question(2, 0) == "city=Rome?"
    assert space.question(4, 0).startswith("seen after 2020-04-0")
    plain = BinnedSpace.of((replace(FEATURES[3], nullable=False),), 4)
    assert plain.question(0, 0) == "smokes = True?"


@pytest.mark.parametrize(
    ("target", "classes"),
    [
        (ILL, ["no", "yes"]),
        (STAGE, [1, 2, 3]),
        (FEATURES[3], [False, True]),
        (Column("grade", Kind.INTEGER, domain=Bounds(0, 4, 2)), [0, 2, 4]),
        (Column("one", Kind.TEXT, domain=Values(("only",))), ["only"]),
        (Column("day", Kind.DATE, domain=Values((date(2020, 1, 1),))), [date(2020, 1, 1)]),
    ],
)
def test_classes_are_what_is_declared(target: Column, classes: list[object]) -> None:
    labels = ClassLabels.of(target)
    assert labels.values.to_pylist() == classes
    assert ClassLabels.from_facts(labels.facts()).values.equals(labels.values)


@pytest.mark.parametrize(
    "target",
    [
        Column("free", Kind.TEXT),
        SEEN,
        Column("height", Kind.REAL, domain=Bounds(Decimal(0), Decimal(2))),
        Column("many", Kind.INTEGER, domain=Bounds(0, MOST_CLASSES)),
        Column("vast", Kind.INTEGER, domain=Bounds(0, 2**60)),
    ],
)
def test_a_target_without_classes_is_refused(target: Column) -> None:
    with pytest.raises(ParameterError, match="cannot be predicted as a class") as caught:
        ClassLabels.of(target)
    assert caught.value.code == "column_unsuitable"
