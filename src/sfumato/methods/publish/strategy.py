"""Strategies: blocks measured with noise, the least-squares estimate of cells, and the release."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa

from sfumato.methods.publish.domain import Domain, blank_boxes, blank_cells
from sfumato.methods.publish.measurement import noise_name
from sfumato.methods.publish.postprocess import caveat, with_missing
from sfumato.methods.publish.tree_optimizer import precisions
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.estimation.blocks import (
    assembled,
    outer,
    projected,
    spectrum,
    totals,
    variances,
)
from sfumato.privacy.estimation.boxes import box_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.frequencies import Counter
    from sfumato.data.schema.unit import Sensitivity
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.estimation.blocks import Level, Nesting
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy


COARSE = (
    "counts are of blocks of values; a range that ends within a block takes its rows to be spread "
    "evenly, and may be off by them besides, which `ranges_unevenness` of the release bounds"
)


class Strategy(Protocol):
    """A set of measurements with noise, and the estimate of cells and missing values from it."""

    @property
    def nestings(self) -> tuple[Nesting, ...]:
        """The blocks of every axis."""
        ...

    @property
    def event(self) -> Event:
        """The privacy cost of the release."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The choices made, in JSON form."""
        ...

    @property
    def coarse(self) -> bool:
        """Whether counts are of blocks that hold several values."""
        ...

    @property
    def cell_variance(self) -> float:
        """The mean variance of a cell."""
        ...

    @property
    def missing_precision(self) -> float:
        """1 / variance of the estimate of a cell of missing values."""
        ...

    @property
    def labels(self) -> IntArray:
        """The region of each block: rows are taken to lie evenly within a region."""
        ...

    def held(self, box: IntArray) -> FloatArray:
        """Return the share of each region that a box holds."""
        ...

    def variances(self, boxes: IntArray) -> FloatArray:
        """Return the variance of the estimate of each box."""
        ...

    def mean_variance(self, boxes: IntArray | None) -> float:
        """Return the mean variance over boxes, or over all ranges where none are given."""
        ...

    def estimate(
        self, cells: IntArray, nulls: IntArray, entropy: Entropy
    ) -> tuple[FloatArray, FloatArray]:
        """Measure with noise, and estimate cells and missing values."""
        ...


@dataclass(frozen=True, eq=False)
class StrategyMethod:
    """A strategy applied to a request. It has the guarantee and the error of the strategy."""

    request: Request
    strategy: Strategy
    chosen: Mapping[str, Any]
    """Further choices, in JSON form."""
    total: int | None = None
    """The public total that counts are adjusted to, if there is one."""

    @property
    def event(self) -> Event:
        """The privacy cost of the release."""
        return self.strategy.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The choices of the method, in JSON form."""
        public = {} if self.total is None else {"total": self.total}
        return {**self.chosen, **self.strategy.parameters, **public}

    @cached_property
    def domain(self) -> Domain:
        """All cells of the columns."""
        return Domain(self.request.axes)

    @cached_property
    def workload_mse(self) -> float:
        """The mean squared error of the workload, by default of all ranges."""
        return self.strategy.mean_variance(self.request.boxes)

    @cached_property
    def error(self) -> Mapping[str, Any]:
        """Standard deviations of cells, of the total, of the workload and of missing values."""
        boxes = self.request.boxes
        mse = self.workload_mse
        workload: dict[str, Any] = {"mse": mse, "sd": math.sqrt(mse)}
        if boxes is None:
            workload["of"] = "all ranges of blocks" if self.strategy.coarse else "all ranges"
        else:
            largest = self.ranges_variance(boxes).max(initial=0.0)
            workload |= {"queries": len(boxes), "largest_sd": math.sqrt(largest)}
        everything = np.array([[(0, size - 1) for size in self.domain.shape]])
        stated = {
            "cells": {"sd": math.sqrt(self.strategy.cell_variance)},
            "total": {"sd": math.sqrt(self.ranges_variance(everything)[0])},
            "workload": workload,
        }
        if len(self.domain.missing_codes[0]):
            stated["missing"] = {"sd": self.strategy.missing_precision**-0.5}
        if self.strategy.coarse:
            stated["blocks"] = {"note": COARSE}
        steps = self.request.postprocess
        return {**stated, "note": caveat(steps)} if steps else stated

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released table without rows: its name and columns."""
        axes = self.domain.axes
        if not self.strategy.coarse:
            return {"cells": blank_cells(axes)}
        return {"blocks": blank_boxes(axes)}

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One row for every cell, or for every block of a coarse strategy."""
        cells, nulls = self.domain.split(counter)
        for axis, nesting in enumerate(self.strategy.nestings):
            cells = nesting.merged(cells, axis)
        inner, outer = self.strategy.estimate(cells, nulls, entropy)
        for axis, nesting in enumerate(self.strategy.nestings):
            inner = nesting.without_padding(inner, axis)
        inner, outer = self._postprocessed(inner, outer)
        if not self.strategy.coarse:
            return {"cells": self.domain.table(inner, outer)}
        return {"blocks": self._table(inner, outer)}

    def _postprocessed(
        self, inner: FloatArray, outer: FloatArray
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        if not self.request.postprocess:
            return inner, outer
        everything = np.array([[(0, size - 1) for size in self.domain.shape]])
        return with_missing(
            inner,
            outer,
            self.request.postprocess,
            variances=(
                float(self.ranges_variance(everything)[0]),
                1 / self.strategy.missing_precision,
            ),
            lines=[nesting.line() for nesting in self.strategy.nestings],
            total=self.total,
        )

    def _table(self, inner: NDArray[Any], outer: NDArray[Any]) -> pa.Table:
        """One row for every block: the first and the last value of each column, and the count."""
        cell_codes = np.indices(inner.shape, dtype=np.int32).reshape(inner.ndim, -1)
        columns: dict[str, pa.Array] = {}
        for axis, nesting, axis_codes, missing in zip(
            self.domain.axes,
            self.strategy.nestings,
            cell_codes,
            self.domain.missing_codes,
            strict=True,
        ):
            cuts = np.arange(nesting.points + 1) if nesting.cuts is None else nesting.cuts
            ends = {"low": cuts[:-1][axis_codes], "high": cuts[1:][axis_codes] - 1}
            for end, codes in ends.items():
                named = f"{axis.column}_{end}"
                columns[named] = axis.decode(np.concatenate([codes, missing]))
        columns["count"] = pa.array(np.concatenate([inner.ravel(), outer]))
        return pa.table(columns)

    def ranges(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Estimate the rows in each box as the sum of its cells."""
        cells = self._read(tables)
        for axis, nesting in enumerate(self.strategy.nestings):
            cells = nesting.spread(cells, axis)
        return box_sums(cells, boxes)

    def _read(self, tables: Mapping[str, pa.Table]) -> FloatArray:
        """The released counts of cells or blocks."""
        (table,) = tables.values()
        shape = tuple(nesting.cells for nesting in self.strategy.nestings)
        counts = np.asarray(table.column("count"), dtype=np.float64)
        return counts[: math.prod(shape)].reshape(shape)

    def ranges_unevenness(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Bound the error of each estimate from rows that lie unevenly inside blocks."""
        bounds = np.zeros(len(boxes))
        if not self.strategy.coarse:
            return bounds
        counts = np.bincount(self.strategy.labels.ravel(), self._read(tables).ravel())
        for index, box in enumerate(boxes):
            share = self.strategy.held(box)
            cut = (share > 0) & (share < 1)
            most = np.maximum(share, 1 - share) * np.maximum(counts, 0.0)
            bounds[index] = most[cut].sum()
        return bounds

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
        """Return the exact variance that noise gives each estimate, before post-processing."""
        return self.strategy.variances(boxes)


class MeasuredLevel(NamedTuple):
    """A measured level of blocks, or projection, with its share of the price and its noise."""

    level: Level
    share: Fraction
    noise: Noise


@dataclass(frozen=True, eq=False)
class DiagonalStrategy(ABC):
    """A strategy whose estimate is diagonal in the projections between levels of blocks."""

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
        """Measure each level with the noise that its share of a price pays for."""
        assert sum(shares.values()) == 1
        measured = (
            MeasuredLevel(level, share, spending.noise(sensitivity(level), share))
            for level, share in shares.items()
        )
        return cls(nestings, tuple(measured))

    @property
    def event(self) -> Event:
        """The privacy cost of all measurements together."""
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
        """The variance of a cell, the same for all."""
        ends = [
            0 if nesting.cuts is None else int(nesting.cuts[1]) - 1 for nesting in self.nestings
        ]
        return float(self.variances(np.array([[(0, end) for end in ends]]))[0])

    @property
    def labels(self) -> IntArray:
        """Every cell is its own region."""
        shape = [nesting.cells for nesting in self.nestings]
        return np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)

    def held(self, box: IntArray) -> FloatArray:
        """Return the share of each cell that a box holds."""
        sides = (nesting.held(*ends) for nesting, ends in zip(self.nestings, box, strict=True))
        return outer(list(sides)).ravel()

    def variances(self, boxes: IntArray) -> FloatArray:
        """Return the variance of the estimate of each box."""
        return variances(self.nestings, boxes, self.precisions)

    def mean_variance(self, boxes: IntArray | None) -> float:
        """Return the mean variance over boxes, or over all ranges of cells where none are given."""
        return float((spectrum(self.nestings, boxes) / self.precisions).sum())


@dataclass(frozen=True, eq=False)
class BlockCounts(DiagonalStrategy):
    """Counts of the blocks of some levels, and the weighted least-squares estimate of all cells.

    *Guarantee*: the price in full, epsilon or rho, for all levels together: the shares of the
    levels sum to 1.
    *Sensitivity*: of a histogram, for each level: its blocks and the cells of missing values are a
    partition of all rows.
    *Error*: unbiased; the variance of any range is exact and in closed form, because counts of
    equal blocks are diagonal in the projections between levels. It is the least variance of any
    unbiased estimate from these counts that does not use the emptiness of padding cells.
    *Edges*: levels may be left out and have unequal shares; cells are always measured. Fan-outs
    that do not divide the number of cells are padded with cells whose counts are zero.
    *Reference*: Hay, Rastogi, Miklau & Suciu 2010, Theorem 3; Qardaji, Yang & Li 2013; Cormode,
    Procopiuc, Srivastava, Shen & Yu 2012, section 5; Li, Miklau, Hay, McGregor & Rastogi 2015.
    """

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The counted blocks, and the share of each level."""
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
