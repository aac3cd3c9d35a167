"""Regions: sets of cells that exactly the same queries hold, for workloads of few queries.

The measured sums of regions are found by descent on the expected error. The strategy is [I; T] D
with non-negative rows T, and D such that every column has norm 1 (L1 for Laplace noise, L2 for
Gaussian). It measures all regions, and its error is smooth in T.

Decision `workload-strategies`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.publish.measurement import ColumnNorms, SingleNoise, noise_name
from sfumato.privacy.estimation.blocks import Nesting, outer
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy

    Matrix = NDArray[np.float64]
    Objective = Callable[[Matrix], tuple[float, Matrix]]


_ROUNDS, _LEAST_ROUNDS = 150, 30
# Up to so many cells, descent from every start takes less than a second.
_FEW_CELLS = 96
_FEW_QUERIES = 32
# Queries squared times cells beyond which one step takes too long, and all steps together.
_MOST_DESCENT_WORK = 1 << 26
_ALL_WORK = 1 << 30
# The non-monotone line search compares with the worst of so many last values.
_REMEMBERED = 8
# Multiples of the golden ratio, modulo 1, are evenly scattered.
_GOLDEN = 0.6180339887498949


def best_strategy(queries: Matrix, weights: Matrix, *, pure: bool) -> Matrix:
    """Return the rows to measure over cells, with columns of norm at most 1, for weighted queries.

    For few cells, descent starts at the queries themselves and at fixed scattered rows, a quarter
    and an eighth as many as cells (McKenna, Miklau, Hay & Machanavajjhala 2018, section 5: OPT_0).
    For many cells it starts only at the queries, at the scale of least error.
    """
    cells = queries.shape[1]
    scaled = queries * np.sqrt(weights)[:, None]
    if cells <= _FEW_CELLS:
        gram = scaled.T @ scaled
        results = [
            _descend(lambda rows: _error(rows, gram, pure=pure), rows, _ROUNDS)
            for rows in _starting_rows(cells, queries)
        ]
        _, rows = min(results, key=lambda result: result[0])
    else:
        rows = _descend_from_queries(scaled, queries, pure=pure)
    return np.concatenate([np.eye(cells), rows]) / _norms(rows, pure=pure)


def _descend_from_queries(scaled: Matrix, queries: Matrix, *, pure: bool) -> Matrix:
    """Rows for more cells than queries, descended from the queries themselves."""

    def objective(rows: Matrix) -> tuple[float, Matrix]:
        return _error_by_woodbury(rows, scaled, pure=pure)

    start = min(
        (scale * queries for scale in (0.05, 0.5, 1, 5, 20)), key=lambda rows: objective(rows)[0]
    )
    work = len(queries) ** 2 * queries.shape[1]
    rounds = min(max(_ALL_WORK // work, _LEAST_ROUNDS), _ROUNDS)
    return _descend(objective, start, rounds)[1]


def _starting_rows(cells: int, queries: Matrix) -> Sequence[Matrix]:
    scattered: Matrix = np.arange(1.0, cells * cells + 1) * _GOLDEN % 1
    sizes = {max(cells // 8, 1), max(cells // 4, 1)}
    starts: list[Matrix] = [
        scattered[: size * cells].reshape(size, cells) for size in sorted(sizes)
    ]
    # Scales at which mostly cells, mostly queries, or both are measured.
    has_few_queries = len(queries) <= min(cells, _FEW_QUERIES)
    return [*starts, 0.05 * queries, queries, 20 * queries] if has_few_queries else starts


def _norms(rows: Matrix, *, pure: bool) -> Matrix:
    """Return the norms of the columns of [I; T]."""
    return np.asarray(1 + rows.sum(axis=0) if pure else np.sqrt(1 + (rows**2).sum(axis=0)))


def _error(rows: Matrix, gram: Matrix, *, pure: bool) -> tuple[float, Matrix]:
    """Return the error of a strategy with noise of variance 1, and its gradient in the rows."""
    norms = _norms(rows, pure=pure)
    inverse = np.linalg.inv(np.eye(len(gram)) + rows.T @ rows)
    scaled = gram * np.outer(norms, norms)
    by_norms = 2 * (gram * inverse) @ norms
    slopes = -2 * rows @ (inverse @ scaled @ inverse)
    slopes += by_norms if pure else rows * (by_norms / norms)
    return float((scaled * inverse).sum()), slopes


def _error_by_woodbury(rows: Matrix, queries: Matrix, *, pure: bool) -> tuple[float, Matrix]:
    """The same as `_error` for fewer rows and queries than cells, without their Gram matrix.

    By the Woodbury identity the inverse of I + T'T is I - T'(I + TT')^-1 T.
    """
    norms = _norms(rows, pure=pure)
    within = np.linalg.solve(np.eye(len(rows)) + rows @ rows.T, rows)
    scaled = queries * norms
    solved = scaled @ within.T
    inverse = scaled - solved @ rows  # the scaled queries times the inverse
    by_norms = 2 * (queries * inverse).sum(axis=0)
    slopes = -2 * solved.T @ inverse
    slopes += by_norms if pure else rows * (by_norms / norms)
    return float((scaled * inverse).sum()), slopes


def _descend(objective: Objective, rows: Matrix, rounds: int) -> tuple[float, Matrix]:
    """Projected gradient descent with steps of Barzilai & Borwein; values may rise for a while."""
    value, slopes = objective(rows)
    step = 0.1 / max(float(np.abs(slopes).max()), 1e-300)
    seen, best = [value], (value, rows)
    for _ in range(rounds):
        direction = np.maximum(rows - step * slopes, 0.0) - rows
        fall = float((slopes * direction).sum())
        if fall > -1e-9 * value:
            break
        fraction = 1.0
        while True:
            new_value, new_slopes = objective(rows + fraction * direction)
            if new_value <= max(seen[-_REMEMBERED:]) + 1e-4 * fraction * fall or fraction < 1e-6:
                break
            fraction /= 2
        curvature = float((fraction * direction * (new_slopes - slopes)).sum())
        step = (
            float(np.clip(fraction**2 * (direction**2).sum() / curvature, 1e-8, 1e8))
            if curvature > 0
            else step * 10
        )
        rows, value, slopes = rows + fraction * direction, new_value, new_slopes
        seen.append(value)
        best = min(best, (value, rows), key=lambda result: result[0])
    return best


MAX_REGIONS = 1000
# The most blocks times distinct queries from which regions are computed.
_MOST_WORK = 1 << 22
# Rows are rounded to whole numbers at this scale.
_SCALE = 1 << 12


@dataclass(frozen=True, eq=False)
class Regions(SingleNoise):
    """Weighted sums of a few regions with noise, and the least-squares estimate of all of them.

    *Guarantee*: the price in full, epsilon or rho, for all sums together.
    *Sensitivity*: of the rounded whole-number matrix, by the norms of its columns; a row of missing
    values counts in one number of its own.
    *Error*: unbiased for every union of regions, and so for the workload; the variance is exact.
    Rows within a region are taken to be spread evenly.
    *Edges*: the cells that no query holds are a region too. At most 1,000 regions.
    *Reference*: McKenna, Miklau, Hay & Machanavajjhala 2018, section 5.
    """

    nestings: tuple[Nesting, ...]
    labels: IntArray
    """The region of each block between cuts."""
    matrix: IntArray
    columns: ColumnNorms
    noise: Noise

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The number of measured sums, and the scale of the rounded matrix."""
        return {
            "cells": list(self.labels.shape),
            "regions": self.matrix.shape[1],
            "sums": self.matrix.shape[0],
            "scale": _SCALE,
            "noise": noise_name(self.noise),
        }

    @property
    def coarse(self) -> bool:
        """Whether a region has several values."""
        return int(self.matrix.shape[1]) < math.prod(nesting.points for nesting in self.nestings)

    @cached_property
    def covariance(self) -> FloatArray:
        """The covariance of the estimates of regions."""
        matrix = self.matrix.astype(np.float64)
        return np.asarray(np.linalg.inv(matrix.T @ matrix) * self.noise.variance, dtype=np.float64)

    @property
    def missing_precision(self) -> float:
        """1 / variance of the estimate of a cell of missing values."""
        return self.columns.missing_weight(self.noise) ** 2 / self.noise.variance

    @cached_property
    def cell_variance(self) -> float:
        """The mean variance of the blocks, which divide the estimates of their regions."""
        return float((self._region_shares**2 * np.diag(self.covariance)[self.labels]).mean())

    @cached_property
    def _region_shares(self) -> FloatArray:
        """For each block its share of the codes of its region."""
        codes = outer([_lengths(nesting) for nesting in self.nestings])
        return np.asarray(codes / np.bincount(self.labels.ravel(), codes.ravel())[self.labels])

    def variances(self, boxes: IntArray) -> FloatArray:
        """Return the variance that noise gives the estimate of each box."""
        held = np.array([self.held(box) for box in boxes]).reshape(len(boxes), -1)
        return np.asarray((held @ self.covariance * held).sum(axis=1))

    def mean_variance(self, boxes: IntArray | None) -> float:
        """Return the mean variance over boxes; regions are made of some."""
        assert boxes is not None
        unique, times = np.unique(boxes, axis=0, return_counts=True)
        return float(np.average(self.variances(unique), weights=times))

    def held(self, box: IntArray) -> FloatArray:
        """Return the share of each region that a box holds."""
        sides = [nesting.held(*ends) for nesting, ends in zip(self.nestings, box, strict=True)]
        weights = (outer(sides) * self._region_shares).ravel()
        return np.asarray(np.bincount(self.labels.ravel(), weights), dtype=np.float64)

    def estimate(
        self, cells: IntArray, nulls: IntArray, entropy: Entropy
    ) -> tuple[FloatArray, FloatArray]:
        """Measure with noise; estimate each block as a share of its region, and missing values."""
        counts = np.zeros(self.matrix.shape[1], dtype=np.int64)
        np.add.at(counts, self.labels.ravel(), cells.ravel())
        sums, weight = self.matrix @ counts, self.columns.missing_weight(self.noise)
        noisy = self.noise.steps(np.concatenate([sums, weight * nulls]), entropy)
        inside, outside = np.split(noisy.astype(np.float64), [len(sums)])
        estimates = self.covariance @ (self.matrix.T @ inside) / self.noise.variance
        return estimates[self.labels] * self._region_shares, outside / weight


def regions(request: Request, cuts: Sequence[IntArray], boxes: IntArray) -> list[Regions]:
    """Return the strategies for the regions of a workload, one per way to pay; none if too many."""
    queries, times = np.unique(boxes, axis=0, return_counts=True)
    shape = tuple(len(axis_cuts) - 1 for axis_cuts in cuts)
    if np.prod(shape, dtype=np.float64) * len(queries) > _MOST_WORK:
        return []
    held = np.ones((*shape, len(queries)), dtype=bool)
    for axis, cut in enumerate(cuts):
        side = (queries[:, axis, 0] <= cut[:-1, None]) & (cut[1:, None] <= queries[:, axis, 1] + 1)
        held &= side.reshape(*(size if at == axis else 1 for at, size in enumerate(shape)), -1)
    patterns, labels = np.unique(held.reshape(-1, len(queries)), axis=0, return_inverse=True)
    # More regions and queries than a descent can handle in a few seconds.
    work = len(queries) ** 2 * len(patterns)
    too_long = len(queries) > len(patterns) or work > _MOST_DESCENT_WORK
    if len(patterns) > MAX_REGIONS or (len(patterns) > _FEW_CELLS and too_long):
        return []
    rows = patterns.T.astype(np.float64)
    points = [int(cut[-1]) for cut in cuts]
    nestings = tuple(
        Nesting(size, (len(cut) - 1,), None if len(cut) > size else cut)
        for size, cut in zip(points, cuts, strict=True)
    )
    strategies = []
    for spending in spendings(request.price):
        real = best_strategy(rows, times / times.sum(), pure=spending.epsilon is not None)
        matrix = np.rint(real * _SCALE).astype(np.int64)
        columns = ColumnNorms(
            l1=int(matrix.sum(axis=0).max()),
            l2_squared=int((matrix**2).sum(axis=0).max()),
            signed=False,
        )
        noise = spending.noise(columns.sensitivity(request))
        strategies.append(Regions(nestings, labels.reshape(shape), matrix, columns, noise))
    return strategies


def _lengths(nesting: Nesting) -> FloatArray:
    """Return the number of codes of each block."""
    cuts = np.arange(nesting.points + 1) if nesting.cuts is None else nesting.cuts
    return np.diff(cuts).astype(np.float64)
