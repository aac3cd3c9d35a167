"""How a budget is divided among measurements so that the answers wanted come out best.

Measurement T gets a share s of the budget and has then the variance unit / s^power in each cell:
power 1 for Gaussian noise, whose rho adds up, and 2 for Laplace noise, whose epsilon does.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.publish.marginals.lattice import Links

_ROUNDS = 1000
_SETTLED = 1e-12
_UNITS = 1 << 30


def divide(
    links: Links,
    importance: NDArray[np.float64],
    units: NDArray[np.float64],
    *,
    power: int,
    rounds: int = _ROUNDS,
) -> tuple[NDArray[np.float64], float]:
    """Give the shares, which sum to 1, and the sum of importance x variance over all residuals.

    The variance of a weighted mean with fixed weights is a sum of one term for each measurement,
    of which the best shares are known; and the best weights never make it larger. Taking turns
    improves the sum in every round. For Gaussian noise the end is the optimum, as the problem is
    convex; for Laplace noise it is a local one.
    """
    shares = np.full(len(units), 1 / len(units))
    before = np.inf
    for _ in range(rounds):
        measured = shares**power / units
        variances = 1 / links.precisions(measured, len(importance))
        now = float(importance @ variances)
        if now >= before * (1 - _SETTLED):
            break
        before = now
        felt = links.factor * (importance * variances**2)[links.residual]
        terms = np.bincount(links.measured, weights=felt, minlength=len(units))
        shares = (terms * measured**2 * units) ** (1 / (1 + power))
        shares /= shares.sum()
    return shares, before


def exact(shares: NDArray[np.float64]) -> list[Fraction]:
    """Shares as fractions above 0 that sum to exactly 1."""
    units = np.maximum((shares * _UNITS).astype(np.int64), 1)
    units[np.argmax(units)] += _UNITS - units.sum()
    return [Fraction(int(one), _UNITS) for one in units]
