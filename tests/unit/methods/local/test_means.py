"""Means of amounts: the published figures, exactness, and what people give."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError
from sfumato.methods.local.local_epsilon import read_epsilon
from sfumato.methods.local.means import THRESHOLD, Duchi, HalfSpace, Hybrid, Piecewise, Window
from sfumato.testing.entropy import SeededEntropy

FINE = 1 << 16
"""So many cells that the mechanism is as good as the published one of real numbers."""


def test_the_published_variances() -> None:
    assert Duchi((-1, 1), epsilon=1).variance(1) == pytest.approx(4.68269, abs=5e-6)
    piecewise = Piecewise((-1, 1), epsilon=1, cells=FINE)
    assert piecewise.variance(1, "0.3") == pytest.approx(3.82084, rel=1e-5)
    assert Hybrid((-1, 1), epsilon=1, cells=FINE).variance(1) == pytest.approx(4.28899, rel=1e-5)
    assert Hybrid((-1, 1), epsilon=2, cells=FINE).variance(1) == pytest.approx(1.04234, rel=1e-5)


def test_a_thousand_cells_are_nearly_as_good() -> None:
    for epsilon in ("0.5", "1", "2", "4"):
        usual = Piecewise((-1, 1), epsilon=epsilon).variance(1)
        assert usual == pytest.approx(
            Piecewise((-1, 1), epsilon=epsilon, cells=FINE).variance(1), rel=0.01
        )


def test_what_a_sign_stands_for() -> None:
    sizes = [float(HalfSpace.of(read_epsilon(1), d).size) for d in (2, 3, 4)]
    assert sizes == pytest.approx([3.3279, 4.3279, 4.7705], abs=5e-5)
    one = float(HalfSpace.of(read_epsilon(1), 1).size)
    assert one == pytest.approx((math.e + 1) / (math.e - 1), rel=1e-12)


def test_hybrid_is_signs_alone_below_its_threshold() -> None:
    below, above = Hybrid((0, 1), epsilon="0.609"), Hybrid((0, 1), epsilon="0.61")
    assert below.share == 0
    assert float(below.epsilon) < THRESHOLD < float(above.epsilon)
    assert float(above.share) == pytest.approx(1 - math.exp(-0.305), rel=1e-6)
    assert below.variance(1) == Duchi((0, 1), epsilon="0.609").variance(1)


@pytest.mark.parametrize("kind", [Piecewise, Hybrid])
def test_answers_are_unbiased_at_every_place(kind: type[Piecewise | Hybrid]) -> None:
    oracle = kind((-1, 1), epsilon=2, cells=32)
    matrix = oracle.channel()
    places = len(matrix.weights)
    answers = oracle._answers()
    means = matrix.probabilities() @ answers
    assert means == pytest.approx(np.linspace(-1, 1, places), abs=1e-9)
    squares = matrix.probabilities() @ answers**2
    for place in (0, places // 3, places - 1):
        part = Fraction(2 * place, places - 1) - 1
        expected = squares[place] - float(part) ** 2
        assert float(oracle._variance(part)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_signs_are_unbiased(dimensions: int) -> None:
    oracle = Duchi((-1, 1), epsilon=1, columns=dimensions)
    chances = oracle.channel().probabilities()
    vectors = np.arange(1 << dimensions)[:, None] >> np.arange(dimensions) & 1
    signs = 2.0 * vectors - 1
    assert chances @ signs * float(oracle.signs.size) == pytest.approx(signs, abs=1e-9)


@pytest.mark.parametrize("name", ["hybrid", "piecewise", "duchi"])
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_means_come_out_within_their_sd(name: str, epsilon: str) -> None:
    oracle = sf.local.mean(name, bounds=(0, 100), epsilon=epsilon)
    values = np.linspace(10, 60, 40_000)
    found = oracle.estimate(oracle.sketch(oracle.randomize(values, SeededEntropy(7))))
    mean, sd = found["mean"][0].as_py(), found["sd"][0].as_py()
    assert abs(mean - 35) < 4 * sd
    # What is told beforehand is at worst; afterwards it is about what there was.
    assert sd <= math.sqrt(oracle.variance(40_000)) * 1.02
    assert sd > 0.6 * math.sqrt(oracle.variance(40_000))


def test_the_spread_of_people_is_not_taken_for_noise() -> None:
    oracle = Piecewise((-1, 1), epsilon=4)
    values = np.tile([-1.0, 1.0], 50_000)
    found = oracle.estimate(oracle.sketch(oracle.randomize(values, SeededEntropy(3))))
    fixed = math.sqrt(float(oracle.window.variance(Fraction(1))) / 100_000)
    assert found["sd"][0].as_py() == pytest.approx(fixed, rel=0.05)


def test_several_amounts_at_once() -> None:
    oracle = sf.local.mean("duchi", bounds=(0, 10), epsilon=2, columns=["rent", "food"])
    people = pa.table({"rent": np.full(60_000, 7.0), "food": np.full(60_000, 2.0)})
    reports = oracle.randomize(people, SeededEntropy(1))
    halves = [reports.rows[:10_000], reports.rows[10_000:]]
    merged = oracle.merge(oracle.sum_rows(one) for one in halves)
    assert merged == oracle.sketch(reports) == oracle.sketch(reports.to_arrow())
    found = oracle.estimate(merged).to_pylist()
    assert [one["column"] for one in found] == ["rent", "food"]
    for one, true in zip(found, (7, 2), strict=True):
        assert abs(one["mean"] - true) < 4 * one["sd"]


def test_amounts_beyond_the_bounds_count_as_the_bound() -> None:
    window = Window.of(read_epsilon(2), 64)
    oracle = Piecewise((0, 10), epsilon=2, cells=64)
    far = oracle.randomize([-1e300, 1e300], SeededEntropy(5)).rows["report"]
    near = oracle.randomize([0, 10], SeededEntropy(5)).rows["report"]
    assert far.tolist() == near.tolist()
    assert int(far.max()) < window.cells


@pytest.mark.parametrize(
    "values", [[math.nan], [math.inf], ["a"], [None], [[1, 2]], {"a": 1}, [[]]]
)
def test_what_is_no_amount_is_refused_and_not_quoted(values: object) -> None:
    with pytest.raises(ParameterError) as raised:
        Piecewise((0, 10), epsilon=1).randomize(values)
    assert raised.value.code == "parameter_type_wrong"
    assert "none of them missing" in raised.value.message


@pytest.mark.parametrize("cells", [3, 1 << 21])
def test_too_few_or_too_many_cells_are_refused(cells: int) -> None:
    with pytest.raises(ParameterError) as raised:
        Piecewise((0, 1), epsilon=1, cells=cells)
    assert raised.value.code == "parameter_out_of_range"


def test_extreme_epsilons_stay_exact() -> None:
    for epsilon in ("0.000001", "20"):
        for cells in (4, 1 << 20):
            oracle = Hybrid((0, 1), epsilon=epsilon, cells=cells)
            assert oracle.epsilon.allows(oracle.ratio)
            assert oracle.realised == pytest.approx(float(epsilon), rel=1e-3)
            assert oracle.window.total < 1 << 62
        signs = Duchi((0, 1), epsilon=epsilon, columns=64)
        assert signs.realised == pytest.approx(float(epsilon), rel=1e-3)


@pytest.mark.parametrize(
    "values",
    [
        *(["5"], [True], [1, True], [1.5, "2"], [b"5"], [None], [1j], "5", True),
        *(np.array(["5"]), np.array([True]), np.array([1, "2"], dtype=object)),
        *(pa.array(["5"]), pa.array([True])),
    ],
    ids=lambda one: f"{type(one).__name__} {str(one)[:9]}".replace("\n", ""),
)
def test_a_text_or_a_truth_value_is_no_amount(values: object) -> None:
    with pytest.raises(ParameterError) as raised:
        sf.local.mean(bounds=(0, 80), epsilon=2).randomize(values)
    assert raised.value.code == "parameter_type_wrong"


@pytest.mark.parametrize(
    "values", [[5], 5, [Fraction(1, 2)], [Decimal("1.5")], [np.float32(1)], pa.array([1, 2])]
)
def test_any_number_is_an_amount(values: object) -> None:
    assert len(sf.local.mean(bounds=(0, 80), epsilon=2).randomize(values)) in (1, 2)


@pytest.mark.parametrize(("epsilon", "times"), [(1, 1.13), (4, 3.76)])
def test_the_sd_of_signs_is_above_for_people_at_both_bounds(epsilon: int, times: float) -> None:
    """As the guide says."""
    oracle = Duchi((0, 1), epsilon=epsilon)
    found = oracle.estimate(oracle.sketch(oracle.randomize([0, 1] * 5_000, SeededEntropy(1))))
    true = math.sqrt(oracle.variance(10_000, 0))
    assert found["sd"][0].as_py() / true == pytest.approx(times, abs=0.01)
