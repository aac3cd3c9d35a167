"""Linear and ridge regression from noisy second moments (AdaSSP), with intervals.

*Guarantee*: that of `MomentPlan`: the price, for all figures together. Everything else is computed
from noisy figures and public facts.
*Sensitivity*: of `MomentPlan`, which clips rows to a public norm and the target to its bounds.
*Error*: coefficients w = (C + penalty)^-1 c, with C and c the products around the means. To first
order the error of w is (C + penalty)^-1 e, where e collects the noise of every figure that w is
computed from (`_noise_covariance`); the sampling error of least squares is added. `low` and `high`
contain both, at 95 %. They do not contain the bias of the penalty: intervals are of the penalised
coefficients, which agree with the plain ones once the smallest eigenvalue of C exceeds the noise.
Nor do they contain the effect of the norm: a row beyond it has less weight, so that where the
target is not linear, the line fits rows near the middle of their bounds.
*Edges*: no rows, one row, or features that never vary: coefficients near 0, and a mean near the
middle of the bounds. No divisor can become 0 by noise.
*Reference*: Wang 2018, Algorithm 2 (AdaSSP), with the penalty from the smallest eigenvalue of the
noisy matrix, which costs nothing; Vu & Slavkovic 2009 for intervals.

Decision `learning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import quoted
from sfumato.data.schema.toml_document import DOMAIN, add_line
from sfumato.errors import ParameterError
from sfumato.exact_numbers import not_negative
from sfumato.methods.learn.features import Continuous, FeatureSpace, Stepped
from sfumato.methods.learn.model import Model
from sfumato.methods.learn.noisy_moments import (
    CROSS,
    JOINT,
    ROWS,
    SQUARES,
    SUMS,
    TARGET,
    TARGET_SQUARE,
    plan,
    spectral,
)
from sfumato.methods.learn.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray
    from sfumato.methods.learn.noisy_moments import MomentPlan, NoisyMoments
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy

_WEIGHTS = {ROWS: 30.0, TARGET: 30.0, CROSS: 0.1, SQUARES: 0.3, TARGET_SQUARE: 0.1}
"""How much the noise of each block matters to predictions; tuned in decision `learning`."""

_LEAST_PENALTY = 1e-6
"""The least penalty per row: it only keeps quotients finite."""

COEFFICIENTS, FIT = "coefficients", "fit"
INTERCEPT = "(intercept)"


@dataclass(frozen=True)
class Line:
    """A fitted line in coordinates: the intercept first, with covariances."""

    weights: FloatArray
    covariance: FloatArray
    """The covariance of all weights but the intercept."""
    means: FloatArray
    mean_variance: float
    """The variance of the predicted value at the means of the coordinates."""
    penalty: float
    residual: float
    """The standard deviation of the target around the line, in units of its coordinate."""

    @property
    def stddev(self) -> FloatArray:
        """The standard deviation of each weight."""
        _, middle = self.at(np.zeros(len(self.means)))
        return np.array([middle, *np.sqrt(np.maximum(np.diag(self.covariance), 0.0))])

    def at(self, point: FloatArray) -> tuple[float, float]:
        """The predicted value at a point, and its standard deviation."""
        # The line passes through the means, and its variance grows with the distance from them.
        offset = point - self.means
        variance = self.mean_variance + float(offset @ self.covariance @ offset)
        value = float(self.weights[0] + self.weights[1:] @ point)
        return value, float(np.sqrt(max(variance, 0.0)))


def fit_line(moments: NoisyMoments, *, penalty: float = 0.0) -> Line:
    """Fit a line to noisy moments by ridge regression (AdaSSP).

    The penalty is the larger of `penalty` and of what lifts the smallest eigenvalue above the
    spectral norm of the noise.
    """
    means, target = moments.means(), moments.target_mean()
    size, rows = len(means), moments.rows
    joint = moments.joint - rows * means * target
    values, vectors = np.linalg.eigh(moments.centred())
    smallest = max(float(values.min()), 0.0)
    noise_penalty = spectral(moments.stddev, size) - smallest
    # AdaSSP: lift the smallest eigenvalue of C to the spectral norm of the noise on C.
    total_penalty = max(noise_penalty, penalty, _LEAST_PENALTY * rows)
    # A sum of products around means has no negative eigenvalues, and a trace of at most size x
    # rows.
    possible = np.clip(values, 0.0, rows * max(size, 1))
    inverse = (vectors / (possible + total_penalty)) @ vectors.T
    coefficients = inverse @ joint
    intercept = target - float(means @ coefficients)
    squared_residuals = moments.target_square - rows * target**2
    squared_residuals += float(
        coefficients @ ((vectors * possible) @ vectors.T) @ coefficients
    ) - 2 * float(coefficients @ joint)
    residual_sum = min(max(squared_residuals, moments.stddev[TARGET_SQUARE]), rows)
    residual = float(np.sqrt(residual_sum / rows))
    # The sampling covariance of ridge regression: s^2 (C + p)^-1 C (C + p)^-1.
    sampling = residual**2 * (vectors * (possible / (possible + total_penalty) ** 2)) @ vectors.T
    noise = inverse @ _noise_covariance(moments, coefficients, intercept) @ inverse
    covariance = noise + sampling
    # The variance of y/n - w x/n at the means: noise of sum y, sampling, noise of n, noise of sums
    # x.
    mean_variance = (moments.stddev[TARGET] / rows) ** 2 + residual**2 / rows
    mean_variance += (intercept * moments.stddev[ROWS] / rows) ** 2
    mean_variance += float(coefficients @ coefficients) * (moments.stddev[SUMS] / rows) ** 2
    if not moments.counts:  # nothing is known: at least the target's half range
        mean_variance, covariance = max(mean_variance, 1.0), covariance + np.eye(size)
    weights = np.array([intercept, *coefficients])
    return Line(weights, covariance, means, mean_variance, total_penalty, residual)


def _noise_covariance(
    moments: NoisyMoments, coefficients: FloatArray, intercept: float
) -> FloatArray:
    """The covariance of e = d(xy) - dX w - b d(x) - m (d(y) - w d(x) - b d(n)).

    dX is symmetric with independent noise, so that (dX w)_i and (dX w)_j share the one at (i, j).
    """
    means, stddev, size = moments.means(), moments.stddev, len(coefficients)
    cross, square = stddev.get(CROSS, 0.0) ** 2, stddev[SQUARES] ** 2
    squares = coefficients**2
    shared = cross * (np.outer(coefficients, coefficients) + np.eye(size) * squares.sum())
    np.fill_diagonal(shared, cross * (squares.sum() - squares) + square * squares)
    sum_weights = np.outer(means, coefficients) - intercept * np.eye(size)
    mean_noise = stddev[TARGET] ** 2 + (intercept * stddev[ROWS]) ** 2
    return np.asarray(
        stddev[JOINT] ** 2 * np.eye(size)
        + shared
        + stddev[SUMS] ** 2 * (sum_weights @ sum_weights.T)
        + mean_noise * np.outer(means, means)
    )


@dataclass(frozen=True)
class LinearLearner:
    """Plan and release a regression; every choice follows from public facts."""

    moments: MomentPlan
    penalty: float

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.moments.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The norm, the noise, its shares, and the penalty."""
        return {**self.moments.parameters, "penalty": self.penalty}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of each sum, in rows; every coefficient has its own interval."""
        return {"sd": self.moments.stddev}

    @property
    def facts(self) -> Mapping[str, Any]:
        """The declarations of the features and of the target."""
        assert self.moments.target is not None
        return {"space": self.moments.space.facts(), "target": self.moments.target.facts()}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables that will be released, without a row."""
        texts, reals = pa.array([], pa.string()), pa.array([], pa.float64())
        columns = dict.fromkeys(("weight", "coefficient", "sd", "low", "high"), reals)
        fit = dict.fromkeys(("weight", "penalty", "residual_sd"), reals)
        return {COEFFICIENTS: pa.table({"name": texts, **columns}), FIT: pa.table(fit)}

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Measure moments with noise, and solve for the line."""
        noisy = self.moments.measure(salted.data, entropy)
        line = fit_line(noisy, penalty=self.penalty)
        scale, middle = _scale(self.facts["target"])
        space = self.moments.space
        # A feature with equal bounds never varies, so its coefficient per unit is 0.
        per_unit = np.divide(1.0, space.halves, out=np.zeros(space.size), where=space.halves > 0)
        # "weight" belongs to coordinates from -1 to 1; the other columns are in units of the data.
        intercept, intercept_sd = line.at(-space.middles * per_unit)
        coefficients = np.array([middle + scale * intercept, *scale * line.weights[1:] * per_unit])
        stddevs = np.array([scale * intercept_sd, *scale * line.stddev[1:] * per_unit])
        columns = {
            "name": [INTERCEPT, *self.moments.space.names],
            "weight": line.weights,
            "coefficient": coefficients,
            "sd": stddevs,
            "low": coefficients - self.moments.interval_sds * stddevs,
            "high": coefficients + self.moments.interval_sds * stddevs,
        }
        fit = {
            "weight": [noisy.rows],
            "penalty": [line.penalty],
            "residual_sd": [line.residual * scale],
        }
        return {COEFFICIENTS: pa.table(columns), FIT: pa.table(fit)}


def _scale(target: Mapping[str, Any]) -> tuple[float, float]:
    """Half the range of the target, and its middle."""
    (encoding,) = FeatureSpace.from_facts(target).encodings
    return encoding.half, encoding.middle


@dataclass(frozen=True, repr=False, kw_only=True)
class LinearModel(Model):
    """A fitted line: `coefficients` has the change of the target for one unit of a feature.

    The intercept is the prediction where every number is 0 (a date is 1970-01-01), every column of
    two values has the first one, and columns of more values have none; it may lie outside the
    bounds. The intercept and the coefficients give the values of `predict`, which also clamps to
    the bounds of the target. The column `weight` has the same in coordinates from -1 to 1, of a
    target from -1 to 1. In `fit`, `weight` is the noisy sum of row weights; a row beyond the norm
    counts less than 1.
    """

    answers = "number"

    @cached_property
    def _weights(self) -> FloatArray:
        return np.asarray(self.tables[COEFFICIENTS].column("weight"), dtype=np.float64)

    def summary(self) -> Summary:
        """The coefficients with standard errors, z values, p-values and 95 % intervals."""
        table = self.tables[COEFFICIENTS]
        title = f"{self.kind.capitalize()} regression of {self.target}"
        return Summary.of(title, table.column("name").to_pylist(), table)

    def check(self) -> None:
        """Refuse weights of other features, and infinite ones."""
        space = FeatureSpace.from_facts(self.facts["space"])
        assert tuple(column.name for column in space.columns) == self.features
        assert self._weights.shape == (space.size + 1,)
        assert np.isfinite(self._weights).all()
        assert np.isfinite(_scale(self.facts["target"])).all()

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The predicted target of each row, within its declared bounds."""
        space = FeatureSpace.from_facts(self.facts["space"])
        scale, middle = _scale(self.facts["target"])
        line = self._weights[0] + space.encode(rows) @ self._weights[1:]
        return {"prediction": pa.array(middle + scale * np.clip(line, -1, 1))}


MODEL = LinearModel


def prepare(request: LearningRequest, *, norm: object = None) -> LinearLearner:
    """Plan a linear regression, with only the penalty that the noise needs."""
    return _learner(request, norm, 0.0)


def prepare_ridge(
    request: LearningRequest, *, norm: object = None, penalty: object = 1
) -> LinearLearner:
    """Plan a ridge regression: `penalty` on squared coefficients of coordinates, in rows."""
    return _learner(request, norm, float(not_negative(penalty, "penalty")))


def _learner(request: LearningRequest, norm: object, penalty: float) -> LinearLearner:
    target = request.target
    assert target is not None
    (encoding,) = FeatureSpace((target,)).encodings
    if target.kind is Kind.DATE or not isinstance(encoding, Stepped | Continuous):
        line = DOMAIN[Kind.INTEGER if target.kind is Kind.INTEGER else Kind.REAL]
        raise ParameterError(
            "column_unsuitable",
            f"Column {quoted(target.name)} is not a number with declared bounds, so a linear model "
            f"cannot predict it. Name a column of numbers. {add_line(target.name, line)}",
        )
    return LinearLearner(plan(request, norm=norm, weights=_WEIGHTS), penalty)
