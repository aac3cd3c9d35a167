"""Rows that have given values: of every kind, in bins too, and as people write them."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.methods.synth.synthesis_model import SynthesisModel

DAY, NOON = date(2020, 3, 1), datetime(2020, 3, 1, 12, tzinfo=UTC)
SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("born", sf.Kind.DATE, domain=sf.Bounds(date(2000, 1, 1), date(2024, 12, 31))),
        sf.Column("paid", sf.Kind.REAL, domain=sf.Bounds(0, 500_000, 50)),
        sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 110), nullable=False),
        sf.Column("grade", sf.Kind.REAL, domain=sf.Values((1, 2, 3))),
        sf.Column("smoker", sf.Kind.BOOLEAN),
    ),
)
N = 400
PEOPLE = pa.table(
    {
        "born": pa.array([DAY] * N, pa.date32()),
        "paid": np.full(N, 12_000.0),
        "age": np.arange(N) % 100,
        "grade": np.full(N, 2.0),
        "smoker": np.arange(N) % 2 == 0,
    }
)


@pytest.fixture(scope="module")
def model() -> SynthesisModel:
    with closing(sf.read(PEOPLE, schema=SCHEMA)) as people:
        private = sf.protect(people, unit=sf.Rows(), epsilon=9)
        return private.synthesize(epsilon=9, method="independent").model


@pytest.mark.parametrize(
    ("column", "value", "drawn"),
    [("born", DAY, DAY), ("born", "2020-03-01", DAY), ("born", NOON, DAY),
     ("paid", 12_050, 12_050.0), ("paid", 499_950.0, 499_950.0), ("paid", None, None),
     ("age", 70, 70), ("age", 70.0, 70), ("grade", 2, 2.0), ("smoker", False, False)],
)  # fmt: skip
def test_all_rows_have_it(model: SynthesisModel, column: str, value: object, drawn: object) -> None:
    made = model.draw(30, given={column: value})
    assert made.column(column).to_pylist() == [drawn] * 30


@pytest.mark.parametrize(
    ("column", "value", "allowed"),
    [("born", "soon", "from datetime.date(2000, 1, 1) to"), ("paid", 12_001, "in steps of 50"),
     ("paid", float("nan"), "from 0 to 500000"), ("age", True, "from 0 to 110"),
     ("age", None, "from 0"), ("age", "70", "from 0"), ("smoker", 1, "'False', 'True'")],
)  # fmt: skip
def test_what_no_row_can_have_is_refused_with_what_it_can(
    model: SynthesisModel, column: str, value: object, allowed: str
) -> None:
    with pytest.raises(ParameterError, match=f"column '{column}'") as refused:
        model.draw(3, given={column: value})
    assert refused.value.code == "value_outside_domain"
    assert allowed in refused.value.message


def test_nan_is_drawn_as_missing(model: SynthesisModel) -> None:
    axis = model.encoding.axes[1]
    codes = np.array([0, axis.size - 2, axis.size - 1])  # NULL and NaN behind all bins
    drawn = model.encoding.values(axis, codes, SeededEntropy(1))
    assert [one is None for one in drawn.to_pylist()] == [False, True, True]
