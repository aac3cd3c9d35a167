"""Figures as they leave: short, and moved by less than their noise lets anybody see."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods.publish.request import readable

SD = st.floats(0.01, 1e6)
FIGURES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200)


@given(FIGURES, SD)
def test_no_sum_of_figures_moves_by_more_than_a_trace_of_the_noise(
    figures: list[float], sd: float
) -> None:
    table = pa.table({"count": figures})
    rounded = readable({"x": table}, {"cells": {"sd": sd}}, ())["x"]["count"].to_numpy()
    moved = np.abs(rounded - np.array(figures)).sum()
    assert moved <= sd / 200 + 1e-8


def test_the_step_is_decimal_and_by_the_noise() -> None:
    table = pa.table({"count": [8243.000000000002, 8.455673116054385, -0.0000001]})
    found = readable({"x": table}, {"tables": {"x": {"sd": 25.2}}, "all": {"sd": 300.0}}, ())
    assert found["x"]["count"].to_pylist() == [8243.0, 8.46, 0.0]
    assert not np.signbit(found["x"]["count"].to_numpy()).any()


def test_whole_numbers_columns_of_the_data_and_missing_figures_stay() -> None:
    table = pa.table(
        {"place": [0.123456789], "n": [3], "count": pa.array([None], pa.float64()), "sd": [1 / 3]}
    )
    found = readable({"x": table}, {"cell": {"sd": 9.0}}, ("place",))["x"]
    assert found.to_pylist() == [{"place": 0.123456789, "n": 3, "count": None, "sd": 0.333333}]
    named = pa.table({"count": [0.123456789]})
    assert readable({"x": named}, {"sd": 9.0}, ("count",))["x"].equals(named)


def test_without_a_stated_noise_only_the_dust_goes() -> None:
    table = pa.table({"count": [8243.000000000002, 0.1 + 0.2]})
    assert readable({"x": table}, {}, ())["x"]["count"].to_pylist() == [8243.0, 0.3]
