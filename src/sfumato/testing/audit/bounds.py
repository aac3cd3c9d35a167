"""Lower bounds on a privacy loss from two observed frequencies of one event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Curve:
    """A claim about the whole trade-off curve: no easier than telling N(0, 1) from N(mu, 1).

    A Gaussian of variance sensitivity^2 / (2 rho) claims mu = sqrt(2 rho). At a small delta an
    (epsilon, delta) claim is nearly blind to its noise being too small; the curve is not.
    """

    mu: float


def epsilon_bound(
    hits: ArrayLike, others: ArrayLike, trials: int, *, delta: float, alpha: float
) -> NDArray[np.float64]:
    """Bound epsilon from below when an event struck `hits` and `others` times in `trials` each.

    Clopper-Pearson at alpha / 2 on either side, so that P[bound > epsilon] <= alpha whatever the
    mechanism; minus infinity where nothing can be said.
    """
    low = _lower(hits, trials, alpha / 2) - delta
    high = _upper(others, trials, alpha / 2)
    bound = np.full(low.shape, -np.inf)
    np.log(low / high, out=bound, where=low > 0)
    return bound


def mu_bound(
    hits: ArrayLike, others: ArrayLike, trials: int, *, alpha: float
) -> NDArray[np.float64]:
    """Bound the mu of a trade-off curve from below, as `epsilon_bound` does epsilon."""
    from scipy.special import ndtri

    true_positive = ndtri(_lower(hits, trials, alpha / 2))
    false_positive = ndtri(_upper(others, trials, alpha / 2))
    known = np.isfinite(true_positive) & np.isfinite(false_positive)
    bound = np.full(true_positive.shape, -np.inf)
    np.subtract(true_positive, false_positive, out=bound, where=known)
    return bound


def _lower(hits: ArrayLike, trials: int, alpha: float) -> NDArray[np.float64]:
    from scipy.special import betaincinv

    count = np.asarray(hits, dtype=np.float64)
    return np.where(count > 0, betaincinv(np.maximum(count, 1), trials - count + 1, alpha), 0.0)


def _upper(hits: ArrayLike, trials: int, alpha: float) -> NDArray[np.float64]:
    from scipy.special import betainccinv

    count = np.asarray(hits, dtype=np.float64)
    rest = np.maximum(trials - count, 1)
    return np.where(count < trials, betainccinv(count + 1, rest, alpha), 1.0)
