"""Bars along an ordered column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.unit.report.svg_reading import assert_readable, marks, rectangles, words

from sfumato.report.blocks import PageTable
from sfumato.report.histograms import MOST_BARS, Stretches, histogram

if TYPE_CHECKING:
    from sfumato.report.picture import Picture

TABLE = PageTable("t", ("a",), [("b",)])


def drawn(size: int, *, off: float | None = 2.0, dates: bool = False) -> Picture:
    at = np.arange(size, dtype=np.float64) + np.float64(19_723 if dates else 0)
    heights = np.where(np.arange(size) % 5 == 0, -3.0, 10.0)
    errors = None if off is None else np.full(size, off)
    stretches = Stretches(at - 0.5, at + 0.5, heights, errors)
    return histogram(stretches, label="l", table=TABLE, x="age", y="Count", dates=dates)


@pytest.mark.parametrize("width", [354, 764])
@pytest.mark.parametrize("size", [8, 74, 366, 5000])
@pytest.mark.parametrize("dates", [True, False])
def test_nothing_is_cut(size: int, width: int, dates: bool) -> None:
    assert_readable(drawn(size, dates=dates).draw(width))


def test_bars_below_zero_hang_from_it() -> None:
    bars = rectangles(drawn(10).draw(764), "tone0")
    starts = {y for _, y, _, _ in bars}
    assert len(bars) == 10
    assert len(starts) == 1
    assert sorted({height > 0 for *_, height in bars}) == [False, True]


@pytest.mark.parametrize(("size", "kind"), [(20, "whisker"), (366, "haze")])
def test_errors_are_drawn_as_lines_or_as_a_band(size: int, kind: str) -> None:
    assert len(marks(drawn(size).draw(764), kind)) == 1
    assert not marks(drawn(size, off=None).draw(764), kind)
    assert "95 %" in drawn(size).note
    assert "95 %" not in drawn(size, off=None).note


def test_very_many_are_averages_and_it_is_said() -> None:
    picture = drawn(MOST_BARS * 40)
    assert picture.note.startswith("Each bar is the average of 40 neighbours.")
    bars = rectangles(picture.draw(764), "tone0")
    assert len(bars) == MOST_BARS
    # One of five is -3, the others 10: 7.4 on average, on an axis from -0 to at most 10.
    assert len({round(height, 1) for *_, height in bars}) == 1


def test_dates_have_months_below() -> None:
    said = {one.text for one in words(drawn(366, dates=True).draw(764))}
    assert {"Jan 2024", "Mar", "Nov"} <= said
