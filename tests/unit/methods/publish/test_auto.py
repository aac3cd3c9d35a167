"""The automatic choice against every single method, on workloads of many shapes."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.counts import agrees, frequencies, request_for, whole_numbers

from sfumato.errors import ParameterError
from sfumato.methods.publish import auto, quadtree, wavelet
from sfumato.methods.publish import tree as kind
from sfumato.methods.publish.auto import WorkloadAnswers
from sfumato.methods.publish.tree_optimizer import aligned_nestings
from sfumato.privacy.estimation.boxes import box_sums
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.methods.publish.request import Request

    Ranges = NDArray[np.int64]

LINE, SIDE, EDGE = 500, 40, 6


def points(size: int) -> Ranges:
    return np.repeat(np.arange(size), 2).reshape(-1, 2)


def prefixes(size: int) -> Ranges:
    return np.stack([np.zeros(size, dtype=np.int64), np.arange(size)], axis=1)


def windows(size: int, width: int) -> Ranges:
    return np.asarray(np.arange(size - width + 1)[:, None] + np.array([0, width - 1]))


def tiles(size: int, width: int) -> Ranges:
    ends = np.arange(0, size, width)[:, None] + np.array([0, width - 1])
    return np.asarray(np.minimum(ends, size - 1))


def whole(size: int) -> Ranges:
    return np.array([[0, size - 1]])


def some(size: int, count: int, seed: int = 1) -> Ranges:
    return np.sort(np.random.default_rng(seed).integers(0, size, (count, 2)))


def crossed(*sides: Ranges) -> Ranges:
    """All boxes with one range of each column."""
    places = np.indices([len(one) for one in sides]).reshape(len(sides), -1)
    return np.stack([one[at] for one, at in zip(sides, places, strict=True)], axis=1)


def beside(*sides: Ranges) -> Ranges:
    return np.stack(sides, axis=1)


def alike(*parts: Ranges) -> Ranges:
    """Workloads of equal weight."""
    most = max(map(len, parts))
    return np.concatenate([np.tile(one, (most // len(one), 1, 1)) for one in parts])


WORKLOADS: dict[str, tuple[tuple[int, ...], Ranges | None]] = {
    "all ranges": ((LINE,), None),
    "points": ((LINE,), crossed(points(LINE))),
    "prefixes": ((LINE,), crossed(prefixes(LINE))),
    "short": ((LINE,), crossed(np.concatenate([windows(LINE, one) for one in (1, 2, 5)]))),
    "long": ((LINE,), crossed(windows(LINE, 300))),
    "total": ((LINE,), crossed(whole(LINE))),
    "a handful": ((LINE,), crossed(some(LINE, 6))),
    "tiles and points": ((LINE,), alike(crossed(tiles(LINE, 45)), crossed(points(LINE)))),
    "one corner": ((LINE,), crossed(some(50, 500))),
    "rectangles": ((SIDE, SIDE), beside(some(SIDE, 500), some(SIDE, 500, seed=2))),
    "one marginal": ((SIDE, SIDE), crossed(points(SIDE), whole(SIDE))),
    "both marginals": (
        (SIDE, SIDE),
        np.concatenate([crossed(points(SIDE), whole(SIDE)), crossed(whole(SIDE), points(SIDE))]),
    ),
    "strips": ((SIDE, SIDE), crossed(windows(SIDE, 3), some(SIDE, 20))),
    "tall": ((SIDE, SIDE), crossed(windows(SIDE, 2), windows(SIDE, 30))),
    "few rectangles": ((SIDE, SIDE), beside(some(SIDE, 5), some(SIDE, 5, seed=2))),
    "all boxes": ((EDGE, EDGE, EDGE), None),
    "all pairs of three": (
        (EDGE, EDGE, EDGE),
        np.concatenate(
            [
                crossed(*(whole(EDGE) if at == left else points(EDGE) for at in range(3)))
                for left in range(3)
            ]
        ),
    ),
}


def single_methods(request: Request) -> Iterator[float]:
    """The errors of the methods that take no notice of a workload."""
    budgets = ("uniform", "geometric") if len(request.axes) > 1 else ("uniform",)
    for fanout, budget, root in product((2, 3, 4, 8, 16, 1 << 20), budgets, ("yes", "no")):
        yield kind.prepare(request, fanout=fanout, budget=budget, root=root).workload_mse
    yield wavelet.prepare(request).workload_mse
    if len(request.axes) == 2:
        for budget in budgets:
            yield quadtree.of_cells(request, budget=budget).workload_mse


def optimised_methods(request: Request) -> Iterator[float]:
    """The errors of single methods with shares optimised for the workload."""
    for fanout in (2, 3, 4, 8, 16, 1 << 20):
        yield kind.prepare(request, fanout=fanout).workload_mse
    yield wavelet.prepare(request, budget="optimised").workload_mse
    if len(request.axes) == 2:
        yield quadtree.of_cells(request, budget="optimised").workload_mse


ALIKE = ("short", "long", "strips", "tall", "few rectangles")
"""Workloads of shapes that others have too, of other sizes."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.slow] if one in ALIKE else []) for one in WORKLOADS],
)
def test_auto_is_as_good_as_the_best_single_method(name: str) -> None:
    shape, boxes = WORKLOADS[name]
    request = request_for(whole_numbers(*shape), boxes=boxes, epsilon="1/10")
    found = auto.prepare(request)
    assert found.error["workload"]["mse"] <= min(single_methods(request)) * 1.04
    stated = found.parameters["considered"][found.parameters["chosen"]]
    assert stated == pytest.approx(found.workload_mse, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": "1/200"}], ids=["epsilon", "rho"])
def test_auto_is_as_good_as_the_best_optimised_method(name: str, cost: dict[str, Any]) -> None:
    shape, boxes = WORKLOADS[name]
    request = request_for(whole_numbers(*shape), boxes=boxes, **cost)
    best = min(*single_methods(request), *optimised_methods(request))
    assert auto.prepare(request).workload_mse <= best * 1.04


def direct(request: Request) -> float:
    """The error of noise on the different queries, calibrated to how many hold one cell."""
    assert request.boxes is not None
    queries = np.unique(request.boxes, axis=0)
    cells = np.indices([len(one) for one in _cells(request)]).reshape(len(request.axes), -1).T
    inside = (queries[None, :, :, 0] <= cells[:, None]) & (cells[:, None] <= queries[None, :, :, 1])
    most = int(inside.all(axis=2).sum(axis=1).max())
    rho, epsilon = request.price.rho, request.price.epsilon
    if rho is not None:
        return most / float(2 * rho)
    assert epsilon is not None
    return float(0.5 / np.sinh(float(epsilon) / most / 2) ** 2)


def _cells(request: Request) -> list[range]:
    return [range(axis.size) for axis in request.axes]


RANDOM = [
    # By turns at one price and at the other, all of them at both in `slow`.
    pytest.param(
        shape, count, cost, marks=[pytest.mark.slow] if count > 30 or place % 2 != turn else []
    )
    for shape, counts in (((150,), (1, 4, 30, 120, 300)), ((24, 20), (1, 7, 20, 60, 250)))
    for place, count in enumerate(counts)
    for turn, cost in enumerate(({"epsilon": "1/2"}, {"rho": "1/8"}))
]


@pytest.mark.parametrize(("shape", "count", "cost"), RANDOM)
def test_auto_is_never_worse_than_a_method_it_knows(
    shape: tuple[int, ...], count: int, cost: dict[str, Any]
) -> None:
    """Above 96 regions it fell off a cliff, to 12 times the error, beyond noise on the queries."""
    boxes = beside(*(some(size, count, seed=count + axis) for axis, size in enumerate(shape)))
    request = request_for(whole_numbers(*shape), boxes=boxes, **cost)
    found = auto.prepare(request)
    others = [
        direct(request),
        kind.prepare(request).workload_mse,
        kind.prepare(request, fanout=1 << 20).workload_mse,
        wavelet.prepare(request).workload_mse,
        wavelet.prepare(request, budget="optimised").workload_mse,
    ]
    if len(shape) == 2:
        others += [quadtree.of_cells(request, budget=one).workload_mse for one in (None, "uniform")]
    assert found.workload_mse <= min(others) * (1 + 1e-3)


@pytest.mark.parametrize(
    "cost",
    [
        pytest.param({"epsilon": 1}, id="epsilon"),
        pytest.param({"rho": "1/2"}, id="rho", marks=pytest.mark.slow),
    ],
)
def test_there_is_no_cliff_where_queries_make_many_regions(cost: dict[str, Any]) -> None:
    boxes = beside(some(128, 20), some(128, 20, seed=2))
    errors = [
        auto.prepare(request_for(whole_numbers(128, 128), boxes=boxes[:count], **cost)).workload_mse
        for count in (15, 20)
    ]
    assert errors[1] < 3 * errors[0]


def test_queries_are_answered_one_by_one_where_that_is_best() -> None:
    axes = whole_numbers(64, 64, nullable=True)
    generator = np.random.default_rng(4)
    lows = generator.integers(0, 60, (400, 2))
    boxes = np.stack([lows, lows + 3], axis=2)
    boxes[0, 0] = [5, 4]
    made = auto.prepare(request_for(axes, boxes=boxes, rho="1/8"))
    assert isinstance(made, WorkloadAnswers)
    assert made.parameters["chosen"] == "noise on the queries"
    dense = generator.poisson(3, (65, 65))
    truth = box_sums(dense[:64, :64].astype(np.float64), boxes)
    entropy, counts = SeededEntropy(5), frequencies(axes, dense)
    released = [made.release(counts, entropy) for _ in range(200)]
    errors = np.array([made.ranges(tables, boxes[:20]) for tables in released]) - truth[:20]
    assert agrees(errors[:, 1:], made.ranges_variance(boxes[1:20]))
    assert made.ranges_variance(boxes[:1]).tolist() == [0.0]
    assert (errors[:, 0] == 0).all()
    missing = np.array([tables["missing"]["count"].to_pylist() for tables in released], float)
    known = missing[:, :20] - dense[made.domain.missing_codes][:20].astype(np.float64)
    assert agrees(known, np.full(20, made.error["missing"]["sd"] ** 2))
    assert released[0]["answers"].column_names == ["a_from", "a_to", "b_from", "b_to", "count"]
    assert made.workload_mse == made.error["workload"]["mse"]
    with pytest.raises(ParameterError, match="only the ranges of its workload") as refused:
        made.ranges(released[0], np.array([[[0, 1], [0, 60]]]))
    assert refused.value.code == "ranges_not_answerable"


def test_counts_that_are_to_be_post_processed_are_of_cells() -> None:
    boxes = beside(some(64, 300), some(64, 300, seed=2))
    asked = request_for(whole_numbers(64, 64), boxes=boxes, rho="1/8", postprocess=("integer",))
    assert "noise on the queries" not in auto.prepare(asked).parameters["considered"]


def test_auto_takes_gaussian_noise_where_a_delta_makes_it_better() -> None:
    shape, boxes = WORKLOADS["prefixes"]
    request = request_for(whole_numbers(*shape), boxes=boxes, epsilon=1, delta="1/10")
    assert auto.prepare(request).parameters["noise"] == "gaussian"


@pytest.mark.parametrize(
    ("name", "variance"),
    [("total", 1), ("one marginal", 1), ("both marginals", 4), ("points", 1)],
)
def test_simple_workloads_cost_what_they_must(name: str, variance: int) -> None:
    """One count of each row: the noise of epsilon; two: twice that of half of it; and 4 % more."""
    shape, boxes = WORKLOADS[name]
    request = request_for(whole_numbers(*shape), boxes=boxes, epsilon="1/10")
    assert auto.prepare(request).workload_mse <= 200 * variance * 1.04


def test_blocks_that_no_query_divides_are_counted_as_one() -> None:
    boxes = np.array([[[10, 59]], [[60, 99]]])
    axes = whole_numbers(1000, nullable=True)
    plan = auto.prepare(request_for(axes, boxes=boxes))
    assert plan.parameters["chosen"] in {"tree of blocks", "regions"}
    dense = np.zeros(1001, dtype=np.int64)
    dense[[10, 59, 60, 99, 100, 1000]] = [100, 10, 1, 2000, 7, 5]
    tables = plan.release(frequencies(axes, dense), SeededEntropy(3))
    table = tables["blocks"].to_pydict()
    assert table["a_low"] == [0, 10, 60, 100, None]
    assert table["a_high"] == [9, 59, 99, 999, None]
    errors = plan.ranges(tables, boxes) - [110, 2001]
    assert (np.abs(errors) <= 6 * np.sqrt(plan.ranges_variance(boxes))).all()


def test_single_values_are_kept_where_blocks_gain_little() -> None:
    boxes = crossed(some(128, 5000))
    boxes = boxes[(boxes[:, 0, 0] != 17) & (boxes[:, 0, 1] != 16)]  # 16 and 17 stay together
    plan = auto.prepare(request_for(whole_numbers(128), boxes=boxes))
    assert "tree of blocks" in plan.parameters["considered"]
    assert plan.parameters["chosen"] == "tree"


def test_ladders_run_along_the_blocks_of_a_workload() -> None:
    days, weeks, years = points(3640), tiles(3640, 7), tiles(3640, 364)
    found = aligned_nestings(
        3640, np.concatenate([np.repeat(weeks, 7, axis=0), years.repeat(364, axis=0), days])
    )
    assert {7, 364} <= set(found[0].widths)
    assert aligned_nestings(64, some(64, 200)) == []
    assert aligned_nestings(2, whole(2)) == []


def test_nothing_but_the_request_is_looked_at() -> None:
    request = request_for(whole_numbers(30, 5), epsilon=Fraction(1, 3))
    assert auto.prepare(request).parameters == auto.prepare(request).parameters
