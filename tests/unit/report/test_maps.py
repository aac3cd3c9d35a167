"""The map of boxes."""

from __future__ import annotations

import math

import pytest

from sfumato.errors import ParameterError
from sfumato.report.charts import SHADES, draw
from sfumato.report.maps import DECADES, Rectangle, boxes_map

BOXES = [Rectangle(0, 1, 0, 1, 100.0), Rectangle(1, 3, 0, 1, 2.0), Rectangle(0, 3, 1, 2, -4.0)]


def test_boxes_are_shaded_by_density() -> None:
    chart = boxes_map(BOXES, label="A map", x="East", y="North")
    values = chart.spec["data"]["values"]
    assert [one["density"] for one in values] == [100.0, 1.0, 100 / 10**DECADES]
    assert chart.table.rows[0] == ("0 to 1", "0 to 1", "100", "100")
    drawn = draw(chart.spec, width=300, name="map").lower()
    assert SHADES[-1] in drawn or "rgb(61, 38, 22)" in drawn  # the densest box
    assert drawn.count("<path") >= len(BOXES)


def test_a_map_of_nobody_is_pale() -> None:
    chart = boxes_map([Rectangle(0, 1, 0, 1, -1.0)], label="A map", x="East", y="North")
    assert [one["density"] for one in chart.spec["data"]["values"]] == [10**-DECADES]


@pytest.mark.parametrize("edges", [(0, 0, 0, 1, 1), (0, 1, 2, 1, 1), (0, math.inf, 0, 1, 1)])
def test_a_box_without_an_area_is_refused(edges: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError) as caught:
        boxes_map([Rectangle(*edges)], label="A map", x="East", y="North")
    assert caught.value.code == "map_box_flat"
