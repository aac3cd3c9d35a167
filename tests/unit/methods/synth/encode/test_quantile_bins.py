"""Bins that follow the rows are found for their part of the price, and cut where rows crowd."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError
from sfumato.methods.synth.encode.axes import Bins
from sfumato.methods.synth.encode.discovery import starts_of
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.privacy.accounting.price import price

SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("paid", sf.Kind.REAL, domain=sf.Bounds(0, 500_000, 50)),
        sf.Column("born", sf.Kind.DATE, domain=sf.Bounds(date(1900, 1, 1), date(2024, 12, 31))),
        sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 49)),
        sf.Column("grade", sf.Kind.INTEGER, domain=sf.Values((1, 2))),
        sf.Column("smoker", sf.Kind.BOOLEAN),
        sf.Column("town", sf.Kind.TEXT),
    ),
)
FEW = ("town",)


def test_ends_become_starts_and_crowded_points_bins_of_their_own() -> None:
    ends = np.array([3, 7, 7, 7, 9])
    assert starts_of(ends, 10) == (0, 4, 7, 8)
    assert starts_of(ends, 20) == (0, 4, 7, 8, 10)
    assert starts_of(np.zeros(31, dtype=np.int64), 5) == (0, 1)


@pytest.mark.parametrize("asked", [{"epsilon": 1}, {"rho": 1}, {"epsilon": 1, "delta": "1e-6"}])
def test_they_are_paid_out_of_the_price(asked: dict[str, Any]) -> None:
    plan = Encoding(SCHEMA, FEW, by_quantiles=("paid", "born"))
    discovery, bins, atoms, rest = plan.paid(price(**asked))
    assert discovery is None
    assert atoms is None
    assert bins is not None
    [first, second] = bins.choices
    spent = bins.spending.epsilon or bins.spending.rho
    left = rest.epsilon or rest.rho
    assert spent is not None
    assert left is not None
    assert spent == (spent + left) / 5  # a tenth for each column
    each = first.spending.epsilon or first.spending.rho
    assert first.spending == second.spending
    assert each == spent / 2
    if asked.get("delta") is None:
        assert spent + left == 1
    many = Encoding(SCHEMA, by_quantiles=("paid", "born")).paid(price(rho=1, delta="1e-6"))
    assert many.discovery is not None
    assert many.discovery.spending.rho == Fraction(1, 20)
    assert many.remaining.rho == Fraction(3, 4)


@pytest.mark.parametrize("name", ["age", "grade", "smoker", "town"])
def test_columns_that_have_no_use_for_them_are_refused(name: str) -> None:
    with pytest.raises(ParameterError, match="'paid', 'born'") as refused:
        Encoding(SCHEMA, by_quantiles=(name,))
    assert refused.value.code == "option_not_applicable"


@pytest.mark.parametrize("cut", [(1, 5), (0, 5, 5), (0, 9, 3), (0, 10_001)])
def test_bins_that_do_not_begin_in_order_are_refused(cut: tuple[int, ...]) -> None:
    with pytest.raises(ParameterError):
        Encoding(SCHEMA, FEW, by_quantiles=("paid",), cuts={"paid": cut})


def test_the_record_tells_them() -> None:
    plan = Encoding(SCHEMA, FEW, by_quantiles=("paid",))
    record = json.loads(json.dumps(plan.discovered({}, {"paid": (0, 3, 900)}).to_record()))
    read = Encoding.from_record(SCHEMA, record)
    assert read.cuts == {"paid": (0, 3, 900)}
    assert plan.to_record() != Encoding(SCHEMA, FEW).to_record()


def test_bins_follow_the_rows_by_every_door() -> None:
    draws = np.random.default_rng(3)
    paid = np.minimum(np.round(draws.lognormal(8, 1, 20_000) / 50) * 50, 500_000)
    paid[:5_000] = 0
    table = pa.table({"paid": paid, "smoker": paid > 3000})
    schema = sf.Schema("people", (SCHEMA.column("paid"), SCHEMA.column("smoker")))
    with closing(sf.read(table, schema=schema)) as people:
        private = sf.protect(people, unit=sf.Rows(), epsilon=9)
        assert "private quantiles" in private.plan_synthesis(quantiles=["paid"]).text()
        made = private.synthesize(epsilon=2, method="independent", quantiles=["paid"])
    assert made.cost == {"epsilon": 2}
    assert private.remaining["epsilon"] == pytest.approx(7)
    [axis, _] = made.model.encoding.axes
    assert isinstance(axis, Bins)
    assert axis.starts[:2] == (0, 1)  # a quarter of all rows
    ends = [*axis.starts, axis.fine.points]
    shares = np.histogram(paid / 50, ends)[0] / len(paid)
    assert max(shares[1:]) < 0.08
    exact = np.sort(paid)

    def distance(drawn: pa.Table) -> float:
        at = np.sort(drawn["paid"].drop_null().to_numpy())
        places = np.arange(0, 20_000, 50)
        cumulated = [np.searchsorted(one, places, "right") / len(one) for one in (exact, at)]
        return float(np.abs(cumulated[0] - cumulated[1]).max())

    assert distance(made.table) < 0.05
