"""A quantile of a program's outputs on blocks of people, by the exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.data.schema.unit import Entity, Neighbours
from sfumato.privacy.mechanisms.base import to_floats
from sfumato.privacy.mechanisms.block_outputs import BlockOutputs
from sfumato.privacy.mechanisms.quantile import Counted, Quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from sfumato.arrays import FloatArray
    from sfumato.privacy.accounting.events import ExponentialChoice
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True, kw_only=True)
class BlockQuantile(BlockOutputs):
    """Choose a point of [low, high] whose rank among the outputs of all blocks is near `rank`.

    *Guarantee*: epsilon-differential privacy of bounded range epsilon, whatever the program does,
    if it sees one block at a time and nothing else.
    *Sensitivity*: Of the score, the number of outputs that one person changes: `repeats` of a fixed
    number of blocks, twice as many under replace-one. An output that changes is one that is
    replaced, so the number of outputs is public here.
    *Error*: The rank of the answer is off by more than 2 c log(points / beta) / epsilon blocks with
    probability at most beta, c the number of outputs that one person changes.
    *Edges*: A block without people is run like any other. A failed output counts as the middle of
    the range. The answer is always within the range.
    *Reference*: Smith 2011, Algorithm 2; Mohan et al. 2012 (GUPT), section 4.1.
    """

    rank: Fraction = Fraction(1, 2)

    @property
    def choice(self) -> Quantile:
        """The choice among the points of the grid."""
        points = int((self.high - self.low) / self.granule) + 1
        # The number of blocks is public, so one person's change replaces outputs: REPLACE_ONE, also
        # where tables are neighbours by adding or removing a person.
        unit = Entity("block", self.changed_outputs, relation=Neighbours.REPLACE_ONE)
        return Quantile(epsilon=self.epsilon, rank=self.rank, size=points, unit=unit)

    @property
    def event(self) -> ExponentialChoice:
        """The privacy cost of one quantile."""
        return self.choice.event

    def sample(self, values: ArrayLike, entropy: Entropy) -> FloatArray:
        """Release the quantile of the outputs of all blocks, which lie on the last axis."""
        first = int(self.low / self.granule)
        points = self.steps(values) - first
        tables = points.reshape(-1, self.blocks)
        groups = np.repeat(np.arange(len(tables)), self.blocks)
        once = np.ones(tables.size, dtype=np.int64)
        counted = Counted(tables.ravel(), once, groups, len(tables))
        chosen = self.choice.sample(counted, entropy) + first
        return to_floats(chosen.reshape(points.shape[:-1]), self.granule)

    def bound(self, beta: float) -> float:
        """Give an error of the rank, in blocks, exceeded with probability at most beta."""
        return self.choice.bound(beta)
