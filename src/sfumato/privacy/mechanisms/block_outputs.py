"""Outputs of a program on blocks of people: numbers in a declared range, on a public grid.

Each person is in exactly `repeats` blocks, so that one person changes at most that many outputs
(twice as many where one person replaces another). Blocks, range and grid are public.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato import exact_numbers
from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike

    from sfumato.arrays import IntArray


@dataclass(frozen=True, kw_only=True)
class BlockOutputs:
    """The outputs of `blocks` blocks, each clipped to [low, high] and rounded to the granule."""

    epsilon: Fraction
    blocks: int
    low: Fraction
    high: Fraction
    granule: Fraction
    repeats: int = 1
    """The number of blocks that each person is in."""
    relation: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        low, high = exact_numbers.bounds(self.low, self.high)
        granule = exact_numbers.positive(self.granule, "granule")
        if (low / granule).denominator != 1 or (high / granule).denominator != 1:
            raise ParameterError(
                "bounds_invalid",
                f"The ends [{low}, {high}] must be whole multiples of the granule {granule}.",
            )
        blocks = exact_numbers.integer_at_least(self.blocks, "blocks", least=2)
        if blocks * max(-low, high) / granule >= 2**62:
            raise ParameterError(
                "bounds_invalid",
                f"{blocks} outputs within [{low}, {high}] do not add up in 64 bits at a granule "
                f"of {granule}.",
                hint="Give a coarser one.",
            )
        repeats = exact_numbers.integer_at_least(self.repeats, "repeats", least=1)
        if blocks % repeats or blocks == repeats:
            raise ParameterError(
                "parameter_out_of_range",
                f"{blocks} blocks cannot hold everybody {repeats} times: give a number of blocks "
                f"that is a multiple of {repeats}, such as {max(blocks // repeats, 2) * repeats}.",
                parameter="blocks",
            )
        exact_numbers.store(
            self,
            epsilon=exact_numbers.positive(self.epsilon, "epsilon"),
            blocks=blocks,
            low=low,
            high=high,
            granule=granule,
            repeats=repeats,
        )

    @property
    def changed_outputs(self) -> int:
        """The number of outputs that one person can change."""
        return self.repeats * (1 if self.relation is Neighbours.ADD_REMOVE else 2)

    def steps(self, values: ArrayLike) -> IntArray:
        """Convert each output to granules; NaN and infinities count as the middle of the range.

        A failed program must look like any other: an error, or a value outside the range, would
        reveal something about a block.
        """
        outputs = np.asarray(values, dtype=np.float64)
        if outputs.ndim == 0 or outputs.shape[-1] != self.blocks:
            raise ParameterError(
                "array_invalid",
                f"There must be {self.blocks} outputs, one a block, on the last axis, "
                f"but the shape is {outputs.shape}.",
            )
        first, last = int(self.low / self.granule), int(self.high / self.granule)
        finite = np.where(np.isfinite(outputs), outputs, float(self.low + self.high) / 2)
        clipped = np.clip(finite, float(self.low), float(self.high))
        rounded = np.floor(clipped / float(self.granule) + 0.5).astype(np.int64)
        return np.clip(rounded, first, last)
