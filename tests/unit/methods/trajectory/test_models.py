"""Models of paths: what they measure, and what they become where noise is next to nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fixtures.trajectory import loss, recorded

from sfumato.data.schema.unit import Entity, Neighbours
from sfumato.methods.trajectory import adatrace, dpt, one_level
from sfumato.methods.trajectory.cells import Box, ReferenceSystems, Squares
from sfumato.methods.trajectory.generate import EVERY, TOWN, generated_paths
from sfumato.methods.trajectory.measurement import PathCost, length_edges
from sfumato.methods.trajectory.paths import Paths
from sfumato.methods.trajectory.prefix_tree import assign_steps
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

BOX = Box(0, 0, 8, 8)
FIXED: dict[str, Any] = {"most": 48, "every": EVERY, "first_time": 0.0, "last_time": 86_400.0}


def cost(epsilon: object, relation: Neighbours = Neighbours.ADD_REMOVE) -> PathCost:
    return PathCost(price(epsilon=epsilon, maximum=10**7), Entity("trip", 48, relation=relation))  # type: ignore[arg-type]


def learners(box: Box, epsilon: object = 1, cells: int = 8) -> list[Any]:
    systems = ReferenceSystems.squares(box, cells)
    return [
        dpt.DPT(systems=systems, cost=cost(epsilon), steps=3, trips=2, **FIXED),
        adatrace.AdaTrace(box=box, cost=cost(epsilon), **FIXED),
        one_level.OneLevel(grid=Squares.of(box, 4, 4), cost=cost(epsilon), **FIXED),
    ]


def small(seed: int) -> Paths:
    """Some paths of few people, one of whom has most of the points."""
    drawn = np.random.default_rng(seed)
    lengths = drawn.integers(1, 12, 8)
    points = int(lengths.sum())
    times = np.arange(points, dtype=np.float64) * 60
    x, y = drawn.uniform(-1, 9, (2, points))
    return Paths(np.array([0, 0, 0, 1, 2, 2, 3, 4]), lengths, times, x, y)


@pytest.mark.parametrize("shares", [dpt.SHARES, adatrace.SHARES, one_level.SHARES])
def test_shares_add_up_to_the_price(shares: dict[str, object]) -> None:
    assert sum(shares.values()) == 1  # type: ignore[arg-type]


def test_shares_of_adatrace_are_those_of_the_paper() -> None:
    assert [float(one) for one in adatrace.SHARES.values()] == [0.05, 0.35, 0.5, 0.1]


@pytest.mark.parametrize("place", range(3))
def test_nobody_moves_tables_by_more_than_was_paid_for(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(4):
        assert 0 < loss(learners(BOX)[place].learn, small(seed), monkeypatch) <= 1


@pytest.mark.parametrize("place", range(3))
def test_tables_measured_take_the_whole_price(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = recorded(learners(BOX)[place].learn, small(1), monkeypatch)
    assert sum(share for _, share, _ in tables) == 1


def test_replacing_costs_twice_as_much_noise() -> None:
    add, replace = cost(1).noise(dpt.SHARES["trips"]), None
    replace = cost(1, Neighbours.REPLACE_ONE).noise(dpt.SHARES["trips"])
    assert replace.stddev == pytest.approx(2 * add.stddev, rel=1e-6)


def test_without_noise_the_tree_is_the_transition_matrix() -> None:
    real = generated_paths(400)
    systems = ReferenceSystems.squares(TOWN, 16)
    method = dpt.DPT(systems=systems, cost=cost(10**6), steps=48, **FIXED)
    model = method.learn(real, SeededEntropy(3))
    finest = systems.locate(real.x, real.y)
    told = assign_steps(systems, model.chosen, finest, real.steps, real.path_of)
    for place, number in enumerate(model.chosen):
        mine = told.system == place
        true = np.zeros_like(model.trees[place].moves)
        np.add.at(true, (systems.above[number][told.start[mine]], told.move[mine]), 1)
        assert np.abs(true - model.trees[place].moves).max() < 0.1


def test_without_noise_lengths_and_trips_are_those_of_the_paths() -> None:
    real = generated_paths(3_000)
    model = learners(TOWN, 10**6, 16)[0].learn(real, SeededEntropy(4))
    twin = model.draw(20_000, SeededEntropy(5))
    edges = np.append(length_edges(48), 49)
    shares = [np.histogram(one.lengths, edges)[0] / len(one) for one in (real, twin)]
    assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.02
    assert len(twin) == 20_000
    assert twin.x.min() >= TOWN.west
    assert twin.x.max() <= TOWN.east


@pytest.mark.parametrize("place", range(3))
def test_no_paths_at_all_give_a_twin(place: int) -> None:
    no_one, nowhere = np.zeros(0, dtype=np.int64), np.zeros(0)
    none = Paths(no_one, no_one, nowhere, nowhere, nowhere)
    twin = learners(BOX)[place].learn(none, SeededEntropy(6)).draw(5, SeededEntropy(7))
    assert len(twin) == 5
    assert (twin.lengths >= 1).all()
