from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from sfumato.errors import ParameterError
from sfumato.report import charts
from sfumato.report.charts import Point, draw

if TYPE_CHECKING:
    from sfumato.report.blocks import Chart

LIGHT, DARK = "#faf7f2", "#1a1816"

CHARTS = {
    "bar": charts.bar([("a < b", 3), ("c", 0)], label="Bars", what="Name", value="Count"),
    "skyline": charts.skyline(
        [("a", "1", 0.5), ("b", "2", 0.25)],
        label="Skyline",
        what="Name",
        series="Size",
        value="Share",
        percent=True,
    ),
    "line": charts.line(
        [Point("s < t", 0.1, 9, 8, 10), Point("s < t", 1, 3, 2, 4)],
        label="Line",
        x="epsilon",
        y="error",
        series="method",
        logarithmic=True,
    ),
    "crowd": charts.crowd(0.87, label="Crowd", inside="alone", outside="together"),
}


def tags(svg: str, ending: str) -> list[ET.Element]:
    return [one for one in ET.fromstring(svg).iter() if one.tag.endswith(ending)]


def luminance(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("tone", charts.TONES)
@pytest.mark.parametrize("paper", [LIGHT, DARK])
def test_tones_stand_out_on_light_and_dark(tone: str, paper: str) -> None:
    high, low = sorted([luminance(tone), luminance(paper)], reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 3


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
@pytest.mark.parametrize("width", [360, 764])
def test_charts_draw_at_the_asked_width_with_nothing_from_outside(chart: Chart, width: int) -> None:
    svg = draw(chart.spec, width=width, name="one")
    root = ET.fromstring(svg)
    assert float(root.attrib["width"]) == pytest.approx(width, abs=2)
    assert "style=" not in svg
    assert not tags(svg, "}script")
    assert not [value for one in root.iter() for key, value in one.items() if "href" in key]


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_every_chart_has_words_and_a_table(chart: Chart) -> None:
    assert chart.label
    assert all(len(row) == len(chart.table.headers) for row in chart.table.rows)
    assert chart.table.rows


def test_bars_are_as_long_as_their_numbers() -> None:
    chart = charts.bar(
        [("whole", 1.0), ("quarter", 0.25)], label="l", what="w", value="v", percent=True
    )
    svg = draw(chart.spec, width=404, name="one")
    assert "h400v9h-400Z" in svg
    assert "h100v9h-100Z" in svg
    words = [one.text for one in tags(svg, "}text")]
    assert words == ["whole", "quarter", "100 %", "25.0 %"]


def test_crowd_counts_people() -> None:
    svg = draw(CHARTS["crowd"].spec, width=360, name="one")
    legend = 1
    assert svg.count(f'fill="{charts.TONES[0]}"') == 87 + legend


def test_names_inside_drawings_differ() -> None:
    spec = {
        "data": {"values": [{"x": 1, "y": 1}, {"x": 2, "y": 3}]},
        "mark": {"type": "line", "clip": True},
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "y": {"field": "y", "type": "quantitative"},
        },
    }
    svg = draw(spec, width=300, name="first")
    ids = [one.attrib["id"] for one in ET.fromstring(svg).iter() if "id" in one.attrib]
    assert ids
    assert all(one.startswith("first-") for one in ids)
    assert all(f"url(#{one})" in svg for one in ids)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_cannot_be_drawn_are_refused(number: float) -> None:
    with pytest.raises(ParameterError) as caught:
        charts.line([Point("a", 1, number)], label="l", x="x", y="y", series="s")
    assert caught.value.code == "chart_not_finite"


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (1e-9, "< 0.1 %"),
        (0.0005, "0.1 %"),
        (1 - 1e-9, "> 99.9 %"),
        (0.8748, "87.5 %"),
    ],
)
def test_only_none_is_nothing_and_only_all_is_everything(fraction: float, text: str) -> None:
    assert charts.share(fraction) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (1234567, "1,234,567"), (0.12345, "0.123"), (2345.6, "2,346")]
)
def test_numbers_are_written_for_people(number: float, text: str) -> None:
    assert charts.show(number) == text
