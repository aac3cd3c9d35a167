"""How a budget is best shared among the levels of a tree for a workload that is known.

The expected error of a workload is the sum over projections c of s_c / precision_c, with s_c its
mean energy and precision_c the sum of w_t / v_t over the measured levels t that are nowhere coarser
than c; w_t is the size of a block and v_t the variance that the share of t buys. Because 1 / x is
convex, that sum is at most the sum over t of D_t v_t / w_t, D_t from the present shares, with
equality at present; the least of the bound, share_t ~ (D_t / w_t)^(1 / (1 + p)) where v ~ share^-p,
is never worse than the present. Repeated, it finds a local optimum; many starts find a good one.

Decision `workload-strategies`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.estimation.blocks import outer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.data.schema.unit import Sensitivity
    from sfumato.privacy.estimation.blocks import Level, Nesting
    from sfumato.privacy.mechanisms.spending import Spending

    Shares = NDArray[np.float64]

# Cells are always measured, if only a little, so that every answer is unbiased.
LEAST_LEAF_SHARE = 1 / 64

_ROUNDS = 150
_POLISH = 400
_SEARCHES = 4
# With more levels than this, trying each of them takes too long.
_MAX_LEVELS_SEARCHED = 200
_NEGLIGIBLE = 1e-4
_GRAIN = 1 << 20
# Beyond this ratio of epsilon to sensitivity noise is zero; it keeps exponentials finite.
_STEEPEST = 100.0


@dataclass(frozen=True, eq=False)
class ShareProblem:
    """One sharing problem. Arrays of shares have a first axis of alternatives."""

    spectrum: FloatArray
    """The mean energy of the workload in each tuple of levels."""
    weights: FloatArray
    """How many cells a block of each tuple of levels has."""
    spending: Spending
    sensitivity: Sensitivity
    allowed: BoolArray | None = None
    """The tuples of levels that may be measured; all where nothing is said."""

    def error(self, shares: FloatArray) -> FloatArray:
        """The mean squared error of the workload under each alternative."""
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
        """The best that is found from one alternative."""
        return self._polished(self._searched(shares))

    def _searched(self, shares: FloatArray) -> FloatArray:
        """Try to give a quarter to each level in turn, as long as that helps."""
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

    def _polished(self, shares: FloatArray) -> FloatArray:
        """Drop levels of no weight and settle the others."""
        settled = self.improved(shares[None], _POLISH)[0]
        large_shares = np.where(settled < _NEGLIGIBLE, 0.0, settled)
        return np.asarray(self.improved(large_shares[None])[0])

    def _information(self, shares: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """1 / variance that each share buys, its derivative, and its elasticity p."""
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
    """Alternatives that sum to 1 and give cells, the last tuple of levels, at least a little."""
    flat = shares.reshape(len(shares), -1).copy()
    flat[:, -1] = np.maximum(flat[:, -1], LEAST_LEAF_SHARE)
    flat /= flat.sum(axis=1, keepdims=True)
    return flat.reshape(shares.shape)


def precisions(information: FloatArray) -> FloatArray:
    """Of each projection: the sum over all levels that are nowhere coarser.

    The first axis is one of alternatives.
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
    """How many cells a block of each tuple of levels has."""
    return outer([np.array(nesting.widths, dtype=np.float64) for nesting in nestings])


def starting_shares(nestings: Sequence[Nesting], products: Sequence[Shares] = ()) -> Shares:
    """Shares of several methods: (methods, levels of the first axis, ...), each summing to 1.

    Cells alone; all levels; every k-th level, with and without the whole, of all axes in step or
    independently; marginals of each order; and products of the shares given for each axis.
    """
    shape = tuple(nesting.depth + 1 for nesting in nestings)
    deepest = max(shape) - 1
    starts = [np.ones(shape), outer(products)] if products else [np.ones(shape)]
    # In step: eps ~ width^((1 - d) / 3), written with the size of a block, width^d.
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
    """The cells, and all tables of so many of the columns."""
    shares = np.zeros(shape)
    for chosen in product((0, 1), repeat=len(shape)):
        if sum(chosen) in {order, len(shape)}:
            level = tuple(
                (size - 1) * is_chosen for size, is_chosen in zip(shape, chosen, strict=True)
            )
            shares[level] = 1.0
    return shares
