"""PrivTree: boxes are divided while their noisy counts are high enough, to any depth.

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
    """Divide the price; `shape` is the share for the shape of the tree, half by default."""
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

    X is discrete Laplace noise of scale s and d a whole number. The count decays with depth, so
    that one share of the price is enough for any depth. It is never below -d, so that empty boxes
    are divided with probability below 1 / (2 fan-out) and the tree ends. Then its leaves are
    counted.

    *Guarantee*: the price in full. Let one row be added, and g = d / s. The counts of boxes above
    it fall by at least d per level. Let y = c - i d be the count of such a box before. If y > 0,
    the probability of a division grows by a factor of at most exp(exp(-y / s) / s); if -d <= y <=
    0, of exp(1 / s); if y < -d, of 1. At most two boxes are of the second kind. If two are, the y
    of the first kind are at least d, 2 d, ...; if one is, they are at least 1, d + 1, ...; either
    way the losses sum to at most (2 + 1 / (e^g - 1)) / s. If a row is removed, only the leaf over
    it has a loss, at most 1 / s. With the fan-out b, s = (2 b - 1) / (b - 1) sensitivity / epsilon
    and d >= s log b bound the loss by epsilon / sensitivity for each row that a person moves.
    *Sensitivity*: L1, of a histogram: the number of rows that a person moves; by the privacy unit.
    *Error*: of a leaf its noise; of a box the noise of its leaves together.
    *Edges*: a level that would exceed the most boxes of a tree is not divided, which depends only
    on the released shape. A box of one point is a leaf; a column in which a box has one point is
    not cut.
    *Reference*: Zhang, Xiao & Xie 2016, Theorem 3.1, here for whole numbers.
    """

    epsilon: Fraction
    """The epsilon of the shape of the tree."""
    l1_sensitivity: Fraction

    @cached_property
    def _fan(self) -> int:
        return max(2, 1 << sum(size > 1 for size in self.space.shape))

    @cached_property
    def scale(self) -> Fraction:
        """The scale s of the noise that decides a division."""
        return Fraction(2 * self._fan - 1, self._fan - 1) * self.l1_sensitivity / self.epsilon

    @cached_property
    def decay(self) -> int:
        """The decay d of a count per level."""
        return (self.scale * log_up(Fraction(self._fan))).__ceil__()

    @property
    def event(self) -> Event:
        """The privacy cost of the release."""
        return Composed((PureEvent(epsilon=self.epsilon), self.noises[0].event))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The noise of the counts, and the parameters that decide the shape."""
        return {
            "noise": noise_name(self.noises[0]),
            "shape_epsilon": str(self.epsilon),
            "scale": str(self.scale),
            "decay": self.decay,
        }

    def grow(self, growth: Growth, entropy: Entropy) -> None:
        """Divide boxes until none is chosen, then count the leaves."""
        depth = 0
        while (chosen := self._chosen(growth, depth, entropy)).any():
            division = growth.begin(chosen)
            for axis in range(len(self.space.shape)):
                division.evenly(axis, np.full(len(division.lows), 2))
            growth.end(division)
            depth += 1
        growth.measure(self.noises[0], entropy)

    def _chosen(self, growth: Growth, depth: int, entropy: Entropy) -> BoolArray:
        """Return the boxes to divide, by noisy decayed counts."""
        asked = growth.newest & (growth.sizes() > 1).any(axis=1)
        biased = np.maximum(growth.counts()[asked] - depth * self.decay, -self.decay)
        noisy = biased + discrete_laplace(self.scale, len(biased), entropy)
        asked[asked] = (noisy > 0).astype(np.bool_)
        # The tree ends where there is no room. This reveals only the noisy decisions, already paid.
        return asked if np.count_nonzero(asked) <= growth.room(self._fan) else asked & False

    def precisions(self, tree: BoxTree) -> FloatArray:
        """Only leaves are measured, once."""
        return np.where(tree.leaves, 1 / self.noises[0].variance, 0.0)
