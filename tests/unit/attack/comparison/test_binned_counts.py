"""Bins of columns, and labels spread over them: shares that can be counted by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.attack.comparison.binned_counts import MOST_BINS, bins_of
from sfumato.data.counting.frequencies import count_held

if TYPE_CHECKING:
    from sfumato.attack.comparison.binned_counts import ColumnBins

AGE = sf.Column("x", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 9), sf.Widths((5,)))
TOWN = sf.Column("x", sf.Kind.TEXT, sf.Role.QUASI, sf.Values(("a", "b", "c", "d")), sf.Removal())
WEIGHT = sf.Column("x", sf.Kind.REAL, sf.Role.QUASI)


def cut(column: sf.Column, values: list[Any], labels: list[Any] | None = None) -> ColumnBins:
    with sf.read([{"x": one} for one in values], sf.Schema("t", (column,))) as table:
        counted = count_held(table.engine, table.engine.table, ["x"])
    return bins_of(column, labels or [], counted)


def test_few_values_have_a_bin_each_and_a_label_counts_in_all_it_covers() -> None:
    bins = cut(AGE, [0, 9])
    assert bins.size == 11
    value, span, all_ = bins.spread([3, "0-4", "*"])
    assert value.tolist() == np.eye(11)[3].tolist()
    assert span.tolist() == [0.2] * 5 + [0] * 6
    assert all_.tolist() == pytest.approx([0.1] * 10 + [0])


def test_many_values_have_bins_of_as_many_rows_each() -> None:
    column = sf.Column("x", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 999))
    bins = cut(column, list(range(200)))
    assert bins.size == MOST_BINS + 1
    rows = bins.spread(list(range(200))).sum(axis=0)
    assert rows.tolist() == [10] * MOST_BINS + [0]


def test_a_strange_value_has_a_bin_of_its_own() -> None:
    bins = cut(TOWN, ["a", "b"], ["e", "a"])
    assert bins.spread(["e", "a", "f"])[:, -1].tolist() == [0, 0, 1]
    closed = cut(AGE, [1], ["nobody"])
    assert closed.spread(["nobody", 1])[:, -1].tolist() == [1, 0]


@pytest.mark.parametrize("others", [[], [None], ["e", "f"]])
def test_what_other_releases_hold_changes_nothing(others: list[Any]) -> None:
    """A root spreads over what is declared or in the original, not over others' inventions."""
    assert cut(TOWN, ["a", "b"], others).spread(["*"])[0][:4].tolist() == [0.25] * 4


def test_a_missing_cell_counts_as_missing_alone() -> None:
    bins = cut(TOWN, ["a", None])
    missing, root = bins.spread([None, "*"])
    assert missing.max() == 1
    assert root[missing.argmax()] == 0


def test_a_range_of_reals_counts_by_its_length() -> None:
    """Though nearly all of the original's numbers lie in its first tenth."""
    values = [place / 100 for place in range(100)] + [10.0]
    bins = cut(WEIGHT, values)
    spread = bins.spread(["[0.0, 10.0]"])[0]
    assert spread[-2] > 0.5  # the last bin has few rows and most of the length
    assert spread.sum() == pytest.approx(1)


def test_nothing_known_is_everything_alike() -> None:
    assert cut(TOWN, ["a"]).shares_if_unknown.tolist() == [0.25] * 4 + [0]
