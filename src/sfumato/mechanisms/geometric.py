"""The geometric mechanism: two-sided geometric noise on integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.mechanisms.arrays import add, integers
from sfumato.mechanisms.base import EITHER, Norm, Traits, check_beta, store
from sfumato.noise.laplace import discrete_laplace
from sfumato.privacy.elementary import exp_down, exp_up
from sfumato.privacy.events import LaplaceNoise
from sfumato.privacy.numbers import positive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.noise.entropy import Entropy

_STEEPEST = 64.0
"""Beyond this epsilon for one unit a variance, below 10^-27, is stated as that of this one."""


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
    traits: ClassVar[Traits] = Traits(EITHER, Norm.L1)

    def __post_init__(self) -> None:
        store(
            self,
            epsilon=positive(self.epsilon, "epsilon"),
            l1_sensitivity=positive(self.l1_sensitivity, "l1_sensitivity"),
        )

    @property
    def scale(self) -> Fraction:
        """Sensitivity over epsilon."""
        return self.l1_sensitivity / self.epsilon

    @property
    def event(self) -> LaplaceNoise:
        """What one sample costs."""
        return LaplaceNoise(scale=self.scale, l1_sensitivity=self.l1_sensitivity)

    def steps(self, values: ArrayLike, entropy: Entropy) -> NDArray[Any]:
        """Add noise to integers of any shape."""
        private = integers(values, "values")
        noise = discrete_laplace(self.scale, private.size, entropy)
        return add(private, noise.reshape(private.shape))

    sample = steps

    @property
    def variance(self) -> float:
        """The variance of one answer; never 0, though a huge epsilon leaves next to none."""
        rate = min(float(1 / self.scale), _STEEPEST)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    @property
    def stddev(self) -> float:
        """The standard deviation of one answer."""
        return math.sqrt(self.variance)

    def bound(self, beta: float) -> float:
        """Give the least whole error that one answer passes with probability at most beta."""
        rate = float(1 / self.scale)
        reached = math.log(2 / (check_beta(beta) * (1 + math.exp(-rate)))) / rate
        return float(max(math.ceil(reached) - 1, 0))

    def tail(self, steps: int) -> Fraction:
        """Bound the probability that the noise is at least `steps` (1 or more) from above."""
        # alpha^steps / (1 + alpha), with the divisor rounded down.
        return exp_up(-steps / self.scale) / (1 + exp_down(-1 / self.scale))
