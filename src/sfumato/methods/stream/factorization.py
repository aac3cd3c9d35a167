"""Factors of the running sum: a matrix that is measured with noise, and one that estimates from it.

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


# Entries of the square root, and estimates, are rounded to whole multiples of 1 / SCALE.
SCALE = 1 << 20

# The most points of a square root, whose work grows with their square.
LONGEST_ROOT = 1 << 13


class Factor(Protocol):
    """The measurements of a stream of `points` periods, and the estimates from them."""

    name: ClassVar[str]
    is_whole: ClassVar[bool]
    """Whether estimates are whole numbers."""

    @property
    def points(self) -> int:
        """The number of periods, at most."""
        ...

    def variance(self, step: int) -> float:
        """The variance of the running count after a period, in variances of one noise."""
        ...

    def norms(self, periods: int = 1) -> Norms:
        """The largest norms of a sum of `periods` different columns."""
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
    """Whole numbers as Python integers, which never overflow."""
    return np.array(values, dtype=object)


def level_norms(levels: int, periods: int) -> Norms:
    """The norms of blocks of 1, 2, 4, ... periods; a period is in at most one of each length.

    A block of length n holds at most n periods of one person; the sum of squares is largest where
    blocks are full.
    """
    squares = 0
    for level in range(levels):
        full, remainder = divmod(periods, 1 << level)
        squares += full * (1 << (2 * level)) + remainder**2
    return Norms(l1=levels * periods, l2_squared=squares)


@dataclass(frozen=True)
class DyadicTree:
    """Sums over dyadic blocks: a running count sums one block for each binary digit 1 of its step.

    Only blocks that end at an odd multiple of their length are used, and only they are measured.
    """

    points: int
    name: ClassVar[str] = "tree"
    is_whole: ClassVar[bool] = True

    @property
    def levels(self) -> int:
        """The number of block lengths 1, 2, 4, ...: floor(log2 points) + 1."""
        return self.points.bit_length()

    def norms(self, periods: int = 1) -> Norms:
        """The norms of `level_norms`: the first point is in a block of every length."""
        return level_norms(self.levels, min(periods, self.points))

    def variance(self, step: int) -> float:
        """One noise for each binary digit 1 of the step."""
        return float(step.bit_count())

    def begin(self, cells: int) -> dict[str, Any]:
        """The state before the first period: sums of open blocks, noisy counts of closed ones."""
        blank = [[0] * cells for _ in range(self.levels)]
        return {"step": 0, "open": blank, "closed": blank}

    def advance(
        self, state: Mapping[str, Any], counts: NDArray[Any], noise: Noise, entropy: Entropy
    ) -> tuple[dict[str, Any], NDArray[Any]]:
        """Close the block that ends here with its noise; sum the blocks of the digits 1."""
        step, level = after(state, self.points)
        opened, closed = exact(state["open"]) + exact(counts), exact(state["closed"])
        # The block that ends here is measured once; later steps reuse its noisy sum.
        closed[level] = noise.steps(narrow(opened[level]), entropy)
        # Blocks of shorter length have ended with it and begin anew.
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
        """The sum of squared noise weights in the count from `low` up to `stop`, exclusive."""
        # Digits above the highest that differs stand for the same blocks, which cancel.
        differing = np.frexp((low ^ stop).astype(np.float64))[1]
        mask = (np.int64(1) << differing.astype(np.int64)) - 1
        return np.asarray(
            np.bitwise_count(low & mask).astype(np.float64) + np.bitwise_count(stop & mask)
        )


@dataclass(frozen=True)
class SquareRoot:
    """The square root of the running sum: a lower triangular matrix whose square is the sum.

    Its entries depend only on the distance to the diagonal: 1, 1/2, 3/8, ..., here in whole
    multiples of 1 / SCALE. The other factor compensates for the rounding.
    """

    points: int
    name: ClassVar[str] = "root"
    is_whole: ClassVar[bool] = False

    @cached_property
    def entries(self) -> IntArray:
        """The entries by distance j to the diagonal, times SCALE: binom(2j, j) / 4^j."""
        steps = 1 - 1 / (2 * np.arange(1, self.points))
        entries = np.cumprod(np.append(1.0, steps)) * SCALE
        return np.asarray(np.rint(entries), dtype=np.int64)

    @cached_property
    def weights(self) -> FloatArray:
        """The other factor by distance: its convolution with the entries is 1, 1, 1, ..."""
        entries = self.entries.astype(np.float64)
        weights = np.zeros(self.points)
        for point in range(self.points):
            before = entries[1 : point + 1] @ weights[:point][::-1]
            # Forward substitution: sum over j of entries[j] weights[i - j] = 1 for every i.
            weights[point] = (1 - before) / entries[0]
        return weights

    def norms(self, periods: int = 1) -> Norms:
        """The norms of the sum of the first columns, which is the largest.

        Entries decrease with the distance, so the product of two columns is largest when both are
        as early and as near to each other as possible. The first columns are so for every pair.
        """
        point_count = min(periods, self.points)
        totals = np.cumsum(self.entries.astype(object))
        # Row i of the sum of the first columns: the entries of distances i - points + 1 to i.
        rows = totals.copy()
        rows[point_count:] -= totals[: self.points - point_count]
        return Norms(l1=int(rows.sum()), l2_squared=int((rows**2).sum()))

    @cached_property
    def _variances(self) -> FloatArray:
        return np.cumsum(self.weights**2)

    def variance(self, step: int) -> float:
        """The sum of squared weights of all noises up to the step."""
        return float(self._variances[step - 1])

    def begin(self, cells: int) -> dict[str, Any]:
        """The state before the first period: no counts and no measurements."""
        return {"step": 0, "cells": cells, "counts": [], "measured": []}

    def advance(
        self, state: Mapping[str, Any], counts: NDArray[Any], noise: Noise, entropy: Entropy
    ) -> tuple[dict[str, Any], NDArray[Any]]:
        """Measure one more row of the matrix; estimate from all measurements."""
        state, measured = self.measure(state, counts, noise, entropy)
        return state, scaled(self.weights[: len(measured)][::-1] @ measured)

    def measure(
        self, state: Mapping[str, Any], counts: NDArray[Any], noise: Noise, entropy: Entropy
    ) -> tuple[dict[str, Any], FloatArray]:
        """The state after one more measurement, and all measurements, the oldest first."""
        step, _ = after(state, self.points)
        rows = [*state["counts"], np.asarray(counts).tolist()]
        # Entries are up to SCALE = 2^20, so products of counts may leave 64 bits.
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
        """The sum of squared noise weights in the count from `low` up to `stop`, exclusive."""
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
    assert step <= points, "the caller ends the stream after the last period"
    return step, (step & -step).bit_length() - 1


def scaled(estimates: FloatArray) -> NDArray[Any]:
    """Estimates from noisy figures, in whole multiples of 1 / SCALE."""
    return exact([round(estimate * SCALE) for estimate in estimates.tolist()])


def _series(rows: list[list[int]]) -> NDArray[Any]:
    try:
        return np.array(rows, dtype=np.int64)
    except OverflowError:
        return exact(rows)


def _convolved(rows: NDArray[Any], entries: NDArray[Any]) -> NDArray[Any]:
    """Each series times the lower triangular matrix with these entries by distance."""
    size = rows.shape[-1]
    flat = [np.convolve(row, entries)[:size] for row in rows.reshape(-1, size)]
    return np.stack(flat).reshape(rows.shape)


def block_variance(level: int) -> float:
    """The variance of Honaker's estimate of a block of 2^level periods, in variances of one noise.

    1, 2/3, 4/7, 8/15, 16/31, ...: in the limit half of the variance of a block alone.
    """
    size = 1 << level
    return size / (2 * size - 1)


def estimated(level: int, noisy: NDArray[Any], below: NDArray[Any] | None) -> NDArray[Any]:
    """Estimate a block from its noisy count and the sum `below` of its halves' estimates.

    The estimates are times SCALE. Both are weighted by precision: 2^level for the own count and
    2^level - 1 for the halves, of 2^(level + 1) - 1 together.
    """
    own = exact(noisy) * SCALE
    if below is None:
        return own
    size = 1 << level
    # Integer division rounds down: the state stays whole numbers, the same on every machine.
    return np.asarray((size * own + (size - 1) * below) // (2 * size - 1))


@dataclass(frozen=True)
class HonakerTree:
    """Blocks of all lengths, each estimated by least squares from itself and the blocks within it.

    *Guarantee*: that of the noise on all blocks. A block is measured when its last period is over,
    and estimated from blocks that have ended, so every step uses only earlier measurements.
    *Sensitivity*: that of a tree without estimates: a period is in one block of each length.
    *Error*: for each binary digit 1 of the step, 2^l / (2^(l+1) - 1) variances of a noise, with l
    the position of the digit: nearly half of the tree's. Estimates are rounded down to 1 / SCALE.
    *Edges*: with one period it equals the tree.
    *Reference*: Honaker 2015, the estimate from below.
    """

    points: int
    name: ClassVar[str] = "honaker"
    is_whole: ClassVar[bool] = False

    @property
    def levels(self) -> int:
        """The number of block lengths."""
        return DyadicTree(self.points).levels

    def norms(self, periods: int = 1) -> Norms:
        """The norms of `level_norms`: a period is in one block of every length."""
        return level_norms(self.levels, min(periods, self.points))

    def variance(self, step: int) -> float:
        """The variance of one block estimate for each binary digit 1 of the step."""
        digits = range(step.bit_length())
        return sum(block_variance(level) for level in digits if step >> level & 1)

    def begin(self, cells: int) -> dict[str, Any]:
        """The state before the first period: sums of open blocks, and estimates of closed ones."""
        blank = [[0] * cells for _ in range(self.levels)]
        return {"step": 0, "open": blank, "closed": blank}

    def advance(
        self, state: Mapping[str, Any], counts: NDArray[Any], noise: Noise, entropy: Entropy
    ) -> tuple[dict[str, Any], NDArray[Any]]:
        """Close all blocks that end here; the largest belongs to the lowest digit 1."""
        step, largest = after(state, self.points)
        opened, closed = exact(state["open"]) + exact(counts), exact(state["closed"])
        noisy = noise.steps(narrow(opened[: largest + 1]), entropy)
        newest = estimated(0, noisy[0], None)
        for level in range(1, largest + 1):
            # The first half of this block is the last closed block of that length.
            newest = estimated(level, noisy[level], closed[level - 1] + newest)
        closed[largest] = newest
        opened[: largest + 1] = 0
        total = closed[[digit for digit in range(self.levels) if step >> digit & 1]].sum(axis=0)
        return {"step": step, "open": opened.tolist(), "closed": closed.tolist()}, total
