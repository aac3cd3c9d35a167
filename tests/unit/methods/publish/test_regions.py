"""Regions of few queries: what they are, what is measured of them, how far they are off."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.counts import agrees, frequencies, request_for, whole_numbers

from sfumato.data.schema.unit import Entity, Neighbours
from sfumato.methods.publish.regions import Regions, best_strategy, regions
from sfumato.methods.publish.strategy import StrategyMethod
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

BOXES = np.array([[[0, 3], [1, 5]], [[2, 9], [0, 2]], [[8, 9], [5, 6]], [[2, 9], [0, 2]]])
APART = np.array([[[0, 1], [0, 6]], [[4, 9], [2, 3]], [[3, 3], [5, 5]]])
AXES = whole_numbers(10, 7, nullable=True)


def made(boxes: NDArray[np.int64], **request: Any) -> list[Regions]:
    asked = request_for(AXES, boxes=boxes, **request)
    cuts = [
        np.unique([0, size, *boxes[:, axis, 0], *(boxes[:, axis, 1] + 1)])
        for axis, size in enumerate((10, 7))
    ]
    return regions(asked, cuts, boxes)


def test_regions_are_the_cells_that_the_same_queries_hold() -> None:
    (found,) = made(BOXES)
    cells: dict[tuple[bool, ...], int] = {}
    for place in np.ndindex(10, 7):
        held = tuple(
            bool((box[:, 0] <= place).all() and (place <= box[:, 1]).all()) for box in BOXES
        )
        blocks = [
            int(np.searchsorted(nesting.cuts, at, side="right")) - 1
            if nesting.cuts is not None
            else at
            for nesting, at in zip(found.nestings, place, strict=True)
        ]
        label = int(found.labels[tuple(blocks)])
        assert cells.setdefault(held, label) == label
    assert len(set(cells.values())) == len(cells) == found.parameters["regions"] == 5


def test_queries_apart_are_each_measured_with_all_of_the_price() -> None:
    (found,) = made(APART, epsilon="1/10")
    assert found.mean_variance(APART) == pytest.approx(200, rel=0.001)


@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": "1/2"}])
def test_queries_and_blocks_are_off_as_stated(cost: dict[str, Any]) -> None:
    (strategy,) = made(BOXES, **cost)
    plan = StrategyMethod(request_for(AXES, boxes=BOXES, **cost), strategy, {})
    dense = np.random.default_rng(5).integers(0, 9, (11, 8))
    truth = [dense[a : b + 1, c : d + 1].sum() for (a, b), (c, d) in BOXES]
    counts = frequencies(AXES, dense)
    tables = [plan.release(counts, SeededEntropy(seed)) for seed in range(300)]
    errors = np.array([plan.ranges(one, BOXES) - truth for one in tables])
    assert agrees(errors, plan.ranges_variance(BOXES))
    assert plan.workload_mse == pytest.approx(plan.ranges_variance(BOXES).mean())
    nulls = dense[plan.domain.missing_codes]
    outer = np.array([one["blocks"]["count"].to_numpy()[-len(nulls) :] - nulls for one in tables])
    assert agrees(outer, [plan.error["missing"]["sd"] ** 2] * len(nulls))
    assert "spread evenly" in plan.error["blocks"]["note"]


def test_a_range_within_a_region_has_its_part_of_the_noise() -> None:
    (found,) = made(np.array([[[0, 9], [0, 6]]]))
    whole, half = found.variances(np.array([[[0, 9], [0, 6]], [[0, 4], [0, 6]]]))
    assert half == pytest.approx(whole / 4)
    assert not found.variances(np.array([[[5, 4], [0, 6]]]))[0]


def test_sensitivity_is_that_of_the_rounded_matrix() -> None:
    unit = Entity("person", max_rows=3, relation=Neighbours.REPLACE_ONE)
    (found,) = made(BOXES, unit=unit)
    assert isinstance(found.noise, Geometric)
    assert found.noise.l1_sensitivity == 6 * int(np.abs(found.matrix).sum(axis=0).max())
    (found,) = made(BOXES, unit=unit, rho=1)
    assert isinstance(found.noise, Gaussian)
    assert found.noise.l2_sensitivity_squared == 18 * int((found.matrix**2).sum(axis=0).max())
    assert found.matrix.min() >= 0


def test_with_a_delta_there_are_two_ways_to_pay() -> None:
    kinds = [type(one.noise) for one in made(BOXES, epsilon=1, delta=Fraction(1, 1000))]
    assert kinds == [Geometric, Gaussian]


def test_too_many_regions_are_left_to_trees() -> None:
    points = np.repeat(np.arange(70), 2).reshape(-1, 2)
    many = np.stack([points // 7, points % 7], axis=1)
    assert len(made(many)) == 1
    axes = whole_numbers(1001)
    boxes = np.repeat(np.arange(1001), 2).reshape(-1, 1, 2)
    assert regions(request_for(axes, boxes=boxes), [np.arange(1002)], boxes) == []


@pytest.mark.parametrize("pure", [True, False])
def test_a_strategy_is_better_than_cells_and_has_columns_of_norm_one(pure: bool) -> None:
    prefixes = np.tri(24)
    gram = prefixes.T @ prefixes / 24
    found = best_strategy(prefixes, np.full(24, 1 / 24), pure=pure)
    norms = np.abs(found).sum(axis=0) if pure else (found**2).sum(axis=0)
    assert np.allclose(norms, 1)
    error = np.trace(gram @ np.linalg.inv(found.T @ found))
    # The bound of Li & Miklau for Gaussian noise, which Laplace noise cannot pass either.
    bound = np.linalg.svd(prefixes, compute_uv=False).sum() ** 2 / 24 / 24
    assert bound <= error < min(np.trace(gram), (3.0 if pure else 1.15) * bound)
