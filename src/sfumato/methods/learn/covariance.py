"""Means, covariances and correlations of features, each with the bar that its noise gives it.

*Guarantee*: that of `measured`: the price, for all figures together.
*Sensitivity*: of `measured`. Rows are not shrunk unless a smaller norm is asked for: figures are of
the rows themselves, clamped to their bounds.
*Error*: cov = P / n - m m', with noise on P, the sums and n. To first order its variance is
(s_P^2 + (m_i^2 + m_j^2) s_s^2 + (m_i m_j - cov)^2 s_n^2) / n^2, and for a variance the middle term
is 4 m^2 s_s^2. `low` and `high` are 1.96 of these wide (2.12 of Laplace's noise, which
has longer tails), within what is possible. They tell how far
a figure is off the figure of these rows; how these rows differ from others is not in them.
*Edges*: no rows, or columns that never vary: covariances of noise, and correlations within -1 and
1. Where the number of rows does not stand out of its noise, every bar is as wide as all that there
can be. Figures are unbiased one by one; as a matrix they may
have a negative eigenvalue, which the model's `matrix` takes away.
*Reference*: Dwork, Talwar, Thakurta & Zhang 2014; the delta method.

Decision `learn-moments`.
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
"""Of a coordinate: correlations divide by no less."""


@dataclass(frozen=True)
class Spreads:
    """Means, covariances and correlations of coordinates, and the noise of each."""

    means: FloatArray
    means_stddev: FloatArray
    covariances: FloatArray
    stddev: FloatArray
    correlations: FloatArray
    correlations_stddev: FloatArray


def spreads(moments: NoisyMoments, measured: BoolArray) -> Spreads:
    """What noisy moments say; `measured` has which products were, the others being 0 for sure."""
    rows, stddev = moments.rows, moments.stddev
    means = np.clip(moments.sums / rows, -1, 1)
    both = np.outer(means, means)
    covariances = np.clip(moments.products / rows - both, -1, 1)
    size = len(means)
    products = np.where(measured, stddev.get(CROSS, 0.0), 0.0)
    np.fill_diagonal(products, stddev[SQUARES])
    squares = np.add.outer(means**2, means**2) * (1 + np.eye(size))
    spread = products**2 + squares * stddev[SUMS] ** 2
    spread = np.sqrt(spread + ((both - covariances) * stddev[ROWS]) ** 2) / rows
    if not moments.counts:
        spread = np.ones((size, size))
    means_stddev = np.sqrt(stddev[SUMS] ** 2 + (means * stddev[ROWS]) ** 2) / rows
    if not moments.counts:
        means_stddev = np.ones(size)
    variances = np.maximum(np.maximum(np.diag(covariances), np.diag(spread)), _LEAST_VARIANCE)
    scale = np.sqrt(np.outer(variances, variances))
    correlations = np.clip(covariances / scale, -1, 1)
    np.fill_diagonal(correlations, 1.0)
    relative = (np.diag(spread) / variances) ** 2
    widths = (spread / scale) ** 2 + correlations**2 / 4 * np.add.outer(relative, relative)
    np.fill_diagonal(widths, 0.0)
    return Spreads(means, means_stddev, covariances, spread, correlations, np.sqrt(widths))


def _bars(values: FloatArray, off: FloatArray) -> tuple[FloatArray, FloatArray]:
    """So far off on both sides, within -1 and 1."""
    return np.maximum(values - off, -1.0), np.minimum(values + off, 1.0)


@dataclass(frozen=True)
class CovarianceLearner:
    """Covariances with all choices. Nothing in it saw data."""

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
        """The noise of each sum, in rows; every released figure has its own bar beside it."""
        return {"sd": self.moments.stddev}

    @property
    def facts(self) -> Mapping[str, Any]:
        """The features as declared."""
        return {"space": self.moments.space.facts()}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """What will be released, without a row."""
        texts, reals = pa.array([], pa.string()), pa.array([], pa.float64())
        bars = dict.fromkeys(("sd", "low", "high"), reals)
        told = {f"correlation{end}": reals for end in ("", "_sd", "_low", "_high")}
        return {
            COVARIANCES: pa.table(
                {"first": texts, "second": texts, "covariance": reals, **bars, **told}
            ),
            MEANS: pa.table({"name": texts, "mean": reals, **bars}),
        }

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Measure, then divide."""
        noisy = self.moments.measure(salted.data, entropy)
        found = spreads(noisy, self._measured)
        space, wide = self.moments.space, self.moments.wide
        at, other = np.triu_indices(space.size)
        unit = (space.halves[at] * space.halves[other]).astype(np.float64)
        low, high = _bars(found.covariances, wide * found.stddev)
        least, most = _bars(found.correlations, wide * found.correlations_stddev)
        table = {
            "first": [space.names[i] for i in at],
            "second": [space.names[j] for j in other],
            "covariance": found.covariances[at, other] * unit,
            "sd": found.stddev[at, other] * unit,
            "low": low[at, other] * unit,
            "high": high[at, other] * unit,
            "correlation": found.correlations[at, other],
            "correlation_sd": found.correlations_stddev[at, other],
            "correlation_low": least[at, other],
            "correlation_high": most[at, other],
        }
        return {COVARIANCES: pa.table(table), MEANS: self._means(found)}

    def _means(self, found: Spreads) -> pa.Table:
        space = self.moments.space
        low, high = _bars(found.means, self.moments.wide * found.means_stddev)
        middles, halves = space.middles, space.halves
        return pa.table(
            {
                "name": list(space.names),
                "mean": middles + halves * found.means,
                "sd": halves * found.means_stddev,
                "low": middles + halves * low,
                "high": middles + halves * high,
            }
        )

    @cached_property
    def _measured(self) -> BoolArray:
        """Which products were measured: none of two values of one column."""
        size = self.moments.space.size
        found = np.eye(size, dtype=bool)
        for block in self.moments.blocks:
            if block.name == CROSS:
                for i, j in block.pairs:
                    found[i - 1, j - 1] = found[j - 1, i - 1] = True
        return found


@dataclass(frozen=True, repr=False, kw_only=True)
class CovarianceModel(Model):
    """Means and covariances; of a row it tells how far it lies from the means, by Mahalanobis."""

    @cached_property
    def _space(self) -> FeatureSpace:
        return FeatureSpace.from_facts(self.facts["space"])

    def _column(self, table: str, name: str) -> FloatArray:
        return np.asarray(self.tables[table].column(name), dtype=np.float64)

    @cached_property
    def matrix(self) -> FloatArray:
        """The covariances as a matrix, in units of the columns, without eigenvalues below 0."""
        size = self._space.size
        found = np.zeros((size, size))
        found[np.triu_indices(size)] = self._column(COVARIANCES, "covariance")
        found += np.triu(found, 1).T
        values, vectors = np.linalg.eigh(found)
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)

    def check(self) -> None:
        """Refuse figures that are not of the features."""
        size = self._space.size
        assert tuple(one.name for one in self._space.columns) == self.features
        assert len(self._column(MEANS, "mean")) == size
        assert len(self._column(COVARIANCES, "covariance")) == size * (size + 1) // 2
        assert np.isfinite(self._column(MEANS, "mean")).all()
        assert np.isfinite(self.matrix).all()

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The distance of each row from the means, in standard deviations of its direction."""
        halves = np.where(self._space.halves > 0, self._space.halves, 1.0)
        means = (self._column(MEANS, "mean") - self._space.middles) / halves
        away = self._space.encode(rows) - means
        values, vectors = np.linalg.eigh(self.matrix / np.outer(halves, halves))
        # No direction counts as narrower than the noise lets it seem.
        least = max(_LEAST_VARIANCE, float(self._noise(halves)))
        along = (away @ vectors) ** 2 / np.maximum(values, least)
        return {"distance": pa.array(np.sqrt(along.sum(axis=1)))}

    def _noise(self, halves: FloatArray) -> float:
        size = len(halves)
        at, other = np.triu_indices(size)
        stddev = self._column(COVARIANCES, "sd") / (halves[at] * halves[other])
        return float(stddev.max(initial=0.0))


MODEL = CovarianceModel


def prepare(request: LearningRequest, *, norm: object = None) -> CovarianceLearner:
    """Plan covariances of whole rows, or of rows shrunk to a norm."""
    return CovarianceLearner(plan(request, norm=norm, whole=True))
