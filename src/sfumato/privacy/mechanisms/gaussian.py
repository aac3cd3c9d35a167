"""The Gaussian mechanism on a grid: discrete Gaussian noise in whole steps of a public granule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.exact_numbers import store_positive
from sfumato.privacy.accounting.elementary import exp_up
from sfumato.privacy.accounting.events import GaussianNoise
from sfumato.privacy.mechanisms.base import add, check_beta, integers, to_floats
from sfumato.privacy.noise.discrete import discrete_gaussian

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import FloatArray
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Add discrete Gaussian noise of variance sensitivity^2 / (2 rho) to values on a grid.

    *Guarantee*: rho-zero-concentrated differential privacy for all values of one `sample` together,
    under the neighbour relation for which the sensitivity holds; never a pure epsilon.
    *Sensitivity*: L2, squared so that it stays rational, in the unit of the values, over all of
    them together; established by the caller.
    *Error*: Variance at most sensitivity^2 / (2 rho); |noise| exceeds t with probability at most 2
    exp(-t^2 / (2 variance)).
    *Edges*: Values come as whole numbers of granules; the float is made from the noisy whole
    number, so its bits depend on nothing else. The granule is public.
    *Reference*: Canonne, Kamath & Steinke 2020, Theorem 14, Corollary 9 and Proposition 25.
    """

    rho: Fraction
    l2_sensitivity_squared: Fraction = Fraction(1)
    granule: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        store_positive(self, "l2_sensitivity_squared", "rho", "granule")

    @property
    def steps_variance(self) -> Fraction:
        """The variance parameter of the noise, in granules squared."""
        return self.l2_sensitivity_squared / (2 * self.rho * self.granule**2)

    @property
    def event(self) -> GaussianNoise:
        """The privacy cost of one sample."""
        return GaussianNoise(
            variance=self.steps_variance,
            l2_sensitivity_squared=self.l2_sensitivity_squared / self.granule**2,
        )

    def steps(self, values: ArrayLike, entropy: Entropy) -> NDArray[Any]:
        """Add noise to whole numbers of granules; return whole numbers of granules."""
        private = integers(values, "values")
        noise = discrete_gaussian(self.steps_variance, private.size, entropy)
        return add(private, noise.reshape(private.shape))

    def sample(self, values: ArrayLike, entropy: Entropy) -> FloatArray:
        """Add noise to whole numbers of granules; return floats in the unit of the values."""
        return to_floats(self.steps(values, entropy), self.granule)

    @property
    def variance(self) -> float:
        """A bound on the variance of one answer, close to it."""
        return float(self.l2_sensitivity_squared / (2 * self.rho))

    @property
    def stddev(self) -> float:
        """A bound on the standard deviation of one answer, close to it."""
        return math.sqrt(self.variance)

    def bound(self, beta: float) -> float:
        """Give an error that one answer exceeds with probability at most beta."""
        return self.stddev * math.sqrt(2 * math.log(2 / check_beta(beta)))

    def tail(self, steps: int) -> Fraction:
        """Bound the probability that the noise is at least `steps` granules from above."""
        return exp_up(-(steps**2) / (2 * self.steps_variance))
