# ruff: noqa: ARG001, ARG005 - all patch points share one signature
"""The patch points: every class through which private integers become something that leaves.

For each: what its exact input is, how far two inputs may differ by its own claim, and what the
difference of two given inputs costs (`Change`). Inputs are compared exactly, in Python integers.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.unit import Neighbours
from sfumato.methods.graph.edge_mechanisms import LadderCount, SmoothCount
from sfumato.methods.publish.dawa import Dawa
from sfumato.methods.publish.kdtree import Medians, _ranges
from sfumato.methods.publish.privtree import PrivTree
from sfumato.methods.publish.sparse import PrioritySample, ThresholdFilter
from sfumato.methods.synth.encode.atoms import HeavyPoints
from sfumato.privacy.accounting.events import (
    Event,
    ExponentialChoice,
    GaussianNoise,
    LaplaceNoise,
    PureEvent,
    ThresholdKeysEvent,
)
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.quantile import Quantile, _Ranges
from sfumato.privacy.mechanisms.selection import Exponential, NoisyMax, PermuteAndFlip
from sfumato.privacy.mechanisms.smooth_median import SmoothMedian
from sfumato.privacy.mechanisms.sparse_vector import ABOVE, SparseVector, SparseVectorRun
from sfumato.privacy.mechanisms.threshold_keys import ReleasedKeys, ThresholdKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


class DivergenceError(Exception):
    """Two coupled runs cannot go on: they do different things given the same outputs."""


@dataclass(frozen=True)
class Change:
    """What two inputs of one call differ by: the loss of it, and where a claim is broken."""

    events: tuple[Event, ...] = ()
    broken: str | None = None
    reach: Fraction = Fraction(0)
    """The change in parts of what one call claims."""


@dataclass(frozen=True)
class Patch:
    """One patch point. The last positional argument of what is patched is the entropy."""

    owner: type
    attributes: tuple[str, ...]
    read: Callable[..., Any]
    """The exact input of a call, from its arguments."""
    change: Callable[[Any, Any, Any, Any], Change]
    """Of a mechanism, two inputs and the output that they share: how they differ."""
    claim: Callable[[Any], Event | None] = lambda mechanism: mechanism.event
    """What the mechanism itself says that one call costs."""
    parameters: Callable[[Any], str] = repr
    forced: Callable[[Any, Any, Any, Any], Any] = lambda first, second, output, args: output
    """The output of the second run: the recorded one, for other positions of the same keys."""
    kept: Callable[[Any], Any] = deepcopy
    twice: Callable[[Any], bool] = lambda mechanism: False
    """Whether it claims for somebody who comes or goes, so that a replacement moves it twice.

    This lets off the claim of one call and nothing else: a replacement is a person who goes and one
    who comes, and what both lose is compared with the charge as it is. A method that charged for
    one of the two fails by its loss.
    """
    joined: Callable[[Any, list[tuple[Any, Any, Any]]], Change] | None = None
    """For mechanisms of several calls under one price: the change of all calls together."""
    around: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda original: original
    """What is run in place of the original, where the output alone does not say all."""
    given: Callable[[Any], Any] = lambda output: output
    """What the caller gets of that."""
    entropy_place: int = -1

    @property
    def name(self) -> str:
        return self.owner.__name__

    def with_entropy(self, args: Sequence[Any], entropy: Any) -> list[Any]:
        """The arguments with another source of entropy."""
        changed = [*args, None][: max(len(args), self.entropy_place + 1)]
        changed[self.entropy_place] = entropy
        return changed


def whole(values: Any) -> NDArray[Any]:
    """Integers of any size, exactly."""
    array = np.asarray(values)
    return np.array([int(one) for one in array.flat], dtype=object).reshape(array.shape)


def difference(first: NDArray[Any], second: NDArray[Any]) -> list[int]:
    """How far two vectors differ, entry by entry."""
    return [int(one) for one in np.ravel(second - first)]


def _kept_value(first: Any, second: Any, output: Any, args: Any) -> Any:
    return deepcopy(output)


# Additive noise


def _same_shape(first: Any, second: Any, output: Any, args: Any) -> Any:
    if first.shape != second.shape:
        raise DivergenceError(f"its input has the shape {second.shape}, not {first.shape}")
    return deepcopy(output)


def _geometric(mechanism: Geometric, first: Any, second: Any, output: Any) -> Change:
    moves = [abs(one) for one in difference(first, second) if one]
    # Entries have noise of their own, so that losses add up entry by entry. Sound: the density of
    # the whole output is a product, |log ratio| <= sum of |move| / scale. As one event of the L1
    # norm the same epsilon results, but rho = epsilon^2 / 2 of the sum: moves of several entries
    # are independent draws, whose rho adds up as sum of (move / scale)^2 / 2 at most.
    events = [LaplaceNoise(scale=mechanism.scale, l1_sensitivity=Fraction(one)) for one in moves]
    reach = sum(moves) / mechanism.l1_sensitivity
    return Change(tuple(events), _exceeded("L1", sum(moves), mechanism.l1_sensitivity), reach)


def _gaussian(mechanism: Gaussian, first: Any, second: Any, output: Any) -> Change:
    moved = sum(one * one for one in difference(first, second))
    if not moved:
        return Change()
    variance = mechanism.steps_variance
    events = (GaussianNoise(variance=variance, l2_sensitivity_squared=Fraction(moved)),)
    claimed = mechanism.l2_sensitivity_squared / mechanism.granule**2
    return Change(events, _exceeded("squared L2", moved, claimed), moved / claimed)


def _exceeded(norm: str, moved: int, claimed: Fraction) -> str | None:
    return f"{norm} change {moved}, claimed {float(claimed):g}" if moved > claimed else None


# Choices by a score


def _scored(mechanism: Any, first: Any, second: Any, output: Any) -> Change:
    """A choice by scores, for each row of the last axis.

    All scores may be shifted by one number without any effect, so that the loss of a choice is the
    rate times the spread of the changes, which is twice the sensitivity at most. Sound for weights
    exp(rate x score): with m = min move and M = max move, the chosen weight changes by a factor in
    [e^(rate m), e^(rate M)] and the sum of weights too, so that |log ratio| <= rate (M - m).
    Permute-and-flip and noisy maxima depend on differences of scores alone,
    so they are rate (M - m)-private in the same way: shift all scores by m, then each rises by at
    most M - m, which is the monotone case. `broken` still holds each score to the sensitivity.
    """
    events: list[Event] = []
    broken = None
    shape = (-1, first.shape[-1])
    for ours, theirs in zip(first.reshape(shape), second.reshape(shape), strict=True):
        moves = difference(ours, theirs)
        if max(map(abs, moves)) > mechanism.sensitivity:
            broken = f"a score changes by {max(moves, key=abs)}, claimed {mechanism.sensitivity}"
        if mechanism.monotone and min(moves) < 0 < max(moves):
            broken = f"scores change by {min(moves)} and {max(moves)}, claimed monotone"
        spread = mechanism.rate * (max(moves) - min(moves))
        if spread:
            bounded = isinstance(mechanism, Exponential)
            events.append((ExponentialChoice if bounded else PureEvent)(epsilon=spread))
    return Change(tuple(events), broken)


def _quantile_scores(mechanism: Quantile, values: Any) -> list[NDArray[Any]]:
    """The score of every grid point, for each group, in 1 / denominator of the rank."""
    if not values.group_count:
        return []
    ranges = _Ranges.of(values, mechanism.rank, mechanism.size)
    ends = [*ranges.starts.tolist()[1:], len(ranges.firsts)]
    found = []
    for start, end in zip(ranges.starts.tolist(), ends, strict=True):
        # Piecewise: what changes between two inputs changes at the ends of ranges.
        found.append(np.array([ranges.firsts[start:end], whole(ranges.scores[start:end])], object))
    return found


def _piecewise_moves(ours: NDArray[Any], theirs: NDArray[Any]) -> list[int]:
    """The differences of two step functions, at all points where either of them steps."""
    points = np.unique(np.concatenate([ours[0], theirs[0]]).astype(np.int64))
    sides = [
        one[1][np.searchsorted(one[0].astype(np.int64), points, side="right") - 1]
        for one in (ours, theirs)
    ]
    return difference(*sides)


def _quantile(mechanism: Quantile, first: Any, second: Any, output: Any) -> Change:
    events: list[Event] = []
    most = Fraction(0)
    parts = mechanism.rank.denominator
    rate = mechanism.epsilon / (2 * mechanism.sensitivity * parts)
    for ours, theirs in zip(first, second, strict=True):
        moves = _piecewise_moves(ours, theirs)
        most = max(most, Fraction(max(map(abs, moves)), parts))
        spread = rate * (max(moves) - min(moves))
        if spread:
            events.append(ExponentialChoice(epsilon=spread))
    reach = most / mechanism.sensitivity
    broken = f"a score changes by {float(most):g}, claimed {mechanism.sensitivity}"
    return Change(tuple(events), broken if reach > 1 else None, reach)


def _same_groups(first: Any, second: Any, output: Any, args: Any) -> Any:
    if len(first) != len(second):
        raise DivergenceError(f"it has {len(second)} groups, not {len(first)}")
    return deepcopy(output)


def _median_scores(mechanism: Medians, division: Any, axis: int, entropy: Any) -> Any:
    """The score of every cut of every box."""
    begins, _, scores, boxes = _ranges(division, axis)
    return [
        np.array([begins[boxes == box], whole(scores[boxes == box])], object)
        for box in np.unique(boxes)
    ]


def _medians(mechanism: Medians, first: Any, second: Any, output: Any) -> Change:
    total, largest = Fraction(0), 0
    rate = mechanism.epsilon / (2 * mechanism.sensitivity)
    for ours, theirs in zip(first, second, strict=True):
        moves = _piecewise_moves(ours, theirs)
        largest += max(map(abs, moves))
        total += rate * (max(moves) - min(moves))
    broken = None
    if largest > mechanism.sensitivity:
        broken = f"scores of all boxes change by {largest}, claimed {mechanism.sensitivity}"
    return Change((ExponentialChoice(epsilon=total),) if total else (), broken)


# Sparse vector


def _sparse_vector(mechanism: SparseVector, asked: list[tuple[Any, Any, Any]]) -> Change:
    """All queries of a run against one noisy threshold."""
    moves = [one for first, second, _ in asked for one in difference(first, second)]
    largest = max(map(abs, moves), default=0)
    if not largest:
        return Change()
    epsilon = mechanism.event.epsilon * largest / mechanism.sensitivity
    broken = None
    if largest > mechanism.sensitivity:
        broken = f"a query changes by {largest}, claimed {float(mechanism.sensitivity):g}"
    if mechanism.monotone and min(moves) < 0 < max(moves):
        broken = f"queries change by {min(moves)} and {max(moves)}, claimed monotone"
    return Change((PureEvent(epsilon=epsilon),), broken)


def _public_threshold(mechanism: Any, first: int, second: int, output: Any) -> Change:
    return Change() if first == second else Change(broken="the public threshold changes")


def _started(first: Any, second: Any, output: Any, args: Any) -> SparseVectorRun:
    return SparseVectorRun(args[0], output.copy(), np.zeros(len(output), dtype=np.int64), None)  # type: ignore[arg-type]


def _asked(original: Callable[..., Any]) -> Callable[..., Any]:
    """Ask with the entropy of the recorder, which a run holds itself."""

    def ask(run: SparseVectorRun, values: Any, entropy: Any) -> Any:
        run.entropy = entropy
        return original(run, values)

    return ask


def _verdicts(first: Any, second: Any, output: Any, args: Any) -> Any:
    run = args[0]
    run.positives = run.positives + (output.verdicts == ABOVE)
    return _same_shape(first, second, output, args)


# Keys that are found in the data


def _pairs(first: Any, second: Any) -> list[tuple[int | None, int | None]]:
    """Which position of the second input holds the key of which position of the first.

    A mechanism sees counts and not keys. Of all ways to pair positions in order, or else by size,
    that of the least total difference is taken, where a key that the other side lacks counts as 0.
    The tables of this suite give common keys counts that one person cannot confuse.
    """
    in_order = _in_order(first.tolist(), second.tolist())
    by_size = _in_order(*(sorted(side.tolist()) for side in (first, second)))
    if in_order[0] <= by_size[0]:
        return in_order[1]
    ranks = [sorted(range(len(side)), key=side.tolist().__getitem__) for side in (first, second)]
    return [
        (None if one is None else ranks[0][one], None if other is None else ranks[1][other])
        for one, other in by_size[1]
    ]


def _in_order(ours: list[int], theirs: list[int]) -> tuple[int, list[tuple[Any, Any]]]:
    """The cheapest alignment of two sequences."""
    best = [[0] * (len(theirs) + 1) for _ in range(len(ours) + 1)]
    for one in range(len(ours) + 1):
        for other in range(len(theirs) + 1):
            ways = [best[one - 1][other] + ours[one - 1]] if one else []
            ways += [best[one][other - 1] + theirs[other - 1]] if other else []
            if one and other:
                ways.append(best[one - 1][other - 1] + abs(ours[one - 1] - theirs[other - 1]))
            best[one][other] = min(ways, default=0)
    pairs: list[tuple[Any, Any]] = []
    one, other = len(ours), len(theirs)
    while one or other:
        now = best[one][other]
        if one and other:
            step = best[one - 1][other - 1] + abs(ours[one - 1] - theirs[other - 1])
            # A pair that costs as much as two keys apart is two keys: equal counts alone match.
            apart = ours[one - 1] + theirs[other - 1]
            if now == step and step - best[one - 1][other - 1] < apart:
                one, other = one - 1, other - 1
                pairs.append((one, other))
                continue
        if one and now == best[one - 1][other] + ours[one - 1]:
            one -= 1
            pairs.append((one, None))
        else:
            other -= 1
            pairs.append((None, other))
    return best[-1][-1], pairs[::-1]


def _forced_keys(first: Any, second: Any, output: Any, args: Any) -> ReleasedKeys:
    places = dict(_pairs(first, second))
    wanted = [places.get(place) for place in output.positions.tolist()]
    if None in wanted:
        raise DivergenceError("a key that one side lacks passed: an event of chance delta")
    return ReleasedKeys(np.array(wanted, dtype=np.int64), deepcopy(output.counts))


def _threshold_keys(mechanism: ThresholdKeys, first: Any, second: Any, output: Any) -> Change:
    pairs = _pairs(first, second)
    both = [(one, other) for one, other in pairs if one is not None and other is not None]
    ours, theirs = (np.array([side[pair[place]] for pair in both], dtype=object)
                    for place, side in ((0, first), (1, second)))  # fmt: skip
    change = noise_change(mechanism.noise, ours, theirs)
    alone = [int(first[one]) for one, other in pairs if other is None and one is not None]
    alone += [int(second[other]) for one, other in pairs if one is None and other is not None]
    if min((*first.tolist(), *second.tolist()), default=1) < 1:
        return Change(change.events, "a key with a count of zero takes part in a threshold")
    chance = sum((mechanism.noise.tail(max(mechanism.threshold - one, 1)) for one in alone),
                 Fraction(0))  # fmt: skip
    if chance > mechanism.delta:
        return Change(
            change.events,
            f"keys of one side pass with chance {float(chance):g}, claimed {mechanism.delta}",
        )
    events = change.events + ((ThresholdKeysEvent(delta=chance),) if chance else ())
    return Change(events, change.broken)


def noise_change(noise: Geometric | Gaussian, first: Any, second: Any) -> Change:
    """How two vectors under additive noise differ."""
    change = _geometric if isinstance(noise, Geometric) else _gaussian
    return change(noise, first, second, None)  # type: ignore[arg-type]


# Counts of graphs


def _local(mechanism: Any, value: int, sensitivity: Any, entropy: Any) -> Any:
    return int(value), [int(sensitivity(distance)) for distance in range(_DISTANCES)]


_DISTANCES = 12
"""Local sensitivities are compared up to this distance."""


def _local_change(mechanism: Any, first: Any, second: Any, output: Any) -> Change:
    """I_t of one graph is at most I_(t+1) of its neighbour, and I_0 bounds the count's change."""
    (ours, near), (theirs, far) = first, second
    if abs(ours - theirs) > min(near[0], far[0]):
        return Change((mechanism.event,), f"the count changes by {abs(ours - theirs)}, local "
                      f"sensitivities are {near[0]} and {far[0]}")  # fmt: skip
    for one, other in ((near, far), (far, near)):
        if any(now > then for now, then in zip(one, other[1:], strict=False)):
            return Change((mechanism.event,), f"local sensitivities {one} and {other} are not "
                          "those of neighbours")  # fmt: skip
    return Change(() if first == second else (mechanism.event,))


# Methods that decide about cells nobody is in


def _cells(mechanism: Any, counter: Any, entropy: Any) -> dict[int, int]:
    occupied, rows = mechanism.cells.occupied(counter)
    return dict(zip(occupied.tolist(), rows.tolist(), strict=True))


def _sparse_cells(mechanism: Any, first: Any, second: Any, output: Any) -> Change:
    cells = sorted({*first, *second})
    sides = (np.array([side.get(cell, 0) for cell in cells], dtype=object)
             for side in (first, second))  # fmt: skip
    return noise_change(mechanism.noise, *sides)


def _points(mechanism: HeavyPoints, columns: Any, entropy: Any) -> dict[tuple[int, int], int]:
    return {
        (place, int(point)): int(count)
        for place, column in enumerate(columns)
        for point, count in zip(column.points, column.counts, strict=True)
    }


def _division_counts(mechanism: PrivTree, growth: Any, depth: int, entropy: Any) -> Any:
    asked = growth.newest & (growth.sizes() > 1).any(axis=1)
    counts = whole(growth.counts()[asked])
    return np.maximum(counts - depth * mechanism.decay, -mechanism.decay), asked


def _divided(first: Any, second: Any, output: Any, args: Any) -> Any:
    if not np.array_equal(first[1], second[1]):
        raise DivergenceError("other boxes are asked about")
    return deepcopy(output)


def _privtree(mechanism: PrivTree, levels: list[tuple[Any, Any, Any]]) -> Change:
    """The exact loss of the divisions that were made: all levels share one price."""
    loss = 0.0
    rate = float(1 / mechanism.scale)
    for first, second, output in levels:
        divided = output[first[1]]
        for ours, theirs, was in zip(first[0], second[0], divided.tolist(), strict=True):
            if ours != theirs:
                chances = [_above_zero(int(count), rate) for count in (ours, theirs)]
                chosen = chances if was else [1 - one for one in chances]
                loss += math.log(chosen[0]) - math.log(chosen[1])
    if not loss:
        return Change()
    # Rounded down by far more than the error of the logarithms above.
    exact = max(Fraction(abs(loss)) - Fraction(1, 10**9), Fraction(1, 10**12))
    broken = f"loss {float(exact):g}, claimed {mechanism.epsilon}" * (exact > mechanism.epsilon)
    return Change((PureEvent(epsilon=exact),), broken or None)


def _above_zero(count: int, rate: float) -> float:
    """P(count + X > 0) for discrete Laplace X."""
    a = math.exp(-rate)
    if count > 0:
        return 1 - a**count / (1 + a)
    return a ** (1 - count) / (1 + a)


def _smooth_median(mechanism: SmoothMedian, first: Any, second: Any, output: Any) -> Change:
    changed = 0
    for ours, theirs in zip(first, second, strict=True):
        values = np.unique(np.concatenate([ours, theirs]))
        ends = np.append(values, values[-1] + 1)
        moved = np.histogram(ours, ends)[0] - np.histogram(theirs, ends)[0]
        changed = max(changed, int(np.abs(moved).sum()) // 2)
    broken = f"{changed} of its rows change, claimed 1" if changed > 1 else None
    return Change((mechanism.event,) if changed else (), broken)


# DAWA measures blocks of every level and uses those of its partition alone


def _dawa(mechanism: Dawa, first: Any, second: Any, output: Any) -> Change:
    moved = sum(map(abs, difference(first, second)))
    if not moved:
        return Change()
    share = mechanism.cost_noise.epsilon * 2 * moved / mechanism.cost_noise.l1_sensitivity
    _, chosen = output
    sides = [_block_sums(one, chosen) for one in (first, second)]
    counted = noise_change(mechanism.noise, *sides)
    broken = counted.broken
    if 2 * moved > mechanism.cost_noise.l1_sensitivity:
        broken = f"costs of blocks change by {moved}"
    return Change((PureEvent(epsilon=share), *counted.events), broken)


def _block_sums(counts: Any, chosen: list[Any]) -> NDArray[Any]:
    sums = np.append([0], np.cumsum(counts))
    found: list[int] = []
    for level, blocks in enumerate(chosen):
        edges = np.minimum(np.arange(len(blocks) + 1) << level, len(counts))
        found += np.diff(sums[edges])[blocks].tolist()
    return np.array(found, dtype=object)


def _dawa_even(original: Callable[..., Any]) -> Callable[..., Any]:
    """Give the chosen partition beside the cells."""

    def even(mechanism: Dawa, counts: Any, entropy: Any) -> Any:
        chosen: list[Any] = []
        partition = Dawa.partition

        def watched(self: Dawa, counts: Any, entropy: Any) -> Any:
            chosen.extend(partition(self, counts, entropy))
            return chosen

        Dawa.partition = watched  # type: ignore[method-assign]
        try:
            return original(mechanism, counts, entropy), chosen
        finally:
            Dawa.partition = partition  # type: ignore[method-assign]

    return even


def _additive(owner: type, change: Any) -> Patch:
    names = tuple(name for name in ("steps", "sample")
                  if owner.__dict__.get(name) is owner.__dict__["steps"])  # fmt: skip
    return Patch(owner, names, lambda self, values, entropy: whole(values), change,
                 forced=_same_shape)  # fmt: skip


def _choosing(owner: type) -> Patch:
    return Patch(owner, ("sample",), lambda self, values, entropy: whole(values), _scored,
                 forced=_same_shape)  # fmt: skip


def _values(self: Any, values: Any, entropy: Any = None, **_: Any) -> Any:
    return whole(values)


PATCHES = (
    _additive(Geometric, _geometric),
    _additive(Gaussian, _gaussian),
    *map(_choosing, (Exponential, NoisyMax, PermuteAndFlip)),
    Patch(
        Quantile,
        ("sample",),
        lambda self, values, entropy: _quantile_scores(self, values),
        _quantile,
        twice=lambda quantile: quantile.unit.relation is Neighbours.ADD_REMOVE,
        forced=_same_groups,
    ),
    Patch(Medians, ("sample",), _median_scores, _medians, forced=_same_groups),
    Patch(
        SparseVector,
        ("start",),
        lambda self, threshold, entropy, *, runs=1: int(threshold),
        _public_threshold,
        forced=_started,
        kept=lambda run: run.lines.copy(),
        entropy_place=2,
    ),
    Patch(
        SparseVectorRun,
        ("ask",),
        _values,
        lambda *_: Change(),
        claim=lambda run: None,
        parameters=lambda run: repr(run.mechanism),
        forced=_verdicts,
        joined=lambda run, asked: _sparse_vector(run.mechanism, asked),
        around=_asked,
        entropy_place=2,
    ),
    Patch(ThresholdKeys, ("sample",), _values, _threshold_keys, forced=_forced_keys),
    Patch(LadderCount, ("sample",), _local, _local_change, forced=_kept_value),
    Patch(SmoothCount, ("sample",), _local, _local_change, forced=_kept_value),
    Patch(
        SmoothMedian,
        ("sample",),
        lambda self, values, entropy: np.sort(np.clip(np.asarray(values), 0, self.size - 1)),
        _smooth_median,
        forced=_same_shape,
    ),
    Patch(ThresholdFilter, ("release",), _cells, _sparse_cells, forced=_kept_value),
    Patch(PrioritySample, ("release",), _cells, _sparse_cells, forced=_kept_value),
    Patch(HeavyPoints, ("sample",), _points, _sparse_cells, forced=_kept_value),
    Patch(
        PrivTree,
        ("_chosen",),
        _division_counts,
        lambda *_: Change(),
        claim=lambda tree: None,
        parameters=lambda tree: f"scale {tree.scale}, decay {tree.decay}",
        forced=_divided,
        joined=_privtree,
    ),
    Patch(
        Dawa,
        ("even",),
        lambda self, counts, entropy: whole(counts),
        _dawa,
        parameters=lambda dawa: f"{dawa.cost_noise} {dawa.noise}",
        forced=_same_shape,
        around=_dawa_even,
        given=lambda output: output[0],
    ),
)
"""In a class that calls another of these only the outer call is recorded."""
