"""Principal components from noisy second moments: Analyze Gauss, or Laplace in pure epsilon.

*Guarantee*: that of `measured`: the price, for all figures together.
*Sensitivity*: of `measured`, which clips rows to a public norm. Squares and cross products are
measured apart: squares move by R^2 alone, and so are told far better than cross products.
*Error*: a component's variance is off by `noise_sd`, to first order; `error` has the noise of each
sum before anything is spent.
*Edges*: no rows, or columns that never vary: directions of noise, with variances near 0. Noise is
added to a symmetric matrix, never of Wishart's kind, whose support moves with the data.
*Reference*: Dwork, Talwar, Thakurta & Zhang 2014, Algorithm 1.

Products around the means are made possible before directions are read from them, from noisy figures
and public facts alone: a variance is drawn to a typical one, and a covariance to 0, by as much as
its noise outweighs what is typical. Where noise drowns every covariance what is left are the
columns that vary most, which is a better guess than a direction of noise. Decision `learn-moments`.
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
"""Which figures matter most to directions. Chosen on generated tables alone."""

_VARIANCE = 0.1
"""The variance of a coordinate that is typical, and how far others are from it."""
_LEAST_VARIANCE = 0.002
_CORRELATION_SQUARED = 0.05
"""The square of a correlation that is typical."""

_COMPONENTS = 2

MEANS, DIRECTIONS, SPECTRUM = "means", "components", "spectrum"


@dataclass(frozen=True)
class Directions:
    """Unit vectors as columns, the variance along each, and how far noise may have moved it."""

    vectors: FloatArray
    variances: FloatArray
    stddev: FloatArray
    total: float


def likely_covariance(moments: NoisyMoments) -> FloatArray:
    """The covariance of the coordinates, with noise drawn to what is typical."""
    noisy, rows = moments.centred() / moments.rows, moments.rows
    own, cross = (moments.stddev.get(name, 0.0) / rows for name in (SQUARES, CROSS))
    trust = _VARIANCE**2 / (_VARIANCE**2 + own**2)
    variances = np.diag(noisy) * trust + _VARIANCE * (1 - trust)
    variances = np.clip(variances, _LEAST_VARIANCE, 1.0)
    scale = np.outer(variances, variances)
    typical = _CORRELATION_SQUARED * scale
    likely = np.clip(noisy * typical / (typical + cross**2), -np.sqrt(scale), np.sqrt(scale))
    np.fill_diagonal(likely, variances)
    return np.asarray(likely)


def directions(moments: NoisyMoments, number: int) -> Directions:
    """The directions of most variance; of each its largest weight is positive."""
    likely = likely_covariance(moments)
    values, vectors = np.linalg.eigh(likely)
    values, vectors = values[::-1][:number], vectors[:, ::-1][:, :number]
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    own, cross = (moments.stddev.get(name, 0.0) ** 2 for name in (SQUARES, CROSS))
    fourth = (vectors**4).sum(axis=0)
    # v'Ev with E symmetric: a square's noise once, a cross product's twice.
    spread = own * fourth + 2 * cross * np.maximum(1 - fourth, 0.0)
    return Directions(
        vectors, np.maximum(values, 0.0), np.sqrt(spread) / moments.rows, float(np.trace(likely))
    )


@dataclass(frozen=True)
class PcaLearner:
    """Principal components with all choices. Nothing in it saw data."""

    moments: MomentPlan
    components: int

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.moments.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The norm, the noise, its shares, and how many components."""
        return {**self.moments.parameters, "components": self.components}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of each sum, in rows."""
        return {"sd": self.moments.stddev}

    @property
    def facts(self) -> Mapping[str, Any]:
        """The features as declared, and how many components."""
        return {"space": self.moments.space.facts(), "components": self.components}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """What will be released, without a row."""
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
        """Measure, then turn."""
        noisy = self.moments.measure(salted.data, entropy)
        found = directions(noisy, self.components)
        names, numbers = list(self.moments.space.names), list(range(1, self.components + 1))
        return {
            DIRECTIONS: pa.table(
                {
                    "component": np.repeat(numbers, len(names)),
                    "name": names * len(numbers),
                    "weight": found.vectors.T.ravel(),
                }
            ),
            SPECTRUM: pa.table(
                {
                    "component": numbers,
                    "variance": found.variances,
                    "noise_sd": found.stddev,
                    "share": found.variances / found.total,
                }
            ),
            MEANS: pa.table({"name": names, "mean": noisy.means()}),
        }


@dataclass(frozen=True, repr=False, kw_only=True)
class PcaModel(Model):
    """Directions in the space of coordinates, where every declared range is from -1 to 1."""

    @cached_property
    def components(self) -> FloatArray:
        """One row for each component, one column for each coordinate."""
        weights = np.asarray(self.tables[DIRECTIONS].column("weight"), dtype=np.float64)
        return weights.reshape(int(self.facts["components"]), -1)

    @cached_property
    def _means(self) -> FloatArray:
        return np.asarray(self.tables[MEANS].column("mean"), dtype=np.float64)

    def check(self) -> None:
        """Refuse directions that are not of the features."""
        space = FeatureSpace.from_facts(self.facts["space"])
        assert tuple(one.name for one in space.columns) == self.features
        assert self.components.shape == (int(self.facts["components"]), space.size)
        assert self._means.shape == (space.size,)
        assert np.isfinite(self.components).all()
        assert np.isfinite(self._means).all()

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """How far each row lies along each component."""
        space = FeatureSpace.from_facts(self.facts["space"])
        along = (space.encode(rows) - self._means) @ self.components.T
        return {f"component_{place + 1}": pa.array(one) for place, one in enumerate(along.T)}


MODEL = PcaModel


def prepare(
    request: LearningRequest, *, norm: object = None, components: object = None
) -> PcaLearner:
    """Plan principal components: two, or as many as there are, unless more are wanted."""
    moments = plan(request, norm=norm, weights=_WEIGHTS)
    most = moments.space.size
    number = min(_COMPONENTS, most)
    if components is not None:
        number = whole(components, "components", least=1, most=most)
    return PcaLearner(moments, number)
