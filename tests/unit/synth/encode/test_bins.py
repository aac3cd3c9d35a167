"""Bins of points: values drawn within them evenly, missing ones behind them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import pytest

from sfumato.schema.column import Kind
from sfumato.schema.domain import Bounds
from sfumato.synth.encode.bins import Bins
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


@pytest.mark.parametrize("step", [1, 2, 5])
def test_lower_ends_are_where_rounding_turns(step: int) -> None:
    bins = Bins("x", Kind.INTEGER, Bounds(0, 10 * step, step), False, (0, 4))
    least = next(one for one in range(10 * step) if (2 * one + step) // (2 * step) >= 4)
    assert f"{least} AS BIGINT" in bins.code().sql()
