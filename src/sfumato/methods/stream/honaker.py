"""Honaker's estimate of a running count: all blocks below one that is used help to estimate it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.methods.stream.factorization import SCALE, DyadicTree, after, exact, level_norms
from sfumato.privacy.mechanisms.base import narrow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.methods.stream.request import Norms
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy


def block_variance(level: int) -> float:
    """Of the estimate of a block of 2^level periods, in variances of one noise.

    1, 2/3, 4/7, 8/15, 16/31, ...: half of what a block alone has, in the end.
    """
    size = 1 << level
    return size / (2 * size - 1)


def estimated(level: int, noisy: NDArray[Any], below: NDArray[Any] | None) -> NDArray[Any]:
    """A block by its own noisy count and the estimates of its two halves, added, times SCALE.

    Each weighs by its precision: own 2^level, halves 2^level - 1, of 2^(level + 1) - 1 together.
    """
    own = exact(noisy) * SCALE
    if below is None:
        return own
    size = 1 << level
    return np.asarray((size * own + (size - 1) * below) // (2 * size - 1))


@dataclass(frozen=True)
class HonakerTree:
    """Blocks of all lengths, each estimated by least squares from itself and all blocks within it.

    *Guarantee*: that of the noise on all blocks. A block is measured when its last period is over,
    and estimated from blocks that ended by then, so that the next step may be told without it.
    *Sensitivity*: the same as of a tree without estimates: a period is in one block of each length.
    *Error*: for each digit 1 of the place, 2^l / (2^(l+1) - 1) variances of a noise, l the digit's
    place: nearly half of the tree's. Estimates are rounded down to 1 / SCALE.
    *Edges*: with one period it is the tree.
    *Reference*: Honaker 2015, the estimate from below.
    """

    points: int
    name: ClassVar[str] = "honaker"
    is_whole: ClassVar[bool] = False

    @property
    def levels(self) -> int:
        """How many lengths of blocks there are."""
        return DyadicTree(self.points).levels

    def norms(self, periods: int = 1) -> Norms:
        """A period is in one block of every length."""
        return level_norms(self.levels, min(periods, self.points))

    def variance(self, step: int) -> float:
        """A part of a noise for each digit 1 of the place."""
        digits = range(step.bit_length())
        return sum(block_variance(level) for level in digits if step >> level & 1)

    def begin(self, cells: int) -> dict[str, Any]:
        """Nothing counted: sums of rows so far in open blocks, and estimates of closed ones."""
        blank = [[0] * cells for _ in range(self.levels)]
        return {"step": 0, "open": blank, "closed": blank}

    def advance(
        self, state: Mapping[str, Any], counts: NDArray[Any], noise: Noise, entropy: Entropy
    ) -> tuple[dict[str, Any], NDArray[Any]]:
        """Close all blocks that end here; the largest is the newest of a digit 1."""
        step, largest = after(state, self.points)
        opened, closed = exact(state["open"]) + exact(counts), exact(state["closed"])
        noisy = noise.steps(narrow(opened[: largest + 1]), entropy)
        newest = estimated(0, noisy[0], None)
        for level in range(1, largest + 1):
            # Its first half is the newest of that length that ended before.
            newest = estimated(level, noisy[level], closed[level - 1] + newest)
        closed[largest] = newest
        opened[: largest + 1] = 0
        total = closed[[digit for digit in range(self.levels) if step >> digit & 1]].sum(axis=0)
        return {"step": step, "open": opened.tolist(), "closed": closed.tolist()}, total
