"""Linear and ridge regression from noisy second moments (AdaSSP), with intervals.

*Guarantee*: that of `measured`: the price, for all figures together. All else is computed from
noisy figures and public facts.
*Sensitivity*: of `measured`, which clips rows to a public norm and the target to its bounds.
*Error*: coefficients w = (C + penalty)^-1 c, with C and c the products around the means. To first
order w is off by (C + penalty)^-1 e, where e gathers the noise of every figure that w was made of
(`_noise_covariance`); the sampling error of least squares comes beside it. Both are in `low` and
`high`, at 95 %. What the penalty takes away is not: intervals are of the penalised coefficients,
which are the plain ones as soon as the smallest eigenvalue of C stands out of the noise. Nor is
what the norm does: a row longer than that counts less in every sum, so that where the target
follows no line, it is that of rows near the middle of their bounds.
*Edges*: no rows, one row, or features that never vary: coefficients near 0, and a mean near the
middle of the bounds. Nothing is divided by a figure that noise could make 0.
*Reference*: Wang 2018, Algorithm 2 (AdaSSP), the penalty by the noisy smallest eigenvalue, which
costs nothing here since it is read off the noisy matrix; Vu & Slavkovic 2009 for intervals.

Decision `learn-moments`.
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

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray
    from sfumato.methods.learn.noisy_moments import MomentPlan, NoisyMoments
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy

_WEIGHTS = {ROWS: 30.0, TARGET: 30.0, CROSS: 0.1, SQUARES: 0.3, TARGET_SQUARE: 0.1}
"""Which figures matter most to a prediction; decision `learn-moments` says on which tables that was
seen."""

_LEAST_PENALTY = 1e-6
"""A penalty so small, for each row, that it only keeps quotients finite."""

COEFFICIENTS, FIT = "coefficients", "fit"
INTERCEPT = "(intercept)"


@dataclass(frozen=True)
class Line:
    """Coefficients of coordinates, with the middle of all first, and how sure they are."""

    weights: FloatArray
    covariance: FloatArray
    """Of all weights but the first."""
    means: FloatArray
    of_mean: float
    """The variance of the line at the means of the coordinates."""
    penalty: float
    residual: float
    """The standard deviation of the target around the line, in units of its coordinate."""

    @property
    def stddev(self) -> FloatArray:
        """How far each weight may be off."""
        _, middle = self.at(np.zeros(len(self.means)))
        return np.array([middle, *np.sqrt(np.maximum(np.diag(self.covariance), 0.0))])

    def at(self, point: FloatArray) -> tuple[float, float]:
        """What the line tells at some coordinates, and how far that may be off."""
        # The line goes through the means, and is the less sure the further from them.
        away = point - self.means
        variance = self.of_mean + float(away @ self.covariance @ away)
        value = float(self.weights[0] + self.weights[1:] @ point)
        return value, float(np.sqrt(max(variance, 0.0)))


def fit_line(moments: NoisyMoments, *, penalty: float = 0.0) -> Line:
    """The line of some noisy moments, with at least a penalty on squared coefficients."""
    means, target = moments.means(), moments.target_mean()
    size, rows = len(means), moments.rows
    joint = moments.joint - rows * means * target
    values, vectors = np.linalg.eigh(moments.centred())
    smallest = max(float(values.min()), 0.0)
    enough = spectral(moments.stddev, size) - smallest
    held = max(enough, penalty, _LEAST_PENALTY * rows)
    possible = np.clip(values, 0.0, rows * max(size, 1))
    inverse = (vectors / (possible + held)) @ vectors.T
    found = inverse @ joint
    intercept = target - float(means @ found)
    spread = moments.target_square - rows * target**2
    spread += float(found @ ((vectors * possible) @ vectors.T) @ found) - 2 * float(found @ joint)
    off = min(max(spread, moments.stddev[TARGET_SQUARE]), rows)
    residual = float(np.sqrt(off / rows))
    sampling = residual**2 * (vectors * (possible / (possible + held) ** 2)) @ vectors.T
    noise = inverse @ _noise_covariance(moments, found, intercept) @ inverse
    covariance = noise + sampling
    of_mean = (moments.stddev[TARGET] / rows) ** 2 + residual**2 / rows
    of_mean += (intercept * moments.stddev[ROWS] / rows) ** 2
    of_mean += float(found @ found) * (moments.stddev[SUMS] / rows) ** 2
    if not moments.counts:  # nothing is known: at least the target's half range
        of_mean, covariance = max(of_mean, 1.0), covariance + np.eye(size)
    weights = np.array([intercept, *found])
    return Line(weights, covariance, means, of_mean, held, residual)


def _noise_covariance(moments: NoisyMoments, found: FloatArray, intercept: float) -> FloatArray:
    """The covariance of e = d(xy) - dX w - b d(x) - m (d(y) - w d(x) - b d(n)).

    dX is symmetric with independent noise, so that (dX w)_i and (dX w)_j share the one at (i, j).
    """
    means, stddev, size = moments.means(), moments.stddev, len(found)
    cross, own = stddev.get(CROSS, 0.0) ** 2, stddev[SQUARES] ** 2
    squares = found**2
    shared = cross * (np.outer(found, found) + np.eye(size) * squares.sum())
    np.fill_diagonal(shared, cross * (squares.sum() - squares) + own * squares)
    turned = np.outer(means, found) - intercept * np.eye(size)
    apart = stddev[TARGET] ** 2 + (intercept * stddev[ROWS]) ** 2
    return np.asarray(
        stddev[JOINT] ** 2 * np.eye(size)
        + shared
        + stddev[SUMS] ** 2 * (turned @ turned.T)
        + apart * np.outer(means, means)
    )


@dataclass(frozen=True)
class LinearLearner:
    """A regression with all its choices. Nothing in it saw data."""

    moments: MomentPlan
    penalty: float

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.moments.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The norm, the noise, its shares, and the least penalty."""
        return {**self.moments.parameters, "penalty": self.penalty}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of each sum, in rows; `coefficients` has an interval for each."""
        return {"sd": self.moments.stddev}

    @property
    def facts(self) -> Mapping[str, Any]:
        """The features and the target as declared."""
        assert self.moments.target is not None
        return {"space": self.moments.space.facts(), "target": self.moments.target.facts()}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """What will be released, without a row."""
        texts, reals = pa.array([], pa.string()), pa.array([], pa.float64())
        columns = dict.fromkeys(("weight", "coefficient", "sd", "low", "high"), reals)
        fit = dict.fromkeys(("weight", "penalty", "residual_sd"), reals)
        return {COEFFICIENTS: pa.table({"name": texts, **columns}), FIT: pa.table(fit)}

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Measure, then solve."""
        noisy = self.moments.measure(salted.data, entropy)
        line = fit_line(noisy, penalty=self.penalty)
        scale, middle = _scale(self.facts["target"])
        space = self.moments.space
        # A feature whose bounds are equal never varies, and has no unit.
        per_unit = np.divide(1.0, space.halves, out=np.zeros(space.size), where=space.halves > 0)
        # "weight" is of coordinates, whose 0 is a middle; the rest is in units of the columns.
        start, start_sd = line.at(-space.middles * per_unit)
        told = np.array([middle + scale * start, *scale * line.weights[1:] * per_unit])
        wide = np.array([scale * start_sd, *scale * line.stddev[1:] * per_unit])
        columns = {
            "name": [INTERCEPT, *self.moments.space.names],
            "weight": line.weights,
            "coefficient": told,
            "sd": wide,
            "low": told - self.moments.wide * wide,
            "high": told + self.moments.wide * wide,
        }
        fit = {
            "weight": [noisy.rows],
            "penalty": [line.penalty],
            "residual_sd": [line.residual * scale],
        }
        return {COEFFICIENTS: pa.table(columns), FIT: pa.table(fit)}


def _scale(target: Mapping[str, Any]) -> tuple[float, float]:
    """Half the range of a target, and its middle."""
    (one,) = FeatureSpace.from_facts(target).encodings
    return one.half, one.middle


@dataclass(frozen=True, repr=False, kw_only=True)
class LinearModel(Model):
    """A line: `coefficients` has the change of the target for one unit of a feature.

    The intercept is what the line tells where every number is 0 (a day 1970-01-01), every column of
    two values has the first, and no value of more than two is told; it may lie outside the bounds.
    So the intercept and the coefficients give what `predict` does, which keeps to the bounds of the
    target. The column `weight` has the same in coordinates from -1 to 1, of a target from -1 to 1.
    In `fit`, `weight` is the noisy sum of what rows count, which is less beyond the norm.
    """

    answers = "number"

    @cached_property
    def _weights(self) -> FloatArray:
        return np.asarray(self.tables[COEFFICIENTS].column("weight"), dtype=np.float64)

    def check(self) -> None:
        """Refuse weights that are not those of the features."""
        space = FeatureSpace.from_facts(self.facts["space"])
        assert tuple(one.name for one in space.columns) == self.features
        assert self._weights.shape == (space.size + 1,)
        assert np.isfinite(self._weights).all()
        assert np.isfinite(_scale(self.facts["target"])).all()

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The expected target of each row, within its declared bounds."""
        space = FeatureSpace.from_facts(self.facts["space"])
        scale, middle = _scale(self.facts["target"])
        line = self._weights[0] + space.encode(rows) @ self._weights[1:]
        return {"prediction": pa.array(middle + scale * np.clip(line, -1, 1))}


MODEL = LinearModel


def prepare(request: LearningRequest, *, norm: object = None) -> LinearLearner:
    """Plan a linear regression: no penalty but what the noise asks for."""
    return _learner(request, norm, 0.0)


def prepare_ridge(
    request: LearningRequest, *, norm: object = None, penalty: object = 1
) -> LinearLearner:
    """Plan a ridge regression: a penalty on squared coefficients of coordinates, in rows."""
    return _learner(request, norm, float(not_negative(penalty, "penalty")))


def _learner(request: LearningRequest, norm: object, penalty: float) -> LinearLearner:
    target = request.target
    assert target is not None
    (found,) = FeatureSpace((target,)).encodings
    if target.kind is Kind.DATE or not isinstance(found, Stepped | Continuous):
        line = DOMAIN[Kind.INTEGER if target.kind is Kind.INTEGER else Kind.REAL]
        raise ParameterError(
            "column_unsuitable",
            f"Column {quoted(target.name)} is no number with declared bounds, so that no line can "
            f"tell it. Name a column of numbers. {add_line(target.name, line)}",
        )
    return LinearLearner(plan(request, norm=norm, weights=_WEIGHTS), penalty)
