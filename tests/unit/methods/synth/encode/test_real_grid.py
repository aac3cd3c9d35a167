"""Reals are drawn as fine as they are declared, or as their decimals are written."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.spelling import NumberSpelling
from sfumato.methods.synth.encode.axes import on_grid


@pytest.mark.parametrize(
    ("bounds", "places", "step"),
    [
        (("20", "130"), 1, "0.1"),
        (("20", "130"), 2, "0.01"),
        (("20", "130"), 0, None),  # as coarse as round steps
        (("0", "1"), 1, None),  # coarser
        (("0", "100000"), 2, "0.01"),  # ten million points
        (("0", "1000000"), 2, None),  # a hundred million
        (("0.25", "10.25"), 0, None),  # which is finer than it is written
        (("0.25", "10"), 1, None),  # no tenth divides it, but 0.05 does
        (("20", "20"), 1, "1"),  # a single one
        (("20", "130"), None, "0.01"),  # the finest decimals of few enough points
        (("0", "38970"), None, "0.01"),  # or hundredths
        (("0", "999000"), None, "100"),
        (("0.125", "0.3"), None, "0.00001"),
    ],
)
def test_a_grid_is_as_fine_as_its_decimals(
    bounds: tuple[str, str], places: int | None, step: str | None
) -> None:
    spelling = None if places is None else NumberSpelling(places=places)
    domain = Bounds(*map(Decimal, bounds))
    column = Column("x", Kind.REAL, domain=domain, spelling=spelling)
    found = on_grid(column).public_domain
    assert isinstance(found, Bounds)
    assert found.step == (None if step is None else Decimal(step))
    assert (found.low, found.high) == (domain.low, domain.high)


def test_what_is_declared_stays() -> None:
    column = Column("x", Kind.REAL, domain=Bounds(Decimal(0), Decimal(9), Decimal(3)))
    assert on_grid(column) is column


def test_weights_keep_their_decimals() -> None:
    bounds = sf.Bounds(Decimal(20), Decimal(130))
    weight = sf.Column("weight", sf.Kind.REAL, domain=bounds, spelling=NumberSpelling(places=1))
    weights = np.round(np.random.default_rng(1).normal(72, 12, 3000), 1)
    private = sf.protect(pa.table({"weight": weights}), sf.Schema("people", (weight,)), epsilon=3)
    drawn = np.asarray(private.synthesize(epsilon=3).table.column("weight").drop_null(), float)
    tenths = np.rint(drawn * 10)
    assert np.abs(drawn * 10 - tenths).max() < 1e-9
    assert 0.8 < (tenths % 10 != 0).mean() < 0.98
    assert drawn.min() >= 20
    assert drawn.max() <= 130
