"""Principal components from noisy second moments: Analyze Gauss, or Laplace in pure epsilon.

*Guarantee*: that of `MomentPlan`: the price, for all figures together.
*Sensitivity*: of `MomentPlan`, which clips rows to a public norm. Squares and cross products are
separate blocks: squares move by R^2 alone, and so are far more precise than cross products.
*Error*: `noise_sd` is the standard deviation of a component's variance, to first order; `error` has
the noise of each sum before anything is spent.
*Edges*: no rows, or columns that never vary: directions of noise, with variances near 0. The noise
is a symmetric matrix and not a Wishart matrix, whose support would depend on the data.
*Reference*: Dwork, Talwar, Thakurta & Zhang 2014, Algorithm 1.

Before the eigenvectors are computed, noisy covariances are shrunk, from noisy figures and public
facts alone: a variance towards a typical one, and a covariance towards 0, by noise variance /
(prior variance + noise variance). If noise exceeds every covariance, the directions are the columns
that vary most, a better guess than a direction of noise. Decision `learning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.methods.learn.features import FeatureSpace
from sfumato.methods.learn.model import Model
from sfumato.methods.learn.noisy_moments import CROSS, SQUARES, SUMS, plan
from sfumato.methods.options import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray
    from sfumato.methods.learn.noisy_moments import MomentPlan, NoisyMoments
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy

_WEIGHTS = {SQUARES: 5.0, SUMS: 0.3}
"""How much the noise of each block matters to directions; tuned on generated tables."""

_VARIANCE = 0.1
"""The prior mean and the prior standard deviation of a coordinate's variance."""
_LEAST_VARIANCE = 0.002
_CORRELATION_SQUARED = 0.05
"""The prior mean of a squared correlation."""

_COMPONENTS = 2

MEANS, DIRECTIONS, SPECTRUM = "means", "components", "spectrum"


@dataclass(frozen=True)
class Directions:
    """Unit vectors as columns, the variance along each, and its standard deviation by noise."""

    vectors: FloatArray
    variances: FloatArray
    stddev: FloatArray
    total: float


def likely_covariance(moments: NoisyMoments) -> FloatArray:
    """The covariance of the coordinates, shrunk towards typical values by its noise."""
    noisy, rows = moments.centred() / moments.rows, moments.rows
    square, cross = (moments.stddev.get(name, 0.0) / rows for name in (SQUARES, CROSS))
    trust = _VARIANCE**2 / (_VARIANCE**2 + square**2)
    variances = np.diag(noisy) * trust + _VARIANCE * (1 - trust)
    # A coordinate from -1 to 1 has a variance of at most 1.
    variances = np.clip(variances, _LEAST_VARIANCE, 1.0)
    scale = np.outer(variances, variances)
    prior = _CORRELATION_SQUARED * scale
    likely = np.clip(noisy * prior / (prior + cross**2), -np.sqrt(scale), np.sqrt(scale))
    np.fill_diagonal(likely, variances)
    return np.asarray(likely)


def directions(moments: NoisyMoments, number: int) -> Directions:
    """The directions of most variance; the largest weight of each is positive."""
    likely = likely_covariance(moments)
    values, vectors = np.linalg.eigh(likely)
    values, vectors = values[::-1][:number], vectors[:, ::-1][:, :number]
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    square, cross = (moments.stddev.get(name, 0.0) ** 2 for name in (SQUARES, CROSS))
    fourth_powers = (vectors**4).sum(axis=0)
    # v'Ev with E symmetric contains a square's noise once and a cross product's twice.
    variance_noise = square * fourth_powers + 2 * cross * np.maximum(1 - fourth_powers, 0.0)
    return Directions(
        vectors,
        np.maximum(values, 0.0),
        np.sqrt(variance_noise) / moments.rows,
        float(np.trace(likely)),
    )


@dataclass(frozen=True)
class PcaLearner:
    """Plan and release principal components; every choice follows from public facts."""

    moments: MomentPlan
    components: int

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.moments.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The norm, the noise, its shares, and the number of components."""
        return {**self.moments.parameters, "components": self.components}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of each sum, in rows."""
        return {"sd": self.moments.stddev}

    @property
    def facts(self) -> Mapping[str, Any]:
        """The declarations of the features, and the number of components."""
        return {"space": self.moments.space.facts(), "components": self.components}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables that will be released, without a row."""
        numbers, reals, texts = (
            pa.array([], kind) for kind in (pa.int64(), pa.float64(), pa.string())
        )
        spectrum = {"component": numbers, "variance": reals, "noise_sd": reals, "share": reals}
        return {
            DIRECTIONS: pa.table({"component": numbers, "name": texts, "weight": reals}),
            SPECTRUM: pa.table(spectrum),
            MEANS: pa.table({"name": texts, "mean": reals}),
        }

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Measure moments with noise, and compute eigenvectors from them."""
        noisy = self.moments.measure(salted.data, entropy)
        fitted = directions(noisy, self.components)
        names, numbers = list(self.moments.space.names), list(range(1, self.components + 1))
        return {
            DIRECTIONS: pa.table(
                {
                    "component": np.repeat(numbers, len(names)),
                    "name": names * len(numbers),
                    "weight": fitted.vectors.T.ravel(),
                }
            ),
            SPECTRUM: pa.table(
                {
                    "component": numbers,
                    "variance": fitted.variances,
                    "noise_sd": fitted.stddev,
                    "share": fitted.variances / fitted.total,
                }
            ),
            MEANS: pa.table({"name": names, "mean": noisy.means()}),
        }


@dataclass(frozen=True, repr=False, kw_only=True)
class PcaModel(Model):
    """Directions in the space of coordinates, where every declared range goes from -1 to 1."""

    @cached_property
    def components(self) -> FloatArray:
        """One row for each component, one column for each coordinate."""
        weights = np.asarray(self.tables[DIRECTIONS].column("weight"), dtype=np.float64)
        return weights.reshape(int(self.facts["components"]), -1)

    @cached_property
    def _means(self) -> FloatArray:
        return np.asarray(self.tables[MEANS].column("mean"), dtype=np.float64)

    def check(self) -> None:
        """Refuse directions of other features, and infinite ones."""
        space = FeatureSpace.from_facts(self.facts["space"])
        assert tuple(column.name for column in space.columns) == self.features
        assert self.components.shape == (int(self.facts["components"]), space.size)
        assert self._means.shape == (space.size,)
        assert np.isfinite(self.components).all()
        assert np.isfinite(self._means).all()

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The score of each row on each component."""
        space = FeatureSpace.from_facts(self.facts["space"])
        scores = (space.encode(rows) - self._means) @ self.components.T
        return {f"component_{index + 1}": pa.array(score) for index, score in enumerate(scores.T)}


MODEL = PcaModel


def prepare(
    request: LearningRequest, *, norm: object = None, components: object = None
) -> PcaLearner:
    """Plan principal components: two by default, or fewer if there are fewer coordinates."""
    moments = plan(request, norm=norm, weights=_WEIGHTS)
    size = moments.space.size
    number = min(_COMPONENTS, size)
    if components is not None:
        number = whole(components, "components", least=1, most=size)
    return PcaLearner(moments, number)
