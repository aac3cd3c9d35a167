"""Shades of quantities."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from sfumato.report.shading import (
    MOST_MARKS,
    coarser,
    shade_legend,
    shade_of,
    shade_paths,
    shade_steps,
)

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
    fewer, (across, up) = coarser(cells)
    assert fewer.size <= MOST_MARKS
    assert fewer.sum() == cells.sum()
    assert fewer[0, 0] == across * up == 110
    assert coarser(cells[:90, :90])[1] == (1, 1)
    named, each = coarser(np.ones((40, 5000)), named=(False, True))
    assert each == (50, 1)
    assert named.shape == (40, 100)
