"""Choose the blocks to count for a workload: fan-outs and shares of least expected error.

The expected error of a workload is the sum over projections c of s_c / precision_c, with s_c its
mean energy and precision_c the sum of w_t / v_t over the measured levels t that are nowhere coarser
than c; w_t is the size of a block and v_t the variance that the share of t pays for. As 1 / x is
convex, the sum is at most the sum over t of D_t v_t / w_t, with D_t from the present shares and
equality at them. The minimum of this bound, share_t ~ (D_t / w_t)^(1 / (1 + p)) where v ~ share^-p,
is never worse than the present shares. Iteration finds a local optimum, and many starts a good one.
Decision `workload-strategies`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.estimation.blocks import Nesting, balanced, outer, spectrum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.data.schema.unit import Sensitivity
    from sfumato.privacy.estimation.blocks import Level
    from sfumato.privacy.mechanisms.spending import Spending

    Shares = NDArray[np.float64]


# The largest width of aligned blocks, and the most queries from which widths are found.
_MAX_WIDTH = 2048
_MAX_QUERIES = 1024
# A width is used if the share of longer queries that fit its blocks exceeds chance by this much.
_MIN_ALIGNED_SHARE = 0.1
_MAX_WIDTHS_TRIED = 64


def aligned_nestings(points: int, ranges: IntArray, cuts: IntArray | None = None) -> list[Nesting]:
    """Nestings with blocks of widths at whose multiples many ranges begin and end."""
    cells = points if cuts is None else len(cuts) - 1
    edges = np.stack([ranges[:, 0], ranges[:, 1] + 1], axis=1)
    if cuts is not None:
        edges = np.searchsorted(cuts, edges)
    lengths = edges[:, 1] - edges[:, 0]
    longer = edges[(lengths > 1) & (lengths < cells)]
    chain = _nested_widths(longer[:: len(longer) // _MAX_QUERIES + 1], cells)
    if not chain:
        return []
    lower = [
        prime
        for wide, narrow in zip(chain, [*chain[1:], 1], strict=True)
        for prime in _primes(wide // narrow)
    ]
    blocks = -(-cells // chain[0])
    depths = {1, max((blocks - 1).bit_length(), 1)}
    return [Nesting(points, (*balanced(blocks, depth), *lower), cuts) for depth in sorted(depths)]


def _nested_widths(edges: IntArray, cells: int) -> list[int]:
    """Widths, each a multiple of the next, that fit the most and longest queries."""
    widths = np.arange(2, min(cells // 2, _MAX_WIDTH) + 1)
    if not len(edges) or not len(widths):
        return []
    first, last = edges[:, :1], edges[:, 1:]
    fits = (first % widths == 0) & ((last % widths == 0) | (last == cells))
    often = (fits & (last - first >= widths)).mean(axis=0)
    enough = often >= _MIN_ALIGNED_SHARE + widths**-2.0
    chain: list[int] = []
    for index in np.argsort(-often * widths, kind="stable")[:_MAX_WIDTHS_TRIED]:
        width = int(widths[index])
        nests = all(width % chosen == 0 or chosen % width == 0 for chosen in chain)
        if enough[index] and nests:
            chain.append(width)
    return sorted(chain, reverse=True)


def _primes(number: int) -> list[int]:
    """Return the prime factors of a number, in order."""
    factors = []
    factor = 2
    while factor * factor <= number:
        while number % factor == 0:
            factors.append(factor)
            number //= factor
        factor += 1
    return [*factors, number] if number > 1 else factors


# The most nestings per axis that are combined, and the most trees that are searched to the end.
_MAX_CONTENDERS = 3
# Combinations of nestings with more tuples of levels take too long to try.
_MAX_LEVELS = 256


@dataclass(frozen=True, eq=False)
class SharedTree:
    """Nestings with the shares of their levels, and the mean squared error of the workload."""

    nestings: tuple[Nesting, ...]
    budget: ShareProblem
    shares: FloatArray

    @cached_property
    def error(self) -> float:
        """The mean squared error of the workload."""
        return float(self.budget.error(self.shares[None])[0])

    def settled(self) -> SharedTree:
        """The same nestings with shares after a full search."""
        return SharedTree(self.nestings, self.budget, self.budget.settled(self.shares))


@dataclass(frozen=True, eq=False)
class TreeOptimizer:
    """A search for a workload (None: all ranges), ways to pay and a sensitivity."""

    boxes: IntArray | None
    spendings: Sequence[Spending]
    sensitivity: Sensitivity

    def of_cells(
        self, shape: Sequence[int], cuts: Sequence[IntArray | None] | None = None
    ) -> SharedTree:
        """Return the best tree over columns of so many codes each, or over cells between cuts."""
        axes = enumerate(zip(shape, cuts or [None] * len(shape), strict=True))
        return self.best(
            [
                nestings_of(points, None if self.boxes is None else self.boxes[:, axis], cut)
                for axis, (points, cut) in axes
            ]
        )

    def best(self, choices: Sequence[Sequence[Nesting]]) -> SharedTree:
        """Return the best tree with any of the given nestings of each axis."""
        settled = []
        for spending in self.spendings:
            ranked = [
                self._rank_nestings(axis, nestings, spending)
                for axis, nestings in enumerate(choices)
            ]
            if len(ranked) == 1:
                trees = list(ranked[0].values())
            else:
                trees = [
                    self._quick(
                        nestings,
                        spending,
                        [
                            tree[nesting].shares
                            for tree, nesting in zip(ranked, nestings, strict=True)
                        ],
                    )
                    for nestings in _combinations(ranked)
                ]
            contenders = sorted(trees, key=lambda tree: tree.error)[:_MAX_CONTENDERS]
            settled += [tree.settled() for tree in contenders]
        return min(settled, key=lambda tree: tree.error)

    def _rank_nestings(
        self, axis: int, nestings: Sequence[Nesting], spending: Spending
    ) -> dict[Nesting, SharedTree]:
        """Return the nestings of one axis, the best first for the workload's ranges along it."""
        boxes = None if self.boxes is None else self.boxes[:, [axis]]
        alone = TreeOptimizer(boxes, self.spendings, self.sensitivity)
        trees = {nesting: alone._quick((nesting,), spending, ()) for nesting in nestings}
        return dict(sorted(trees.items(), key=lambda item: item[1].error))

    def _quick(
        self, nestings: tuple[Nesting, ...], spending: Spending, lines: Sequence[FloatArray]
    ) -> SharedTree:
        budget = ShareProblem(
            spectrum(nestings, self.boxes), block_sizes(nestings), spending, self.sensitivity
        )
        improved = budget.improved(starting_shares(nestings, lines))
        return SharedTree(nestings, budget, improved[np.argmin(budget.error(improved))])


def nestings_of(
    points: int,
    ranges: IntArray | None = None,
    cuts: IntArray | None = None,
) -> list[Nesting]:
    """Nestings of every depth over an axis, from all cells at once to halves of halves.

    Where ranges of codes are given, nestings along their blocks come after these.
    """
    cells = points if cuts is None else len(cuts) - 1
    deepest = max((cells - 1).bit_length(), 1)
    nestings = [Nesting(points, balanced(cells, depth), cuts) for depth in range(1, deepest + 1)]
    return nestings if ranges is None else nestings + aligned_nestings(points, ranges, cuts)


def _combinations(ranked: Sequence[dict[Nesting, SharedTree]]) -> list[tuple[Nesting, ...]]:
    """Combinations of the best nestings of every axis, and of nestings of equal depth."""
    kept_per_axis = _MAX_CONTENDERS if len(ranked) == 2 else 1
    combinations = list(product(*(list(axis_nestings)[:kept_per_axis] for axis_nestings in ranked)))
    by_depth = [
        sorted(axis_nestings, key=lambda nesting: nesting.depth) for axis_nestings in ranked
    ]
    combinations += [
        tuple(axis_nestings[min(depth, len(axis_nestings) - 1)] for axis_nestings in by_depth)
        for depth in range(max(map(len, by_depth)))
    ]
    small = [
        axis_nestings
        for axis_nestings in combinations
        if prod(nesting.depth + 1 for nesting in axis_nestings) <= _MAX_LEVELS
    ]
    return list(dict.fromkeys(small)) or [tuple(axis_nestings[0] for axis_nestings in by_depth)]


# Cells always get at least this share, so that every answer is unbiased.
LEAST_LEAF_SHARE = 1 / 64

# Iterations of one search and of the last one, and moves of the search over levels.
_ROUNDS = 150
_POLISH = 400
_SEARCHES = 4
# With more levels than this, trying each of them takes too long.
_MAX_LEVELS_SEARCHED = 200
# Smaller shares are dropped.
_NEGLIGIBLE = 1e-4
# Shares are exact multiples of 1 / _GRAIN.
_GRAIN = 1 << 20
# Beyond this ratio of epsilon to sensitivity noise is practically zero; keeps exponentials finite.
_STEEPEST = 100.0


@dataclass(frozen=True, eq=False)
class ShareProblem:
    """Divide a budget among levels. The first axis of arrays of shares is that of alternatives."""

    spectrum: FloatArray
    """The mean energy s_c of the workload in each tuple of levels."""
    weights: FloatArray
    """The number of cells of a block of each tuple of levels."""
    spending: Spending
    sensitivity: Sensitivity
    allowed: BoolArray | None = None
    """The tuples of levels that may be measured; all by default."""

    def error(self, shares: FloatArray) -> FloatArray:
        """Return the mean squared error of the workload under each alternative."""
        terms = self.spectrum / precisions(self.weights * self._information(shares)[0])
        return np.asarray(terms.reshape(len(shares), -1).sum(axis=1))

    def improved(self, shares: FloatArray, rounds: int = _ROUNDS) -> FloatArray:
        """Bring each alternative near its local optimum."""
        axes = tuple(range(1, shares.ndim))
        shares = _normal(shares)
        for _ in range(rounds):
            information, slope, power = self._information(shares)
            slopes = self.spectrum / precisions(self.weights * information) ** 2
            for axis in axes:
                slopes = np.cumsum(slopes, axis=axis)
            gains = slopes * self.weights * slope
            mean = (shares * gains).sum(axis=axes, keepdims=True)
            shares = _normal(shares * (gains / mean) ** (1 / (1 + power)))
        return shares

    def settled(self, shares: FloatArray) -> FloatArray:
        """Return the best shares that a search from one alternative finds."""
        return self._drop_small_shares(self._search_levels(shares))

    def _search_levels(self, shares: FloatArray) -> FloatArray:
        """Move a quarter of the budget to each level in turn, as long as the error falls."""
        least = float(self.error(shares[None])[0])
        moves = np.eye(shares.size).reshape(-1, *shares.shape)
        if self.allowed is not None:
            moves = moves[self.allowed.ravel()]
        for _ in range(_SEARCHES if len(moves) <= _MAX_LEVELS_SEARCHED else 0):
            tried = self.improved(0.75 * shares + 0.25 * moves, _ROUNDS // 2)
            errors = self.error(tried)
            best = int(np.argmin(errors))
            if errors[best] > 0.998 * least:
                break
            least, shares = float(errors[best]), tried[best]
        return shares

    def _drop_small_shares(self, shares: FloatArray) -> FloatArray:
        """Drop levels of negligible shares and optimise the others."""
        settled = self.improved(shares[None], _POLISH)[0]
        large_shares = np.where(settled < _NEGLIGIBLE, 0.0, settled)
        return np.asarray(self.improved(large_shares[None])[0])

    def _information(self, shares: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """1 / variance that each share pays for, its derivative, and its elasticity p."""
        if self.spending.rho is not None:
            rate = float(2 * self.spending.rho / self.sensitivity.l2_squared)
            return rate * shares, np.full_like(shares, rate), np.ones_like(shares)
        assert self.spending.epsilon is not None
        rate = float(self.spending.epsilon / self.sensitivity.l1)
        steps = np.minimum(rate * shares, _STEEPEST)
        information = 2 * np.sinh(steps / 2) ** 2
        slope = rate * np.sinh(steps)
        power = np.full_like(steps, 2.0)
        np.divide(shares * slope, information, out=power, where=information > 0)
        return information, slope, power


def _normal(shares: FloatArray) -> FloatArray:
    """Normalise alternatives to sum 1; cells, the last tuple, get at least the least share."""
    flat = shares.reshape(len(shares), -1).copy()
    flat[:, -1] = np.maximum(flat[:, -1], LEAST_LEAF_SHARE)
    flat /= flat.sum(axis=1, keepdims=True)
    return flat.reshape(shares.shape)


def precisions(information: FloatArray) -> FloatArray:
    """Return the precision of each projection: the sum over all levels that are nowhere coarser.

    The first axis is that of alternatives.
    """
    for axis in range(1, information.ndim):
        information = np.flip(np.cumsum(np.flip(information, axis), axis=axis), axis)
    return information


def exact(shares: FloatArray, grain: int = _GRAIN) -> Mapping[Level, Fraction]:
    """Shares as fractions that sum to 1: multiples of 1 / grain, the rest to the cells."""
    units = np.rint(shares * grain).astype(np.int64)
    leaf = tuple(size - 1 for size in shares.shape)
    units[leaf] += grain - units.sum()
    return {
        tuple(int(position) for position in level): Fraction(int(units[tuple(level)]), grain)
        for level in np.argwhere(units > 0)
    }


def block_sizes(nestings: Sequence[Nesting]) -> Shares:
    """Return the number of cells of a block of each tuple of levels."""
    return outer([np.array(nesting.widths, dtype=np.float64) for nesting in nestings])


def starting_shares(nestings: Sequence[Nesting], products: Sequence[Shares] = ()) -> Shares:
    """Shares from which searches start: (starts, levels of the first axis, ...), each with sum 1.

    They are: all levels; every k-th level, with and without the root, of all axes in step or
    independently; marginals of each order; and the products of the given shares of each axis.
    """
    shape = tuple(nesting.depth + 1 for nesting in nestings)
    deepest = max(shape) - 1
    starts = [np.ones(shape), outer(products)] if products else [np.ones(shape)]
    # In step: epsilon ~ width^((1 - d) / 3), written with the size of a block, width^d.
    falling = block_sizes(nestings) ** ((1 / len(shape) - 1) / 3)
    for stride in range(1, deepest + 1):
        lines = [_every(stride, size) for size in shape]
        along = np.zeros(shape)
        for step in range(0, deepest + 1, stride):
            along[tuple(max(size - 1 - step, 0) for size in shape)] = 1.0
        starts += [along, along * falling, outer(lines)]
    for order in range(len(shape)):
        starts.append(_marginals(shape, order))
    root = (0,) * len(shape)
    rootless = [start.copy() for start in starts]
    for start in rootless:
        start[root] = 0.0
        start[tuple(size - 1 for size in shape)] += 1e-3
    array = np.unique(np.array(starts + rootless), axis=0)
    return np.asarray(array / array.sum(axis=tuple(range(1, array.ndim)), keepdims=True))


def _every(stride: int, size: int) -> Shares:
    line = np.zeros(size)
    line[::-1][::stride] = 1.0
    return line


def _marginals(shape: tuple[int, ...], order: int) -> Shares:
    """Equal shares of the cells and of all marginals of `order` columns."""
    shares = np.zeros(shape)
    for chosen in product((0, 1), repeat=len(shape)):
        if sum(chosen) in {order, len(shape)}:
            level = tuple(
                (size - 1) * is_chosen for size, is_chosen in zip(shape, chosen, strict=True)
            )
            shares[level] = 1.0
    return shares
