"""Log-odds follow from the noisy means of classes, around a noisy centre."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.unit.methods.learn.learnt import fitted, model_of, people, planned, spent

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.errors import ParameterError
from sfumato.methods.learn.logistic import class_means, class_sizes, common_precision, log_odds

RNG = np.random.default_rng(3)
TRUE = {"no": [-0.3, 0.0, 0.1], "yes": [0.2, 0.2, 0.1]}
TOLD = ["no"] * 600 + ["yes"] * 400
SHAPE = np.array([[0.04, 0.03, 0.0], [0.03, 0.04, 0.0], [0.0, 0.0, 0.02]])
CELLS = np.concatenate(
    [RNG.multivariate_normal(TRUE[one], SHAPE, many) for one, many in (("no", 600), ("yes", 400))]
)
DIFFERENCE = np.subtract(TRUE["yes"], TRUE["no"])


@pytest.mark.parametrize("learn", ["means", "shape"])
def test_coefficients_are_those_of_normal_classes(learn: str) -> None:
    learning = planned("logistic", 3, epsilon=10**4, learn=learn)
    found = model_of(learning, fitted(learning, people(CELLS, TOLD)))
    shape = 0.06 * np.eye(3) if learn == "means" else SHAPE
    expected = np.linalg.solve(shape, DIFFERENCE)
    assert found.weights[1, 1:] == pytest.approx(expected, abs=0.12 * np.abs(expected).max())  # type: ignore[attr-defined]
    assert found.tables["classes"].to_pylist() == [
        {"class": "no", "rows": 600}, {"class": "yes", "rows": 400},
    ]  # fmt: skip
    best = float(np.mean((CELLS @ expected > (np.mean(list(TRUE.values()), axis=0) @ expected))
                         == (np.array(TOLD) == "yes")))  # fmt: skip
    assert found.score(people(CELLS), TOLD) > best - 0.02
    chances = found.predict_proba(CELLS)  # type: ignore[attr-defined]
    assert chances.sum(axis=1) == pytest.approx(1)
    assert found.classes_.tolist() == ["no", "yes"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("sum_sd", [2.0, 25.0])
def test_the_doubt_of_coefficients_is_what_noise_does_to_them(sum_sd: float) -> None:
    """Of noise, and of no more than 120 and 80 rows: what is told is not less than what happens."""
    sizes, means = np.array([120, 80]), np.array([[-0.3, 0.1, 0.0], [0.4, 0.0, -0.2]])
    drawn, told = [], []
    for _ in range(400):
        few = means + RNG.normal(0, np.sqrt(0.06 / sizes)[:, None], means.shape)
        sums = sizes[:, None] * few + RNG.normal(0, sum_sd, means.shape)
        counts = sizes + RNG.normal(0, 1.0, 2)
        found = class_means(counts, sums, count_sd=1.0, sum_sd=sum_sd)
        odds = log_odds(found, np.array([0.2, 0.1, 0.0]), np.eye(3) / 0.06)
        drawn.append([*odds.constants, *odds.coefficients[0]])
        told.append([*odds.constant_sds, *odds.coefficient_sds[0]])
    true = np.concatenate([[0.0], (means[1] - means[0]) / 0.06])
    off = np.sqrt(np.mean((np.array(drawn) - true)[:, 1:] ** 2, axis=0))
    told_sd = np.sqrt(np.mean(np.square(told), axis=0))
    # Drawing together errs less over all coordinates, though more in the one that differs most.
    assert np.sqrt((off**2).mean()) < 1.1 * told_sd[1:].mean()
    assert (np.std(drawn, axis=0) < 1.15 * told_sd).all()
    if sum_sd == 2.0:
        assert (off > 0.8 * told_sd[1:]).all(), off / told_sd[1:]


@pytest.mark.parametrize(
    ("rows", "learn", "expected"),
    [
        (None, "auto", ("means", True)),
        (3, "auto", ("means", False)),
        (4, "auto", ("means", True)),
        (120, "auto", ("means", True)),
        (125, "auto", ("shape", True)),
        (None, "shape", ("shape", True)),
        (10**6, "means", ("means", True)),
    ],
)
def test_what_is_learnt_follows_from_public_facts(
    rows: int | None, learn: str, expected: tuple[str, bool]
) -> None:
    ways: list[dict[str, Any]] = [{"rows": rows}, {"size": rows}]
    for given in ways:
        learning = planned("logistic", 3, epsilon=1, learn=learn, **given)
        told = learning.method.parameters
        assert (told["learn"], told["centred"]) == expected
        assert spent(learning.event) == Fraction(1)


def test_more_classes_than_two() -> None:
    target = Column("told", Kind.TEXT, domain=Values(("a", "b", "c", "d")))
    learning = planned("logistic", 2, target=target, epsilon=1000)
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [-0.5, 0.5], [0.5, 0.5]])
    cells, told = np.repeat(corners, 40, axis=0), [one for one in "abcd" for _ in range(40)]
    found = model_of(learning, fitted(learning, people(cells, told)))
    assert found.score(people(cells), told) == 1
    assert found.tables["coefficients"].num_rows == 3 * 3


def test_rows_without_a_class_say_nothing() -> None:
    learning = planned("logistic", 1, epsilon=10**6, rows=1)
    table = people([[0.5]] * 10 + [[-0.9]] * 90, ["yes"] * 10 + [None] * 90)
    found = fitted(learning, table)["classes"].column("rows").to_pylist()
    assert found == [0, 10]


def test_means_are_drawn_together_as_far_as_noise_has_them_apart() -> None:
    counts, sums = np.array([100.0, 100.0]), np.array([[20.0, 0.0], [-20.0, 5.0]])
    clear, vague = (class_means(counts, sums, count_sd=1.0, sum_sd=sd) for sd in (0.1, 60.0))
    assert clear.means[0] - clear.means[1] == pytest.approx([0.4, -0.05], abs=0.02)
    apart = vague.means[0] - vague.means[1]
    assert 0 < np.linalg.norm(apart) < 0.1
    assert apart[0] * -0.05 == pytest.approx(apart[1] * 0.4)


def test_sizes_have_a_floor_and_are_drawn_to_equal_ones() -> None:
    assert class_sizes(np.array([-500.0, 900.0]), 1.0).tolist() == pytest.approx([45, 900], abs=1)
    assert class_sizes(np.array([80.0, 120.0]), 400.0).tolist() == [100, 100]
    assert class_sizes(np.array([0.0, 0.0]), 1.0).min() > 0


def test_a_shape_below_its_noise_is_as_wide_as_the_noise() -> None:
    found = class_means(np.array([50.0, 50.0]), np.zeros((2, 2)), count_sd=1.0, sum_sd=1.0)
    products = np.diag([9.0, -3.0])
    precision = common_precision(products, found, 1.0)
    least = 2 * np.sqrt(2) / 100
    assert precision == pytest.approx(np.diag([1 / 0.09, 1 / least]), rel=1e-6)


def test_log_odds_of_equal_classes_are_those_of_their_sizes() -> None:
    found = class_means(np.array([30.0, 90.0]), np.zeros((2, 1)), count_sd=1e-6, sum_sd=1e-6)
    odds = log_odds(found, np.array([0.3]), np.eye(1))
    assert odds.constants == pytest.approx([np.log(3)], abs=1e-3)
    assert odds.coefficients == pytest.approx(np.zeros((1, 1)), abs=1e-6)


@pytest.mark.parametrize(
    ("options", "told"),
    [({"learn": "all"}, "learn cannot be 'all'"), ({"size": 0}, "size must be a whole number")],
)
def test_options_are_checked(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        planned("logistic", 2, **options)


def test_a_target_without_declared_classes_is_refused() -> None:
    target = Column("told", Kind.INTEGER, domain=Bounds(0, 10**6))
    for kind in ("logistic", "perceptron"):
        with pytest.raises(ParameterError, match="does not declare"):
            planned(kind, 2, target=target)
