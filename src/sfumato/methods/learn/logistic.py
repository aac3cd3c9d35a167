"""The chance of each class: logistic regression by noisy sums of rows around a centre.

Decision `learn-rounds`.
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
from sfumato.methods.learn.model import ClassModel, words
from sfumato.methods.learn.rounds import (
    GriddedRows,
    OffsetRound,
    best_spending,
    offset,
    on_grid,
    product_sensitivity,
    reach_of,
)
from sfumato.privacy.accounting.events import Composed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy


# The means of classes from noisy counts and sums, and the log-odds that follow from them.
#
# Two classes whose rows scatter alike around different means have log-odds that are linear in a
# row:
# those of logistic regression. So sums by class are all that has to be asked of rows; every other
# step is made of noisy numbers, and costs nothing. Decision `learn-rounds`.

WITHIN = 0.06
"""The variance that is expected within a class in a coordinate from -1 to 1."""
_COMMON = 0.02
_BETWEEN = 0.005
"""The least variances of what classes have in common, and of what they differ in."""
_FLOOR = 0.1
"""A class is taken to have at least this part of an equal share of all rows."""


@dataclass(frozen=True)
class ClassMeans:
    """What noisy sums say of the means of classes, drawn together as far as noise has them apart.

    `doubt` is the variance of each noisy mean in each coordinate.
    """

    sizes: FloatArray
    means: FloatArray
    doubt: FloatArray
    count_sd: float


def class_means(
    counts: FloatArray, sums: FloatArray, *, count_sd: float, sum_sd: float
) -> ClassMeans:
    """The means by Bayes' rule: mean_c = common + own_c, each normal around nothing.

    The variances of the two are what is seen of them beyond the noise, whose size is known, and no
    less than a public floor: however little is known, the direction in which classes differ is
    kept, and nothing asks whether a class has rows.
    """
    sizes = class_sizes(counts, count_sd)
    noisy = sums / sizes[:, None]
    doubt = (sum_sd / sizes) ** 2 + WITHIN / sizes
    between = _between(noisy, doubt)
    weights = 1 / (doubt + between)
    common = weights @ noisy / weights.sum()
    shared = max(float((common**2).mean()) - 1 / float(weights.sum()), _COMMON)
    spread = shared + between * np.eye(len(sizes))
    means = np.clip(spread @ np.linalg.solve(spread + np.diag(doubt), noisy), -2, 2)
    return ClassMeans(sizes, means, doubt, count_sd)


def class_sizes(counts: FloatArray, count_sd: float) -> FloatArray:
    """Noisy counts, drawn to equal ones as far as noise has them apart; never below a floor."""
    many = len(counts)
    equal = max(float(np.maximum(counts, 0).sum()), 2.0 * many) / many
    apart = counts - equal
    beyond = max(float(apart.var()) - count_sd**2, 0.0)
    drawn = equal + apart * beyond / (beyond + count_sd**2)
    return np.asarray(np.maximum(drawn, _FLOOR * equal))


def _between(noisy: FloatArray, doubt: FloatArray) -> float:
    """The variance between means beyond what their doubt explains."""
    weights = 1 / doubt
    common = weights @ noisy / weights.sum()
    seen = float((weights[:, None] * (noisy - common) ** 2).sum()) / noisy.shape[1]
    freedom = float(weights.sum() - (weights**2).sum() / weights.sum())
    return float(max((seen - (len(noisy) - 1)) / max(freedom, 1e-12), _BETWEEN))


def common_precision(products: FloatArray, found: ClassMeans, noise_sd: float) -> FloatArray:
    """The inverse of the covariance within classes, from noisy sums of products.

    Directions in which rows scatter less than the noise could make them scatter, by the spectral
    norm of a symmetric matrix of noise, 2 sd sqrt(d), are taken to scatter as much as that.
    """
    rows = float(found.sizes.sum())
    of_means = (found.sizes[:, None] * found.means).T @ found.means
    values, vectors = np.linalg.eigh((products - of_means) / rows)
    least = 2 * noise_sd * np.sqrt(len(products)) / rows
    values = np.maximum(values, max(least, 1e-3))
    return np.asarray((vectors / values) @ vectors.T)


@dataclass(frozen=True)
class LogOdds:
    """Log-odds of each class but the first against the first: constants and coefficients."""

    constants: FloatArray
    coefficients: FloatArray
    constant_sds: FloatArray
    coefficient_sds: FloatArray


def log_odds(found: ClassMeans, centre: FloatArray, precision: FloatArray) -> LogOdds:
    """The log-odds of normal classes around a centre, with the doubt of noise and of few rows.

    With P the precision, log-odds of c are (m_c - m_0) P x + log(n_c / n_0) + (m_0 P m_0 -
    m_c P m_c) / 2 for x from the centre. Standard deviations are those of means that are not drawn
    together, of first order, P taken as known: drawing them together errs less on average.
    """
    turned = found.means @ precision
    heights = np.log(found.sizes) - ((turned * found.means).sum(axis=1)) / 2 - turned @ centre
    # Coordinates of a mean are independent, and d height_c / d m_c = -P (m_c + centre).
    spread = (precision**2).sum(axis=1)
    slopes = (((found.means + centre) @ precision) ** 2).sum(axis=1)
    doubts = slopes * found.doubt + (found.count_sd / found.sizes) ** 2 + 1 / found.sizes
    return LogOdds(
        constants=heights[1:] - heights[0],
        coefficients=turned[1:] - turned[0],
        constant_sds=np.sqrt(doubts[1:] + doubts[0]),
        coefficient_sds=np.sqrt((found.doubt[1:] + found.doubt[0])[:, None] * spread),
    )


LEARNT = ("auto", "means", "shape")
_NEAR, _FAR = Fraction(3, 10), Fraction(1, 2)
"""How far from the centre rows count in full, where the centre is known and where it is not."""
_COUNTS = Fraction(15, 100)
"""What counts weigh beside offsets, as a part of their reach."""
_MIDDLE, _MIDDLE_OF_SHAPE, _SHAPE = Fraction(1, 4), Fraction(15, 100), Fraction(2, 5)
"""The shares of the price for the centre, for it where a shape is learnt too, and for the shape."""
_CENTRED, _SHAPED = 1.3, 8.0
"""Rows times epsilon from which a centre, per coordinate, and a shape, per d^2.5, pay."""
_MOST_ROWS = 1 << 40
INTERCEPT = "(constant)"


@dataclass(frozen=True)
class LogisticLearning:
    """Sums of rows by class around a noisy centre; log-odds follow from the means of classes.

    *Guarantee*: the price in full, in shares that public facts fix ahead: for the centre of all
    rows, for counts and sums by class and, where it is learnt, for the shape of the classes.
    *Sensitivity*: a row has one class; it adds 1 to a count, at most `reach` to sums of offsets and
    reach^2 to sums of their products (`rounds`).
    *Error*: every coefficient has a standard deviation of noise and of few rows together, of first
    order, that of a value that is not drawn towards 0; `sum` says ahead what lies on the sums.
    *Edges*: rows without a declared class count nowhere; one class, equal rows or no rows at all
    give numbers like all others. Without a shape, coordinates count as if independent of each
    other: classes are told apart well, but chances are nearer to 0 and 1 than they should be.
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
        parts = (self.middle, self.classes, self.shape)
        return Composed(tuple(one.event for one in parts if one is not None))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What is learnt of the classes, whether around a centre, and how far rows count."""
        return {
            "learn": "means" if self.shape is None else "shape",
            "centred": self.middle is not None,
            "reach": round(self.classes.reach / GRID, 6),
        }

    @property
    def error(self) -> Mapping[str, Any]:
        """Of the rows of a class, and of the sum of a coordinate over them."""
        told = {
            "rows": {"sd": self.classes.count_sd},
            "sum": {"sd": self.classes.sum_sd},
            "note": "the mean of n rows is off by about sum / n in each coordinate, from -1 to 1",
        }
        if self.shape is not None:
            told["product"] = {"sd": self.shape.stddev / self._product_unit}
        return told

    @property
    def _product_unit(self) -> int:
        return self.classes.row * GRID**2

    @property
    def facts(self) -> Mapping[str, Any]:
        """How columns become coordinates, and what the classes are."""
        return {**self.space.facts(), "classes": self.labels.facts()}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The coefficients with their doubt, and how many rows have each class."""
        return {name: one.slice(0, 0) for name, one in self._tables(*self._nothing()).items()}

    def _nothing(self) -> tuple[ClassMeans, LogOdds]:
        """What would follow from no rows and no noise, for the form of the tables."""
        many, width = len(self.labels), self.space.size
        found = class_means(np.zeros(many), np.zeros((many, width)), count_sd=1.0, sum_sd=1.0)
        return found, log_odds(found, np.zeros(width), np.eye(width))

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The centre, then the classes around it, then how rows scatter within them."""
        expressions = [*self.space.expressions(), self.labels.expression()]
        rows = GriddedRows(salted.data, expressions, self.space.size)
        centre = np.zeros((1, rows.width), dtype=np.int64)
        if self.middle is not None:
            centre = on_grid(rows.middle(self.middle, entropy))[None, :]
        places = np.repeat(centre, len(self.labels), axis=0)
        told = rows.tell(places, self.classes.reach, rows.label)
        counts, sums = self.classes.sample(told, entropy)
        noise = {"count_sd": self.classes.count_sd, "sum_sd": self.classes.sum_sd}
        found = class_means(counts, sums, **noise)
        precision = np.eye(rows.width) / WITHIN
        if self.shape is not None:
            products = self._products(rows, places, self.shape, entropy)
            precision = common_precision(products, found, self.shape.stddev / self._product_unit)
        return self._tables(found, log_odds(found, centre[0] / GRID, precision))

    def _products(
        self, rows: GriddedRows, places: Any, noise: Noise, entropy: Entropy
    ) -> FloatArray:
        """Noisy sums of products of offsets, over the rows of all classes together."""
        pairs = np.triu_indices(rows.width)
        terms = [offset(one) * offset(two) for one, two in zip(*map(list, pairs), strict=True)]
        told = rows.sums(places, self.classes.reach, terms, rows.label).sum(axis=0)
        noisy = noise.steps(told, entropy).astype(np.float64) / self._product_unit
        found = np.zeros((rows.width, rows.width))
        found[pairs] = noisy
        return np.asarray(found + np.triu(found, 1).T)

    def _tables(self, found: ClassMeans, odds: LogOdds) -> Mapping[str, pa.Table]:
        """Coefficients of the coordinates, from -1 to 1, by class."""
        names, terms = words(self.labels), [INTERCEPT, *self.space.names]
        later, width = names[1:], len(terms)
        values = np.column_stack([odds.constants, odds.coefficients]).ravel()
        sds = np.column_stack([odds.constant_sds, odds.coefficient_sds]).ravel()
        rows = np.rint(found.sizes).astype(np.int64)
        return {
            "coefficients": pa.table(
                {
                    "class": pa.array([one for one in later for _ in range(width)], pa.string()),
                    "term": pa.array(terms * len(later), pa.string()),
                    "coefficient": pa.array(np.round(values, 6)),
                    "sd": pa.array(np.round(sds, 6)),
                }
            ),
            "classes": pa.table({"class": pa.array(names, pa.string()), "rows": pa.array(rows)}),
        }


@dataclass(frozen=True, repr=False, kw_only=True)
class LogisticModel(ClassModel):
    """Log-odds of each class against the first, linear in the coordinates of a row."""

    @cached_property
    def coordinates(self) -> FeatureSpace:
        """How rows become coordinates."""
        return FeatureSpace.from_facts(self.facts)

    @cached_property
    def weights(self) -> FloatArray:
        """A constant and coefficients for each class; those of the first are 0."""
        values = self.tables["coefficients"].column("coefficient").to_numpy()
        later = np.asarray(values, dtype=np.float64).reshape(-1, self.coordinates.size + 1)
        return np.concatenate([np.zeros((1, later.shape[1])), later])

    def check(self) -> None:
        """As many coefficients as classes and coordinates ask for, all of them finite."""
        assert len(self.weights) == len(self.labels)
        assert np.isfinite(self.weights).all()

    def encoded(self, rows: pa.Table) -> FloatArray:
        """The coordinates of rows, from -1 to 1."""
        return self.coordinates.encode(rows)

    def scores(self, bins: FloatArray) -> FloatArray:
        """The log-odds of every class against the first, of coordinates."""
        return np.asarray(self.weights[:, 0] + bins @ self.weights[:, 1:].T)


MODEL = LogisticModel


def prepare(
    request: LearningRequest, *, learn: object = "auto", size: object = None
) -> LogisticLearning:
    """Tell classes by features, from public facts alone.

    `size` is about how many rows there are, as everybody may know; declared rows need no saying.
    """
    assert request.target is not None
    wanted = options.choice(learn, "learn", LEARNT)
    rows = request.rows
    if size is not None:
        rows = options.whole(size, "size", least=1, most=_MOST_ROWS)
    space, labels = FeatureSpace(request.features), ClassLabels.of(request.target)
    spending = best_spending(request.price, request.unit, reach_of(_NEAR, space.size))
    known = None if rows is None else rows * float(spending.pure_epsilon())
    width = space.size
    shaped = wanted == "shape"
    if wanted == "auto" and known is not None:
        shaped = known >= _SHAPED * width**2.5
    if shaped:
        return _made(request, spending, space, labels, _MIDDLE_OF_SHAPE, _SHAPE)
    centred = known is None or known >= _CENTRED * width
    return _made(request, spending, space, labels, _MIDDLE if centred else Fraction(0), Fraction(0))


def _made(
    request: LearningRequest,
    spending: Spending,
    space: FeatureSpace,
    labels: ClassLabels,
    middle: Fraction,
    shape: Fraction,
) -> LogisticLearning:
    """The rounds, each for its share of the price."""
    near, far = (reach_of(one, space.size) for one in (_NEAR, _FAR))

    def made(reach: int, share: Fraction) -> OffsetRound:
        weight = max(int(_COUNTS * reach), 1)
        return OffsetRound.of(spending, request.unit, reach, weight=weight, share=share)

    reach = near if middle else far
    products = product_sensitivity(request.unit, reach)
    return LogisticLearning(
        space=space,
        labels=labels,
        middle=made(far, middle) if middle else None,
        classes=made(reach, 1 - middle - shape),
        shape=spending.noise(products, shape) if shape else None,
    )
