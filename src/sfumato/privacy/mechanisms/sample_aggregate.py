"""Sample and aggregate: the noisy mean of any program's outputs on blocks of people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.privacy.mechanisms.base import to_floats
from sfumato.privacy.mechanisms.block_outputs import BlockOutputs
from sfumato.privacy.mechanisms.laplace import Geometric

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from sfumato.arrays import FloatArray
    from sfumato.privacy.accounting.events import LaplaceNoise
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True, kw_only=True)
class SampleAggregate(BlockOutputs):
    """Release the mean of a program's outputs on `blocks` blocks, each clipped to [low, high].

    *Guarantee*: epsilon-differential privacy whatever the program does, if it sees one block at a
    time and nothing else.
    *Sensitivity*: repeats (high - low) / blocks, derived here: each person is in `repeats` blocks,
    which change that many outputs (twice as many under replace-one). Blocks, low and high are
    public; no output moves them.
    *Error*: Standard deviation about sqrt(2) repeats (high - low) / (blocks epsilon), beside what
    the program loses by seeing only a part of the people.
    *Edges*: A block without people is run like any other. A failed program, or an output that is
    not finite, counts as the middle of the range; the number of failures is not released.
    *Reference*: Nissim, Raskhodnikova & Smith 2007, section 4; Mohan et al. 2012 (GUPT), Algorithm
    1 and section 4.2 (resampling).
    """

    @property
    def on_sum(self) -> Geometric:
        """The noise on the sum of the outputs, in granules."""
        reach = self.changed_outputs * (self.high - self.low) / self.granule
        return Geometric(epsilon=self.epsilon, l1_sensitivity=reach)

    @property
    def event(self) -> LaplaceNoise:
        """The cost of one mean."""
        return self.on_sum.event

    def sample(self, values: ArrayLike, entropy: Entropy) -> FloatArray:
        """Release the mean of the outputs of all blocks, which lie on the last axis."""
        total = self.steps(values).sum(axis=-1)
        return to_floats(self.on_sum.steps(total, entropy), self.granule / self.blocks)

    @property
    def variance(self) -> float:
        """The variance of the noise on the mean."""
        return self.on_sum.variance * float(self.granule / self.blocks) ** 2

    @property
    def stddev(self) -> float:
        """The standard deviation of the noise on the mean."""
        return self.on_sum.stddev * float(self.granule / self.blocks)

    def bound(self, beta: float) -> float:
        """Give an error of the mean, by noise alone, exceeded with probability at most beta."""
        return self.on_sum.bound(beta) * float(self.granule / self.blocks)
