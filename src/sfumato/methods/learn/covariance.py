"""Means, covariances and correlations of features, each with a 95 % interval for its noise.

*Guarantee*: that of `MomentPlan`: the price, for all figures together.
*Sensitivity*: of `MomentPlan`. Rows are not clipped to a norm unless a smaller norm is given, so
that the figures describe the rows themselves, clamped to their bounds.
*Error*: cov = P / n - m m', with noise on P, the sums and n. To first order its variance is
(s_P^2 + (m_i^2 + m_j^2) s_s^2 + (m_i m_j - cov)^2 s_n^2) / n^2; for a variance the middle term is
4 m^2 s_s^2. `low` and `high` are 1.96 standard deviations away (2.12 with Laplace noise, which has
longer tails), within the possible range. They state the error due to noise, not the sampling error
of these rows.
*Edges*: no rows, or columns that never vary: covariances of noise, and correlations from -1 to 1.
If the number of rows is not large against its noise, every interval is the whole possible range.
Each figure is unbiased; as a matrix they may have negative eigenvalues, which the model's `matrix`
sets to 0.
*Reference*: Dwork, Talwar, Thakurta & Zhang 2014; the delta method.

Decision `learning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.methods.learn.features import FeatureSpace
from sfumato.methods.learn.model import Model
from sfumato.methods.learn.noisy_moments import CROSS, ROWS, SQUARES, SUMS, plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.methods.learn.noisy_moments import MomentPlan, NoisyMoments
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy

MEANS, COVARIANCES = "means", "covariances"
_LEAST_VARIANCE = 1e-6
"""The least variance of a coordinate that correlations divide by."""


@dataclass(frozen=True)
class CovarianceEstimates:
    """Means, covariances and correlations of coordinates, with standard deviations."""

    means: FloatArray
    means_stddev: FloatArray
    covariances: FloatArray
    stddev: FloatArray
    correlations: FloatArray
    correlations_stddev: FloatArray


def estimate_covariances(moments: NoisyMoments, measured: BoolArray) -> CovarianceEstimates:
    """Estimate from noisy moments; products that are not `measured` are known to be 0."""
    rows, stddev = moments.rows, moments.stddev
    means = np.clip(moments.sums / rows, -1, 1)
    mean_products = np.outer(means, means)
    covariances = np.clip(moments.products / rows - mean_products, -1, 1)
    size = len(means)
    products = np.where(measured, stddev.get(CROSS, 0.0), 0.0)
    np.fill_diagonal(products, stddev[SQUARES])
    # On the diagonal m_i and m_j are the same noise, so that 2 m^2 becomes 4 m^2.
    squares = np.add.outer(means**2, means**2) * (1 + np.eye(size))
    stddevs = products**2 + squares * stddev[SUMS] ** 2
    stddevs = np.sqrt(stddevs + ((mean_products - covariances) * stddev[ROWS]) ** 2) / rows
    if not moments.counts:
        stddevs = np.ones((size, size))
    means_stddev = np.sqrt(stddev[SUMS] ** 2 + (means * stddev[ROWS]) ** 2) / rows
    if not moments.counts:
        means_stddev = np.ones(size)
    variances = np.maximum(np.maximum(np.diag(covariances), np.diag(stddevs)), _LEAST_VARIANCE)
    scale = np.sqrt(np.outer(variances, variances))
    correlations = np.clip(covariances / scale, -1, 1)
    np.fill_diagonal(correlations, 1.0)
    # Delta method for r = c / sqrt(v_i v_j): relative variances of v count a quarter each.
    relative = (np.diag(stddevs) / variances) ** 2
    widths = (stddevs / scale) ** 2 + correlations**2 / 4 * np.add.outer(relative, relative)
    np.fill_diagonal(widths, 0.0)
    return CovarianceEstimates(
        means, means_stddev, covariances, stddevs, correlations, np.sqrt(widths)
    )


def _interval(values: FloatArray, off: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The interval of half width `off` around values, within -1 and 1."""
    return np.maximum(values - off, -1.0), np.minimum(values + off, 1.0)


@dataclass(frozen=True)
class CovarianceLearner:
    """Plan and release covariances; every choice follows from public facts."""

    moments: MomentPlan

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.moments.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The norm, the noise and its shares."""
        return self.moments.parameters

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of each sum, in rows; every released figure has its own interval."""
        return {"sd": self.moments.stddev}

    @property
    def facts(self) -> Mapping[str, Any]:
        """The declarations of the features."""
        return {"space": self.moments.space.facts()}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables that will be released, without a row."""
        texts, reals = pa.array([], pa.string()), pa.array([], pa.float64())
        interval = dict.fromkeys(("sd", "low", "high"), reals)
        correlations = {f"correlation{end}": reals for end in ("", "_sd", "_low", "_high")}
        return {
            COVARIANCES: pa.table(
                {"first": texts, "second": texts, "covariance": reals, **interval, **correlations}
            ),
            MEANS: pa.table({"name": texts, "mean": reals, **interval}),
        }

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Measure moments with noise, and compute covariances from them."""
        noisy = self.moments.measure(salted.data, entropy)
        estimates = estimate_covariances(noisy, self._measured)
        space, wide = self.moments.space, self.moments.interval_sds
        first, second = np.triu_indices(space.size)
        scale = (space.halves[first] * space.halves[second]).astype(np.float64)
        low, high = _interval(estimates.covariances, wide * estimates.stddev)
        least, most = _interval(estimates.correlations, wide * estimates.correlations_stddev)
        table = {
            "first": [space.names[i] for i in first],
            "second": [space.names[j] for j in second],
            "covariance": estimates.covariances[first, second] * scale,
            "sd": estimates.stddev[first, second] * scale,
            "low": low[first, second] * scale,
            "high": high[first, second] * scale,
            "correlation": estimates.correlations[first, second],
            "correlation_sd": estimates.correlations_stddev[first, second],
            "correlation_low": least[first, second],
            "correlation_high": most[first, second],
        }
        return {COVARIANCES: pa.table(table), MEANS: self._means(estimates)}

    def _means(self, estimates: CovarianceEstimates) -> pa.Table:
        space = self.moments.space
        low, high = _interval(estimates.means, self.moments.interval_sds * estimates.means_stddev)
        middles, halves = space.middles, space.halves
        return pa.table(
            {
                "name": list(space.names),
                "mean": middles + halves * estimates.means,
                "sd": halves * estimates.means_stddev,
                "low": middles + halves * low,
                "high": middles + halves * high,
            }
        )

    @cached_property
    def _measured(self) -> BoolArray:
        """Which products were measured: all but those of two values of one column."""
        size = self.moments.space.size
        measured = np.eye(size, dtype=bool)
        for block in self.moments.blocks:
            if block.name == CROSS:
                for i, j in block.pairs:
                    measured[i - 1, j - 1] = measured[j - 1, i - 1] = True
        return measured


@dataclass(frozen=True, repr=False, kw_only=True)
class CovarianceModel(Model):
    """Means and covariances; predicts the Mahalanobis distance of a row from the means."""

    @cached_property
    def _space(self) -> FeatureSpace:
        return FeatureSpace.from_facts(self.facts["space"])

    def _column(self, table: str, name: str) -> FloatArray:
        return np.asarray(self.tables[table].column(name), dtype=np.float64)

    @cached_property
    def matrix(self) -> FloatArray:
        """The covariances as a matrix, in units of the columns, without eigenvalues below 0."""
        size = self._space.size
        matrix = np.zeros((size, size))
        matrix[np.triu_indices(size)] = self._column(COVARIANCES, "covariance")
        matrix += np.triu(matrix, 1).T
        values, vectors = np.linalg.eigh(matrix)
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)

    def check(self) -> None:
        """Refuse figures of other features, and infinite ones."""
        size = self._space.size
        assert tuple(column.name for column in self._space.columns) == self.features
        assert len(self._column(MEANS, "mean")) == size
        assert len(self._column(COVARIANCES, "covariance")) == size * (size + 1) // 2
        assert np.isfinite(self._column(MEANS, "mean")).all()
        assert np.isfinite(self.matrix).all()

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The distance of each row from the means, in standard deviations of its direction."""
        halves = np.where(self._space.halves > 0, self._space.halves, 1.0)
        means = (self._column(MEANS, "mean") - self._space.middles) / halves
        deviations = self._space.encode(rows) - means
        values, vectors = np.linalg.eigh(self.matrix / np.outer(halves, halves))
        # An eigenvalue below the noise is noise: its direction would dominate every distance.
        floor = max(_LEAST_VARIANCE, float(self._noise(halves)))
        squares = (deviations @ vectors) ** 2 / np.maximum(values, floor)
        return {"distance": pa.array(np.sqrt(squares.sum(axis=1)))}

    def _noise(self, halves: FloatArray) -> float:
        size = len(halves)
        first, second = np.triu_indices(size)
        stddev = self._column(COVARIANCES, "sd") / (halves[first] * halves[second])
        return float(stddev.max(initial=0.0))


MODEL = CovarianceModel


def prepare(request: LearningRequest, *, norm: object = None) -> CovarianceLearner:
    """Plan covariances of unclipped rows, or of rows clipped to `norm`."""
    return CovarianceLearner(plan(request, norm=norm, clips_nothing=True))
