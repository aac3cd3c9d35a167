"""Sides of maps."""

from __future__ import annotations

import pytest
from tests.unit.report.svg_reading import assert_readable, marks, words

from sfumato.report.drawing import Drawing
from sfumato.report.map_axes import MapSide, in_degrees, is_map, north, sided


@pytest.mark.parametrize(
    ("x", "y", "is_one"),
    [("lon", "lat", True), ("Longitude", "LATITUDE", True), ("east", "north", True),
     ("lat", "lon", False), ("day", "cost", False), ("lon", "cost", False)],
)  # fmt: skip
def test_north_is_shown_where_the_columns_are_those_of_a_map(x: str, y: str, is_one: bool) -> None:
    sides = (MapSide(x, ends=(0, 10)), MapSide(y, ends=(0, 10)))
    drawing = Drawing(354)
    north(drawing, sided(drawing, sides), sides)
    svg = drawing.svg("")
    assert is_map(sides) is is_one
    assert len(marks(svg, "arrow")) == is_one
    assert ("N" in {one.text for one in words(svg)}) is is_one
    assert_readable(svg)


def test_land_keeps_its_shape() -> None:
    """At 60 degrees north a degree of longitude is half as long as one of latitude."""
    sides = (MapSide("lon", ends=(0, 20)), MapSide("lat", ends=(55, 65)))
    frame = sided(Drawing(764), sides)
    assert in_degrees(sides)
    assert frame.height == pytest.approx(frame.width)


def test_dates_are_told_along_both_sides() -> None:
    sides = (MapSide("day", ends=(19_723, 20_089), dates=True), MapSide("cost", ends=(0, 900)))
    for turned in (sides, sides[::-1]):
        drawing = Drawing(764)
        sided(drawing, turned)
        svg = drawing.svg("")
        assert_readable(svg)
        assert any("2024" in one.text for one in words(svg))
