"""The map of boxes."""

from __future__ import annotations

import math

import pytest
from tests.unit.report.svg_reading import assert_readable, marks, rectangles, words

from sfumato.errors import ParameterError
from sfumato.report.blocks import PageTable
from sfumato.report.heat_maps import MapBox, MapSide, draw_box_map

SIDES = (MapSide("east", ends=(0, 3)), MapSide("north", ends=(0, 2)))
TABLE = PageTable("t", ("a",), [("b",)])
BOXES = [MapBox(0, 1, 0, 1, 100.0), MapBox(1, 3, 0, 1, 2.0), MapBox(0, 3, 1, 2, -4.0)]


def test_boxes_are_shaded_by_density() -> None:
    svg = draw_box_map(BOXES, SIDES, label="A map", table=TABLE).draw(400)
    drawn = {kind: rectangles(svg, kind) for kind in (f"shade{n}" for n in range(6))}
    ((left, _, width, _),) = drawn["shade5"]
    ((empty_left, top, empty_width, _), *_) = sorted(drawn["shade0"], key=lambda one: one[1])
    assert empty_width > 2.9 * width
    assert left == empty_left
    assert top == min(y for boxes in drawn.values() for _, y, *_ in boxes)
    assert_readable(svg)


def test_a_map_of_nobody_is_pale() -> None:
    svg = draw_box_map([MapBox(0, 3, 0, 2, -1.0)], SIDES, label="A map", table=TABLE).draw(400)
    assert len(rectangles(svg, "shade0")) == 1
    assert not rectangles(svg, "shade5")


def test_the_smallest_boxes_are_seen() -> None:
    tiny = MapBox(1.5, 1.5001, 1.5, 1.5001, 50.0)
    svg = draw_box_map([*BOXES, tiny], SIDES, label="A map", table=TABLE).draw(400)
    assert any((width, height) == (1, 1) for *_, width, height in rectangles(svg, "shade5"))


def test_very_many_boxes_are_put_together_and_all_are_counted() -> None:
    side = 200
    boxes = [
        MapBox(i, i + 1, j, j + 1, 5.0 if i < side / 2 else 500.0)
        for i in range(side)
        for j in range(side)
    ]
    sides = (MapSide("x", ends=(0, side)), MapSide("y", ends=(0, side)))
    picture = draw_box_map(boxes, sides, label="A map", table=TABLE)
    svg = picture.draw(764)
    assert picture.note == "The 40,000 boxes are drawn as 100 by 100 squares."
    assert sum(len(rectangles(svg, f"shade{n}")) for n in range(6)) == 10_000
    assert len(rectangles(svg, "shade5")) == 5_000
    assert len(svg) < 300_000


def test_the_legend_has_six_steps_at_most() -> None:
    boxes = [MapBox(n, n + 1, 0, 1, 3.0**n) for n in range(12)]
    svg = draw_box_map(
        boxes, (MapSide("x", ends=(0, 12)), MapSide("y")), label="l", table=TABLE
    ).draw(400)
    assert len(marks(svg, "swatch")) == 6
    assert "Count per unit of x and y" in {one.text for one in words(svg)}


@pytest.mark.parametrize("edges", [(0, 0, 0, 1, 1), (0, 1, 2, 1, 1), (0, math.inf, 0, 1, 1)])
def test_a_box_without_an_area_is_refused(edges: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError) as caught:
        draw_box_map([MapBox(*edges)], SIDES, label="A map", table=TABLE)
    assert caught.value.code == "array_invalid"
