"""Factors of the running sum: what is measured with noise, and how running counts come of it.

`running` takes a whole series at once, for a release; `begin` and `advance` take it period by
period, for a stream. Estimates of a stream are whole multiples of 1 / SCALE.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from sfumato.methods.stream.request import Norms
from sfumato.privacy.mechanisms.base import narrow, widened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy


# The square root's entries, and estimates, are rounded to whole multiples of 1 / SCALE.
SCALE = 1 << 20

# The most points of a square root, whose work grows with their square.
LONGEST_ROOT = 1 << 13


class Factor(Protocol):
    """What a stream of so many periods measures, and what it estimates from that."""

    name: ClassVar[str]
    is_whole: ClassVar[bool]
    """Whether estimates are whole numbers."""

    @property
    def points(self) -> int:
        """The most periods."""
        ...

    def variance(self, step: int) -> float:
        """Of the running count after a period, in variances of one noise."""
        ...

    def norms(self, periods: int = 1) -> Norms:
        """Of the sum of so many different columns."""
        ...

    def begin(self, cells: int) -> dict[str, Any]:
        """The state before the first period."""
        ...

    def advance(
        self, state: Mapping[str, Any], counts: NDArray[Any], noise: Noise, entropy: Entropy
    ) -> tuple[dict[str, Any], NDArray[Any]]:
        """The state after one more period, and the running count of each cell, times SCALE."""
        ...


def exact(values: object) -> NDArray[Any]:
    """Whole numbers that never wrap, whatever is done with them."""
    return np.array(values, dtype=object)


def level_norms(levels: int, periods: int) -> Norms:
    """Of blocks of 1, 2, 4, ... periods, of which a period is in at most one of each length.

    Of the periods of one person at most as many lie in a block as it is long; the squares add up to
    most where blocks are full.
    """
    squares = 0
    for level in range(levels):
        full, remainder = divmod(periods, 1 << level)
        squares += full * (1 << (2 * level)) + remainder**2
    return Norms(l1=levels * periods, l2_squared=squares)


@dataclass(frozen=True)
class DyadicTree:
    """Sums over dyadic blocks: a running count adds up one block for each digit 1 of its place.

    Only blocks that end at an odd multiple of their length are ever used, and only they count.
    """

    points: int
    name: ClassVar[str] = "tree"
    is_whole: ClassVar[bool] = True

    @property
    def levels(self) -> int:
        """How many lengths of blocks there are: 1, 2, 4, ...; floor(log2 points) + 1."""
        return self.points.bit_length()

    def norms(self, periods: int = 1) -> Norms:
        """The first point is in a block of every length."""
        return level_norms(self.levels, min(periods, self.points))

    def variance(self, step: int) -> float:
        """As many noises as the place has digits 1."""
        return float(step.bit_count())

    def begin(self, cells: int) -> dict[str, Any]:
        """Nothing counted: sums of rows so far in open blocks, and what was told of closed ones."""
        blank = [[0] * cells for _ in range(self.levels)]
        return {"step": 0, "open": blank, "closed": blank}

    def advance(
        self, state: Mapping[str, Any], counts: NDArray[Any], noise: Noise, entropy: Entropy
    ) -> tuple[dict[str, Any], NDArray[Any]]:
        """Close the block that ends here with its noise; add up those of the digits 1."""
        step, level = after(state, self.points)
        opened, closed = exact(state["open"]) + exact(counts), exact(state["closed"])
        closed[level] = noise.steps(narrow(opened[level]), entropy)
        opened[: level + 1] = 0
        used = [digit for digit in range(self.levels) if step >> digit & 1]
        total = closed[used].sum(axis=0) * SCALE
        return {"step": step, "open": opened.tolist(), "closed": closed.tolist()}, total

    def running(self, counts: IntArray, noise: Noise, entropy: Entropy) -> FloatArray:
        """Noisy running counts along the last axis."""
        sums = np.zeros((*counts.shape[:-1], self.points + 1), dtype=np.int64)
        np.cumsum(counts, axis=-1, out=sums[..., 1:])
        points = np.arange(1, self.points + 1)
        running = np.zeros(counts.shape)
        for level in range(self.levels):
            ends = np.arange(1 << level, self.points + 1, 2 << level)
            blocks = sums[..., ends] - sums[..., ends - (1 << level)]
            noisy = noise.steps(blocks, entropy).astype(np.float64)
            used = (points >> level) & 1 == 1
            running[..., used] += noisy[..., points[used] >> (level + 1)]
        return running

    def blocks_between(self, low: IntArray, stop: IntArray) -> FloatArray:
        """The sum of the squared weights of noises in the count from low up to, not with, stop."""
        # Digits before the first one that differs stand for the same blocks, which cancel.
        differing = np.frexp((low ^ stop).astype(np.float64))[1]
        mask = (np.int64(1) << differing.astype(np.int64)) - 1
        return np.asarray(
            np.bitwise_count(low & mask).astype(np.float64) + np.bitwise_count(stop & mask)
        )


@dataclass(frozen=True)
class SquareRoot:
    """The square root of the running sum: a lower triangular matrix with itself as other factor.

    Its entries depend on the distance to the diagonal alone: 1, 1/2, 3/8, ..., here in whole
    multiples of 1 / SCALE. What undoes the rounding goes into the other factor.
    """

    points: int
    name: ClassVar[str] = "root"
    is_whole: ClassVar[bool] = False

    @cached_property
    def entries(self) -> IntArray:
        """The entries by distance to the diagonal, times SCALE: binom(2j, j) / 4^j."""
        steps = 1 - 1 / (2 * np.arange(1, self.points))
        entries = np.cumprod(np.append(1.0, steps)) * SCALE
        return np.asarray(np.rint(entries), dtype=np.int64)

    @cached_property
    def weights(self) -> FloatArray:
        """The other factor, by distance: convolved with the entries it gives 1, 1, 1, ..."""
        entries = self.entries.astype(np.float64)
        weights = np.zeros(self.points)
        for point in range(self.points):
            before = entries[1 : point + 1] @ weights[:point][::-1]
            weights[point] = (1 - before) / entries[0]
        return weights

    def norms(self, periods: int = 1) -> Norms:
        """The first columns, which are the longest and nearest to each other.

        Entries fall with the distance, so two columns have the largest product when both are as
        early and as near to each other as can be; the first ones are that for every pair.
        """
        point_count = min(periods, self.points)
        totals = np.cumsum(self.entries.astype(object))
        # The sum of the first columns at a place: entries of the last `many` distances.
        rows = totals.copy()
        rows[point_count:] -= totals[: self.points - point_count]
        return Norms(l1=int(rows.sum()), l2_squared=int((rows**2).sum()))

    @cached_property
    def _variances(self) -> FloatArray:
        return np.cumsum(self.weights**2)

    def variance(self, step: int) -> float:
        """The squared weights of the noises up to the place."""
        return float(self._variances[step - 1])

    def begin(self, cells: int) -> dict[str, Any]:
        """Nothing counted and nothing measured."""
        return {"step": 0, "cells": cells, "counts": [], "measured": []}

    def advance(
        self, state: Mapping[str, Any], counts: NDArray[Any], noise: Noise, entropy: Entropy
    ) -> tuple[dict[str, Any], NDArray[Any]]:
        """Measure the rows so far by the entries; weigh all that was measured so far."""
        state, measured = self.measure(state, counts, noise, entropy)
        return state, scaled(self.weights[: len(measured)][::-1] @ measured)

    def measure(
        self, state: Mapping[str, Any], counts: NDArray[Any], noise: Noise, entropy: Entropy
    ) -> tuple[dict[str, Any], FloatArray]:
        """The state after one more measurement, and all of them, the oldest first."""
        step, _ = after(state, self.points)
        rows = [*state["counts"], np.asarray(counts).tolist()]
        series = widened(_series(rows), SCALE)
        fresh = noise.steps(narrow(self.entries[:step][::-1] @ series), entropy)
        measured = [*state["measured"], fresh.tolist()]
        next_state = {**state, "step": step, "counts": rows, "measured": measured}
        return next_state, np.array(measured, dtype=np.float64)

    def running(self, counts: IntArray, noise: Noise, entropy: Entropy) -> FloatArray:
        """Noisy running counts along the last axis."""
        measured = _convolved(widened(counts, SCALE), self.entries)
        return _convolved(noise.steps(measured, entropy).astype(np.float64), self.weights)

    def blocks_between(self, low: IntArray, stop: IntArray) -> FloatArray:
        """The sum of the squared weights of noises in the count from low up to, not with, stop."""
        own = np.append(0.0, np.cumsum(self.weights**2))
        row: FloatArray = own[stop - low]
        for length in np.unique(stop - low).tolist():
            chosen = (stop - low) == length
            change = self.weights[length:] - self.weights[: self.points - length]
            row[chosen] += np.append(0.0, np.cumsum(change**2))[low[chosen]]
        return row


def after(state: Mapping[str, Any], points: int) -> tuple[int, int]:
    """The number of the next period, and the level of the largest block that ends with it."""
    step = state["step"] + 1
    assert step <= points, "whoever steps knows how many periods there are"
    return step, (step & -step).bit_length() - 1


def scaled(estimates: FloatArray) -> NDArray[Any]:
    """Estimates made of noisy figures, in whole multiples of 1 / SCALE."""
    return exact([round(estimate * SCALE) for estimate in estimates.tolist()])


def _series(rows: list[list[int]]) -> NDArray[Any]:
    try:
        return np.array(rows, dtype=np.int64)
    except OverflowError:
        return exact(rows)


def _convolved(rows: NDArray[Any], entries: NDArray[Any]) -> NDArray[Any]:
    """Each series times the lower triangular matrix that has these entries by distance."""
    size = rows.shape[-1]
    flat = [np.convolve(row, entries)[:size] for row in rows.reshape(-1, size)]
    return np.stack(flat).reshape(rows.shape)


# Honaker's estimate of a running count: all blocks below one that is used help to estimate it.


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
