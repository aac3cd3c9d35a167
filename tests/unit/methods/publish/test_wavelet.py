"""Wavelets: coefficients, noise, estimates, nominal columns."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.counts import Silence, agrees, frequencies, request_for, whole_numbers

from sfumato.data.counting.axes import Listed
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import ParameterError
from sfumato.methods.publish.wavelet import Contrasts, contrasts, prepare, uniform
from sfumato.privacy.accounting.events import Composed, LaplaceNoise
from sfumato.privacy.estimation.blocks import Nesting
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.spending import Spending
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.methods.publish.strategy import StrategyMethod

ILLS = ["flu", "cold", "angina", "stroke", "gout"]
GROUPS = {
    "flu": ["lung"],
    "stroke": ["heart"],
    "cold": ["lung"],
    "angina": ["heart"],
    "gout": ["joints"],
}
ILL = (Listed("ill", pa.array([*ILLS, None]), declared=True),)
RANGES = np.array([[[0, 3]], [[1, 4]], [[2, 2]]])


class Heard(Silence):
    """No noise, and what it would have been put on."""

    variance = 1.0

    def __init__(self) -> None:
        self.seen: Any = None

    def steps(self, values: Any, _entropy: Any) -> Any:
        self.seen = values
        return values


def strategy(plan: StrategyMethod) -> Contrasts:
    assert isinstance(plan.strategy, Contrasts)
    return plan.strategy


def measured(nestings: tuple[Nesting, ...], cells: Any) -> dict[Any, list[int]]:
    """The coefficients of each scale; the estimate from them must be the cells themselves."""
    request = request_for(whole_numbers(*(one.size for one in nestings)))
    whole = contrasts(request, nestings, uniform(nestings), Spending(epsilon=Fraction(1)))
    heard = [(one, Heard()) for one in whole.measured]
    silent = tuple(one._replace(noise=noise) for one, noise in heard)  # type: ignore[arg-type]
    found, _ = Contrasts(nestings, silent).estimate(
        np.asarray(cells), np.zeros(0, dtype=np.int64), SeededEntropy(1)
    )
    assert np.allclose(found, cells)
    return {one.level: noise.seen.tolist() for one, noise in heard}


def test_coefficients_are_left_less_right_and_the_total() -> None:
    found = measured((Nesting(8, (2, 2, 2)),), [9, 1, 2, 3, 10, 20, 30, 40])
    assert found == {(0,): [115], (1,): [-85], (2,): [5, -40], (3,): [8, -1, -10, -10]}


def test_coefficients_of_more_children_are_each_times_their_number_less_all() -> None:
    found = measured((Nesting(6, (2, 3)),), [1, 2, 6, 4, 4, 4])
    assert found == {(0,): [21], (1,): [-3], (2,): [-6, -3, 9, 0, 0, 0]}


def test_coefficients_of_two_columns_are_those_of_one_within_the_other() -> None:
    cells = np.array([[1, 2, 3, 4], [50, 60, 70, 90]])
    found = measured((Nesting(2, (2,)), Nesting(4, (2, 2))), cells)
    assert found[0, 0] == [280]
    assert found[1, 0] == [10 - 270]
    assert found[0, 1] == [3 + 110 - 7 - 160]
    assert found[1, 2] == [-1 + 10, -1 + 20]


@pytest.mark.parametrize("points", [(16,), (11,), (8, 5), (4, 2, 3)])
def test_uniform_shares_are_the_generalised_sensitivity(points: tuple[int, ...]) -> None:
    """1 + log2 n for every column, their product for several."""
    plan = prepare(request_for(whole_numbers(*points), epsilon=2))
    scales = np.prod([1 + (size - 1).bit_length() for size in points])
    event = plan.event
    assert isinstance(event, Composed)
    assert {one.scale for one in event.events if isinstance(one, LaplaceNoise)} == {scales / 2}
    assert len(event.events) == scales


def test_the_error_of_ranges_grows_with_the_cube_of_the_logarithm() -> None:
    """(1 + log2 n)^2 for the noise, log2 n for the scales; cells alone grow with n."""
    depths = [8, 12, 16, 20, 24]
    requests = [request_for(whole_numbers(1 << one), epsilon="1/100") for one in depths]
    cubes = [(1 + one) ** 2 * one for one in depths]
    ratios = np.array([prepare(one).workload_mse for one in requests]) / cubes
    assert ratios.max() / ratios.min() < 1.1


@pytest.mark.parametrize("budget", ["uniform", "optimised"])
@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": "1/2"}])
def test_ranges_are_off_as_stated(budget: str, cost: dict[str, Any]) -> None:
    axes = whole_numbers(5, nullable=True)
    plan = prepare(request_for(axes, boxes=RANGES, **cost), budget=budget)
    dense = np.array([4, 0, 7, 2, 1, 6])
    counts = frequencies(axes, dense)
    truth = [dense[low : high + 1].sum() for ((low, high),) in RANGES]
    tables = [plan.release(counts, SeededEntropy(seed)) for seed in range(300)]
    errors = np.array([plan.ranges(one, RANGES) - truth for one in tables])
    missing = np.array([one["cells"]["count"].to_numpy()[5:] - 6 for one in tables])
    # Discrete Gaussian noise this wide has the variance of its parameter, to many digits.
    assert agrees(errors, plan.ranges_variance(RANGES))
    assert agrees(missing, [plan.error["missing"]["sd"] ** 2])


def test_optimised_shares_are_never_worse() -> None:
    for boxes in (None, [[0, 63]], [[5, 5], [9, 9]], [[0, 31], [32, 63]]):
        for name, amount in (("epsilon", "1/10"), ("rho", "1/200")):
            request = request_for(whole_numbers(64), boxes=boxes, **{name: amount})  # type: ignore[arg-type]
            plain = prepare(request, budget="uniform").workload_mse
            assert prepare(request, budget="optimised").workload_mse <= plain * 1.01


def test_a_replaced_person_may_turn_signs() -> None:
    """Two rows of a person leave the left half for the right: the difference moves by 4."""
    unit = Entity("person", max_rows=2, relation=Neighbours.REPLACE_ONE)
    for one in strategy(prepare(request_for(whole_numbers(4), unit=unit, rho=1))).measured:
        assert isinstance(one.noise, Gaussian)
        assert one.noise.l2_sensitivity_squared == (8 if one.level == (0,) else 16)
    for one in strategy(prepare(request_for(whole_numbers(4), unit=unit))).measured:
        assert isinstance(one.noise, Geometric)
        assert one.noise.l1_sensitivity == 4


def test_a_hierarchy_makes_groups_of_unlike_size_into_one_tree() -> None:
    plan = prepare(request_for(ILL, unit=Rows()), hierarchy={"ill": GROUPS})
    assert plan.parameters["fanouts"] == [[3, 2]]
    scales = {one.level: one.noise for one in strategy(plan).measured}
    assert isinstance(scales[1,], Geometric)
    assert scales[1,].l1_sensitivity == 4  # 2 (3 - 1)
    assert scales[2,].event.l1_sensitivity == 1  # type: ignore[union-attr]
    dense = np.array([5, 4, 3, 2, 1, 9])
    counts = frequencies(ILL, dense)
    tables = [plan.release(counts, SeededEntropy(seed)) for seed in range(300)]
    errors = np.array([one["cells"]["count"].to_numpy() - dense for one in tables])
    stated = [plan.error["cells"]["sd"] ** 2] * 5 + [plan.error["missing"]["sd"] ** 2]
    assert agrees(errors, stated)
    # flu and cold are the lung, and so are next to each other.
    spans = np.array([[[0, 1]], [[1, 3]], [[0, 4]]])
    truth = [9, 9, 15]
    ranges = np.array([plan.ranges(one, spans) - truth for one in tables])
    assert agrees(ranges, plan.ranges_variance(spans))
    every = np.array([[[low, high]] for low in range(5) for high in range(low, 5)])
    assert plan.workload_mse == pytest.approx(plan.ranges_variance(every).mean())


@pytest.mark.parametrize(
    ("hierarchy", "code"),
    [
        ("lung", "hierarchy_invalid"),
        ({"age": {}}, "hierarchy_invalid"),
        ({"ill": {"flu": ["lung"]}}, "hierarchy_invalid"),
        ({"ill": {**GROUPS, "gout": []}}, "hierarchy_invalid"),
        ({"ill": "lung"}, "hierarchy_invalid"),
    ],
)
def test_a_hierarchy_that_does_not_fit_is_refused(hierarchy: object, code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        prepare(request_for(ILL), hierarchy=hierarchy)
    assert refused.value.code == code
