"""Regions: the cells that exactly the same queries hold, for workloads of few queries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.publish.purse import purses
from sfumato.publish.strategy import Columns
from sfumato.publish.tree.dense import best_strategy, manageable
from sfumato.publish.tree.ladder import Ladder, outer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import Event
    from sfumato.publish.purse import Noise
    from sfumato.publish.request import Request

    Floats = NDArray[np.float64]

MOST_REGIONS = 1000
_MOST_WORK = 1 << 22
"""Blocks times distinct queries that are looked at, at most."""
_SCALE = 1 << 12
"""Rows are rounded to whole numbers at this scale."""


@dataclass(frozen=True, eq=False)
class Regions:
    """Weighted sums of a few regions with noise, and the least-squares estimate of all of them.

    *Guarantee*: the price in full, epsilon or rho, for all sums together.
    *Sensitivity*: of the whole-number matrix that the optimised one is rounded to, by the norms of
    its columns; a row of missing values counts in one number of its own.
    *Error*: unbiased for every union of regions, so for the workload; exact. What lies within a
    region is taken to be spread evenly.
    *Edges*: rows of the table that no query holds are a region too. At most 1,000 regions.
    *Reference*: McKenna, Miklau, Hay & Machanavajjhala 2018, section 5.
    """

    ladders: tuple[Ladder, ...]
    labels: NDArray[np.int64]
    """The region of each block between cuts."""
    matrix: NDArray[np.int64]
    columns: Columns
    noise: Noise

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How much is measured, at which scale."""
        return {
            "cells": list(self.labels.shape),
            "regions": self.matrix.shape[1],
            "sums": self.matrix.shape[0],
            "scale": _SCALE,
            "noise": type(self.noise).__name__.lower(),
        }

    @property
    def coarse(self) -> bool:
        """Whether a region has several values."""
        return int(self.matrix.shape[1]) < math.prod(ladder.points for ladder in self.ladders)

    @cached_property
    def covariance(self) -> Floats:
        """Of the estimates of regions."""
        matrix = self.matrix.astype(np.float64)
        return np.asarray(np.linalg.inv(matrix.T @ matrix) * self.noise.variance, dtype=np.float64)

    @property
    def rim_precision(self) -> float:
        """1 / variance of the estimate of a cell of missing values."""
        return self.columns.rim_weight(self.noise) ** 2 / self.noise.variance

    @cached_property
    def cell_variance(self) -> float:
        """The mean variance of a block, of which a region's estimate is dealt out."""
        return float((self._parts**2 * np.diag(self.covariance)[self.labels]).mean())

    @cached_property
    def _parts(self) -> Floats:
        """The part of its region's codes that each block has."""
        codes = outer([_lengths(ladder) for ladder in self.ladders])
        return np.asarray(codes / np.bincount(self.labels.ravel(), codes.ravel())[self.labels])

    def variances(self, boxes: NDArray[np.int64]) -> Floats:
        """The variance of the estimate of each box, of the noise alone."""
        held = np.array([self.held(box) for box in boxes]).reshape(len(boxes), -1)
        return np.asarray((held @ self.covariance * held).sum(axis=1))

    def mean_variance(self, boxes: NDArray[np.int64] | None) -> float:
        """The mean variance over boxes; regions are made of some."""
        assert boxes is not None
        unique, times = np.unique(boxes, axis=0, return_counts=True)
        return float(np.average(self.variances(unique), weights=times))

    def held(self, box: NDArray[np.int64]) -> Floats:
        """The part of each region that a box holds."""
        sides = [ladder.held(*ends) for ladder, ends in zip(self.ladders, box, strict=True)]
        weights = (outer(sides) * self._parts).ravel()
        return np.asarray(np.bincount(self.labels.ravel(), weights), dtype=np.float64)

    def estimate(
        self, cells: NDArray[np.int64], rim: NDArray[np.int64], entropy: Entropy
    ) -> tuple[Floats, Floats]:
        """Measure with noise; give each block its part of its region's estimate, and the rim."""
        counts = np.zeros(self.matrix.shape[1], dtype=np.int64)
        np.add.at(counts, self.labels.ravel(), cells.ravel())
        sums, weight = self.matrix @ counts, self.columns.rim_weight(self.noise)
        noisy = self.noise.steps(np.concatenate([sums, weight * rim]), entropy)
        inside, outside = np.split(noisy.astype(np.float64), [len(sums)])
        found = self.covariance @ (self.matrix.T @ inside) / self.noise.variance
        return found[self.labels] * self._parts, outside / weight


def regions(
    request: Request, cuts: Sequence[NDArray[np.int64]], boxes: NDArray[np.int64]
) -> list[Regions]:
    """The strategies for the regions of a workload, one for each way to pay; none if too many."""
    queries, times = np.unique(boxes, axis=0, return_counts=True)
    shape = tuple(len(one) - 1 for one in cuts)
    if np.prod(shape, dtype=np.float64) * len(queries) > _MOST_WORK:
        return []
    held = np.ones((*shape, len(queries)), dtype=bool)
    for axis, cut in enumerate(cuts):
        side = (queries[:, axis, 0] <= cut[:-1, None]) & (cut[1:, None] <= queries[:, axis, 1] + 1)
        held &= side.reshape(*(size if at == axis else 1 for at, size in enumerate(shape)), -1)
    kinds, labels = np.unique(held.reshape(-1, len(queries)), axis=0, return_inverse=True)
    if len(kinds) > MOST_REGIONS or not manageable(len(kinds), len(queries)):
        return []
    rows = kinds.T.astype(np.float64)
    points = [int(cut[-1]) for cut in cuts]
    ladders = tuple(
        Ladder(size, (len(cut) - 1,), None if len(cut) > size else cut)
        for size, cut in zip(points, cuts, strict=True)
    )
    found = []
    for purse in purses(request.price):
        real = best_strategy(rows, times / times.sum(), pure=purse.epsilon is not None)
        matrix = np.rint(real * _SCALE).astype(np.int64)
        columns = Columns(
            l1=int(matrix.sum(axis=0).max()),
            l2_squared=int((matrix**2).sum(axis=0).max()),
            signed=False,
        )
        noise = purse.noise(columns.sensitivity(request))
        found.append(Regions(ladders, labels.reshape(shape), matrix, columns, noise))
    return found


def _cuts(ladder: Ladder) -> NDArray[np.int64]:
    return np.arange(ladder.points + 1) if ladder.cuts is None else ladder.cuts


def _lengths(ladder: Ladder) -> Floats:
    return np.diff(_cuts(ladder)).astype(np.float64)
