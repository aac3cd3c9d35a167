"""Logistic regression by noisy gradients: fixed steps, or Newton's method.

Decision `learning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.learn.bins import ClassLabels
from sfumato.methods.learn.features import GRID, FeatureSpace
from sfumato.methods.learn.gradients import (
    COEFFICIENT,
    LARGEST,
    ONE,
    WEIGHT_ONE,
    LogisticRows,
    class_count_sensitivity,
    class_pairs,
    coefficients_on_grid,
    curvature_sensitivity,
    gradient_sensitivity,
    matrix_of,
    product_sensitivity,
    squared_radius,
)
from sfumato.methods.learn.model import ClassModel, class_names
from sfumato.methods.learn.noisy_moments import MOST_COORDINATES
from sfumato.methods.learn.row_sums import whole_row
from sfumato.methods.learn.summary import NORMAL_95, Summary
from sfumato.privacy.accounting.events import Composed, Repeated
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy

SOLVERS = ("auto", "gradient", "newton")
CLASS_WEIGHTS = ("balanced",)
INTERCEPT = "(intercept)"

_COUNT_SHARE = Fraction(1, 20)
"""The share of the price for the sizes of classes, where class weights are learnt."""
_PRODUCT_SHARE, _CURVATURE_SHARE = Fraction(1, 4), Fraction(2, 5)
"""The shares for X'X and for X'WX; gradients get the rest."""
_NEWTON_ROUNDS, _LONGEST_STEP = 6, 4.0
_NEWTON_GAUSSIAN, _NEWTON_LAPLACE = 400, 1000
"""The least signal for Newton's method, which needs a curvature in each round; decision
`learning` says on which tables this was tuned."""
_ROUNDS = ((30, 2), (100, 4))
"""Below these signals, gradient rounds with Laplace noise: its scale grows with their number."""
_MOST_ROUNDS = 8
_MOST_NEWTON = 64
"""The most free coefficients for Newton's method, whose sums grow with their square."""
_LEAST_CLASS = 0.05
"""The least size of a class for its weight, as a share of an equal division of all rows."""
_MOST_ROWS = 1 << 40
_DRAWS = 2_000
"""Rows of the parametric model that the curvature is computed from."""


@dataclass(frozen=True)
class Fit:
    """Coefficients of all classes but the first, (classes - 1, width), with their covariance."""

    coefficients: FloatArray
    covariance: FloatArray
    """Of the coefficients of one class after the other."""


@dataclass(frozen=True, kw_only=True)
class LogisticLearning:
    """Minimise the logistic loss by a fixed number of noisy gradients.

    *Guarantee*: the price in full. How many rounds there are, and the share of each noisy sum,
    follow from public facts before a row is read; each round starts from coefficients that are
    noisy results of earlier rounds, and every sum of every round gets noise of its own.
    *Sensitivity*: that of `gradients`: declared ranges bound a row, so that no gradient is clipped.
    *Error*: `gradient` is the noise of each entry of each gradient, in rows. Without noise the
    rounds tend to the maximum likelihood estimate: Newton's method within 2 % (Hessian norm) for a
    million rows at epsilon 100. Released standard deviations contain the noise and the sampling
    error, to first order; they do not contain what few rounds leave of the way.
    *Edges*: rows without a declared class are not summed; one class, equal rows or no rows give
    ordinary numbers. Matrices of noise lose their negative eigenvalues, and a ridge as large as
    their noise keeps steps short. Coefficients stay within 64.
    *Reference*: Boehning 1992 for fixed steps by a bound on the curvature; Bassily, Smith &
    Thakurta 2014 for noisy gradients; Avella-Medina, Bradshaw & Loh 2023 for noisy Newton steps.
    """

    space: FeatureSpace
    labels: ClassLabels
    unit: Unit
    rounds: int
    newton: bool
    gradient: Noise
    curvature: Noise
    """Of X'X, measured once, or of X'WX, measured in each round of Newton's method."""
    class_counts: Noise | None

    @property
    def event(self) -> Event:
        """What it costs."""
        counted = () if self.class_counts is None else (self.class_counts.event,)
        curvatures = Repeated(self.curvature.event, self.rounds if self.newton else 1)
        return Composed((*counted, curvatures, Repeated(self.gradient.event, self.rounds)))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The solver, the number of rounds, and whether classes are weighted."""
        return {
            "solver": "newton" if self.newton else "gradient",
            "rounds": self.rounds,
            "class_weight": None if self.class_counts is None else "balanced",
        }

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of a gradient and of a curvature, in rows."""
        return {
            "gradient": {"sd": self._gradient_sd},
            "curvature": {"sd": self._curvature_sd},
            "note": "a coefficient is off by about the gradient's sd / rows / variance of its "
            "coordinate, each way of a class counted as p (1 - p) rows",
        }

    @property
    def _row(self) -> int:
        return whole_row(self.unit)

    @property
    def _gradient_sd(self) -> float:
        return self.gradient.stddev / (self._row * ONE * GRID)

    @property
    def _curvature_sd(self) -> float:
        scale = ONE if self.newton else WEIGHT_ONE
        return self.curvature.stddev / (self._row * scale * GRID**2)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The declarations of the features and of the classes."""
        return {**self.space.facts(), "classes": self.labels.facts()}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables of coefficients and of class weights, without a row."""
        free = (len(self.labels) - 1) * (self.space.size + 1)
        fit = Fit(np.zeros((len(self.labels) - 1, self.space.size + 1)), np.zeros((free, free)))
        empty = self._tables(fit, self._equal_weights)
        return {name: table.slice(0, 0) for name, table in empty.items()}

    @property
    def _equal_weights(self) -> IntArray:
        return np.full(len(self.labels), WEIGHT_ONE)

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Measure class weights where they are wanted, then run the rounds."""
        rows = LogisticRows(salted.data, self.space, self.labels, self._equal_weights)
        if self.class_counts is not None:
            counts = self.class_counts.steps(rows.counts(), entropy).astype(np.float64)
            weights = balanced_weights(counts / self._row)
            rows = LogisticRows(salted.data, self.space, self.labels, weights)
        if len(self.labels) == 1:
            return self._tables(
                Fit(np.zeros((0, rows.width)), np.zeros((0, 0))), rows.class_weights
            )
        solve = self._newton_rounds if self.newton else self._gradient_rounds
        return self._tables(solve(rows, entropy), rows.class_weights)

    def _gradient_rounds(self, rows: LogisticRows, entropy: Entropy) -> Fit:
        """Steps by a bound on the curvature, 1/2 (I - 11'/K) x X'X, measured once.

        The inverse of the bound is 2 (I + 11') x (X'X)^-1. The mean of the last half is released.
        """
        noisy = self.curvature.steps(rows.products(), entropy).astype(np.float64)
        products = matrix_of(noisy / (self._row * WEIGHT_ONE * GRID**2), self.space)
        inverse = ridge_inverse(products, self._ridge)
        free = len(self.labels) - 1
        mixing = 2 * (np.eye(free) + 1)
        current, path = np.zeros((free, rows.width)), []
        for _ in range(self.rounds):
            on_grid = coefficients_on_grid(current)
            step = mixing @ self._gradient(rows, on_grid, entropy) @ inverse
            current = np.clip(on_grid / COEFFICIENT - step, -LARGEST, LARGEST)
            path.append(current)
        mean = np.mean(path[self.rounds // 2 :], axis=0)
        curvature = modelled_curvature(products, mean, entropy)
        covariance = mean_of_rounds_covariance(
            np.asarray(np.kron(mixing, inverse), dtype=np.float64),
            curvature,
            self._gradient_covariance(rows.width),
            self.rounds,
        )
        sampling = ridge_inverse(curvature, self._ridge / 4)
        return Fit(mean, covariance + sampling)

    def _newton_rounds(self, rows: LogisticRows, entropy: Entropy) -> Fit:
        """Newton's method: gradient and curvature are measured anew in each round."""
        current = np.zeros((len(self.labels) - 1, rows.width))
        for _ in range(self.rounds):
            on_grid = coefficients_on_grid(current)
            gradient = self._gradient(rows, on_grid, entropy)
            noisy = self.curvature.steps(rows.curvature(on_grid), entropy).astype(np.float64)
            blocks = noisy / (self._row * ONE * GRID**2)
            curvature = self._curvature_matrix(blocks)
            inverse = ridge_inverse(curvature, self._ridge)
            step = inverse @ gradient.ravel()
            step *= min(1.0, _LONGEST_STEP / max(float(np.linalg.norm(step)), 1e-12))
            moved = on_grid / COEFFICIENT - step.reshape(current.shape)
            current = np.clip(moved, -LARGEST, LARGEST)
        noise = inverse @ self._gradient_covariance(rows.width) @ inverse
        return Fit(current, noise + inverse)

    @property
    def _ridge(self) -> float:
        """The spectral norm of the noise of a curvature is at most about twice this."""
        free = self.space.size + 1
        return self._curvature_sd * sqrt((len(self.labels) - 1 if self.newton else 1) * free)

    def _gradient(self, rows: LogisticRows, on_grid: IntArray, entropy: Entropy) -> FloatArray:
        """The noisy gradient of all classes but the first.

        The gradients of all classes sum to 0, so that the mean of more than two is noise.
        """
        noisy = self.gradient.steps(rows.gradient(on_grid), entropy).astype(np.float64)
        scaled = noisy / (self._row * ONE * GRID)
        return scaled if len(self.labels) == 2 else (scaled - scaled.mean(axis=0))[1:]

    def _gradient_covariance(self, width: int) -> FloatArray:
        free, classes = len(self.labels) - 1, len(self.labels)
        between = np.eye(free) - (0 if classes == 2 else 1 / classes)
        return np.asarray(np.kron(between, np.eye(width)) * self._gradient_sd**2, dtype=np.float64)

    def _curvature_matrix(self, blocks: FloatArray) -> FloatArray:
        """The matrix of all free coefficients from its blocks of pairs of classes."""
        width, free = self.space.size + 1, len(self.labels) - 1
        matrix = np.zeros((free, width, free, width))
        for (first, second), block in zip(class_pairs(len(self.labels)), blocks, strict=True):
            part = matrix_of(block, self.space)
            matrix[first - 1, :, second - 1, :] = matrix[second - 1, :, first - 1, :] = part
        return matrix.reshape(free * width, free * width)

    def _tables(self, fit: Fit, class_weights: IntArray) -> Mapping[str, pa.Table]:
        """The released tables: `weight` belongs to coordinates, other columns to their units."""
        names, terms, free = class_names(self.labels), [INTERCEPT, *self.space.names], 0
        free = len(names) - 1
        # A feature with equal bounds never varies, so its coefficient per unit is 0.
        halves = self.space.halves
        per_unit = np.divide(1.0, halves, out=np.zeros(len(halves)), where=halves > 0)
        to_units = np.diag(np.array([1.0, *per_unit]))
        to_units[0, 1:] = -self.space.middles * per_unit
        coefficients = fit.coefficients @ to_units.T
        blocks = fit.covariance.reshape(free, len(terms), free, len(terms))
        own = [to_units @ blocks[c, :, c, :] @ to_units.T for c in range(free)]
        sds = np.array([np.sqrt(np.maximum(np.diag(part), 0)) for part in own])
        sds = sds.reshape(free, len(terms))
        classes = [name for name in names[1:] for _ in terms]
        return {
            "coefficients": pa.table(
                {
                    "class": pa.array(classes, pa.string()),
                    "term": pa.array(terms * free, pa.string()),
                    "weight": pa.array(fit.coefficients.ravel()),
                    "coefficient": pa.array(coefficients.ravel()),
                    "sd": pa.array(sds.ravel()),
                    "low": pa.array((coefficients - NORMAL_95 * sds).ravel()),
                    "high": pa.array((coefficients + NORMAL_95 * sds).ravel()),
                }
            ),
            "classes": pa.table(
                {
                    "class": pa.array(names, pa.string()),
                    "weight": pa.array(class_weights / WEIGHT_ONE),
                }
            ),
        }


def balanced_weights(counts: FloatArray) -> IntArray:
    """Weights in inverse proportion to noisy counts; the smallest class has weight 1."""
    equal = max(float(np.maximum(counts, 0).sum()) / len(counts), 1.0)
    sizes = np.maximum(counts, _LEAST_CLASS * equal)
    weights = np.rint(WEIGHT_ONE * sizes.min() / sizes)
    return np.asarray(np.maximum(weights, 1), dtype=np.int64)


def ridge_inverse(matrix: FloatArray, ridge: float) -> FloatArray:
    """The inverse of a symmetric matrix without negative eigenvalues, plus a ridge."""
    values, vectors = np.linalg.eigh(matrix)
    # A price without bound has no noise and so no ridge; a column without rows has no curvature.
    divisors = np.maximum(values, 0.0) + max(ridge, 1e-9 * max(float(values.max()), 1.0))
    return np.asarray((vectors / divisors) @ vectors.T)


def modelled_curvature(
    products: FloatArray, coefficients: FloatArray, entropy: Entropy
) -> FloatArray:
    """Estimate the curvature X'WX from normal rows with the noisy moments: a parametric bootstrap.

    The first row of `products` has the number of rows and the sums of coordinates. No row of the
    data is read: what is drawn here only shapes the stated standard deviations.
    """
    rows = max(float(products[0, 0]), 1.0)
    means = np.clip(products[0, 1:] / rows, -1, 1)
    values, vectors = np.linalg.eigh(products[1:, 1:] / rows - np.outer(means, means))
    root = vectors * np.sqrt(np.clip(values, 0, 1))
    draws = _normal_draws(_DRAWS, len(means), entropy)
    drawn = np.column_stack([np.ones(_DRAWS), np.clip(means + draws @ root.T, -1, 1)])
    scores = np.column_stack([np.zeros(_DRAWS), drawn @ coefficients.T])
    chances = softmax(scores)[:, 1:]
    free, width = coefficients.shape
    curvature = np.zeros((free, width, free, width))
    for c in range(free):
        for d in range(c, free):
            weights = chances[:, c] * ((c == d) - chances[:, d])
            part = (drawn * weights[:, None]).T @ drawn * (rows / _DRAWS)
            curvature[c, :, d, :] = curvature[d, :, c, :] = part
    return curvature.reshape(free * width, free * width)


def _normal_draws(rows: int, columns: int, entropy: Entropy) -> FloatArray:
    """Draw standard normal numbers (Box and Muller); for estimates, never for noise."""
    uniform = ((entropy.words(2 * rows * columns) >> np.uint64(11)) + 0.5) * 2.0**-53
    first, second = uniform.reshape(2, rows, columns)
    return np.asarray(np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second))


def softmax(scores: FloatArray) -> FloatArray:
    """Probabilities from scores, (rows, classes)."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def mean_of_rounds_covariance(
    step: FloatArray, curvature: FloatArray, noise: FloatArray, rounds: int
) -> FloatArray:
    """The covariance that noise gives the mean of the last half of the rounds, to first order.

    Round t moves the error by e_t = (I - step curvature) e_(t-1) - step noise_t.
    """
    size = len(step)
    carried = np.eye(size) - step @ curvature
    powers = [np.eye(size)]
    for _ in range(rounds - 1):
        powers.append(carried @ powers[-1])
    last = range(rounds // 2, rounds)
    covariance = np.zeros((size, size))
    for start in range(rounds):
        moves = sum((powers[t - start] for t in last if t >= start), np.zeros((size, size)))
        part = moves @ step / len(last)
        covariance += part @ noise @ part.T
    return covariance


@dataclass(frozen=True, repr=False, kw_only=True)
class LogisticModel(ClassModel):
    """Log-odds of each class against the first one, linear in the coordinates of a row.

    In `coefficients`, `coefficient` has the change of the log-odds for one unit of a feature, with
    its standard deviation and a 95 % interval that contain noise and sampling; `weight` has the
    same for coordinates from -1 to 1. The intercept is the log-odds where every number is 0.
    """

    @cached_property
    def coordinates(self) -> FeatureSpace:
        """The coordinates of the features."""
        return FeatureSpace.from_facts(self.facts)

    @cached_property
    def weights(self) -> FloatArray:
        """An intercept and coefficients for each class; those of the first are 0."""
        values = self.tables["coefficients"].column("weight").to_numpy()
        later = np.asarray(values, dtype=np.float64).reshape(-1, self.coordinates.size + 1)
        return np.concatenate([np.zeros((1, later.shape[1])), later])

    def check(self) -> None:
        """Refuse a wrong number of coefficients, and infinite ones."""
        assert len(self.weights) == len(self.labels)
        assert np.isfinite(self.weights).all()

    def encoded(self, rows: pa.Table) -> FloatArray:
        """The coordinates of rows, from -1 to 1."""
        return self.coordinates.encode(rows)

    def scores(self, bins: FloatArray) -> FloatArray:
        """The log-odds of every class against the first, from coordinates."""
        return np.asarray(self.weights[:, 0] + bins @ self.weights[:, 1:].T)

    def summary(self) -> Summary:
        """The coefficients with standard errors, z values, p-values and 95 % intervals."""
        table = self.tables["coefficients"]
        columns = zip(table.column("class").to_pylist(), table.column("term").to_pylist(),
                      strict=True)  # fmt: skip
        terms = [f"{label}: {term}" for label, term in columns]
        return Summary.of(f"Logistic regression of {self.target}", terms, table)


MODEL = LogisticModel


def prepare(
    request: LearningRequest,
    *,
    solver: object = "auto",
    class_weight: object = None,
    size: object = None,
) -> LogisticLearning:
    """Plan a logistic regression from public facts.

    `solver` is "gradient", "newton" or "auto"; `class_weight` is "balanced" or nothing. `size` is
    the approximate number of rows, as a public figure; by default the declared number.
    """
    assert request.target is not None
    chosen = options.choice(solver, "solver", SOLVERS)
    balanced = class_weight is not None and options.choice(
        class_weight, "class_weight", CLASS_WEIGHTS
    )
    rows = request.rows
    if size is not None:
        rows = options.whole(size, "size", least=1, most=_MOST_ROWS)
    space, labels = FeatureSpace(request.features), ClassLabels.of(request.target)
    if space.size > MOST_COORDINATES:
        raise ParameterError(
            "problem_too_large",
            f"The features have {space.size:,} coordinates, one for each number and each declared "
            f"value; at most {MOST_COORDINATES} can be learnt together. Take fewer features, or "
            "features of fewer values.",
        )
    free = (len(labels) - 1) * (space.size + 1)
    if chosen == "newton" and free > _MOST_NEWTON:
        raise ParameterError(
            "problem_too_large",
            f"Newton's method learns at most {_MOST_NEWTON} coefficients, and column "
            f"{quoted(request.target.name)} by these features has {free:,}. Leave out solver.",
        )
    plans = [
        _planned(request, space, labels, spending, rows, chosen, balanced=bool(balanced))
        for spending in spendings(request.price)
    ]
    return min(plans, key=lambda learning: learning.error["gradient"]["sd"])


def _planned(
    request: LearningRequest,
    space: FeatureSpace,
    labels: ClassLabels,
    spending: Spending,
    rows: int | None,
    solver: str,
    *,
    balanced: bool,
) -> LogisticLearning:
    """The rounds for one way to spend the price."""
    unit, classes = request.unit, len(labels)
    gradient = gradient_sensitivity(unit, space, classes)
    pure = spending.epsilon is not None
    # The whole price on one gradient: rows against the noise of its norm, for the largest row.
    whole = spending.noise(gradient).stddev / (whole_row(unit) * ONE * GRID)
    signal = None
    if rows is not None:
        signal = rows / (whole * sqrt(squared_radius(space) * (space.size + 1)))
    free = (classes - 1) * (space.size + 1)
    newton = solver == "newton"
    if solver == "auto" and signal is not None and free <= _MOST_NEWTON:
        newton = signal >= (_NEWTON_LAPLACE if pure else _NEWTON_GAUSSIAN)
    round_count = _NEWTON_ROUNDS if newton else _MOST_ROUNDS
    if pure and not newton:
        # Without a declared number of rows: as for many, which converges.
        round_count = next(
            (few for least, few in _ROUNDS if signal is not None and signal < least), _MOST_ROUNDS
        )
    left = 1 - _COUNT_SHARE if balanced else Fraction(1)
    share = left * (_CURVATURE_SHARE if newton else _PRODUCT_SHARE)
    curvature = (
        spending.noise(curvature_sensitivity(unit, space, classes), share / round_count)
        if newton
        else spending.noise(product_sensitivity(unit, space), share)
    )
    return LogisticLearning(
        space=space,
        labels=labels,
        unit=unit,
        rounds=round_count,
        newton=newton,
        gradient=spending.noise(gradient, (left - share) / round_count),
        curvature=curvature,
        class_counts=spending.noise(class_count_sensitivity(unit), _COUNT_SHARE)
        if balanced
        else None,
    )
