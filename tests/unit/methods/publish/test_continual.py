"""Running counts: exact without noise, as far off as stated with it, by the better factor.

Statistical tests are seeded; for a fresh seed each would fail with probability at most 1e-6.
"""

from __future__ import annotations

import math
from datetime import date
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.counts import Silence, agrees, frequencies, request_for, whole_numbers

from sfumato.data.counting.axes import Grid, Listed
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import ParameterError
from sfumato.methods.publish.continual import prepare
from sfumato.methods.publish.request import PredictsVariance
from sfumato.methods.stream.factorization import LONGEST_ROOT, SCALE, DyadicTree, SquareRoot
from sfumato.privacy.accounting.events import GaussianNoise, LaplaceNoise
from sfumato.testing.entropy import SeededEntropy

RANGES = np.array([[0, 0], [3, 20], [8, 11], [15, 16], [16, 31], [0, 36], [20, 19], [37, -1]])


@pytest.mark.parametrize("points", [1, 2, 3, 8, 37, 64])
@pytest.mark.parametrize("factor", [DyadicTree, SquareRoot])
def test_without_noise_the_running_counts_are_the_truth(factor: type[Any], points: int) -> None:
    counts = np.arange(2 * points).reshape(2, points) * 7 % 5
    running = factor(points).running(counts, cast("Any", Silence()), SeededEntropy(1))
    np.testing.assert_allclose(running, counts.cumsum(axis=1), rtol=0, atol=1e-6)


@pytest.mark.parametrize("cost", [{"epsilon": 2}, {"rho": "0.02"}])
@pytest.mark.parametrize("method", ["tree", "root"])
def test_running_counts_and_ranges_are_as_far_off_as_stated(method: str, cost: Any) -> None:
    made = prepare(request_for(whole_numbers(37), **cost), method=method)
    truth = np.arange(37) * 11 % 6
    runs = np.broadcast_to(truth, (20_000, 37))
    errors = made.factor.running(runs, made.noise, SeededEntropy(2)) - truth.cumsum()
    some = [0, 1, 6, 7, 15, 20, 31, 36]
    assert agrees(errors[:, some], made.running_variance[some])
    padded = np.pad(errors, [(0, 0), (1, 0)])
    ranges = padded[:, np.maximum(RANGES[:, 1] + 1, RANGES[:, 0])] - padded[:, RANGES[:, 0]]
    assert agrees(ranges, made.ranges_variance(RANGES[:, None]))


def test_each_running_count_uses_only_what_came_before() -> None:
    """Rows behind a place change nothing before it, whatever the noise."""
    early = np.array([3, 1, 4, 1, 5, 0, 0, 0])
    late = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    for method in ("tree", "root"):
        made = prepare(request_for(whole_numbers(8), rho=1), method=method)
        first, second = (
            made.factor.running(one, made.noise, SeededEntropy(3)) for one in (early, late)
        )
        np.testing.assert_allclose(first[:5], second[:5], atol=1e-9)


def test_square_root_is_rounded_and_its_other_factor_undoes_it() -> None:
    root = SquareRoot(200)
    assert root.entries[:3].tolist() == [SCALE, SCALE // 2, SCALE * 3 // 8]
    product = np.convolve(root.entries, root.weights)[:200]
    np.testing.assert_allclose(product, np.ones(200), rtol=0, atol=1e-9)
    # The largest column of both factors grows like log(n) / pi.
    norm = root.norms().l2_squared / SCALE**2
    assert (
        abs(norm - (1 + np.sum([math.comb(2 * k, k) ** 2 / 16**k for k in range(1, 200)]))) < 1e-4
    )


def test_factor_and_noise_are_chosen_by_least_error_of_what_matters() -> None:
    long = whole_numbers(4096)
    assert prepare(request_for(long, epsilon=1)).parameters["method"] == "tree"
    assert prepare(request_for(long, rho=1)).parameters == {"method": "root", "noise": "gaussian"}
    both = prepare(request_for(long, epsilon=1, delta=1e-6))
    assert both.parameters == {"method": "root", "noise": "gaussian"}
    ranges = np.stack([np.arange(0, 64, 2)] * 2, axis=1)
    wanted = request_for(whole_numbers(64), rho=1, boxes=ranges)
    ways = {name: prepare(wanted, method=name) for name in ("tree", "root")}
    errors = {name: one.ranges_variance(ranges[:, None]).mean() for name, one in ways.items()}
    assert prepare(wanted).parameters["method"] == min(errors, key=lambda name: errors[name])


def test_cost_is_the_largest_column_times_what_a_person_can_do() -> None:
    person = Entity("who", max_rows=3, relation=Neighbours.REPLACE_ONE)
    tree = prepare(request_for(whole_numbers(8), unit=person, epsilon=1), method="tree")
    assert isinstance(tree.event, LaplaceNoise)
    assert tree.event.l1_sensitivity == 2 * 3 * 4
    assert tree.event.epsilon == 1
    root = prepare(request_for(whole_numbers(2), unit=person, rho=1), method="root")
    assert isinstance(root.event, GaussianNoise)
    assert root.event.l2_sensitivity_squared == 2 * 9 * (SCALE**2 + SCALE**2 // 4)
    assert root.event.rho == 1
    alone = prepare(request_for(whole_numbers(8), unit=Rows(), epsilon="1/2"), method="tree")
    assert alone.event == LaplaceNoise(scale=Fraction(8), l1_sensitivity=Fraction(4))


def test_missing_values_stand_behind_the_last_point_and_in_no_running_count() -> None:
    axes = whole_numbers(4, nullable=True)
    made = prepare(request_for(axes, rho=5), method="tree")
    counts = frequencies(axes, [100, 0, 50, 0, 7_000])
    entropy = SeededEntropy(4)
    tables = [made.release(counts, entropy) for _ in range(300)]
    table = tables[0]["continual"]
    assert table.column_names == ["a", "running"]
    assert table["a"].to_pylist() == [0, 1, 2, 3, None]
    figures = np.array([one["continual"]["running"].to_pylist() for one in tables])
    errors = figures - [100, 100, 150, 150, 7_000]
    missing = made.error["missing"]["sd"]
    assert agrees(errors, [*made.running_variance, missing**2])
    assert "missing" not in prepare(request_for(whole_numbers(4))).error


def test_dates_are_counted_up_to_each_day() -> None:
    days = (Grid("day", Kind.DATE, Bounds(date(2024, 2, 28), date(2024, 3, 2)), nullable=False),)
    made = prepare(request_for(days, epsilon=10))
    table = made.release(frequencies(days, [100, 20, 3, 0]), SeededEntropy(6))["continual"]
    assert table["day"].to_pylist()[1] == date(2024, 2, 29)
    assert table["running"].to_pylist() == pytest.approx([100, 120, 123, 123], abs=6)


def test_a_workload_without_ranges_is_none() -> None:
    made = prepare(request_for(whole_numbers(9), boxes=np.zeros((0, 2))))
    assert made.parameters == prepare(request_for(whole_numbers(9))).parameters


def test_stated_error_and_ranges_of_a_release() -> None:
    made = prepare(request_for(whole_numbers(8), epsilon=1), method="tree")
    variance = made.noise.variance
    assert made.error["running"]["largest_sd"] == pytest.approx(math.sqrt(3 * variance))
    # The digits 1 of 1, ..., 8 are 13 in all.
    assert made.error["running"]["sd"] == pytest.approx(math.sqrt(13 / 8 * variance))
    tables = made.release(frequencies(made.domain.axes, [5] * 8), SeededEntropy(5))
    running = np.array(tables["continual"]["running"].to_pylist())
    boxes = np.array([[[0, 2]], [[3, 7]], [[5, 4]]])
    expected = [running[2], running[7] - running[2], 0]
    np.testing.assert_allclose(made.ranges(tables, boxes), expected)
    assert isinstance(made, PredictsVariance)


@pytest.mark.parametrize(
    ("axes", "steps", "method", "code"),
    [
        (whole_numbers(4, 4), (), None, "columns_invalid"),
        (whole_numbers(4), ("integer",), None, "option_not_applicable"),
        (whole_numbers(4), (), "wave", "option_not_applicable"),
        (whole_numbers(LONGEST_ROOT + 1), (), "root", "problem_too_large"),
        (
            (Listed("none", pa.array([None], pa.string()), declared=True),),
            (),
            None,
            "domain_missing",
        ),
    ],
)
def test_what_cannot_be_is_refused(axes: Any, steps: Any, method: Any, code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        prepare(request_for(axes, postprocess=steps), method=method)
    assert refused.value.code == code
