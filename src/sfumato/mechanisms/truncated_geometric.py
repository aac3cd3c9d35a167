"""The truncated geometric mechanism: geometric noise, cut off at declared ends."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import ParameterError
from sfumato.mechanisms.arrays import narrow
from sfumato.mechanisms.base import EITHER, Norm, Traits
from sfumato.mechanisms.geometric import Geometric

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import LaplaceNoise


@dataclass(frozen=True, kw_only=True)
class TruncatedGeometric:
    """Add geometric noise, then move what fell outside [low, high] to the nearer end.

    *Guarantee*: That of the geometric mechanism, epsilon-differential privacy: truncation looks at
    the noisy answer alone.
    *Sensitivity*: L1, over all the values together; established by the caller from the privacy
    unit.
    *Error*: Never more than the geometric mechanism's, nor than high - low, for values within the
    ends.
    *Edges*: The ends are declared. The number of rows of the table is private and must not be one.
    *Reference*: Ghosh, Roughgarden & Sundararajan 2009, section 2.
    """

    epsilon: Fraction
    low: int
    high: int
    l1_sensitivity: Fraction = Fraction(1)
    traits: ClassVar[Traits] = Traits(EITHER, Norm.L1)

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ParameterError(
                "bounds_reversed",
                f"The ends [{self.low}, {self.high}] leave no range: give a lower, then a higher.",
            )
        _ = self.untruncated

    @property
    def untruncated(self) -> Geometric:
        """The mechanism before truncation."""
        return Geometric(epsilon=self.epsilon, l1_sensitivity=self.l1_sensitivity)

    @property
    def event(self) -> LaplaceNoise:
        """What one sample costs."""
        return self.untruncated.event

    def steps(self, values: ArrayLike, entropy: Entropy) -> NDArray[Any]:
        """Add noise to integers of any shape and truncate."""
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
        """Give an error that one answer passes with probability at most beta."""
        return min(self.untruncated.bound(beta), float(self.high - self.low))
