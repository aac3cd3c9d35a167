"""Bins of points: values drawn within them evenly, missing ones behind them."""

from __future__ import annotations

from contextlib import closing
from datetime import date, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.counting.frequencies import count
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.methods.synth.encode.axes import Bins
from sfumato.testing.entropy import SeededEntropy

AGES = Bins("age", Kind.INTEGER, Bounds(10, 30, 5), True, (0, 2, 3))


def test_codes_stand_for_the_lowest_value() -> None:
    assert (AGES.points, AGES.size) == (3, 4)
    assert AGES.decode(np.arange(4)).to_pylist() == [10, 20, 25, None]


def test_every_point_of_a_bin_is_as_likely() -> None:
    drawn = AGES.spread(np.zeros(4000, dtype=np.int64), SeededEntropy(1)).to_numpy()
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [10, 15]
    assert abs(counts[0] - 2000) < 200
    last = AGES.spread(np.full(200, 2), SeededEntropy(1)).to_numpy()
    assert set(last.tolist()) == {25, 30}


def test_nan_and_dates() -> None:
    doses = Bins("x", Kind.REAL, Bounds(Decimal(0), Decimal(1), Decimal("0.1")), True, (0, 3))
    low, high, missing, nan = doses.spread(np.arange(4), SeededEntropy(2)).to_pylist()
    assert low in (0.0, 0.1, 0.2)
    assert high >= 0.3
    assert missing is None
    assert nan != nan
    bounds = Bounds(date(2020, 1, 31), date(2020, 3, 1))
    days = Bins("d", Kind.DATE, bounds, False, (0, 1, 30))
    assert days.decode(np.arange(3)).to_pylist() == [
        date(2020, 1, 31), date(2020, 2, 1), date(2020, 3, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("starts", [(0, 4, 8), (0, 1, 5, 9), (0, 2, 3, 9), (0, 5)])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_every_value_is_counted_in_the_bin_of_its_nearest_point(
    starts: tuple[int, ...], step: int
) -> None:
    values = np.arange(-3, 10 * step + 4)
    nearest = np.clip((2 * values + step) // (2 * step), 0, 10)
    wanted = np.bincount(np.searchsorted(starts, nearest, side="right") - 1)
    first, tenth = date(2020, 1, 31), Decimal("0.1")
    columns = {
        "whole": pa.array(values - 7),
        "real": pa.array([float(one * tenth) for one in map(int, values)]),
        "day": pa.array([first + timedelta(days=one) for one in map(int, values)]),
    }
    bounds = {
        "whole": Bounds(-7, 10 * step - 7, step),
        "real": Bounds(Decimal(0), step * Decimal(1), step * tenth),
        "day": Bounds(first, first + timedelta(days=10 * step), step),
    }
    kinds = {"whole": Kind.INTEGER, "real": Kind.REAL, "day": Kind.DATE}
    with closing(open_duckdb(pa.table(columns))) as engine:
        for name, kind in kinds.items():
            if kind is Kind.REAL and step % 2 == 0:
                continue  # which of two points is nearer to a tenth between them, doubles decide
            bins = Bins(name, kind, bounds[name], False, starts)
            assert count(engine, engine.table, [bins]).dense().tolist() == wanted.tolist()


@pytest.mark.parametrize("step", [1, 2, 5])
def test_lower_ends_are_where_rounding_turns(step: int) -> None:
    bins = Bins("x", Kind.INTEGER, Bounds(0, 10 * step, step), False, (0, 4))
    least = next(one for one in range(10 * step) if (2 * one + step) // (2 * step) >= 4)
    assert f"{least} AS BIGINT" in bins.code().sql()
