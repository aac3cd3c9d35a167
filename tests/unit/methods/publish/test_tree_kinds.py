"""Trees and quadtrees as kinds: options, tables, ranges, errors before and after."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.counts import agrees, frequencies, request_for, whole_numbers

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import ParameterError
from sfumato.methods.publish import quadtree
from sfumato.methods.publish import tree as kind
from sfumato.methods.publish.publication import prepare as prepare_kind
from sfumato.methods.publish.strategy import BlockCounts
from sfumato.privacy.accounting.events import Composed, GaussianNoise, LaplaceNoise
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.methods.publish.strategy import StrategyMethod

RANGES = np.array([[[0, 3]], [[2, 9]], [[5, 5]]])
BOXES = np.array([[[0, 3], [1, 5]], [[2, 9], [0, 0]], [[5, 5], [3, 3]], [[0, 9], [0, 6]]])
SOME = np.arange(11) % 4


def blocks(plan: StrategyMethod) -> BlockCounts:
    assert isinstance(plan.strategy, BlockCounts)
    return plan.strategy


def epsilon_of(plan: StrategyMethod) -> Fraction:
    event = plan.event
    assert isinstance(event, Composed)
    return sum((one.epsilon for one in event.events if isinstance(one, LaplaceNoise)), Fraction())


def runs(plan: StrategyMethod, dense: Any, boxes: Any, count: int) -> Any:
    """Errors of the ranges over many releases."""
    counts = frequencies(plan.request.axes, dense)
    inside = np.asarray(dense)[tuple(slice(size) for size in plan.domain.shape)]
    truth = [inside[tuple(slice(a, b + 1) for a, b in box)].sum() for box in boxes]
    return np.array(
        [
            plan.ranges(plan.release(counts, SeededEntropy(seed)), boxes) - truth
            for seed in range(count)
        ]
    )


@pytest.mark.parametrize(
    ("options", "boxes"),
    [
        ({}, RANGES),
        ({}, None),
        ({"fanout": "3"}, None),
        ({"fanout": 2, "budget": "uniform"}, RANGES),
        ({"fanout": 3, "budget": "uniform", "root": "no"}, RANGES),
        ({"budget": "geometric", "root": False}, None),
    ],
)
@pytest.mark.parametrize("nullable", [False, True])
def test_a_tree_costs_its_price_and_is_off_as_it_says(
    options: dict[str, Any], boxes: Any, nullable: bool
) -> None:
    axes = whole_numbers(10, nullable=nullable)
    plan = kind.prepare(request_for(axes, boxes=boxes), **options)
    assert epsilon_of(plan) == 1
    dense = SOME[: 10 + nullable]
    assert agrees(runs(plan, dense, RANGES, 200), plan.ranges_variance(RANGES))
    assert plan.release(frequencies(axes, dense), SeededEntropy(1))["cells"].num_rows == len(dense)
    assert ("missing" in plan.error) == nullable


@pytest.mark.parametrize(
    ("options", "boxes"),
    [({}, BOXES), ({}, None), ({"budget": "uniform"}, BOXES), ({"height": 2}, None)],
)
def test_a_quadtree_costs_its_price_and_is_off_as_it_says(
    options: dict[str, Any], boxes: Any
) -> None:
    axes = whole_numbers(10, 7, nullable=True)
    dense = np.random.default_rng(5).integers(0, 9, (11, 8))
    if "height" in options:  # blocks are 2 or 3 by 1 or 2; boxes along them have no other error
        asked = np.array([[[0, 4], [0, 2]], [[2, 9], [1, 2]], [[0, 9], [0, 6]]])
    else:
        asked = BOXES
    plan = quadtree.of_cells(request_for(axes, boxes=boxes, epsilon="1/2"), **options)
    assert epsilon_of(plan) == Fraction(1, 2)
    assert agrees(runs(plan, dense, asked, 150), plan.ranges_variance(asked))


def test_cells_and_missing_values_are_off_as_stated() -> None:
    axes = whole_numbers(5, nullable=True)
    plan = kind.prepare(request_for(axes), budget="uniform")
    counts = frequencies(axes, SOME[:6])
    errors = np.array(
        [
            plan.release(counts, SeededEntropy(seed))["cells"]["count"].to_numpy() - SOME[:6]
            for seed in range(300)
        ]
    )
    stated = [plan.error["cells"]["sd"] ** 2] * 5 + [plan.error["missing"]["sd"] ** 2]
    assert agrees(errors, stated)
    assert plan.error["total"]["sd"] ** 2 == pytest.approx(
        float(plan.ranges_variance(np.array([[[0, 4]]]))[0])
    )


def test_the_error_of_a_workload_is_that_of_its_ranges() -> None:
    plan = kind.prepare(request_for(whole_numbers(10), boxes=RANGES))
    variances = plan.ranges_variance(RANGES)
    stated = plan.error["workload"]
    assert stated["mse"] == pytest.approx(variances.mean(), rel=1e-12)
    assert stated["largest_sd"] == pytest.approx(variances.max() ** 0.5)
    assert stated["queries"] == 3
    usual = kind.prepare(request_for(whole_numbers(10))).error["workload"]
    every = [[[low, high]] for low in range(10) for high in range(low, 10)]
    plan = kind.prepare(request_for(whole_numbers(10)))
    assert usual["mse"] == pytest.approx(plan.ranges_variance(np.array(every)).mean(), rel=1e-12)


def test_people_of_many_rows_get_noise_for_all_of_them() -> None:
    unit = Entity("person", max_rows=4, relation=Neighbours.REPLACE_ONE)
    for plan in (
        kind.prepare(request_for(whole_numbers(20), unit=unit)),
        quadtree.of_cells(request_for(whole_numbers(8, 8), unit=unit)),
    ):
        for one in blocks(plan).measured:
            assert isinstance(one.noise, Geometric)
            assert one.noise.scale == 8 / one.share
    plan = kind.prepare(request_for(whole_numbers(20), unit=unit, rho=1))
    for one in blocks(plan).measured:
        assert isinstance(one.noise, Gaussian)
        assert one.noise.steps_variance == 16 / one.share


def test_gaussian_shares_cost_the_rho_that_was_offered() -> None:
    event = kind.prepare(request_for(whole_numbers(200, 30), rho="3/8")).event
    assert isinstance(event, Composed)
    parts = [one.rho for one in event.events if isinstance(one, GaussianNoise)]
    assert sum(parts) == Fraction(3, 8)


def test_a_quadtree_gives_each_level_up_less_by_the_cube_root_of_two() -> None:
    plan = quadtree.of_cells(request_for(whole_numbers(256, 256)))
    shares = [float(one.share) for one in blocks(plan).measured]
    assert [one.level for one in blocks(plan).measured] == [(at, at) for at in range(9)]
    assert np.allclose(np.diff(np.log2(shares)), 1 / 3, rtol=1e-9)


def test_a_narrow_column_stays_whole_while_the_other_is_halved() -> None:
    plan = quadtree.of_cells(request_for(whole_numbers(16, 3)))
    assert plan.parameters["fanouts"] == [[2, 2, 2, 2], [1, 1, 2, 2]]
    assert quadtree.of_cells(request_for(whole_numbers(1, 1))).parameters["cells"] == [1, 1]


def test_a_low_quadtree_releases_blocks_from_first_to_last_value() -> None:
    axes = whole_numbers(10, 7, nullable=True)
    plan = quadtree.of_cells(request_for(axes), height="1")
    table = plan.release(frequencies(axes, np.zeros((11, 8))), SeededEntropy(1))["blocks"]
    first, *_, last = table.to_pylist()
    assert {**first, "count": 0} == {"a_low": 0, "a_high": 4, "b_low": 0, "b_high": 2, "count": 0}
    assert last["a_low"] is last["b_high"] is None
    assert table.num_rows == 4 + 11 * 8 - 70
    assert "spread evenly" in plan.error["blocks"]["note"]
    half = plan.ranges({"blocks": table}, np.array([[[0, 4], [0, 0]]]))
    assert half[0] == pytest.approx(first["count"] / 3)


def test_postprocessing_is_done_when_asked_for_and_said() -> None:
    axes = whole_numbers(30, nullable=True)
    asked = request_for(axes, postprocess=("nonnegative", "total", "integer"), epsilon="1/10")
    plan = kind.prepare(asked, total=40)
    table = plan.release(frequencies(axes, np.ones(31)), SeededEntropy(1))["cells"]
    counts = table["count"].to_numpy()
    assert counts.dtype == np.int64
    assert counts.min() >= 0
    assert counts.sum() == 40
    assert "before post-processing" in plan.error["note"]
    assert plan.parameters["total"] == 40


@pytest.mark.parametrize(
    ("name", "points", "options", "code"),
    [
        ("tree", (8,), {"fanout": 1}, "parameter_out_of_range"),
        ("tree", (8,), {"budget": "most"}, "option_not_applicable"),
        ("tree", (8,), {"root": "yes"}, "option_not_applicable"),
        ("tree", (8,), {"root": "maybe", "budget": "uniform"}, "option_not_applicable"),
        ("tree", (2,) * 10 + (1,), {}, "problem_too_large"),
        ("tree", (8,), {"total": 5}, "parameter_missing"),
        ("quadtree", (8,), {}, "columns_invalid"),
        ("quadtree", (8, 8), {"height": 4}, "parameter_out_of_range"),
        ("wavelet", (8,), {"budget": "geometric"}, "option_not_applicable"),
    ],
)
def test_what_cannot_be_is_refused(
    name: str, points: tuple[int, ...], options: dict[str, Any], code: str
) -> None:
    axes = whole_numbers(*points[:10])
    if len(points) > 10:
        axes = (*axes, whole_numbers(2)[0])
    with pytest.raises(ParameterError) as refused:
        prepare_kind(name, request_for(axes), options)
    assert refused.value.code == code


@pytest.mark.parametrize("name", ["tree", "auto", "wavelet"])
def test_a_workload_without_a_value_is_refused(name: str) -> None:
    with pytest.raises(ParameterError, match="holds a value") as refused:
        prepare_kind(name, request_for(whole_numbers(8), boxes=[[5, 4]]), {})
    assert refused.value.code == "workload_invalid"


def test_rows_replaced_and_rows_added_differ_by_two() -> None:
    replaced = request_for(whole_numbers(16), unit=Rows(relation=Neighbours.REPLACE_ONE))
    twice = request_for(whole_numbers(16), epsilon="1/2")
    assert kind.prepare(replaced).workload_mse == pytest.approx(kind.prepare(twice).workload_mse)
