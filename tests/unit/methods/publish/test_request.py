"""Ranges of values as ranges of codes."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.counting.axes import Grid, Listed
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.errors import ParameterError
from sfumato.methods.publish.request import to_codes

AGES = Grid("age", Kind.INTEGER, Bounds(18, 90), nullable=True)
HALVES = Grid("height", Kind.REAL, Bounds(0, 10, step=Decimal("0.5")), nullable=False)
DAYS = Grid("day", Kind.DATE, Bounds(date(2024, 1, 1), date(2024, 12, 31)), nullable=False)
SIZES = Listed("size", pa.array(["s", "m", "l", None]), declared=True)


def codes(axis: Grid | Listed, *ends: object) -> list[int]:
    queries = np.array([[list(ends)]], dtype=object)
    return [int(code) for code in to_codes([axis], queries)[0, 0]]


def test_whole_numbers_count_from_the_lower_bound() -> None:
    assert codes(AGES, 18, 90) == [0, 72]
    assert codes(AGES, 20, 29) == [2, 11]


def test_what_reaches_beyond_the_bounds_is_cut() -> None:
    assert codes(AGES, -5, 200) == [0, 72]
    low, high = codes(AGES, 95, 99)
    assert high < low


def test_a_range_between_two_points_holds_none() -> None:
    assert codes(HALVES, 0.6, 0.9) == [2, 1]
    assert codes(HALVES, 0.5, 1.0) == [1, 2]
    assert codes(HALVES, 0.1, 0.6) == [1, 1]


def test_tenths_are_read_as_they_were_written() -> None:
    fine = Grid("x", Kind.REAL, Bounds(0, 1, step=Decimal("0.1")), nullable=False)
    # In binary 0.3 lies a little below three tenths, and 3 * 0.1 above.
    assert codes(fine, 0.3, 0.7) == [3, 7]


def test_days_come_as_dates_or_as_numpy_writes_them() -> None:
    assert codes(DAYS, date(2024, 1, 2), date(2024, 3, 1)) == [1, 60]
    days = np.array([[["2024-01-02", "2024-03-01"]]], dtype="datetime64[D]")
    assert to_codes([DAYS], days).tolist() == [[[1, 60]]]
    assert to_codes([DAYS], days.astype("datetime64[s]")).tolist() == [[[1, 60]]]


def test_listed_values_range_in_declared_order() -> None:
    assert codes(SIZES, "s", "m") == [0, 1]
    with pytest.raises(ParameterError, match="not declared") as refused:
        codes(SIZES, "s", "xl")
    assert refused.value.code == "value_outside_domain"


@pytest.mark.parametrize("given", [[1, 2], [[1, 2]], [[[1, 2], [1, 2]]], [[[1, 2, 3]]]])
def test_a_wrong_shape_is_refused(given: object) -> None:
    with pytest.raises(ParameterError, match="shape") as refused:
        to_codes([AGES], np.array(given))
    assert refused.value.code == "array_invalid"


@pytest.mark.parametrize("given", ["old", None, float("nan"), float("inf")])
def test_what_is_no_number_is_refused(given: object) -> None:
    with pytest.raises(ParameterError) as refused:
        codes(AGES, 18, given)
    assert refused.value.code == "workload_invalid"


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_dates_of_any_resolution_name_the_same_days(unit: str) -> None:
    given = np.array([[["2024-01-02", "2024-01-05"]]], dtype=f"datetime64[{unit}]")
    assert to_codes([DAYS], given).tolist() == [[[1, 4]]]
    assert to_codes([DAYS], [[[given[0, 0, 0], given[0, 0, 1]]]]).tolist() == [[[1, 4]]]


@pytest.mark.parametrize("ends", [[19723, 19725], [1.0, 2.0], ["x", "y"]])
def test_days_are_not_numbers(ends: list[object]) -> None:
    with pytest.raises(ParameterError) as refused:
        codes(DAYS, *ends)
    assert refused.value.code == "workload_invalid"


def test_numbers_are_not_days() -> None:
    grid = Grid("n", Kind.INTEGER, Bounds(0, 9), nullable=False)
    with pytest.raises(ParameterError) as refused:
        codes(grid, date(2024, 1, 1), date(2024, 1, 2))
    assert refused.value.code == "workload_invalid"


def test_lists_keep_booleans_beside_texts() -> None:
    city = Listed("city", pa.array(["Rome", "Oslo"]), declared=True)
    ill = Listed("ill", pa.array([False, True]), declared=True)
    asked: list[list[list[str | bool]]] = [[["Rome", "Rome"], [True, True]]]
    found = to_codes([city, ill], asked)
    assert found.tolist() == [[[0, 0], [1, 1]]]


def test_ragged_ranges_are_refused() -> None:
    with pytest.raises(ParameterError) as refused:
        to_codes([DAYS], [[[1, 2], [3]]])
    assert refused.value.code == "array_invalid"


def test_released_points_read_as_they_were_declared_and_name_themselves() -> None:
    grid = Grid("r", Kind.REAL, Bounds(0, 1, step=Decimal("0.1")), nullable=False)
    values = grid.decode(np.arange(11)).to_pylist()
    assert values == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    found = to_codes([grid], [[[value, value]] for value in values])
    assert found[:, 0].tolist() == [[place, place] for place in range(11)]
