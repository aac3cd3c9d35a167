"""Strategies diagonal in the projections between levels: counts of blocks of several levels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from sfumato.methods.publish.measurement import noise_name
from sfumato.methods.publish.tree_search import precisions
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.estimation.blocks import (
    assembled,
    outer,
    projected,
    spectrum,
    totals,
    variances,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from fractions import Fraction

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.schema.unit import Sensitivity
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.estimation.blocks import Level, Nesting
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy


class MeasuredLevel(NamedTuple):
    """One level of blocks, or one projection, with the share of the price that its noise costs."""

    level: Level
    share: Fraction
    noise: Noise


@dataclass(frozen=True, eq=False)
class DiagonalStrategy(ABC):
    """What follows from what is measured, and from the precision of each projection."""

    nestings: tuple[Nesting, ...]
    measured: tuple[MeasuredLevel, ...]

    @classmethod
    def shared(
        cls,
        nestings: tuple[Nesting, ...],
        shares: Mapping[Level, Fraction],
        spending: Spending,
        sensitivity: Callable[[Level], Sensitivity],
    ) -> Self:
        """Measure each level with the noise that its share of a price buys."""
        assert sum(shares.values()) == 1
        measured = (
            MeasuredLevel(level, share, spending.noise(sensitivity(level), share))
            for level, share in shares.items()
        )
        return cls(nestings, tuple(measured))

    @property
    def event(self) -> Event:
        """What all measurements cost together."""
        return Composed(tuple(level.noise.event for level in self.measured))

    @property
    @abstractmethod
    def precisions(self) -> FloatArray:
        """1 / variance of the estimate in each projection."""

    @property
    def coarse(self) -> bool:
        """Whether a cell has several values."""
        return any(nesting.cuts is not None for nesting in self.nestings)

    @property
    def cell_variance(self) -> float:
        """The variance of a cell: all have the same."""
        ends = [
            0 if nesting.cuts is None else int(nesting.cuts[1]) - 1 for nesting in self.nestings
        ]
        return float(self.variances(np.array([[(0, end) for end in ends]]))[0])

    @property
    def labels(self) -> IntArray:
        """Cells are estimated one by one."""
        shape = [nesting.cells for nesting in self.nestings]
        return np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)

    def held(self, box: IntArray) -> FloatArray:
        """The part of each cell that a box holds."""
        sides = (nesting.held(*ends) for nesting, ends in zip(self.nestings, box, strict=True))
        return outer(list(sides)).ravel()

    def variances(self, boxes: IntArray) -> FloatArray:
        """The variance of the estimate of each box."""
        return variances(self.nestings, boxes, self.precisions)

    def mean_variance(self, boxes: IntArray | None) -> float:
        """The mean variance over boxes, or over all ranges of cells where none are given."""
        return float((spectrum(self.nestings, boxes) / self.precisions).sum())


@dataclass(frozen=True, eq=False)
class BlockCounts(DiagonalStrategy):
    """Counts of the blocks of some levels, and the weighted least-squares estimate of all cells.

    *Guarantee*: the price in full, epsilon or rho, for all levels together: the shares of the
    levels sum to 1.
    *Sensitivity*: of a histogram, for each level: its blocks and the cells of missing values are a
    partition of all rows.
    *Error*: unbiased; the variance of any range is exact and in closed form, because counts of
    equal blocks are diagonal in the projections between levels. It is the least of any unbiased
    estimate from these counts that does not use which cells behind the last are empty.
    *Edges*: levels may be left out and have unequal shares; cells are always measured. Fan-outs
    that do not divide the cells go on behind the last cell, where counts are zero for everyone.
    *Reference*: Hay, Rastogi, Miklau & Suciu 2010, Theorem 3; Qardaji, Yang & Li 2013; Cormode,
    Procopiuc, Srivastava, Shen & Yu 2012, section 5; Li, Miklau, Hay, McGregor & Rastogi 2015.
    """

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The blocks that are counted, and what is spent on each level."""
        return {
            "fanouts": [list(nesting.fanouts) for nesting in self.nestings],
            "cells": [nesting.cells for nesting in self.nestings],
            "levels": [[list(level.level), str(level.share)] for level in self.measured],
            "noise": noise_name(self.measured[0].noise),
        }

    @cached_property
    def precisions(self) -> FloatArray:
        """1 / variance of the estimate in each projection."""
        information = np.zeros([nesting.depth + 1 for nesting in self.nestings])
        for measured in self.measured:
            sizes = [
                nesting.widths[at]
                for nesting, at in zip(self.nestings, measured.level, strict=True)
            ]
            information[measured.level] = np.prod(sizes, dtype=np.float64) / measured.noise.variance
        return np.asarray(precisions(information[None])[0])

    @cached_property
    def missing_precision(self) -> float:
        """1 / variance of the estimate of a cell of missing values."""
        return sum(1 / level.noise.variance for level in self.measured)

    def estimate(
        self, cells: IntArray, nulls: IntArray, entropy: Entropy
    ) -> tuple[FloatArray, FloatArray]:
        """Count all levels with noise; estimate cells and missing values by least squares."""
        counts = totals(cells, self.nestings, [measured.level for measured in self.measured])
        weighed: dict[Level, FloatArray] = {}
        missing_sums = np.zeros(len(nulls))
        for level, _, noise in self.measured:
            blocks = counts[level]
            noisy = noise.steps(np.concatenate([blocks.ravel(), nulls]), entropy)
            inside, outside = np.split(noisy.astype(np.float64), [blocks.size])
            weighed[level] = inside.reshape(blocks.shape) / noise.variance
            missing_sums += outside / noise.variance
        projections = projected(weighed, self.nestings)
        scaled = {level: array / self.precisions[level] for level, array in projections.items()}
        return assembled(scaled, self.nestings), missing_sums / self.missing_precision
