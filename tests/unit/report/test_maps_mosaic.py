"""Tables of counts as pictures."""

from __future__ import annotations

import re

import numpy as np

from sfumato.report import maps
from sfumato.report.blocks import Mosaic, PageTable
from sfumato.report.charts import SHADES
from sfumato.report.page import render

RUN = re.compile(r"M(\d+) (\d+)h(\d+)v1h-\3z")


def painted(drawing: str, shape: tuple[int, int]) -> np.ndarray:
    """The shade of every cell of a drawing, the first row at the bottom; 0 is blank."""
    cells = np.zeros(shape, dtype=int)
    for colour, path in re.findall(r'<path fill="(#\w+)" d="([^"]*)"/>', drawing):
        assert RUN.sub("", path) == ""
        for start, row, width in RUN.findall(path):
            cells[int(row), int(start) : int(start) + int(width)] += SHADES.index(colour) + 1
    return cells[::-1]


def test_every_cell_has_its_shade_and_only_one() -> None:
    values = np.array([[-3.0, 0.0, 0.5], [1.0, 9.0, 10.0], [99.0, 1e6, 2.0]])
    begins = [1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0]
    expected = [[0, 0, 0], [1, 1, 2], [2, 6, 1]]
    assert painted(maps.draw_tile(values, begins), (3, 3)).tolist() == expected


def test_steps_grow_by_equal_factors() -> None:
    begins = maps.shade_steps(64.0)
    assert np.allclose(np.diff(np.log(begins)), np.log(64) / 6)
    assert maps.shade_steps(0.0)[0] == 1


def test_the_page_shows_pictures_with_names_shades_and_figures() -> None:
    table = PageTable("Counts", ("Price", "Error"), [("1", "0.8")])
    cells = np.array([[0.0, 64.0]])
    page = render(
        "t",
        [Mosaic("Counts <each>", [("truth", cells), ("noise", cells)], table)],
        lead="",
        footer="",
    )
    assert page.count('viewBox="0 0 2 1"') == 2
    assert "Counts &lt;each&gt;" in page
    assert "32 or more" in page
    assert "<td>1</td>" in page or '<td class="number">1</td>' in page
