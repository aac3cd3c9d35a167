"""With a large epsilon and many rows, a learner tends to the non-private model of its name.

The models are those of scikit-learn, on the same declared bins, from the same starts, with as many
rounds. Rows fill their bounds, so that a clipping bound that only suits typical rows would show.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import CategoricalNB
from sklearn.tree import DecisionTreeClassifier
from tests.unit.methods.learn.learnt import fitted, model_of, people, planned

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.methods.learn import kmeans
from sfumato.methods.learn.features import GRID

ROWS, MUCH = 20_000, 10**6
RNG = np.random.default_rng(7)
CELLS = RNG.normal(0, 0.4, (ROWS, 4)) @ np.array(
    [[1.0, 0.6, 0.0, 0.2], [0.0, 1.2, 0.0, 0.0], [0.3, 0.0, 1.5, 0.0], [0.0, 0.0, 0.2, 0.5]]
)
CELLS = np.rint(np.clip(CELLS - 0.1, -1, 1) * GRID) / GRID
SCORES = 0.4 + CELLS @ np.array([2.0, -1.5, 0.0, 1.0]) + 2 * CELLS[:, 0] * CELLS[:, 1]
RARE = np.where(RNG.random(ROWS) < 1 / (1 + np.exp(3.5 - SCORES)), "yes", "no").tolist()
EVEN = np.where(RNG.random(ROWS) < 1 / (1 + np.exp(-SCORES)), "yes", "no").tolist()
NUMBER = Column("told", Kind.REAL, domain=Bounds(Decimal(-8), Decimal(8)))


def _model(kind: str, classes: list[str] | None = None, **options: Any) -> Any:
    learning = planned(kind, 4, epsilon=MUCH, rows=ROWS, **options)
    return model_of(learning, fitted(learning, people(CELLS, classes)))


@pytest.mark.parametrize("classes", [EVEN, RARE], ids=["even", "rare"])
def test_logistic(classes: list[str]) -> None:
    fit = LogisticRegression(C=1e8, tol=1e-10, max_iter=1000).fit(CELLS, classes)
    expected = np.concatenate([fit.intercept_, fit.coef_[0]])
    found = _model("logistic", classes).weights[1]
    assert np.linalg.norm(found - expected) < 0.005 * np.linalg.norm(expected)


@pytest.mark.parametrize("classes", [EVEN, RARE], ids=["even", "rare"])
def test_naive_bayes(classes: list[str]) -> None:
    found = _model("naive-bayes", classes, bins=8)
    bins = found.space.encode(people(CELLS))
    fit = CategoricalNB(alpha=1e-9, min_categories=8).fit(bins, classes)
    assert np.abs(found.predict_proba(CELLS) - fit.predict_proba(bins)).max() < 0.05
    assert np.abs(found.predict_proba(CELLS) - fit.predict_proba(bins)).mean() < 0.001


@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize("classes", [EVEN, RARE], ids=["even", "rare"])
def test_tree(classes: list[str], depth: int) -> None:
    found = _model("tree", classes, bins=8, depth=depth, growth="greedy")
    bins = found.space.encode(people(CELLS))
    fit = DecisionTreeClassifier(max_depth=depth, random_state=1).fit(bins, classes)
    assert found.score(people(CELLS), classes) > fit.score(bins, classes) - 0.01


def test_kmeans(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[Any] = []
    drawn = kmeans.packed_points

    def recorded(*arguments: Any) -> Any:
        starts.append(drawn(*arguments))
        return starts[-1]

    monkeypatch.setattr(kmeans, "packed_points", recorded)
    learning = planned("kmeans", 4, epsilon=MUCH, rows=ROWS, clusters=3, rounds=5)
    found: Any = model_of(learning, fitted(learning, people(CELLS)))
    assert learning.method.parameters["reach"] == 8  # twice the half width of four coordinates
    # The starts lie around the mean of all rows.
    start = np.clip(CELLS.mean(axis=0) + starts[0], -1, 1)
    fit = KMeans(3, init=start, n_init=1, max_iter=5, tol=0, algorithm="lloyd").fit(CELLS)
    assert np.abs(found.centres - fit.cluster_centers_).max() < 0.01


def test_pca() -> None:
    found = _model("pca", components=2)
    fit = PCA(2).fit(CELLS)
    angles = np.abs((found.components * fit.components_).sum(axis=1))
    assert angles == pytest.approx([1, 1], abs=1e-4)
    variances = found.tables["spectrum"]["variance"].to_numpy()
    assert variances == pytest.approx(fit.explained_variance_, rel=0.01)


@pytest.mark.parametrize("kind", ["linear", "ridge"])
def test_lines(kind: str) -> None:
    """A target that is not linear, so that rows of less weight would move the line."""
    numbers = np.clip(SCORES + RNG.normal(0, 0.5, ROWS), -8, 8)
    options: dict[str, Any] = {"penalty": 500} if kind == "ridge" else {}
    learning = planned(kind, 4, epsilon=MUCH, rows=ROWS, target=NUMBER, **options)
    table = people(CELLS)
    table = table.set_column(table.column_names.index("told"), "told", pa.array(numbers))
    found: Any = model_of(learning, fitted(learning, table))
    fit = (Ridge(500) if kind == "ridge" else LinearRegression()).fit(CELLS, numbers)
    told = found.tables["coefficients"]["coefficient"].to_numpy()
    assert told == pytest.approx([fit.intercept_, *fit.coef_], abs=0.01)
    errors = found.summary().table["std_error"].to_numpy()
    if kind == "linear":
        # The textbook's standard errors, for residuals of one variance.
        design = np.column_stack([np.ones(ROWS), CELLS])
        residual = float(np.var(numbers - fit.predict(CELLS)))
        expected = np.sqrt(residual * np.diag(np.linalg.inv(design.T @ design)))
        assert errors == pytest.approx(expected, rel=0.03)


@pytest.mark.slow
def test_logistic_regression_of_a_million_rows_at_epsilon_100() -> None:
    """The error of the coefficients in the Hessian norm is within 2 % of the fit itself."""
    rng = np.random.default_rng(5)
    cells = np.rint(np.clip(rng.normal(0, 0.5, (10**6, 9)), -1, 1) * GRID) / GRID
    design = np.column_stack([np.ones(len(cells)), cells])
    true = np.array([-0.5, 1.5, -2.0, 0.0, 1.0, 0.5, -0.5, 2.0, -1.0, 0.3])
    told = rng.random(len(cells)) < 1 / (1 + np.exp(-(design @ true)))
    learning = planned("logistic", 9, epsilon=100, delta="1e-6", rows=10**6)
    table = people(cells, np.where(told, "yes", "no").tolist())
    found: Any = model_of(learning, fitted(learning, table))
    expected = np.zeros(10)
    for _ in range(12):  # Newton's method without noise
        chances = 1 / (1 + np.exp(-(design @ expected)))
        hessian = (design * (chances * (1 - chances))[:, None]).T @ design
        expected = expected - np.linalg.solve(hessian, design.T @ (chances - told))
    error = found.weights[1] - expected
    assert np.sqrt(error @ hessian @ error) < 0.02 * np.sqrt(expected @ hessian @ expected)
    assert learning.method.parameters["solver"] == "newton"
