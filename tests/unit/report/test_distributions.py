"""Columns of two tables beside each other."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.report.svg_reading import assert_readable, marks, words

from sfumato.report.blocks import Folded
from sfumato.report.distributions import ColumnComparison, Distribution, draw_comparison, fold


def column(places: int, *, starts: bool = False, off: float = 0.0) -> ColumnComparison:
    first, second = np.full(places, 1 / places), np.zeros(places)
    second[0] = 1.0
    return ColumnComparison(
        "age",
        [f"value {place}" for place in range(places)],
        [Distribution("Original", first, off), Distribution("Released", second)],
        [float(one) for one in range(places)] if starts else (),
    )


def test_few_values_are_bars_and_the_rest_is_one() -> None:
    picture = draw_comparison(column(10), label="L", series="Table")
    assert len(picture.table.rows) == 2 * 9
    assert picture.table.rows[-2] == ("2 other values", "Original", "20")
    assert picture.table.rows[0] == ("value 0", "Original", "10")
    assert_readable(picture.draw(354))


def test_a_long_scale_is_lines_and_says_what_lies_outside() -> None:
    one = column(41, starts=True)  # 40 stretches, and one place behind them
    picture = draw_comparison(one, label="L", series="Table", note="More.")
    assert "value 40: 2.4 % (original), 0 % (released). More." in picture.note
    assert len(picture.table.rows) == 41
    svg = picture.draw(354)
    assert_readable(svg)
    assert len(marks(svg, "line")) == 2
    assert "age" in [one.text for one in words(svg)]


def test_noise_is_drawn_where_there_is_some() -> None:
    bars = draw_comparison(column(3, off=0.1), label="L", series="Table")
    assert len(marks(bars.draw(354), "whisker")) == 3
    assert not marks(draw_comparison(column(3), label="L", series="Table").draw(354), "whisker")


def test_how_far_both_are_apart_is_told_in_rows() -> None:
    assert column(4).distance == pytest.approx(0.75)


def test_many_pictures_are_folded() -> None:
    picture = draw_comparison(column(3), label="L", series="Table")
    blocks = fold((f"column {place}", picture) for place in range(8))
    assert blocks[5] is picture
    assert blocks[6:] == [Folded("column 6", [picture]), Folded("column 7", [picture])]
