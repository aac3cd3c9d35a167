"""Bar charts: what they draw, and that nothing in them is cut or overlaps."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from tests.unit.report.svg_reading import assert_readable, marks, rectangles, words

from sfumato.errors import ParameterError
from sfumato.report.bars import (
    MOST_BARS,
    Bar,
    Bins,
    draw_bar_groups,
    draw_bars,
    draw_histogram,
)
from sfumato.report.blocks import PageTable
from sfumato.report.points import Point, draw_lines

if TYPE_CHECKING:
    from sfumato.report.picture import Picture


from sfumato.report.bars import draw_people

LONG = "a category with a name that no telephone has room for, and some more words"
CHARTS = {
    "bar": draw_bars([("a < b", 3), (LONG, 0)], label="Bars", category="Name", value="Count"),
    "noisy": draw_bars(
        [Bar(LONG, 12_345_678, 12_000_000, 13_000_000), Bar("b", -900, -2000, 200)],
        label="Bars",
        category="Name",
        value="Count",
    ),
    "grouped": draw_bar_groups(
        [(f"{LONG} {n}", [Bar("Female", 5 * n, 0, 10), Bar(LONG, 7, 6, 8)]) for n in range(4)],
        label="Groups",
        category=("Name", "Sex"),
        value="Count",
    ),
    "line": draw_lines(
        [
            Point(f"series {n} of several", x, 90 / x + n, 80 / x, 99 / x + n)
            for n in range(9)
            for x in (0.1, 1, 4)
        ],
        label="Line",
        x="epsilon",
        y="error",
        series="method",
        logarithmic=True,
    ),
    "dates": draw_lines(
        [Point("day", 19_800 + n, 3 * n) for n in range(300)],
        label="Line",
        x="day",
        y="rows",
        series="column",
        dates=True,
        steps=True,
    ),
}


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
@pytest.mark.parametrize("width", [320, 354, 764])
def test_charts_draw_at_the_asked_width_with_nothing_cut(chart: Picture, width: int) -> None:
    svg = chart.draw(width)
    root = ET.fromstring(svg)
    assert float(root.attrib["width"]) == width
    assert "style=" not in svg
    assert_readable(svg)


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_every_chart_has_words_and_a_table(chart: Picture) -> None:
    assert chart.label
    assert all(len(row) == len(chart.table.headers) for row in chart.table.rows)
    assert chart.table.rows


def test_bars_are_as_long_as_their_numbers() -> None:
    chart = draw_bars(
        [("whole", 1.0), ("quarter", 0.25)], label="l", category="w", value="v", percent=True
    )
    svg = chart.draw(400)
    assert [one.attrib["width"] for one in marks(svg, "tone0")] == ["400", "100"]
    assert [one.text for one in words(svg)] == ["whole", "100 %", "quarter", "25.0 %"]


def test_bars_below_zero_go_to_the_other_side_of_it() -> None:
    chart = draw_bars([("up", 30.0), ("down", -10.0)], label="l", category="w", value="v")
    svg = chart.draw(400)
    up, down = marks(svg, "tone0")
    assert up.attrib["x"] == "100"
    assert (down.attrib["x"], down.attrib["width"]) == ("0", "100")
    assert {one.attrib["x1"] for one in marks(svg, "axis")} == {"100"}


def test_the_error_of_a_bar_is_drawn_and_told() -> None:
    chart = draw_bars(
        [Bar("a", 50, 40, 60), Bar("b", 100)], label="l", category="Name", value="Count"
    )
    (whisker,) = marks(chart.draw(404), "whisker")
    assert "h80" in whisker.attrib["d"]  # 20 of 100 on 400 pixels
    assert chart.table.headers == ("Name", "Count", "95 % interval")
    assert chart.table.rows == [("a", "50", "± 10"), ("b", "100", "–")]
    assert "95 %" in chart.note


def test_one_bar_may_be_accented_and_words_stand_for_figures() -> None:
    chart = draw_bars(
        [("a", 1), ("b", 0)],
        label="l",
        category="w",
        value="v",
        accent="a",
        texts_beside=["above", "below"],
    )
    svg = chart.draw(300)
    assert len(marks(svg, "tone3")) == 1
    assert [one.text for one in words(svg)] == ["a", "above", "b", "below"]


def test_the_band_of_a_line_is_around_it() -> None:
    points = [Point("s", x, 5, 4, 6) for x in (0, 1)]
    svg = draw_lines(points, label="l", x="x", y="y", series="s").draw(400)
    (band,), (drawn,) = marks(svg, "band"), marks(svg, "line")
    heights = {float(y) for y in re.findall(r"[ML]\S+ (\S+?)(?=[LMz]|$)", band.attrib["d"])}
    (middle,) = {float(y) for y in re.findall(r"[ML]\S+ (\S+?)(?=[LMz]|$)", drawn.attrib["d"])}
    assert min(heights) < middle < max(heights)


def test_dates_are_told_as_dates() -> None:
    said = {one.text for one in words(CHARTS["dates"].draw(764))}
    assert {"Apr 2024", "May", "Jan 2025"} <= said
    assert CHARTS["dates"].table.rows[0][1] == "2024-03-18"


def test_a_line_of_very_many_points_stays_small() -> None:
    points = [Point("s", n, n % 7) for n in range(100_000)]
    assert len(draw_lines(points, label="l", x="x", y="y", series="s").draw(764)) < 20_000


def test_a_single_series_needs_no_legend() -> None:
    assert not marks(CHARTS["dates"].draw(764), "swatch")
    assert len(marks(CHARTS["line"].draw(764), "swatch")) == 9


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_cannot_be_drawn_are_refused(number: float) -> None:
    with pytest.raises(ParameterError) as caught:
        draw_lines([Point("a", 1, number)], label="l", x="x", y="y", series="s")
    assert caught.value.code == "array_invalid"


TABLE = PageTable("t", ("a",), [("b",)])


def histogram(size: int, *, off: float | None = 2.0, dates: bool = False) -> Picture:
    at = np.arange(size, dtype=np.float64) + np.float64(19_723 if dates else 0)
    heights = np.where(np.arange(size) % 5 == 0, -3.0, 10.0)
    errors = None if off is None else np.full(size, off)
    stretches = Bins(at - 0.5, at + 0.5, heights, errors)
    return draw_histogram(stretches, label="l", table=TABLE, x="age", y="Count", dates=dates)


@pytest.mark.parametrize("width", [354, 764])
@pytest.mark.parametrize("size", [8, 74, 366, 5000])
@pytest.mark.parametrize("dates", [True, False])
def test_no_histogram_is_cut(size: int, width: int, dates: bool) -> None:
    assert_readable(histogram(size, dates=dates).draw(width))


def test_histogram_bars_below_zero_hang_from_it() -> None:
    bars = rectangles(histogram(10).draw(764), "tone0")
    starts = {y for _, y, _, _ in bars}
    assert len(bars) == 10
    assert len(starts) == 1
    assert sorted({height > 0 for *_, height in bars}) == [False, True]


@pytest.mark.parametrize(("size", "kind"), [(20, "whisker"), (366, "haze")])
def test_errors_are_drawn_as_lines_or_as_a_band(size: int, kind: str) -> None:
    assert len(marks(histogram(size).draw(764), kind)) == 1
    assert not marks(histogram(size, off=None).draw(764), kind)
    assert "95 %" in histogram(size).note
    assert "95 %" not in histogram(size, off=None).note


def test_very_many_are_averages_and_it_is_said() -> None:
    picture = histogram(MOST_BARS * 40)
    assert picture.note.startswith("Each bar is the average of 40 neighbours.")
    bars = rectangles(picture.draw(764), "tone0")
    assert len(bars) == MOST_BARS
    # One of five is -3, the others 10: 7.4 on average, on an axis from -0 to at most 10.
    assert len({round(height, 1) for *_, height in bars}) == 1


def test_dates_have_months_below() -> None:
    said = {one.text for one in words(histogram(366, dates=True).draw(764))}
    assert {"Jan 2024", "Mar", "Nov"} <= said


CROWD = draw_people(0.87, label="Crowd", inside="alone", outside="shares all with someone " * 5)


def test_crowd_counts_people() -> None:
    svg = CROWD.draw(354)
    shapes = {
        kind: [one.get("d", "") for one in marks(svg, kind) if one.get("d")]
        for kind in ("tone0", "faint")
    }
    # A head and shoulders each.
    assert [sum(one.count("M") for one in shape) / 2 for shape in shapes.values()] == [87, 13]


@pytest.mark.parametrize("width", [260, 354])
def test_nothing_is_cut(width: int) -> None:
    assert_readable(CROWD.draw(width))
