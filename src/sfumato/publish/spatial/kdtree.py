"""The kd-tree: boxes are cut at private medians, then, if asked, evenly like a quadtree's."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.privacy.events import Composed
from sfumato.publish import options
from sfumato.publish.postprocess import check
from sfumato.publish.purse import purses
from sfumato.publish.spatial import budget
from sfumato.publish.spatial.decomposition import LARGEST, Decomposition, middle
from sfumato.publish.spatial.medians import Medians
from sfumato.publish.spatial.space import Space

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import Event
    from sfumato.publish.purse import Purse
    from sfumato.publish.request import Request
    from sfumato.publish.spatial.growth import Growth

_USUAL_HEIGHT = 8
_MEDIANS = Fraction(3, 10)
_ENOUGH = 4
"""Below so many standard deviations a count tells little, and those of its parts tell less."""


def prepare(
    request: Request,
    *,
    height: object = None,
    medians: object = None,
    hybrid: object = None,
    prune: object = None,
) -> KdTree:
    """Share the price out and choose the noise of least error.

    `height` is the number of levels below the root, `medians` the share of the price that cuts
    cost, `hybrid` how many levels are cut at medians before the rest is cut evenly (all of them if
    not given). A box with a noisy count below `prune` is not cut further: 4 standard deviations of
    the finest level's noise if not given, and with 0 every box is cut.
    """
    space = Space(request.axes)
    tall = height_of(space, height)
    cut = tall if hybrid is None else options.whole(hybrid, "hybrid", least=0, most=tall)
    least = None if prune is None else options.whole(prune, "prune", least=0, most=1 << 53)
    part = budget.share(medians, "medians", default=_MEDIANS)
    check(request.postprocess)
    ways = [_tree(request, space, purse, tall, cut, part, least) for purse in purses(request.price)]
    judged = middle(request, space)
    return min(ways, key=lambda way: float(way.ranges_variance(judged).mean()))


def height_of(space: Space, given: object) -> int:
    """The height given or, if none is, the usual one; no more than cuts to single points take."""
    most = (LARGEST.bit_length() - 1) // len(space.shape)
    if given is None:
        finest = max((size - 1).bit_length() for size in space.shape)
        return max(1, min(_USUAL_HEIGHT, finest, most))
    return options.whole(given, "height", least=1, most=most)


def _tree(
    request: Request,
    space: Space,
    purse: Purse,
    height: int,
    cut: int,
    medians: Fraction,
    prune: int | None,
) -> KdTree:
    """The tree that one way of spending the price pays for."""
    axes = [place for place, size in enumerate(space.shape) if size > 1]
    rounds = cut * len(axes)
    counts = 1 - medians if rounds else Fraction(1)
    noises = [
        purse.noise(request.sensitivity, counts * one)
        for one in budget.levels(height, max(1, len(axes)), purse)
    ]
    if prune is None:
        prune = round(_ENOUGH * noises[-1].stddev)
    cuts = [
        Medians(
            epsilon=purse.choice_epsilon(medians / rounds),
            sensitivity=request.sensitivity.l1,
        )
        for _ in range(rounds)
    ]
    return KdTree(
        space=space, noises=tuple(noises), cuts=tuple(cuts), prune=prune, steps=request.postprocess
    )


@dataclass(frozen=True, kw_only=True)
class KdTree(Decomposition):
    """Cut every box in two along each column in turn, level by level, and count all boxes noisily.

    *Guarantee*: the price in full. Each round of cuts and each level of counts has its own share;
    a level's boxes and the blocks of missing values are one partition of the rows. Whether a box
    is cut further depends on noisy counts that were paid for, and on its size, which is public.
    *Sensitivity*: of a histogram for counts; for cuts that of `Medians`, both by the privacy unit.
    *Error*: of a box at most its level's noise, less where levels are made consistent; of a range,
    `ranges_variance` bounds it beforehand by the nodes that its sides can cross. These hold for
    noise that does not shape the tree; with `prune`, noise that stopped a box stays in its count.
    *Edges*: boxes of a single point are not cut; a box that is not cut is measured again with
    every further level. Counts may be negative and are not whole.
    *Reference*: Cormode, Procopiuc, Srivastava, Shen & Yu 2012: kd-standard and kd-hybrid, with
    geometric budgets (Lemma 3), consistency, and 30 % for medians.
    """

    cuts: tuple[Medians, ...]
    """One for each round: the columns in turn, level by level."""
    prune: int
    """The least noisy count of a box that is cut; 0 if all are."""

    @cached_property
    def _columns(self) -> list[int]:
        """The columns along which there is something to cut."""
        return [place for place, size in enumerate(self.space.shape) if size > 1]

    @property
    def event(self) -> Event:
        """What it costs."""
        return Composed(
            (*(one.event for one in self.cuts), *(noise.event for noise in self.noises))
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The shape of the tree and how its price is spent."""
        chosen: dict[str, Any] = {
            "noise": type(self.noises[0]).__name__.lower(),
            "height": len(self.noises) - 1,
            "levels_at_medians": len(self.cuts) // max(1, len(self._columns)),
        }
        if self.cuts:
            chosen["cut_epsilon"] = str(self.cuts[0].epsilon)
        return {**chosen, "prune": self.prune}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of each level's boxes before they are made consistent, the root's first."""
        levels = [{"sd": noise.stddev} for noise in self.noises]
        return {**super().error, "levels": levels, "ranges": "A bound, whatever the cuts are."}

    def grow(self, growth: Growth, entropy: Entropy) -> None:
        """Cut and count, level by level."""
        cuts = iter(self.cuts)
        growth.measure(self.noises[0], entropy)
        for noise in self.noises[1:]:
            chosen = np.asarray((growth.sizes() > 1).any(axis=1))
            if self.prune:
                chosen &= growth.estimates() >= self.prune
            division = growth.begin(chosen)
            for axis in self._columns:
                medians = next(cuts, None)
                if medians is None:
                    division.evenly(axis, np.full(len(division.lows), 2))
                else:
                    division.cut(axis, medians.sample(division, axis, entropy))
            growth.end(division)
            growth.measure(noise, entropy)

    def ranges_variance(self, boxes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Bound the variance that noise gives each estimate, whatever the cuts will be.

        A side of a box crosses at most 2^((k-1) i) nodes of depth i in k columns. Nodes wholly
        inside whose parents are crossed, and the crossed leaves, add up to the range; the best
        estimate has no more variance than this sum.
        """
        ends = np.array(self.space.shape) - 1
        lows, highs = np.maximum(boxes[:, :, 0], 0), np.minimum(boxes[:, :, 1], ends)
        sides = np.count_nonzero(lows > 0, axis=1) + np.count_nonzero(highs < ends, axis=1)
        fan = 2.0 ** len(self._columns)
        variances = [noise.variance for noise in self.noises]
        crossed = [
            np.minimum(sides * (fan / 2) ** depth, fan**depth) for depth in range(len(variances))
        ]
        found = np.where(sides == 0, variances[0], crossed[-1] * variances[-1])
        for above, variance in zip(crossed, variances[1:], strict=False):
            found += (fan - 1) * above * variance
        return np.where((lows > highs).any(axis=1), 0.0, found)
