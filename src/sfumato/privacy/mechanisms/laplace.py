"""Laplace noise: geometric on integers, truncated at declared ends, and in steps of a granule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.exact_numbers import store_positive
from sfumato.privacy.accounting.elementary import exp_down, exp_up
from sfumato.privacy.accounting.events import LaplaceNoise
from sfumato.privacy.mechanisms.base import add, check_beta, integers, narrow, to_floats
from sfumato.privacy.noise.discrete import discrete_laplace

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import FloatArray
    from sfumato.privacy.noise.entropy import Entropy

_MAX_STATED_EPSILON = 64.0
"""Above this epsilon per unit, `variance` states that of this epsilon, which is below 10^-27.
Without the cap it would underflow to 0, and a variance of 0 claims exactness."""


@dataclass(frozen=True, kw_only=True)
class Geometric:
    """Add noise of mass proportional to alpha^|x|, alpha = exp(-epsilon / sensitivity).

    *Guarantee*: epsilon-differential privacy for all values of one `sample` together, under the
    neighbour relation for which the sensitivity holds.
    *Sensitivity*: L1, over all the values together; established by the caller from the privacy
    unit.
    *Error*: Variance 2 alpha / (1 - alpha)^2 a value, unbiased; |noise| exceeds t with probability
    2 alpha^(t+1) / (1 + alpha).
    *Edges*: No values give no values. Sums beyond 64 bits become Python integers, never wrap.
    *Reference*: Ghosh, Roughgarden & Sundararajan 2009; Dwork, McSherry, Nissim & Smith 2006, Prop.
    1.
    """

    epsilon: Fraction
    l1_sensitivity: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        store_positive(self, "epsilon", "l1_sensitivity")

    @property
    def scale(self) -> Fraction:
        """Sensitivity over epsilon."""
        return self.l1_sensitivity / self.epsilon

    @property
    def event(self) -> LaplaceNoise:
        """The privacy cost of one sample."""
        return LaplaceNoise(scale=self.scale, l1_sensitivity=self.l1_sensitivity)

    def steps(self, values: ArrayLike, entropy: Entropy) -> NDArray[Any]:
        """Add noise to integers of any shape."""
        private = integers(values, "values")
        noise = discrete_laplace(self.scale, private.size, entropy)
        return add(private, noise.reshape(private.shape))

    sample = steps

    @property
    def variance(self) -> float:
        """The variance of one answer; above 0 for every epsilon."""
        rate = min(float(1 / self.scale), _MAX_STATED_EPSILON)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    @property
    def stddev(self) -> float:
        """The standard deviation of one answer."""
        return math.sqrt(self.variance)

    def bound(self, beta: float) -> float:
        """Give the least whole error that one answer exceeds with probability at most beta."""
        # Solves 2 alpha^(t+1) / (1 + alpha) <= beta for t.
        rate = float(1 / self.scale)
        exact_bound = math.log(2 / (check_beta(beta) * (1 + math.exp(-rate)))) / rate
        return float(max(math.ceil(exact_bound) - 1, 0))

    def tail(self, steps: int) -> Fraction:
        """Bound the probability that the noise is at least `steps` (1 or more) from above."""
        # alpha^steps / (1 + alpha), with the divisor rounded down.
        return exp_up(-steps / self.scale) / (1 + exp_down(-1 / self.scale))


@dataclass(frozen=True, kw_only=True)
class TruncatedGeometric:
    """Add geometric noise, then clip the result to [low, high].

    *Guarantee*: epsilon-differential privacy, as of the geometric mechanism: clipping is
    post-processing of the noisy answer.
    *Sensitivity*: L1, over all the values together; established by the caller from the privacy
    unit.
    *Error*: Never more than the geometric mechanism's, nor than high - low, for values within the
    ends.
    *Edges*: The ends are declared. The table's number of rows is private and must not be an end.
    *Reference*: Ghosh, Roughgarden & Sundararajan 2009, section 2.
    """

    epsilon: Fraction
    low: int
    high: int
    l1_sensitivity: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ParameterError(
                "bounds_invalid",
                f"The ends [{self.low}, {self.high}] leave no range: give a lower, then a higher.",
            )
        _ = self.untruncated

    @property
    def untruncated(self) -> Geometric:
        """The mechanism before truncation."""
        return Geometric(epsilon=self.epsilon, l1_sensitivity=self.l1_sensitivity)

    @property
    def event(self) -> LaplaceNoise:
        """The privacy cost of one sample."""
        return self.untruncated.event

    def steps(self, values: ArrayLike, entropy: Entropy) -> NDArray[Any]:
        """Add noise to integers of any shape and clip."""
        noisy = self.untruncated.steps(values, entropy)
        return narrow(np.clip(noisy, self.low, self.high))

    sample = steps

    @property
    def variance(self) -> float:
        """A bound on the mean square error of one answer."""
        return min(self.untruncated.variance, float(self.high - self.low) ** 2)

    @property
    def stddev(self) -> float:
        """A bound on the root mean square error of one answer."""
        return min(self.untruncated.stddev, float(self.high - self.low))

    def bound(self, beta: float) -> float:
        """Give an error that one answer exceeds with probability at most beta."""
        return min(self.untruncated.bound(beta), float(self.high - self.low))


@dataclass(frozen=True, kw_only=True)
class Laplace:
    """Add discrete Laplace noise of scale sensitivity / epsilon to values on a grid.

    *Guarantee*: epsilon-differential privacy for all values of one `sample` together, under the
    neighbour relation for which the sensitivity holds.
    *Sensitivity*: L1, in the unit of the values, over all of them together; established by the
    caller.
    *Error*: Standard deviation about sqrt(2) sensitivity / epsilon once the granule is well below
    it.
    *Edges*: Values come as whole numbers of granules; the float is made from the noisy whole
    number, so its bits depend on nothing else. The granule is public.
    *Reference*: Dwork, McSherry, Nissim & Smith 2006, Proposition 1; Mironov 2012 for why there is
    a grid.
    """

    epsilon: Fraction
    l1_sensitivity: Fraction
    granule: Fraction

    def __post_init__(self) -> None:
        store_positive(self, "granule", "l1_sensitivity", "epsilon")

    @property
    def on_steps(self) -> Geometric:
        """The same mechanism counted in granules."""
        return Geometric(epsilon=self.epsilon, l1_sensitivity=self.l1_sensitivity / self.granule)

    @property
    def event(self) -> LaplaceNoise:
        """The privacy cost of one sample."""
        return self.on_steps.event

    def steps(self, values: ArrayLike, entropy: Entropy) -> NDArray[Any]:
        """Add noise to whole numbers of granules; return whole numbers of granules."""
        return self.on_steps.steps(values, entropy)

    def sample(self, values: ArrayLike, entropy: Entropy) -> FloatArray:
        """Add noise to whole numbers of granules; return floats in the unit of the values."""
        return to_floats(self.steps(values, entropy), self.granule)

    @property
    def variance(self) -> float:
        """The variance of one answer."""
        return self.on_steps.variance * float(self.granule) ** 2

    @property
    def stddev(self) -> float:
        """The standard deviation of one answer."""
        return self.on_steps.stddev * float(self.granule)

    def bound(self, beta: float) -> float:
        """Give the least error on the grid, exceeded with probability at most beta."""
        return self.on_steps.bound(beta) * float(self.granule)
