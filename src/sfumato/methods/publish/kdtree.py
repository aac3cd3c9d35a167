"""The kd-tree: boxes are cut at private medians, and optionally evenly below them.

Decision `spatial-trees`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods import options
from sfumato.methods.publish.measurement import noise_name
from sfumato.methods.publish.postprocess import check
from sfumato.methods.publish.spatial_tree import (
    MAX_BOXES,
    USUAL_HEIGHT,
    Decomposition,
    Space,
    level_shares,
    middle,
    price_share,
)
from sfumato.privacy.accounting.events import Composed, ExponentialChoice
from sfumato.privacy.mechanisms.spending import spendings
from sfumato.privacy.noise.selection import choose_within, uniform_below

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.methods.publish.request import Request
    from sfumato.methods.publish.spatial_tree import Division, Growth
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.estimation.trees import BoxTree
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True, kw_only=True)
class Medians:
    """Cut each of some disjoint boxes in two at about the median of its rows.

    The candidates are the cuts after each code of the box except its last. A cut with L rows before
    it and R after it has the score -|L - R|, which is constant between neighbouring occupied codes.
    So one choice among these ranges, weighted by their lengths, then a uniform cut within the range
    has the same distribution.

    *Guarantee*: epsilon-differential privacy of bounded range epsilon for the cuts of all boxes
    together. A person who moves d rows of a box moves each of its scores by at most d, so the log
    probabilities of its cuts move within a range of epsilon d / sensitivity. Boxes are disjoint and
    cut independently, so the ranges add up, and so do the rows: to the sensitivity.
    *Sensitivity*: L1, of a histogram of rows: m for a person of m rows that comes or goes, 2 m for
    one that is replaced; established by the privacy unit.
    *Error*: |L - R| exceeds the least of its box by more than 2 sensitivity log(cuts / beta) /
    epsilon with probability at most beta.
    *Edges*: a box of one code is not cut. An empty box is cut at a uniform position.
    *Reference*: McSherry & Talwar 2007, Theorem 6; Cormode, Procopiuc, Srivastava, Shen & Yu 2012
    (there with a score of -|rank - n/2|, half of ours, of half the sensitivity).
    """

    epsilon: Fraction
    sensitivity: Fraction

    @property
    def event(self) -> ExponentialChoice:
        """The privacy cost of the cuts of all boxes."""
        return ExponentialChoice(epsilon=self.epsilon)

    def sample(self, division: Division, axis: int, entropy: Entropy) -> IntArray:
        """Return the code after which each box is cut; for a box of one code, that code."""
        cuts = division.highs[:, axis].copy()
        wide = np.flatnonzero(division.sizes(axis) > 1)
        if not len(wide):
            return cuts
        begins, lengths, scores, boxes = _ranges(division, axis)
        chosen = choose_within(
            scores,
            np.searchsorted(boxes, wide),
            rate=self.epsilon / (2 * self.sensitivity),
            weights=lengths,
            entropy=entropy,
        )
        cuts[wide] = division.lows[wide, axis] + begins[chosen]
        cuts[wide] += uniform_below(lengths[chosen], entropy)
        return cuts


def _ranges(division: Division, axis: int) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Ranges of cuts of equal score: first cut (offset in its box), length, score, and box."""
    sizes = division.sizes(axis)
    offsets, rows, occupied_boxes = _occupied_offsets(division, axis, int(sizes.max(initial=1)))
    totals = np.concatenate([[0], np.cumsum(rows)])
    bounds = np.searchsorted(occupied_boxes, np.arange(len(sizes) + 1))
    # Each box has one range before its first occupied code and one after each of them.
    opening = bounds[:-1] + np.arange(len(sizes))
    behind = np.arange(len(offsets)) + occupied_boxes + 1
    begins, below, boxes = (np.zeros(len(offsets) + len(sizes), dtype=np.int64) for _ in range(3))
    begins[behind] = offsets
    below[behind] = totals[1:] - totals[bounds[occupied_boxes]]
    boxes[behind], boxes[opening] = occupied_boxes, np.arange(len(sizes))
    ends = sizes[boxes] - 1
    ends[:-1] = np.where(boxes[1:] == boxes[:-1], begins[1:], ends[:-1])
    scores = -np.abs(2 * below - (totals[bounds[1:]] - totals[bounds[:-1]])[boxes])
    is_nonempty = ends > begins
    return (
        begins[is_nonempty],
        (ends - begins)[is_nonempty],
        scores[is_nonempty],
        boxes[is_nonempty],
    )


def _occupied_offsets(
    division: Division, axis: int, span: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the occupied offsets of each box, in order, with the number of rows at each."""
    cell_boxes = division.box_of_cell
    keys = cell_boxes * span + (division.codes[:, axis] - division.lows[cell_boxes, axis])
    order = np.argsort(keys)
    keys = keys[order]
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    if not len(firsts):
        return keys, keys, keys
    rows = np.add.reduceat(division.rows[order], firsts)
    boxes, offsets = np.divmod(keys[firsts], span)
    return offsets, rows, boxes


# The default shares of the price that pay for medians: 30 % is that of the paper.
_MEDIANS_SHARE, _HYBRID_MEDIANS_SHARE = Fraction(3, 10), Fraction(1, 10)
# One level of a hybrid in so many is cut at medians: further down a box has too few rows.
_MEDIAN_LEVEL_RATIO = 4
# A box is cut only above so many standard deviations of the leaves of a tree of usual height:
# below, the counts of its parts would be mostly noise.
_PRUNE_LEAF_STDDEVS = 4
# A box is cut only above so many of its own standard deviations: below, it may well be empty.
_PRUNE_OWN_STDDEVS = 2
# The bias of a count whose noise stopped a box, at most, in standard deviations.
_MAX_BIAS_STDDEVS = 0.5
_STOPPED = (
    "Boxes are cut by noisy counts that remain in the estimates: a count may be off by this part "
    "of its standard deviation on average. With prune=0 none is."
)


def prepare(
    request: Request,
    *,
    height: object = None,
    medians: object = None,
    hybrid: object = None,
    prune: object = None,
) -> KdTree:
    """Divide the price among cuts and levels, and choose the noise of least error.

    Parameters
    ----------
    request : Request
        The columns and the price.
    height : int, optional
        The number of levels below the root. By default as many as lead to single points after the
        medians, unless low counts stop a box.
    medians : number, optional
        The share of the price that pays for the medians.
    hybrid : int, optional
        The number of levels cut at medians; further levels are cut evenly. By default all levels of
        a given height, else up to 8.
    prune : int, optional
        A box with a lower noisy count is not cut; 0 cuts every box. By default 4 standard
        deviations of the leaves of a tree of height 8, and at least 2 of its own.
    """
    space = Space(request.axes)
    least = None if prune is None else options.whole(prune, "prune", least=0, most=1 << 53)
    most = (MAX_BOXES.bit_length() - 1) // len(space.shape)
    fixed_height = None if height is None else options.whole(height, "height", least=1, most=most)
    finest = max(1, *((size - 1).bit_length() for size in space.shape))
    usual_height = min(USUAL_HEIGHT, finest) if fixed_height is None else fixed_height
    median_levels = (
        usual_height
        if hybrid is None
        else options.whole(hybrid, "hybrid", least=0, most=fixed_height or most)
    )
    tree_height = median_levels + finest if fixed_height is None else fixed_height
    if least is not None and fixed_height is None:
        # A given threshold may cut every box, so the height is bounded by the largest full tree.
        tree_height = min(tree_height, most)
        median_levels = min(median_levels, tree_height)
    medians_share = price_share(medians, "medians", default=_MEDIANS_SHARE)
    check(request.postprocess)
    candidates = [
        _tree(request, space, spending, tree_height, median_levels, medians_share, least)
        for spending in spendings(request.price)
    ]
    workload = middle(request, space)
    return min(candidates, key=lambda candidate: float(candidate.ranges_variance(workload).mean()))


def prepare_hybrid(
    request: Request, *, height: object = None, medians: object = None, prune: object = None
) -> KdTree:
    """The kind 'hybrid': medians for a quarter of the height, or for two levels by default."""
    requested = USUAL_HEIGHT if height is None else height
    levels = options.whole(requested, "height", least=1, most=1 << 20)
    finest = max((size - 1).bit_length() for size in Space(request.axes).shape)
    median_levels = (
        -(-levels // _MEDIAN_LEVEL_RATIO)
        if height is not None
        else -(-min(levels, max(finest, 1)) // _MEDIAN_LEVEL_RATIO)
    )
    return prepare(
        request,
        height=height,
        medians=_HYBRID_MEDIANS_SHARE if medians is None else medians,
        hybrid=median_levels,
        prune=prune,
    )


def _tree(
    request: Request,
    space: Space,
    spending: Spending,
    height: int,
    median_levels: int,
    medians: Fraction,
    prune: int | None,
) -> KdTree:
    """Return the tree that one way of spending the price pays for."""
    axes = [axis for axis, size in enumerate(space.shape) if size > 1]
    rounds = median_levels * len(axes)
    counts = 1 - medians if rounds else Fraction(1)
    shares = [counts * share for share in level_shares(height, max(1, len(axes)), spending)]
    noises = [spending.noise(request.sensitivity, share) for share in shares]
    rests = [
        spending.noise(request.sensitivity, sum(shares[depth + 1 :], Fraction(0)))
        for depth in range(height)
    ]
    if prune is None:
        usual = level_shares(min(height, USUAL_HEIGHT), max(1, len(axes)), spending)[-1]
        least = _PRUNE_LEAF_STDDEVS * spending.noise(request.sensitivity, counts * usual).stddev
        # An empty box is not cut, however little noise there is.
        prunes = [
            max(1, round(max(least, _PRUNE_OWN_STDDEVS * noise.stddev))) for noise in noises[:-1]
        ]
    else:
        prunes = [prune] * height
    cuts = [
        Medians(
            epsilon=spending.choice_epsilon(medians / rounds),
            sensitivity=request.sensitivity.l1,
        )
        for _ in range(rounds)
    ]
    return KdTree(
        space=space,
        noises=tuple(noises),
        rests=tuple(rests),
        cuts=tuple(cuts),
        prunes=tuple(prunes),
        steps=request.postprocess,
    )


@dataclass(frozen=True, kw_only=True)
class KdTree(Decomposition):
    """Cut every box in two along each column in turn, level by level, and count all boxes noisily.

    *Guarantee*: the price in full. Each round of cuts and each level of counts has its own share;
    a level's boxes and the blocks of missing values are one partition of the rows. Whether a box
    is cut further depends on noisy counts that were paid for, on its size and on the number of
    boxes, which are public. A box that is not cut is counted once more with all the shares of the
    levels below it, which its rows do not use otherwise: so no row costs more than the shares of
    all levels. With Gaussian noise a person of d rows in a box costs at most d^2 times its shares,
    and a division of the d rows costs no more.
    *Sensitivity*: of a histogram for counts; for cuts that of `Medians`, both by the privacy unit.
    *Error*: of a box at most its level's noise, less where levels are made consistent; of a range,
    `ranges_variance` bounds it in advance by the nodes that its sides can cross. These hold for
    noise that does not shape the tree. With `prune`, noise that stopped a box stays in its count,
    which is biased by less than half a standard deviation, as `error` states. Rows are taken to lie
    evenly inside a leaf of several points: `ranges_unevenness` bounds the error that this adds.
    *Edges*: boxes of a single point are not cut. Counts may be negative and are not whole.
    *Reference*: Cormode, Procopiuc, Srivastava, Shen & Yu 2012: kd-standard and kd-hybrid, with
    geometric budgets (Lemma 3), consistency, and 30 % for medians.
    """

    rests: tuple[Noise, ...]
    """For each depth except the last, the noise of all levels below it together."""
    cuts: tuple[Medians, ...]
    """One for each round of cuts: the columns in turn, level by level."""
    prunes: tuple[int, ...]
    """For each depth except the last, the least noisy count of a box that is cut; 0 cuts all."""

    @cached_property
    def _columns(self) -> list[int]:
        """The columns of more than one point, which can be cut."""
        return [axis for axis, size in enumerate(self.space.shape) if size > 1]

    @property
    def event(self) -> Event:
        """The privacy cost of the release."""
        return Composed(
            (*(cut.event for cut in self.cuts), *(noise.event for noise in self.noises))
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The shape of the tree and the division of its price."""
        chosen: dict[str, Any] = {
            "noise": noise_name(self.noises[0]),
            "height": len(self.noises) - 1,
            "levels_at_medians": len(self.cuts) // max(1, len(self._columns)),
        }
        if self.cuts:
            chosen["cut_epsilon"] = str(self.cuts[0].epsilon)
        return {**chosen, "prune": min(self.prunes), "prune_at_root": self.prunes[0]}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of each level's boxes before they are made consistent, the root's first."""
        levels = [{"sd": noise.stddev} for noise in self.noises]
        stated = {**super().error, "levels": levels, "ranges": "A bound, whatever the cuts are."}
        return (
            {**stated, "stopped": {"bias_sd": _MAX_BIAS_STDDEVS, "note": _STOPPED}}
            if any(self.prunes)
            else stated
        )

    def grow(self, growth: Growth, entropy: Entropy) -> None:
        """Cut and count, level by level."""
        cuts = iter(self.cuts)
        growth.measure(self.noises[0], entropy)
        for depth, noise in enumerate(self.noises[1:]):
            chosen = self._chosen(growth, depth)
            # Rows with missing values are in no box that could be cut: count them once.
            growth.measure(
                self.rests[depth], entropy, chosen=growth.newest & ~chosen, missing=depth == 0
            )
            if not chosen.any():
                return
            division = growth.begin(chosen)
            for axis in self._columns:
                medians = next(cuts, None)
                if medians is None:
                    division.evenly(axis, np.full(len(division.lows), 2))
                else:
                    division.cut(axis, medians.sample(division, axis, entropy))
            growth.end(division)
            growth.measure(noise, entropy, chosen=growth.newest, missing=False)

    def _chosen(self, growth: Growth, depth: int) -> BoolArray:
        """The boxes to be cut; beyond the most boxes of a tree, those of the largest counts."""
        chosen = growth.newest & (growth.sizes() > 1).any(axis=1)
        if self.prunes[depth]:
            chosen &= growth.estimates() >= self.prunes[depth]
        boxes, room = np.flatnonzero(chosen), growth.room(1 << len(self._columns))
        if len(boxes) > room:
            order = np.argsort(-growth.estimates()[boxes], kind="stable")
            chosen[boxes[order[room:]]] = False
        return chosen

    def precisions(self, tree: BoxTree) -> FloatArray:
        """Every node is measured with its level, a leaf also with the shares of all below it."""
        level_precisions = np.array([1 / noise.variance for noise in self.noises])
        rest_precisions = np.array([*(1 / noise.variance for noise in self.rests), 0.0])
        return level_precisions[tree.depths] + np.where(
            tree.leaves, rest_precisions[tree.depths], 0.0
        )

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
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
        total = np.where(sides == 0, variances[0], crossed[-1] * variances[-1])
        for above, variance in zip(crossed, variances[1:], strict=False):
            total += (fan - 1) * above * variance
        return np.where((lows > highs).any(axis=1), 0.0, total)
