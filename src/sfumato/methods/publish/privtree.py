"""PrivTree: boxes are divided as long as they seem to hold enough rows, to any depth.

Decision `spatial-trees`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.publish.measurement import noise_name
from sfumato.methods.publish.postprocess import check
from sfumato.methods.publish.spatial_tree import Decomposition, Space, price_share
from sfumato.privacy.accounting.elementary import log_up
from sfumato.privacy.accounting.events import Composed, PureEvent
from sfumato.privacy.mechanisms.spending import spendings
from sfumato.privacy.noise.discrete import discrete_laplace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.methods.publish.request import Request
    from sfumato.methods.publish.spatial_tree import Growth
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.estimation.trees import BoxTree
    from sfumato.privacy.noise.entropy import Entropy


def prepare(request: Request, *, shape: object = None) -> PrivTree:
    """Share the price out; `shape` is the share of the tree's own shape, half if not given."""
    shape_share = price_share(shape, "shape", default=Fraction(1, 2))
    check(request.postprocess)
    space = Space(request.axes)
    candidates = [
        PrivTree(
            space=space,
            noises=(spending.noise(request.sensitivity, 1 - shape_share),),
            epsilon=spending.pure_epsilon(shape_share),
            l1_sensitivity=request.sensitivity.l1,
            steps=request.postprocess,
        )
        for spending in spendings(request.price)
    ]
    return min(
        candidates,
        key=lambda candidate: candidate.noises[0].variance + 2 * float(candidate.scale) ** 2,
    )


@dataclass(frozen=True, kw_only=True)
class PrivTree(Decomposition):
    """Divide a box of depth i and c rows, evenly along every column, if max(c - i d, -d) + X > 0.

    X is discrete Laplace noise of scale s and d a whole number: the count decays with depth, so
    that one share of the price is enough for any depth, and is never below -d, so that empty boxes
    are divided with a chance below 1 / (2 fan-out) and the tree ends. Then its leaves are counted.

    *Guarantee*: the price in full. For one row that comes, with g = d / s: the counts of boxes
    above it fall by d a level at least. One box whose count before was c - i d = y > 0 is divided
    with a chance that grows by a factor of at most exp(exp(-y / s) / s), one with -d <= y <= 0 of
    exp(1 / s), one with y < -d of 1. Of the second sort there are two at most, and if two, then the
    first sort's y are d, 2 d, ... or more; if one, they are 1, d + 1, ... or more; the losses sum
    to (2 + 1 / (e^g - 1)) / s at most either way. For a row that goes, only the one leaf over it
    has a loss, 1 / s at most. s = (2 b - 1) / (b - 1) sensitivity / epsilon and d >= s log b, with
    the fan-out b, make that epsilon / sensitivity for each row that a person moves.
    *Sensitivity*: L1, of a histogram: the number of rows that a person moves; by the privacy unit.
    *Error*: of a leaf its noise; of a box the noise of its leaves together.
    *Edges*: a level that would lead to more boxes than a tree may have is not divided, which is
    seen from the shape. A box of one point is a leaf; along columns where a box has one point it is
    not cut.
    *Reference*: Zhang, Xiao & Xie 2016, Theorem 3.1, here for whole numbers.
    """

    epsilon: Fraction
    """The loss of the tree's shape."""
    l1_sensitivity: Fraction

    @cached_property
    def _fan(self) -> int:
        return max(2, 1 << sum(size > 1 for size in self.space.shape))

    @cached_property
    def scale(self) -> Fraction:
        """The scale of the noise by which a division is decided."""
        return Fraction(2 * self._fan - 1, self._fan - 1) * self.l1_sensitivity / self.epsilon

    @cached_property
    def decay(self) -> int:
        """How much a count loses at each level."""
        return (self.scale * log_up(Fraction(self._fan))).__ceil__()

    @property
    def event(self) -> Event:
        """What it costs."""
        return Composed((PureEvent(epsilon=self.epsilon), self.noises[0].event))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The noise of the counts, and by what the tree's shape is decided."""
        return {
            "noise": noise_name(self.noises[0]),
            "shape_epsilon": str(self.epsilon),
            "scale": str(self.scale),
            "decay": self.decay,
        }

    def grow(self, growth: Growth, entropy: Entropy) -> None:
        """Divide until nothing is to be divided, then count."""
        depth = 0
        while (chosen := self._chosen(growth, depth, entropy)).any():
            division = growth.begin(chosen)
            for axis in range(len(self.space.shape)):
                division.evenly(axis, np.full(len(division.lows), 2))
            growth.end(division)
            depth += 1
        growth.measure(self.noises[0], entropy)

    def _chosen(self, growth: Growth, depth: int, entropy: Entropy) -> BoolArray:
        """Which boxes are to be divided."""
        asked = growth.newest & (growth.sizes() > 1).any(axis=1)
        biased = np.maximum(growth.counts()[asked] - depth * self.decay, -self.decay)
        noisy = biased + discrete_laplace(self.scale, len(biased), entropy)
        asked[asked] = (noisy > 0).astype(np.bool_)
        # Where there is no room the tree ends: its shape down to here was paid for and says so.
        return asked if np.count_nonzero(asked) <= growth.room(self._fan) else asked & False

    def precisions(self, tree: BoxTree) -> FloatArray:
        """Leaves are measured, once, and nothing else."""
        return np.where(tree.leaves, 1 / self.noises[0].variance, 0.0)
