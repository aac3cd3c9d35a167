"""Heat maps, tiles, the sides of maps and the shades of quantities."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from tests.unit.report.svg_reading import assert_readable, marks, rectangles, words

from sfumato.errors import ParameterError
from sfumato.report.blocks import PageTable
from sfumato.report.drawing import Drawing
from sfumato.report.heat_maps import (
    MOST_CELLS,
    MapBox,
    MapSide,
    coarsen,
    draw_box_map,
    draw_heat_map,
    draw_map_frame,
    draw_tiles,
    finish_map,
    is_geographic,
    is_in_degrees,
    shade_legend,
    shade_of,
    shade_paths,
    shade_steps,
)
from sfumato.report.page import render

TABLE = PageTable("Counts", ("Price", "Error"), [("1", "0.8")])
NAMES = [f"a long name of category {n}" for n in range(60)]


@pytest.mark.parametrize("width", [354, 764])
@pytest.mark.parametrize("across", [2, 14, 40])
@pytest.mark.parametrize("up", [1, 16])
def test_no_name_is_cut_or_lies_on_another(across: int, up: int, width: int) -> None:
    cells = np.arange(across * up, dtype=float).reshape(up, across) ** 2
    sides = (MapSide("occupation", NAMES[:across]), MapSide("education", NAMES[:up]))
    assert_readable(draw_heat_map(cells, sides, label="l", table=TABLE, value="Count").draw(width))


def test_names_are_read_from_the_top() -> None:
    sides = (MapSide("x", ["a", "b"]), MapSide("y", ["first", "second"]))
    svg = draw_heat_map(
        np.array([[1.0, 1], [9, 9]]), sides, label="l", table=TABLE, value="n"
    ).draw(400)
    tops = {one.text: one.top for one in words(svg)}
    assert tops["first"] < tops["second"]
    (fullest,) = marks(svg, "shade5")[:1]
    assert fullest.attrib["d"].startswith("M0 1h2")


def test_a_huge_grid_is_a_small_picture_and_says_so() -> None:
    generator = np.arange(1000 * 1000, dtype=float) * 7919 % 1013
    sides = (MapSide("lon", ends=(0, 1000)), MapSide("lat", ends=(0, 1000)))
    picture = draw_heat_map(
        generator.reshape(1000, 1000), sides, label="l", table=TABLE, value="Count"
    )
    assert picture.note == "Each square adds up 10 by 10 cells."
    svg = picture.draw(764)
    assert len(svg) < 150_000
    assert sum(len(re.findall("M", one.get("d", ""))) for one in marks(svg, "shade5")) <= 10_000


def test_of_very_many_names_the_highest_are_shown() -> None:
    cells = np.arange(60.0)[None, :] + 1
    picture = draw_heat_map(
        cells, (MapSide("x", NAMES), MapSide("y", ["one"])), label="l", table=TABLE, value="n"
    )
    assert picture.note == "The 40 highest of 60 values of x are shown."


def test_the_page_shows_pictures_with_names_shades_and_figures() -> None:
    cells = np.array([[0.0, 64.0]])
    picture = draw_tiles([("truth", cells), ("noise", cells)], label="Counts <each>", table=TABLE)
    page = render("t", [picture], lead="", footer="")
    assert page.count('viewBox="0 0 2 1"') == 4
    assert "Counts &lt;each&gt;" in page
    assert "50 and more" in page
    assert '<td class="number">1</td>' in page
    assert_readable(picture.draw(354))


@pytest.mark.parametrize("width", [354, 764])
@pytest.mark.parametrize(("across", "up"), [(3, 2), (40, 5), (60, 30), (2, 1)])
def test_tiles_have_names_where_there_is_room(across: int, up: int, width: int) -> None:
    cells = np.arange(across * up, dtype=float).reshape(up, across)
    names = ([f"x{n}" for n in range(across)], NAMES[:up])
    tiles = [("truth", cells), ("noise", cells)]
    svg = draw_tiles(tiles, label="l", table=TABLE, names=names).draw(width)
    assert_readable(svg)
    written = [one.text for one in words(svg)]
    assert written.count("x0") == 2
    assert sum(one.startswith("a long") for one in written) >= 1
    bare = draw_tiles(tiles, label="l", table=TABLE).draw(width)
    assert "x0" not in [one.text for one in words(bare)]


@pytest.mark.parametrize(
    ("x", "y", "is_one"),
    [("lon", "lat", True), ("Longitude", "LATITUDE", True), ("east", "north", True),
     ("lat", "lon", False), ("day", "cost", False), ("lon", "cost", False)],
)  # fmt: skip
def test_north_is_shown_where_the_columns_are_those_of_a_map(x: str, y: str, is_one: bool) -> None:
    sides = (MapSide(x, ends=(0, 10)), MapSide(y, ends=(0, 10)))
    drawing = Drawing(354)
    finish_map(drawing, draw_map_frame(drawing, sides), sides, [1.0], "Count")
    svg = drawing.svg("")
    assert is_geographic(sides) is is_one
    assert len(marks(svg, "arrow")) == is_one
    assert ("N" in {one.text for one in words(svg)}) is is_one
    assert_readable(svg)


def test_land_keeps_its_shape() -> None:
    """At 60 degrees finish_map a degree of longitude is half as long as one of latitude."""
    sides = (MapSide("lon", ends=(0, 20)), MapSide("lat", ends=(55, 65)))
    frame = draw_map_frame(Drawing(764), sides)
    assert is_in_degrees(sides)
    assert frame.height == pytest.approx(frame.width)


def test_dates_are_told_along_both_sides() -> None:
    sides = (MapSide("day", ends=(19_723, 20_089), dates=True), MapSide("cost", ends=(0, 900)))
    for turned in (sides, sides[::-1]):
        drawing = Drawing(764)
        draw_map_frame(drawing, turned)
        svg = drawing.svg("")
        assert_readable(svg)
        assert any("2024" in one.text for one in words(svg))


RUN = re.compile(r"M(\d+) (\d+)h(\d+)v1h-\3z")


def painted(cells: np.ndarray, steps: list[float]) -> np.ndarray:
    """The shade of every cell of a drawing, the first row at the bottom."""
    found = np.full(cells.shape, -1)
    for kind, path in shade_paths(cells, steps):
        assert RUN.sub("", path) == ""
        for start, row, width in RUN.findall(path):
            found[int(row), int(start) : int(start) + int(width)] = int(kind[-1])
    return found[::-1]


def test_every_cell_has_its_shade() -> None:
    cells = np.array([[-3.0, 0.0, 0.5], [1.0, 9.0, 10.0], [99.0, 1e6, 2000.0]])
    assert painted(cells, [1, 10, 100, 1000, 10_000]).tolist() == [[0, 0, 0], [1, 1, 2], [2, 5, 4]]


@pytest.mark.parametrize("scale", [0.003, 1, 4000])
def test_the_shades_show_something_of_counts_that_differ_much(scale: float) -> None:
    """Of densities over five decades, as those of boxes are, every shade has its share."""
    values = scale * np.geomspace(1, 1e5, 1000)
    steps = shade_steps(values)
    shares = np.bincount(np.searchsorted(steps, values, side="right"), minlength=6) / 1000
    assert len(steps) == 5
    assert (shares[1:5] > 0.15).all()
    assert (shares[[0, 5]] < 0.1).all()
    assert all(float(f"{one:.0e}") == one for one in steps)


def test_one_outlier_does_not_leave_the_rest_pale() -> None:
    values = np.append(np.geomspace(10, 40, 500), 1e6)
    assert shade_steps(values)[0] <= 11
    assert shade_steps(values)[-1] <= 100


def test_counts_alike_are_told_apart_from_zero_alone() -> None:
    steps = shade_steps(np.array([100.0, 101.0, 99.0]))
    assert steps[0] < 20
    assert (np.searchsorted(steps, [99.0, 100.0, 101.0], side="right") == len(steps)).all()


def test_what_may_be_noise_is_pale() -> None:
    noise = np.linspace(-5, 5, 400)
    counts = np.concatenate([noise, [50, 500, 5000]])
    assert shade_steps(counts, floor=5.0)[0] > 5
    assert shade_steps(noise, floor=5.0) == [5.0]
    assert shade_steps(np.zeros(4)) == [1.0]


def test_the_legend_says_what_each_shade_stands_for() -> None:
    legend = shade_legend([1, 10, 100, 1000, 10_000])
    assert [words for _, words in legend] == [
        *("below 1", "1 to 10", "10 to 100", "100 to 1,000", "1,000 to 10,000"),
        "10,000 and more",
    ]
    assert [kind for kind, _ in legend] == [f"shade{n}" for n in range(6)]
    assert shade_legend([5.0]) == [("shade0", "below 5"), ("shade5", "5 and more")]
    for count in range(1, 6):
        shades = [shade_of(step, [1.0] * count) for step in range(count + 1)]
        assert all(after > before for before, after in pairwise(shades))


def test_neighbours_are_added_up_until_they_are_few() -> None:
    cells = np.ones((1000, 1003))
    fewer, (across, up) = coarsen(cells)
    assert fewer.size <= MOST_CELLS
    assert fewer.sum() == cells.sum()
    assert fewer[0, 0] == across * up == 110
    assert coarsen(cells[:90, :90])[1] == (1, 1)
    named, each = coarsen(np.ones((40, 5000)), named=(False, True))
    assert each == (50, 1)
    assert named.shape == (40, 100)


SIDES = (MapSide("east", ends=(0, 3)), MapSide("north", ends=(0, 2)))
BOX_TABLE = PageTable("t", ("a",), [("b",)])
BOXES = [MapBox(0, 1, 0, 1, 100.0), MapBox(1, 3, 0, 1, 2.0), MapBox(0, 3, 1, 2, -4.0)]


def test_boxes_are_shaded_by_density() -> None:
    svg = draw_box_map(BOXES, SIDES, label="A map", table=BOX_TABLE).draw(400)
    drawn = {kind: rectangles(svg, kind) for kind in (f"shade{n}" for n in range(6))}
    ((left, _, width, _),) = drawn["shade5"]
    ((empty_left, top, empty_width, _), *_) = sorted(drawn["shade0"], key=lambda one: one[1])
    assert empty_width > 2.9 * width
    assert left == empty_left
    assert top == min(y for boxes in drawn.values() for _, y, *_ in boxes)
    assert_readable(svg)


def test_a_map_of_nobody_is_pale() -> None:
    svg = draw_box_map([MapBox(0, 3, 0, 2, -1.0)], SIDES, label="A map", table=BOX_TABLE).draw(400)
    assert len(rectangles(svg, "shade0")) == 1
    assert not rectangles(svg, "shade5")


def test_the_smallest_boxes_are_seen() -> None:
    tiny = MapBox(1.5, 1.5001, 1.5, 1.5001, 50.0)
    svg = draw_box_map([*BOXES, tiny], SIDES, label="A map", table=BOX_TABLE).draw(400)
    assert any((width, height) == (1, 1) for *_, width, height in rectangles(svg, "shade5"))


def test_very_many_boxes_are_put_together_and_all_are_counted() -> None:
    side = 200
    boxes = [
        MapBox(i, i + 1, j, j + 1, 5.0 if i < side / 2 else 500.0)
        for i in range(side)
        for j in range(side)
    ]
    sides = (MapSide("x", ends=(0, side)), MapSide("y", ends=(0, side)))
    picture = draw_box_map(boxes, sides, label="A map", table=BOX_TABLE)
    svg = picture.draw(764)
    assert picture.note == "The 40,000 boxes are drawn as 100 by 100 squares."
    assert sum(len(rectangles(svg, f"shade{n}")) for n in range(6)) == 10_000
    assert len(rectangles(svg, "shade5")) == 5_000
    assert len(svg) < 300_000


def test_the_legend_has_six_steps_at_most() -> None:
    boxes = [MapBox(n, n + 1, 0, 1, 3.0**n) for n in range(12)]
    svg = draw_box_map(
        boxes, (MapSide("x", ends=(0, 12)), MapSide("y")), label="l", table=BOX_TABLE
    ).draw(400)
    assert len(marks(svg, "swatch")) == 6
    assert "Count per unit of x and y" in {one.text for one in words(svg)}


@pytest.mark.parametrize("edges", [(0, 0, 0, 1, 1), (0, 1, 2, 1, 1), (0, math.inf, 0, 1, 1)])
def test_a_box_without_an_area_is_refused(edges: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError) as caught:
        draw_box_map([MapBox(*edges)], SIDES, label="A map", table=BOX_TABLE)
    assert caught.value.code == "array_invalid"
