"""Cells and the systems of them."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.methods.trajectory.cells import Box, Hexagons, ReferenceSystems, Squares
from sfumato.methods.trajectory.generate import generated_paths
from sfumato.methods.trajectory.location import randomize_locations
from sfumato.methods.trajectory.paths import Paths
from sfumato.methods.trajectory.utility import diameters, divergence, travelled, utility

BOX = Box(0, 0, 10, 5)


def test_points_lie_in_their_cells_and_those_beyond_at_the_edge() -> None:
    grid = Squares.of(BOX, 5, 2)
    x, y = np.array([0.0, 9.99, 10.0, -3.0, 4.1]), np.array([0.0, 4.99, 99.0, 1.0, 2.6])
    assert grid.locate(x, y).tolist() == [0, 9, 9, 0, 7]
    inside = grid.within(np.arange(10), np.random.default_rng(1).uniform(size=(10, 2)))
    assert grid.locate(*inside.T).tolist() == list(range(10))


def test_neighbours_of_squares_are_mutual_and_the_first_is_itself() -> None:
    around = Squares.of(BOX, 4, 3).neighbours
    assert around[:, 0].tolist() == list(range(12))
    for cell, line in enumerate(around):
        assert all(cell in around[other] for other in line if other >= 0)


def test_a_step_is_told_by_the_finest_system_that_reaches() -> None:
    systems = ReferenceSystems.squares(Box(0, 0, 16, 16), 16)
    x = np.array([0.5, 0.5, 0.5, 0.5])
    far = np.array([0.6, 1.5, 3.5, 15.5])
    start, end = systems.locate(x, x), systems.locate(far, x)
    told, move = systems.assign(start, end, (0, 1, 2, 3))
    assert told.tolist() == [0, 0, 1, 3]
    for place, (here, there) in enumerate(zip(start, end, strict=True)):
        above = systems.above[told[place]]
        cells = systems.systems[told[place]].neighbours
        assert cells[above[here], move[place]] == above[there]


def test_hexagons_hold_their_points_and_belong_to_coarser_ones() -> None:
    pytest.importorskip("h3", reason="h3 is not installed")
    box = Box(-8.70, 41.10, -8.53, 41.25)
    systems = ReferenceSystems.hexagons(box, 7)
    finest = systems.systems[0]
    assert isinstance(finest, Hexagons)
    drawn = np.random.default_rng(2).uniform(size=(50, 2))
    points = np.array([box.west, box.south]) + drawn * [0.17, 0.15]
    cells = systems.locate(*points.T)
    nearest = np.hypot(*(finest.centres[cells] - points).T)
    assert nearest.max() < 0.03
    within = finest.within(cells, drawn)
    inside = (within[:, 0] > box.west) & (within[:, 0] < box.east)
    inside &= (within[:, 1] > box.south) & (within[:, 1] < box.north)
    assert (systems.locate(*within.T)[inside] == cells[inside]).all()
    assert systems.systems[-1].size == 1
    around = finest.neighbours
    for cell, line in enumerate(around):
        assert all(cell in around[other] for other in line if other >= 0)


def test_paths_are_gathered_in_order_and_thinned_by_themselves() -> None:
    owners, path = np.array([1, 0, 1, 1]), np.array([5, 5, 5, 5])
    times = np.array([130.0, 7.0, 0.0, 20.0])
    x = np.array([3.0, 9.0, 1.0, 2.0])
    paths = Paths.of(owners, path, times, x, x)
    assert paths.lengths.tolist() == [1, 3]
    assert paths.x.tolist() == [9, 1, 2, 3]
    assert paths.steps.tolist() == [1, 2]
    thin = paths.thinned(60)
    assert (thin.x.tolist(), thin.lengths.tolist()) == ([9, 1, 3], [1, 2])


def test_a_twin_like_the_paths_is_not_off_and_another_is() -> None:
    town = Box(0, 0, 16_000, 16_000)
    real, like = generated_paths(2_000), generated_paths(2_000, first=5_000)
    near = utility(real, like, town)
    still = Paths(like.owners, like.lengths, like.times, like.x * 0 + 5, like.y * 0 + 5)
    far = utility(real, still, town)
    assert near.trips < 0.15 < 0.8 < far.trips
    assert near.ranges < 0.2 < far.ranges
    assert near.patterns > 0.8 > far.patterns
    assert near.travelled < 0.01 < far.travelled
    assert "differences" in repr(near)


def test_figures_of_a_path_by_hand() -> None:
    path = Paths(np.array([0]), np.array([3]), np.arange(3.0), np.array([0, 3, 0.0]), np.zeros(3))
    assert travelled(path).tolist() == [6]
    assert diameters(path).tolist() == [3]
    assert divergence(np.array([1.0, 0]), np.array([0, 1.0])) == 1


def test_many_places_cost_the_sum_of_them() -> None:
    box = Box(0, 0, 10_000, 10_000)
    told = randomize_locations(np.full((50, 2), 5_000.0), box, epsilon="0.01")
    assert told.meter.total == told.meter.epsilon * 50
    assert told.meter.within(200) == 100
    assert np.quantile(np.hypot(*(told.locations - 5_000).T), 0.9) < told.radius95 * 1.5
    assert "50 places cost epsilon 0.5" in repr(told.meter)
