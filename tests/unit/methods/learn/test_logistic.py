"""Noisy gradients lead to the coefficients of logistic regression."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.unit.methods.learn.learnt import (
    TARGET,
    dataset,
    features,
    fitted,
    model_of,
    people,
    planned,
    spent,
)

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.unit import Rows
from sfumato.errors import ParameterError
from sfumato.methods.learn.bins import ClassLabels
from sfumato.methods.learn.features import GRID, FeatureSpace
from sfumato.methods.learn.gradients import (
    COEFFICIENT,
    ONE,
    WEIGHT_ONE,
    LogisticRows,
    matrix_of,
)
from sfumato.methods.learn.logistic import (
    balanced_weights,
    mean_of_rounds_covariance,
    modelled_curvature,
    softmax,
)
from sfumato.testing.entropy import SeededEntropy

RNG = np.random.default_rng(3)
CELLS = np.clip(RNG.normal(0.1, 0.5, (1500, 3)), -1, 1)
CELLS = np.rint(CELLS * GRID) / GRID  # so that nothing is rounded in the engine
TRUE = np.array([-0.6, 1.5, -2.0, 0.0])
CHANCES = 1 / (1 + np.exp(-(TRUE[0] + CELLS @ TRUE[1:])))
CLASSES = np.where(RNG.random(1500) < CHANCES, "yes", "no").tolist()
LETTERS = Column("told", Kind.TEXT, domain=Values(("a", "b", "c")))
THREE = np.array([[0.2, 1.0, 0.0, -1.0], [-0.3, -2.0, 1.0, 0.5]])
LETTER_OF = [
    "abc"[index]
    for index in (
        softmax(np.column_stack([np.zeros(1500), THREE[:, 0] + CELLS @ THREE[:, 1:].T])).cumsum(1)
        > RNG.random((1500, 1))
    ).argmax(1)
]


def _rows(classes: Any, target: Column, weights: Any = None) -> Any:
    labels = ClassLabels.of(target)
    engine = open_duckdb(people(CELLS, classes))
    learning = planned("logistic", 3, target=target)
    weights = np.full(len(labels), WEIGHT_ONE) if weights is None else np.array(weights)
    return engine, LogisticRows(
        dataset(learning, engine), FeatureSpace(features(3)), labels, weights
    )


def _exact(target: Column, classes: list[str], coefficients: Any) -> tuple[Any, Any, Any]:
    """Probabilities, the indicator of each class, and rows with a constant."""
    rows = np.column_stack([np.ones(len(CELLS)), CELLS])
    scores = np.column_stack([np.zeros(len(rows)), rows @ (coefficients / COEFFICIENT).T])
    domain: Any = target.domain
    indicators = np.array([[one == value for value in domain.values] for one in classes])
    return softmax(scores), indicators, rows


@pytest.mark.parametrize(
    ("target", "classes", "coefficients"),
    [
        (TARGET, CLASSES, [[-3000, 6000, -8000, 100]]),
        (TARGET, CLASSES, [[200_000, -250_000, 0, 60_000]]),
        (LETTERS, LETTER_OF, [[700, 4000, 0, -4000], [-900, -9000, 4100, 2000]]),
    ],
    ids=["usual", "saturated", "three classes"],
)
def test_sums_are_those_of_the_softmax_function(
    target: Column, classes: list[str], coefficients: Any
) -> None:
    engine, rows = _rows(classes, target)
    with closing(engine):
        gradient = rows.gradient(np.array(coefficients)) / (ONE * GRID)
        curvature = rows.curvature(np.array(coefficients)) / (ONE * GRID**2)
        products = rows.products() / (WEIGHT_ONE * GRID**2)
    chances, indicators, cells = _exact(target, classes, np.array(coefficients))
    measured = slice(1, 2) if target is TARGET else slice(None)
    expected = ((chances - indicators)[:, measured]).T @ cells
    # A probability is within 1e-5, and its rounding is not correlated with rows.
    assert np.abs(gradient.astype(float) - expected).max() < 1e-5 * len(CELLS)
    space = FeatureSpace(features(3))
    assert matrix_of(products.astype(float), space) == pytest.approx(cells.T @ cells)
    blocks = [matrix_of(one.astype(float), space) for one in curvature]
    own = (cells * (chances[:, 1] * (1 - chances[:, 1]))[:, None]).T @ cells
    assert np.abs(blocks[0] - own).max() < 1e-5 * len(CELLS)
    if target is LETTERS:
        shared = -(cells * (chances[:, 1] * chances[:, 2])[:, None]).T @ cells
        assert np.abs(blocks[1] - shared).max() < 1e-5 * len(CELLS)


def test_class_weights_multiply_every_sum() -> None:
    engine, rows = _rows(CLASSES, TARGET, [WEIGHT_ONE // 4, WEIGHT_ONE])
    with closing(engine):
        coefficients = np.array([[-3000, 6000, -8000, 100]])
        gradient = rows.gradient(coefficients) / (ONE * GRID)
        total = rows.products()[0] / (WEIGHT_ONE * GRID**2)
    chances, indicators, cells = _exact(TARGET, CLASSES, coefficients)
    weights = np.where(indicators[:, 1], 1, 0.25)
    expected = ((chances - indicators)[:, 1] * weights) @ cells
    assert np.abs(gradient[0].astype(float) - expected).max() < 1e-5 * len(CELLS)
    assert float(total) == pytest.approx(weights.sum())


@pytest.mark.parametrize(("solver", "within"), [("newton", 0.02), ("gradient", 0.15)])
@pytest.mark.parametrize("target", [TARGET, LETTERS], ids=["two", "three"])
def test_without_noise_the_fit_is_that_of_maximum_likelihood(
    solver: str, within: float, target: Column
) -> None:
    classes = CLASSES if target is TARGET else LETTER_OF
    learning = planned("logistic", 3, target=target, epsilon=10**6, solver=solver)
    found: Any = model_of(learning, fitted(learning, people(CELLS, classes)))
    fit = LogisticRegression(C=1e8, tol=1e-10, max_iter=1000).fit(CELLS, classes)
    expected = np.column_stack([fit.intercept_, fit.coef_])
    if len(expected) > 1:
        expected = (expected - expected[0])[1:]
    assert np.linalg.norm(found.weights[1:] - expected) < within * np.linalg.norm(expected)
    assert found.score(people(CELLS), classes) > fit.score(CELLS, classes) - 0.01


def test_probabilities_are_calibrated() -> None:
    learning = planned("logistic", 3, epsilon=20, rows=1500)
    found: Any = model_of(learning, fitted(learning, people(CELLS, CLASSES)))
    chances = found.predict_proba(CELLS)
    assert chances.sum(axis=1) == pytest.approx(1)
    told = np.array(CLASSES) == "yes"
    for low in np.arange(0.1, 0.9, 0.2):
        among = (chances[:, 1] >= low) & (chances[:, 1] < low + 0.2)
        error = 2 * np.sqrt(0.25 / among.sum())
        assert abs(chances[among, 1].mean() - told[among].mean()) < error + 0.02


def test_balanced_classes_move_the_border_to_the_rarer_class() -> None:
    classes = np.where(CHANCES * RNG.random(1500) > 0.5, "yes", "no").tolist()
    shares = []
    cases: list[dict[str, Any]] = [{}, {"class_weight": "balanced"}]
    for options in cases:
        learning = planned("logistic", 3, epsilon=1000, **options)
        found = model_of(learning, fitted(learning, people(CELLS, classes)))
        shares.append(float(np.mean(found.predict(CELLS) == "yes")))
    fit = LogisticRegression(C=1e8, class_weight="balanced").fit(CELLS, classes)
    assert shares[0] < np.mean(np.array(classes) == "yes") < shares[1]
    assert shares[1] == pytest.approx(np.mean(fit.predict(CELLS) == "yes"), abs=0.03)


def test_balanced_weights_have_a_floor() -> None:
    assert balanced_weights(np.array([100.0, 300.0])).tolist() == [1024, 341]
    assert balanced_weights(np.array([-50.0, 400.0])).tolist() == [1024, 26]
    assert balanced_weights(np.array([0.0, 0.0])).tolist() == [1024, 1024]


def test_coefficients_are_in_units_of_the_columns() -> None:
    learning = planned("logistic", 3, epsilon=10**6, solver="newton")
    tables = fitted(learning, people(CELLS, CLASSES))
    table = tables["coefficients"]
    assert table.column("coefficient").to_numpy() == pytest.approx(table["weight"].to_numpy())
    column = Column("f0", Kind.INTEGER, domain=Bounds(0, 100))
    space = FeatureSpace((column,))
    assert space.halves[0] == 50  # a coefficient of 1 per unit is 50 per coordinate


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["gradient", "newton"])
def test_intervals_contain_what_noise_and_sampling_do(solver: str) -> None:
    """Of 200 tables, 95 % intervals of the true coefficients; a quarter of the noise is too few."""
    inside, noises = [], []
    for repeat in range(60):
        rng = np.random.default_rng(repeat)
        cells = np.clip(rng.normal(0.1, 0.5, (1500, 3)), -1, 1)
        chances = 1 / (1 + np.exp(-(TRUE[0] + cells @ TRUE[1:])))
        classes = np.where(rng.random(1500) < chances, "yes", "no").tolist()
        learning = planned("logistic", 3, epsilon=3, delta="1e-6", solver=solver)
        table = fitted(learning, people(cells, classes), seed=repeat)["coefficients"]
        off = table["weight"].to_numpy() - TRUE
        inside.append(np.abs(off) < 1.96 * table["sd"].to_numpy())
        noises.append(off / table["sd"].to_numpy())
    assert 0.88 < np.mean(inside) < 0.995, np.mean(inside)
    assert 0.6 < np.std(noises) < 1.3


def test_the_covariance_of_rounds_is_that_of_drawn_noise() -> None:
    rng = np.random.default_rng(1)
    curvature = np.array([[5.0, 1.0], [1.0, 2.0]])
    step: Any = np.linalg.inv(curvature + np.eye(2))
    noise = np.diag([0.3, 0.1])
    told = mean_of_rounds_covariance(step, curvature, noise, 8)
    means = []
    for _ in range(4000):
        error, path = np.zeros(2), []
        for _ in range(8):
            error = error - step @ (curvature @ error + rng.normal(0, np.sqrt(np.diag(noise))))
            path.append(error)
        means.append(np.mean(path[4:], axis=0))
    assert np.cov(np.array(means).T) == pytest.approx(told, rel=0.15, abs=0.003)


def test_the_modelled_curvature_is_that_of_normal_rows() -> None:
    rng = np.random.default_rng(2)
    rows = np.column_stack([np.ones(50_000), rng.normal([0.2, -0.1], [0.2, 0.1], (50_000, 2))])
    coefficients = np.array([[0.5, 2.0, -3.0]])
    chances = 1 / (1 + np.exp(-rows @ coefficients[0]))
    exact = (rows * (chances * (1 - chances))[:, None]).T @ rows
    told = modelled_curvature(rows.T @ rows, coefficients, SeededEntropy(2))
    assert told == pytest.approx(exact, rel=0.05, abs=0.01 * exact.max())


@pytest.mark.parametrize(
    ("rows", "delta", "expected"),
    [
        (None, 0, ("gradient", 8)),
        (None, "1e-6", ("gradient", 8)),
        (100, 0, ("gradient", 2)),
        (1000, 0, ("gradient", 4)),
        (10_000, 0, ("gradient", 8)),
        (100_000, 0, ("newton", 6)),
        (100_000, "1e-6", ("newton", 6)),
    ],
)
def test_the_solver_follows_from_public_facts(
    rows: int | None, delta: object, expected: tuple[str, int]
) -> None:
    ways: list[dict[str, Any]] = [{"rows": rows}, {"size": rows}]
    for given in ways:
        learning = planned("logistic", 3, delta=delta, **given)
        told = learning.method.parameters
        assert (told["solver"], told["rounds"]) == expected
        if not delta:
            assert spent(learning.event) == Fraction(1)


@pytest.mark.parametrize(
    "options",
    [{"solver": "newton"}, {"solver": "gradient"}, {"class_weight": "balanced"},
     {"class_weight": "balanced", "solver": "newton"}],
)  # fmt: skip
def test_the_whole_price_is_spent(options: dict[str, Any]) -> None:
    learning = planned("logistic", 3, epsilon=2, **options)
    assert spent(learning.event) == Fraction(2)


def test_rows_without_a_class_say_nothing() -> None:
    learning = planned("logistic", 1, epsilon=10**6, solver="newton")
    some = people(
        [[0.5]] * 30 + [[-0.5]] * 30, ["yes", "yes", "no"] * 10 + ["no", "yes", "no"] * 10
    )
    more = people(
        [[0.5]] * 30 + [[-0.5]] * 30 + [[-0.9]] * 900,
        ["yes", "yes", "no"] * 10 + ["no", "yes", "no"] * 10 + [None] * 900,
    )
    told = [fitted(learning, table)["coefficients"]["weight"].to_numpy() for table in (some, more)]
    assert told[0] == pytest.approx(told[1], abs=1e-3)


def test_a_summary_prints_what_statisticians_expect() -> None:
    learning = planned("logistic", 3, epsilon=50, solver="newton")
    found: Any = model_of(learning, fitted(learning, people(CELLS, CLASSES)))
    summary = found.summary()
    text = str(summary).splitlines()
    assert text[1].split() == [
        "term",
        "coefficient",
        "std",
        "err",
        "z",
        "P>|z|",
        "[0.025",
        "0.975]",
    ]
    assert text[2].startswith("yes: (intercept)")
    told = {row["term"]: row for row in summary.table.to_pylist()}
    assert told["yes: f1"]["p_value"] < 1e-6 < 0.01 < told["yes: f2"]["p_value"]
    assert told["yes: f1"]["z"] == pytest.approx(
        told["yes: f1"]["coefficient"] / told["yes: f1"]["std_error"]
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"solver": "all"}, "solver cannot be 'all'"),
        ({"class_weight": "all"}, "class_weight cannot be 'all'"),
        ({"size": 0}, "size must be a whole number"),
    ],
)
def test_options_are_checked(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        planned("logistic", 2, **options)


def test_too_many_coordinates_are_refused() -> None:
    with pytest.raises(ParameterError, match="at most 256"):
        planned("logistic", 300)
    with pytest.raises(ParameterError, match="at most 64 coefficients"):
        planned("logistic", 70, solver="newton")


def test_a_target_without_declared_classes_is_refused() -> None:
    target = Column("told", Kind.INTEGER, domain=Bounds(0, 10**6))
    for kind in ("logistic", "perceptron"):
        with pytest.raises(ParameterError, match="does not declare"):
            planned(kind, 2, target=target)


def test_one_feature_of_equal_bounds_is_harmless() -> None:
    unit = Rows()
    learning = planned("logistic", 1, unit=unit, epsilon=1)
    found = model_of(learning, fitted(learning, people([[0.3]] * 20, ["yes"] * 20)))
    assert set(found.predict(np.array([[0.3]]))) <= {"yes", "no"}
