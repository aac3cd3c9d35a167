"""Tables of counts as squares."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.unit.report.svg_reading import assert_readable, marks, words

from sfumato.report.blocks import PageTable
from sfumato.report.heat import heat, mosaic
from sfumato.report.map_axes import MapSide
from sfumato.report.page import render

TABLE = PageTable("Counts", ("Price", "Error"), [("1", "0.8")])
NAMES = [f"a long name of category {n}" for n in range(60)]


@pytest.mark.parametrize("width", [354, 764])
@pytest.mark.parametrize("across", [2, 14, 40])
@pytest.mark.parametrize("up", [1, 16])
def test_no_name_is_cut_or_lies_on_another(across: int, up: int, width: int) -> None:
    cells = np.arange(across * up, dtype=float).reshape(up, across) ** 2
    sides = (MapSide("occupation", NAMES[:across]), MapSide("education", NAMES[:up]))
    assert_readable(heat(cells, sides, label="l", table=TABLE, value="Count").draw(width))


def test_names_are_read_from_the_top() -> None:
    sides = (MapSide("x", ["a", "b"]), MapSide("y", ["first", "second"]))
    svg = heat(np.array([[1.0, 1], [9, 9]]), sides, label="l", table=TABLE, value="n").draw(400)
    tops = {one.text: one.top for one in words(svg)}
    assert tops["first"] < tops["second"]
    (fullest,) = marks(svg, "shade5")[:1]
    assert fullest.attrib["d"].startswith("M0 1h2")


def test_a_huge_grid_is_a_small_picture_and_says_so() -> None:
    generator = np.arange(1000 * 1000, dtype=float) * 7919 % 1013
    sides = (MapSide("lon", ends=(0, 1000)), MapSide("lat", ends=(0, 1000)))
    picture = heat(generator.reshape(1000, 1000), sides, label="l", table=TABLE, value="Count")
    assert picture.note == "Each square adds up 10 by 10 cells."
    svg = picture.draw(764)
    assert len(svg) < 150_000
    assert sum(len(re.findall("M", one.get("d", ""))) for one in marks(svg, "shade5")) <= 10_000


def test_of_very_many_names_the_highest_are_shown() -> None:
    cells = np.arange(60.0)[None, :] + 1
    picture = heat(
        cells, (MapSide("x", NAMES), MapSide("y", ["one"])), label="l", table=TABLE, value="n"
    )
    assert picture.note == "Of 60 values of x the 40 highest are shown."


def test_the_page_shows_pictures_with_names_shades_and_figures() -> None:
    cells = np.array([[0.0, 64.0]])
    picture = mosaic([("truth", cells), ("noise", cells)], label="Counts <each>", table=TABLE)
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
    svg = mosaic(tiles, label="l", table=TABLE, names=names).draw(width)
    assert_readable(svg)
    written = [one.text for one in words(svg)]
    assert written.count("x0") == 2
    assert sum(one.startswith("a long") for one in written) >= 1
    bare = mosaic(tiles, label="l", table=TABLE).draw(width)
    assert "x0" not in [one.text for one in words(bare)]
