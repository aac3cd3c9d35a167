"""The release of a strategy whose estimate is diagonal in the projections between levels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from sfumato.methods.publish.domain import Domain, blank_boxes, blank_cells
from sfumato.methods.publish.postprocess import caveat, with_missing
from sfumato.privacy.estimation.boxes import box_sums

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.estimation.blocks import Nesting
    from sfumato.privacy.noise.entropy import Entropy

COARSE = (
    "counts are of blocks of values; a range that ends within a block takes its rows to be spread "
    "evenly, and may be off by them besides, which `ranges_unevenness` of the release bounds"
)


class Strategy(Protocol):
    """What is measured, with which noise, and the estimate of cells and missing values from it."""

    @property
    def nestings(self) -> tuple[Nesting, ...]:
        """The blocks of every axis."""
        ...

    @property
    def event(self) -> Event:
        """What it costs."""
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
        """The variance of a cell, their mean where it differs."""
        ...

    @property
    def missing_precision(self) -> float:
        """1 / variance of the estimate of a cell of missing values."""
        ...

    @property
    def labels(self) -> IntArray:
        """Of each block, the region that it is estimated with: rows are taken to be even in it."""
        ...

    def held(self, box: IntArray) -> FloatArray:
        """The part of each region that a box holds."""
        ...

    def variances(self, boxes: IntArray) -> FloatArray:
        """The variance of the estimate of each box."""
        ...

    def mean_variance(self, boxes: IntArray | None) -> float:
        """The mean variance over boxes, or over all ranges where none are given."""
        ...

    def estimate(
        self, cells: IntArray, nulls: IntArray, entropy: Entropy
    ) -> tuple[FloatArray, FloatArray]:
        """Measure with noise, and estimate cells and missing values."""
        ...


@dataclass(frozen=True, eq=False)
class StrategyMethod:
    """A strategy for a request. What it promises is what the strategy promises."""

    request: Request
    strategy: Strategy
    chosen: Mapping[str, Any]
    """What was chosen beside the strategy, in JSON form."""
    total: int | None = None
    """The public total that counts are brought to, if there is one."""

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.strategy.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The choices made."""
        public = {} if self.total is None else {"total": self.total}
        return {**self.chosen, **self.strategy.parameters, **public}

    @cached_property
    def domain(self) -> Domain:
        """All cells of the columns."""
        return Domain(self.request.axes)

    @cached_property
    def workload_mse(self) -> float:
        """The mean squared error of the workload, or of all ranges where none was given."""
        return self.strategy.mean_variance(self.request.boxes)

    @cached_property
    def error(self) -> Mapping[str, Any]:
        """Standard deviations of cells, of the whole, of the workload and of missing values."""
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
        """The table that will be released, without a row."""
        axes = self.domain.axes
        if not self.strategy.coarse:
            return {"cells": blank_cells(axes)}
        return {"blocks": blank_boxes(axes)}

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One row for every cell, or for every block where blocks are released."""
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
        """Estimate the rows in each box by adding up its cells."""
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
        """The most that rows which lie unevenly in blocks add to the error of each estimate."""
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
        """The variance of each estimate: exact, before post-processing, but for blocks cut up."""
        return self.strategy.variances(boxes)
