"""Errors that no epsilon lowers: trees go down to single points, and what is left is bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.counts import frequencies, request_for, whole_numbers
from tests.fixtures.publications import grow_copies

from sfumato.errors import ParameterError
from sfumato.methods.publish import auto, kdtree, publication, quadtree
from sfumato.methods.publish.request import AnswersRanges, BoundsUnevenness, EstimatesVariance
from sfumato.privacy.estimation.boxes import box_sums
from sfumato.privacy.estimation.trees import LeastSquares
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

LINE = ("kdtree", "hybrid", "privtree")
PLANE = (*LINE, "adaptive-grid")


def spikes(shape: tuple[int, ...], rows: int = 4000) -> NDArray[np.int64]:
    """A few points with all the rows."""
    cells: NDArray[np.int64] = np.zeros(shape, dtype=np.int64)
    places = np.random.default_rng(3).choice(cells.size, 5, replace=False)
    cells.reshape(-1)[places] = rows
    return cells


def beside(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ranges that end at a full point, and those that end just before it."""
    found = []
    for point in np.argwhere(cells):
        found.append([[0, end] for end in point])
        found.append([[0, max(point[0] - 1, 0)], *([0, end] for end in point[1:])])
    return np.array(found)


@pytest.mark.parametrize("name", LINE)
@pytest.mark.parametrize("shape", [(4096,), (300, 200)])
def test_what_is_off_where_rows_lie_on_single_points_is_noise(
    name: str, shape: tuple[int, ...]
) -> None:
    """A tree of eight levels was off by thousands of rows at any epsilon."""
    request = request_for(whole_numbers(*shape), epsilon=1)
    made, cells = publication.prepare(name, request, {}).method, spikes(shape)
    assert isinstance(made, AnswersRanges)
    assert isinstance(made, EstimatesVariance)
    boxes = beside(cells)
    tables = made.release(frequencies(request.axes, cells), SeededEntropy(4))
    errors = made.ranges(tables, boxes) - box_sums(cells.astype(np.float64), boxes)
    stated = np.sqrt(made.ranges_variance_of(tables, boxes))
    assert (np.abs(errors) <= 7 * stated).all()
    assert np.abs(errors).max() < 400


def test_a_plane_too_fine_for_cells_is_quartered_to_single_points() -> None:
    axes = whole_numbers(20_000, 20_000)
    made = quadtree.prepare(request_for(axes, epsilon=1))
    assert made.parameters["height"] == 15
    assert made.parameters["prune"] > 0
    assert quadtree.prepare(request_for(axes, epsilon=1), height=8).parameters["prune"] == 0


def test_who_says_when_to_stop_gets_no_more_boxes_than_can_be() -> None:
    made = kdtree.prepare(request_for(whole_numbers(1 << 20, 1 << 20)), prune=0)
    assert made.parameters["height"] == 11
    usual = kdtree.prepare(request_for(whole_numbers(1 << 20, 1 << 20)))
    assert usual.parameters["height"] == 28  # eight at medians, and twenty halves


@pytest.mark.parametrize("name", PLANE)
@pytest.mark.parametrize("epsilon", ["1/2", 8])
def test_noise_and_unevenness_together_bound_every_error(name: str, epsilon: object) -> None:
    shape = (120, 90)
    request = request_for(whole_numbers(*shape), epsilon=epsilon)
    made, cells = publication.prepare(name, request, {}).method, spikes(shape, 300)
    cells[40:60, 30:50] += 2
    assert isinstance(made, AnswersRanges)
    assert isinstance(made, EstimatesVariance)
    assert isinstance(made, BoundsUnevenness)
    generator = np.random.default_rng(5)
    sides = [generator.integers(0, size, (200, 2)) for size in shape]
    boxes = np.sort(np.stack(sides, axis=1), axis=2)
    tables = made.release(frequencies(request.axes, cells), SeededEntropy(6))
    errors = np.abs(made.ranges(tables, boxes) - box_sums(cells.astype(np.float64), boxes))
    noise = np.sqrt(made.ranges_variance_of(tables, boxes))
    uneven = made.ranges_unevenness(tables, boxes)
    assert (errors <= 7 * noise + uneven).all()
    assert (errors > 7 * noise).any() or epsilon != 8 or uneven.max() < 7 * noise.max()
    whole = np.array([[[0, size - 1] for size in shape]])
    assert made.ranges_unevenness(tables, whole).tolist() == [0.0]
    assert "ranges_unevenness" in made.error["note"]


def test_blocks_and_regions_bound_what_lies_unevenly_in_them() -> None:
    axes = whole_numbers(40)
    asked = np.array([[[0, 9]], [[10, 39]]])
    plan = auto.prepare(request_for(axes, boxes=asked, epsilon=10))
    cells = np.zeros(40, dtype=np.int64)
    cells[12] = 500
    tables = plan.release(frequencies(axes, cells), SeededEntropy(1))
    boxes = np.array([[[10, 39]], [[10, 24]], [[0, 12]]])
    errors = np.abs(plan.ranges(tables, boxes) - [500, 500, 500])
    uneven = plan.ranges_unevenness(tables, boxes)
    assert uneven[0] == 0
    assert uneven == pytest.approx([0, 250, 450], rel=0.02)
    assert (errors <= uneven + 10).all()
    assert errors[1:].min() > 200


def test_what_is_not_known_of_a_kind_is_refused() -> None:
    made = publication.prepare("fourier", request_for(whole_numbers(9)), {})
    with pytest.raises(ParameterError, match="unevenly") as refused:
        made.ranges_unevenness({}, np.array([[[0, 1]]]))
    assert refused.value.code == "ranges_not_answerable"


@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": "1/8"}], ids=["epsilon", "rho"])
@pytest.mark.parametrize("sizes", [(64,), (8, 8)])
def test_the_bias_of_counts_that_stopped_boxes_is_stated(
    sizes: tuple[int, ...], cost: dict[str, Any]
) -> None:
    """Of the whole, for rows around what stops a box; 3,000 means are known to 0.02 deviations."""
    made = kdtree.prepare(request_for(whole_numbers(*sizes), **cost), hybrid=0)
    copies = 3000
    found = []
    for part in (0.5, 0.9, 1.1, 1.5, 3):
        rows = [(0,) * len(sizes)] * round(made.prunes[0] * part)
        growth = grow_copies(made, rows, copies, SeededEntropy(1))
        values, precisions = growth.measured
        fitted = LeastSquares(growth.tree, precisions)
        whole = slice(1, copies + 1)
        off = (fitted.solve(values)[whole] - len(rows)) / np.sqrt(fitted.variances[whole])
        found.append(abs(off.mean()))
    stated = made.error["stopped"]["bias_sd"]
    assert 0.05 < max(found) < stated
    assert "stopped" not in kdtree.prepare(request_for(whole_numbers(*sizes)), prune=0).error
