"""The means of classes from noisy counts and sums, and the log-odds that follow from them.

Two classes whose rows scatter alike around different means have log-odds that are linear in a row:
those of logistic regression. So sums by class are all that has to be asked of rows; every other
step is made of noisy numbers, and costs nothing. Decision `learn-rounds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray


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
