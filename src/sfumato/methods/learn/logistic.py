"""Logistic regression from noisy sums of rows by class (linear discriminant analysis).

Decision `learning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.methods import options
from sfumato.methods.learn.bins import ClassLabels
from sfumato.methods.learn.features import GRID, FeatureSpace
from sfumato.methods.learn.model import ClassModel, class_names
from sfumato.methods.learn.rounds import (
    GriddedRows,
    OffsetRound,
    best_spending,
    offset,
    product_sensitivity,
    reach_of,
    round_to_grid,
)
from sfumato.privacy.accounting.events import Composed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy


# The means of classes from noisy counts and sums, and the log-odds that follow from them.
#
# Normal classes with one covariance and different means have log-odds that are linear in a row:
# those of logistic regression (Efron 1975). So sums by class are the only private measurement;
# everything else is computed from noisy numbers and costs nothing. Decision `learning`.

WITHIN = 0.06
"""The assumed variance within a class, in a coordinate from -1 to 1."""
_LEAST_COMMON = 0.02
_LEAST_BETWEEN = 0.005
"""The least variances of the common mean of classes, and of their differences."""
_FLOOR = 0.1
"""The least size of a class, as a share of an equal division of all rows."""


@dataclass(frozen=True)
class ClassMeans:
    """Estimated sizes and means of classes, shrunk towards each other by their noise.

    `doubt` is the variance of each noisy mean in each coordinate.
    """

    sizes: FloatArray
    means: FloatArray
    doubt: FloatArray
    count_sd: float


def class_means(
    counts: FloatArray, sums: FloatArray, *, count_sd: float, sum_sd: float
) -> ClassMeans:
    """Estimate the means by Bayes' rule: mean_c = common + own_c, both normal around 0.

    The variances of the two are estimated as observed variance beyond the known noise, and not
    below a public floor. The floor keeps the direction in which classes differ, however large the
    noise is, and no step depends on whether a class has rows.
    """
    sizes = class_sizes(counts, count_sd)
    noisy_means = sums / sizes[:, None]
    doubt = (sum_sd / sizes) ** 2 + WITHIN / sizes
    between = _between_variance(noisy_means, doubt)
    weights = 1 / (doubt + between)
    common_mean = weights @ noisy_means / weights.sum()
    # Method of moments: the mean square of the common mean beyond its own noise.
    common_variance = max(float((common_mean**2).mean()) - 1 / float(weights.sum()), _LEAST_COMMON)
    prior = common_variance + between * np.eye(len(sizes))
    means = np.clip(prior @ np.linalg.solve(prior + np.diag(doubt), noisy_means), -2, 2)
    return ClassMeans(sizes, means, doubt, count_sd)


def class_sizes(counts: FloatArray, count_sd: float) -> FloatArray:
    """Noisy counts shrunk towards equal classes by their noise, and not below a floor."""
    class_count = len(counts)
    equal = max(float(np.maximum(counts, 0).sum()), 2.0 * class_count) / class_count
    deviations = counts - equal
    signal = max(float(deviations.var()) - count_sd**2, 0.0)
    shrunk = equal + deviations * signal / (signal + count_sd**2)
    return np.asarray(np.maximum(shrunk, _FLOOR * equal))


def _between_variance(noisy: FloatArray, doubt: FloatArray) -> float:
    """The variance between means beyond their noise (method of moments, DerSimonian & Laird)."""
    weights = 1 / doubt
    common_mean = weights @ noisy / weights.sum()
    observed = float((weights[:, None] * (noisy - common_mean) ** 2).sum()) / noisy.shape[1]
    freedom = float(weights.sum() - (weights**2).sum() / weights.sum())
    return float(max((observed - (len(noisy) - 1)) / max(freedom, 1e-12), _LEAST_BETWEEN))


def common_precision(products: FloatArray, estimates: ClassMeans, noise_sd: float) -> FloatArray:
    """The inverse of the covariance within classes, from noisy sums of products.

    Eigenvalues are not taken below the spectral norm of a symmetric matrix of noise, 2 sd sqrt(d),
    so that a direction of noise gets no large weight.
    """
    rows = float(estimates.sizes.sum())
    means_products = (estimates.sizes[:, None] * estimates.means).T @ estimates.means
    values, vectors = np.linalg.eigh((products - means_products) / rows)
    least_variance = 2 * noise_sd * np.sqrt(len(products)) / rows
    values = np.maximum(values, max(least_variance, 1e-3))
    return np.asarray((vectors / values) @ vectors.T)


@dataclass(frozen=True)
class LogOdds:
    """Log-odds of each class but the first against the first: constants and coefficients."""

    constants: FloatArray
    coefficients: FloatArray
    constant_sds: FloatArray
    coefficient_sds: FloatArray


def log_odds(estimates: ClassMeans, centre: FloatArray, precision: FloatArray) -> LogOdds:
    """The log-odds of normal classes, with standard deviations from noise and sampling.

    With P the precision and x relative to the centre, the log-odds of class c against class 0 are
    (m_c - m_0) P x + log(n_c / n_0) + (m_0 P m_0 - m_c P m_c) / 2. Standard deviations are to first
    order, with P known, and for means that are not shrunk: shrunk ones err less on average.
    """
    weights = estimates.means @ precision
    constants = (
        np.log(estimates.sizes) - ((weights * estimates.means).sum(axis=1)) / 2 - weights @ centre
    )
    # Coordinates of a mean are independent, and d height_c / d m_c = -P (m_c + centre).
    row_norms = (precision**2).sum(axis=1)
    slopes = (((estimates.means + centre) @ precision) ** 2).sum(axis=1)
    variances = (
        slopes * estimates.doubt + (estimates.count_sd / estimates.sizes) ** 2 + 1 / estimates.sizes
    )
    return LogOdds(
        constants=constants[1:] - constants[0],
        coefficients=weights[1:] - weights[0],
        constant_sds=np.sqrt(variances[1:] + variances[0]),
        coefficient_sds=np.sqrt((estimates.doubt[1:] + estimates.doubt[0])[:, None] * row_norms),
    )


LEARNT = ("auto", "means", "shape")
_NEAR, _FAR = Fraction(3, 10), Fraction(1, 2)
"""The reach of a round around a noisy centre, and around the middle of the bounds."""
_COUNTS = Fraction(15, 100)
"""The weight of counts beside offsets, as a share of the reach."""
_MIDDLE, _MIDDLE_OF_SHAPE, _SHAPE = Fraction(1, 4), Fraction(15, 100), Fraction(2, 5)
"""The shares of the price for the centre, for it if a shape is learnt too, and for the shape."""
_CENTRED, _SHAPED = 1.3, 8.0
"""The least rows x epsilon for a centre, per coordinate, and for a shape, per d^2.5."""
_MOST_ROWS = 1 << 40
INTERCEPT = "(constant)"


@dataclass(frozen=True)
class LogisticLearning:
    """Sum rows by class around a noisy centre; log-odds follow from the means of classes.

    *Guarantee*: the price in full, in shares that public facts fix in advance: for the centre of
    all rows, for counts and sums by class and, if it is learnt, for the shape of the classes.
    *Sensitivity*: a row has one class; it adds 1 to a count, at most `reach` to sums of offsets and
    reach^2 to sums of their products (`rounds`).
    *Error*: every coefficient has a standard deviation of noise and sampling together, to first
    order and for an estimate without shrinkage; `sum` states the noise on the sums in advance.
    *Edges*: rows without a declared class are not counted; one class, equal rows or no rows give
    ordinary numbers. Without a shape, coordinates count as independent: classes are separated well,
    but probabilities are nearer to 0 and 1 than they should be.
    *Reference*: Efron 1975, for logistic regression by the means of classes; the rounds are those
    of Blum, Dwork, McSherry & Nissim 2005.
    """

    space: FeatureSpace
    labels: ClassLabels
    middle: OffsetRound | None
    classes: OffsetRound
    shape: Noise | None

    @property
    def event(self) -> Event:
        """What it costs."""
        spent = (self.middle, self.classes, self.shape)
        return Composed(tuple(part.event for part in spent if part is not None))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Whether means or a shape are learnt, whether around a centre, and the reach."""
        return {
            "learn": "means" if self.shape is None else "shape",
            "centred": self.middle is not None,
            "reach": round(self.classes.reach / GRID, 6),
        }

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of the rows of a class, and of the sum of a coordinate over them."""
        error = {
            "rows": {"sd": self.classes.count_sd},
            "sum": {"sd": self.classes.sum_sd},
            "note": "the mean of n rows is off by about sum / n in each coordinate, from -1 to 1",
        }
        if self.shape is not None:
            error["product"] = {"sd": self.shape.stddev / self._product_unit}
        return error

    @property
    def _product_unit(self) -> int:
        return self.classes.row * GRID**2

    @property
    def facts(self) -> Mapping[str, Any]:
        """The declarations of the features and of the classes."""
        return {**self.space.facts(), "classes": self.labels.facts()}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables of coefficients and classes, without a row."""
        empty = self._tables(*self._fit_of_no_rows())
        return {name: table.slice(0, 0) for name, table in empty.items()}

    def _fit_of_no_rows(self) -> tuple[ClassMeans, LogOdds]:
        """A fit of zeros, from which the empty tables get their columns."""
        sizes, means = np.zeros(len(self.labels)), np.zeros((len(self.labels), self.space.size))
        estimates = class_means(sizes, means, count_sd=1.0, sum_sd=1.0)
        width = self.space.size
        return estimates, log_odds(estimates, np.zeros(width), np.eye(width))

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Measure the centre, then the classes around it, then the covariance within them."""
        expressions = [*self.space.expressions(), self.labels.expression()]
        rows = GriddedRows(salted.data, expressions, self.space.size)
        centre = np.zeros((1, rows.width), dtype=np.int64)
        if self.middle is not None:
            centre = round_to_grid(rows.middle(self.middle, entropy))[None, :]
        centres = np.repeat(centre, len(self.labels), axis=0)
        exact = rows.group_sums(centres, self.classes.reach, rows.label)
        # From here on everything but `_products` is post-processing.
        counts, sums = self.classes.sample(exact, entropy)
        noise = {"count_sd": self.classes.count_sd, "sum_sd": self.classes.sum_sd}
        estimates = class_means(counts, sums, **noise)
        # Without a measured shape: independent coordinates of the assumed variance.
        precision = np.eye(rows.width) / WITHIN
        if self.shape is not None:
            products = self._products(rows, centres, self.shape, entropy)
            precision = common_precision(
                products, estimates, self.shape.stddev / self._product_unit
            )
        return self._tables(estimates, log_odds(estimates, centre[0] / GRID, precision))

    def _products(
        self, rows: GriddedRows, centres: Any, noise: Noise, entropy: Entropy
    ) -> FloatArray:
        """Noisy sums of products of offsets, over the rows of all classes together."""
        pairs = np.triu_indices(rows.width)
        terms = [
            offset(first) * offset(second) for first, second in zip(*map(list, pairs), strict=True)
        ]
        exact = rows.sums(centres, self.classes.reach, terms, rows.label).sum(axis=0)
        noisy = noise.steps(exact, entropy).astype(np.float64) / self._product_unit
        products = np.zeros((rows.width, rows.width))
        products[pairs] = noisy
        return np.asarray(products + np.triu(products, 1).T)

    def _tables(self, estimates: ClassMeans, odds: LogOdds) -> Mapping[str, pa.Table]:
        """The released tables: coefficients of coordinates from -1 to 1, and sizes of classes."""
        names, terms = class_names(self.labels), [INTERCEPT, *self.space.names]
        classes, width = names[1:], len(terms)
        values = np.column_stack([odds.constants, odds.coefficients]).ravel()
        sds = np.column_stack([odds.constant_sds, odds.coefficient_sds]).ravel()
        rows = np.rint(estimates.sizes).astype(np.int64)
        return {
            "coefficients": pa.table(
                {
                    "class": pa.array(
                        [class_name for class_name in classes for _ in range(width)], pa.string()
                    ),
                    "term": pa.array(terms * len(classes), pa.string()),
                    "coefficient": pa.array(np.round(values, 6)),
                    "sd": pa.array(np.round(sds, 6)),
                }
            ),
            "classes": pa.table({"class": pa.array(names, pa.string()), "rows": pa.array(rows)}),
        }


@dataclass(frozen=True, repr=False, kw_only=True)
class LogisticModel(ClassModel):
    """Log-odds of each class against the first one, linear in the coordinates of a row."""

    @cached_property
    def coordinates(self) -> FeatureSpace:
        """The coordinates of the features."""
        return FeatureSpace.from_facts(self.facts)

    @cached_property
    def weights(self) -> FloatArray:
        """A constant and coefficients for each class; those of the first are 0."""
        values = self.tables["coefficients"].column("coefficient").to_numpy()
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


MODEL = LogisticModel


def prepare(
    request: LearningRequest, *, learn: object = "auto", size: object = None
) -> LogisticLearning:
    """Plan a logistic regression from public facts.

    `learn` is "means", "shape" (means and covariance), or "auto". `size` is the approximate number
    of rows, as a public figure; by default the declared number.
    """
    assert request.target is not None
    measured = options.choice(learn, "learn", LEARNT)
    rows = request.rows
    if size is not None:
        rows = options.whole(size, "size", least=1, most=_MOST_ROWS)
    space, labels = FeatureSpace(request.features), ClassLabels.of(request.target)
    spending = best_spending(request.price, request.unit, reach_of(_NEAR, space.size))
    rows_times_epsilon = None if rows is None else rows * float(spending.pure_epsilon())
    width = space.size
    shaped = measured == "shape"
    if measured == "auto" and rows_times_epsilon is not None:
        shaped = rows_times_epsilon >= _SHAPED * width**2.5
    middle, shape = _MIDDLE_OF_SHAPE, _SHAPE
    if not shaped:
        centred = rows_times_epsilon is None or rows_times_epsilon >= _CENTRED * width
        middle, shape = _MIDDLE if centred else Fraction(0), Fraction(0)
    reach = reach_of(_NEAR if middle else _FAR, width)

    def plan_round(radius: int, share: Fraction) -> OffsetRound:
        weight = max(int(_COUNTS * radius), 1)
        return OffsetRound.of(spending, request.unit, radius, weight=weight, share=share)

    products = product_sensitivity(request.unit, reach)
    return LogisticLearning(
        space=space,
        labels=labels,
        middle=plan_round(reach_of(_FAR, width), middle) if middle else None,
        classes=plan_round(reach, 1 - middle - shape),
        shape=spending.noise(products, shape) if shape else None,
    )
