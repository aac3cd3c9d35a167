"""The Laplace mechanism on a grid: noise in whole steps of a public granule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.mechanisms.arrays import to_floats
from sfumato.mechanisms.base import EITHER, Norm, Traits, store
from sfumato.mechanisms.geometric import Geometric
from sfumato.privacy.numbers import positive

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import LaplaceNoise


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
    traits: ClassVar[Traits] = Traits(EITHER, Norm.L1)

    def __post_init__(self) -> None:
        store(self, granule=positive(self.granule, "granule"))
        sensitivity = positive(self.l1_sensitivity, "l1_sensitivity")
        store(self, epsilon=positive(self.epsilon, "epsilon"), l1_sensitivity=sensitivity)

    @property
    def on_steps(self) -> Geometric:
        """The same mechanism counted in granules."""
        return Geometric(epsilon=self.epsilon, l1_sensitivity=self.l1_sensitivity / self.granule)

    @property
    def event(self) -> LaplaceNoise:
        """What one sample costs."""
        return self.on_steps.event

    def steps(self, values: ArrayLike, entropy: Entropy) -> NDArray[Any]:
        """Add noise to whole numbers of granules and give whole numbers of granules."""
        return self.on_steps.steps(values, entropy)

    def sample(self, values: ArrayLike, entropy: Entropy) -> NDArray[np.float64]:
        """Add noise to whole numbers of granules and give floats in the unit of the values."""
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
        """Give the least error on the grid that one answer passes with probability at most beta."""
        return self.on_steps.bound(beta) * float(self.granule)
