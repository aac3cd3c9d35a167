"""The kind 'auto': the strategy of least expected error for a workload, from public facts alone.

Decision `workload-strategies`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError
from sfumato.methods.publish.domain import Domain, holds_values, range_columns
from sfumato.methods.publish.measurement import (
    ColumnNorms,
    SingleNoise,
    least_noise,
    noise_error,
    noise_name,
)
from sfumato.methods.publish.postprocess import public_total
from sfumato.methods.publish.regions import regions
from sfumato.methods.publish.strategy import StrategyMethod
from sfumato.methods.publish.tree import blocks_of, checked
from sfumato.methods.publish.tree_optimizer import TreeOptimizer
from sfumato.methods.publish.wavelet import halves, planned
from sfumato.privacy.estimation.boxes import box_sums
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy

_DIRECT_NAME = "noise on the queries"
# A strategy over blocks is taken only where its error is a tenth below that over single values.
_BLOCKS_GAIN = 0.9


def prepare(request: Request, *, total: object = None) -> StrategyMethod | WorkloadAnswers:
    """Choose the best strategy. Their errors are known exactly before any budget is spent.

    The candidates are:

    - counts of blocks of every fan-out, with shares optimised for the workload (all ranges unless
      given); the columns are divided at the same scale or each at its own, so cells, trees,
      quadtrees, marginals and strips are special cases;
    - wavelets, with uniform or optimised shares;
    - trees over the blocks that no query divides;
    - for few queries, weighted sums of the regions that they form;
    - noise on the answers to the queries themselves.
    """
    public = public_total(request, total)
    shape = checked(request)
    search = TreeOptimizer(request.boxes, spendings(request.price), request.sensitivity)
    plans_by_name = {"tree": StrategyMethod(request, blocks_of(search.of_cells(shape)), {})}
    nestings = tuple(halves(points) for points in shape)
    for budget in ("uniform", "optimised"):
        plans = planned(request, nestings, budget, None)
        plans_by_name[f"wavelet, {budget}"] = min(
            plans, key=lambda candidate: candidate.workload_mse
        )
    cuts = _cuts(request, shape)
    plans_by_name |= _for_workload(request, search, cuts)
    errors = {name: plan.workload_mse for name, plan in plans_by_name.items()}
    name = min(
        errors,
        key=lambda name: (
            errors[name] / (_BLOCKS_GAIN if plans_by_name[name].strategy.coarse else 1)
        ),
    )
    # Bare answers cannot be post-processed and answer no other range, so they win only if better.
    direct = noise_on_queries(request, cuts) if cuts and not request.postprocess else None
    if direct is not None:
        errors[_DIRECT_NAME] = direct.workload_mse
        name = _DIRECT_NAME if direct.workload_mse < errors[name] else name
    # Six digits: further ones may differ between machines, and a release's parameters must not.
    considered = {candidate: float(f"{error:.6g}") for candidate, error in errors.items()}
    chosen = {"chosen": name, "considered": considered}
    if direct is not None and name == _DIRECT_NAME:
        return replace(direct, chosen=chosen)
    return StrategyMethod(request, plans_by_name[name].strategy, chosen, public)


def _for_workload(
    request: Request, search: TreeOptimizer, cuts: Sequence[IntArray]
) -> dict[str, StrategyMethod]:
    """Trees of the blocks that no query divides, and the regions of few queries."""
    if request.boxes is None:
        return {}
    shape = [int(cut[-1]) for cut in cuts]
    merged_cuts = [None if len(cut) > size else cut for cut, size in zip(cuts, shape, strict=True)]
    plans_by_name = {}
    if any(cut is not None for cut in merged_cuts):
        blocks = blocks_of(search.of_cells(shape, merged_cuts))
        plans_by_name["tree of blocks"] = StrategyMethod(request, blocks, {})
    queries = request.boxes[holds_values(request.boxes)]
    plans = [StrategyMethod(request, strategy, {}) for strategy in regions(request, cuts, queries)]
    if plans:
        plans_by_name["regions"] = min(plans, key=lambda plan: plan.workload_mse)
    return plans_by_name


def _cuts(request: Request, shape: Sequence[int]) -> list[IntArray]:
    """The codes of each column at which a range begins or ends."""
    if request.boxes is None:
        return []
    queries = request.boxes[holds_values(request.boxes)]
    return [
        np.unique(np.concatenate([[0, points], queries[:, axis, 0], queries[:, axis, 1] + 1]))
        for axis, points in enumerate(shape)
    ]


# Beyond so many blocks between the ends of queries, their overlap is bounded and not computed.
_MAX_BLOCKS = 1 << 22


def noise_on_queries(request: Request, cuts: Sequence[IntArray]) -> WorkloadAnswers:
    """Answer the ranges themselves, with the noise of least variance that the price pays for."""
    assert request.boxes is not None
    queries = np.unique(request.boxes[holds_values(request.boxes)], axis=0)
    overlap = _largest_overlap(queries, cuts)
    columns = ColumnNorms(l1=overlap, l2_squared=overlap, signed=False)
    return WorkloadAnswers(request, queries, columns, least_noise(request, columns))


def _largest_overlap(queries: IntArray, cuts: Sequence[IntArray]) -> int:
    """Return the largest number of queries that hold one cell, or a bound of it."""
    if math.prod(map(len, cuts)) > _MAX_BLOCKS:
        return len(queries)
    # Inclusion and exclusion: signed ones at the corners of a query become 1 inside it and 0
    # outside after a cumulative sum along every axis.
    query_counts = np.zeros([len(axis_cuts) for axis_cuts in cuts], dtype=np.int64)
    ends = [
        (np.searchsorted(cut, queries[:, axis, 0]), np.searchsorted(cut, queries[:, axis, 1] + 1))
        for axis, cut in enumerate(cuts)
    ]
    for corner in np.ndindex(*(2,) * len(cuts)):
        corner_index = tuple(end[side] for end, side in zip(ends, corner, strict=True))
        np.add.at(query_counts, corner_index, (-1) ** sum(corner))
    for axis in range(len(cuts)):
        np.cumsum(query_counts, axis=axis, out=query_counts)
    return int(query_counts.max())


@dataclass(frozen=True, eq=False)
class WorkloadAnswers(SingleNoise):
    """The count of each distinct range of a workload, with independent noise.

    *Guarantee*: the price in full, epsilon or rho, for all ranges together.
    *Sensitivity*: a row is in at most `columns.l1` of the ranges, the largest number that hold one
    cell, and moves each by 1. This is the norm in L1, and the square of the norm in L2. A row of
    missing values is in none of them and in one cell of its own.
    *Error*: unbiased, the noise's variance for every range of the workload.
    *Edges*: a range without values is 0. A range outside the workload is refused.
    *Reference*: Dwork, McSherry, Nissim & Smith 2006, Proposition 1.
    """

    request: Request
    queries: IntArray
    """The distinct ranges that hold a value."""
    columns: ColumnNorms
    noise: Noise
    chosen: Mapping[str, Any] | None = None
    """Further choices, in JSON form."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The number of ranges, and how many of them overlap at most."""
        return {
            **(self.chosen or {}),
            "queries": len(self.queries),
            "most_together": self.columns.l1,
            "noise": noise_name(self.noise),
        }

    @cached_property
    def domain(self) -> Domain:
        """All cells of the columns."""
        return Domain(self.request.axes)

    @cached_property
    def workload_mse(self) -> float:
        """The mean squared error of the workload."""
        assert self.request.boxes is not None
        return float(holds_values(self.request.boxes).mean() * self.noise.variance)

    @property
    def error(self) -> Mapping[str, Any]:
        """The standard deviation of every answer, of the workload, and of missing values."""
        assert self.request.boxes is not None
        stated: dict[str, Any] = {
            "answers": noise_error(self.noise),
            "workload": {
                "mse": self.workload_mse,
                "sd": math.sqrt(self.workload_mse),
                "queries": len(self.request.boxes),
                "largest_sd": self.noise.stddev,
            },
            "note": "Only the ranges of the workload are answered.",
        }
        if len(self.domain.missing_codes[0]):
            stated["missing"] = {"sd": self.noise.stddev / self.columns.missing_weight(self.noise)}
        return stated

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released tables without rows: their names and columns."""
        figures = np.zeros(len(self.queries)), np.zeros(len(self.domain.missing_codes[0]))
        return {name: table.slice(0, 0) for name, table in self._tables(*figures).items()}

    def measured(self, counter: Counter) -> IntArray:
        """The exact whole numbers that get noise: the ranges, then the cells of missing values."""
        cells, nulls = self.domain.split(counter)
        weight = self.columns.missing_weight(self.noise)
        return np.concatenate([box_sums(cells, self.queries), weight * nulls])

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One row for every range, and one for every cell of missing values."""
        noisy = self.noise.steps(self.measured(counter), entropy).astype(np.float64)
        weight = self.columns.missing_weight(self.noise)
        answers, missing = np.split(noisy, [len(self.queries)])
        return self._tables(answers, missing / weight)

    def _tables(self, answers: FloatArray, missing: FloatArray) -> dict[str, pa.Table]:
        columns = range_columns(self.request.axes, self.queries)
        tables = {"answers": pa.table({**columns, "count": pa.array(answers)})}
        if len(missing):
            values = [
                axis.decode(codes)
                for axis, codes in zip(self.request.axes, self.domain.missing_codes, strict=True)
            ]
            names = [*self.request.columns, "count"]
            tables["missing"] = pa.Table.from_arrays([*values, pa.array(missing)], names=names)
        return tables

    def ranges(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Return the answers to ranges of the workload."""
        answers = np.append(np.asarray(tables["answers"].column("count"), dtype=np.float64), 0.0)
        return np.asarray(answers[self._answer_indices(boxes)])

    def ranges_unevenness(self, _tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Zero: no count is divided to answer a range."""
        return np.zeros(len(boxes))

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
        """Return the variance of the answers to ranges of the workload."""
        return np.where(self._answer_indices(boxes) < len(self.queries), self.noise.variance, 0.0)

    def _answer_indices(self, boxes: IntArray) -> IntArray:
        """Return the index of the answer to each range; past the end for ranges without values."""
        index_of_query = {box.tobytes(): index for index, box in enumerate(self.queries)}
        indices = [
            len(index_of_query)
            if (box[:, 0] > box[:, 1]).any()
            else index_of_query.get(box.tobytes(), -1)
            for box in np.ascontiguousarray(boxes)
        ]
        if -1 in indices:
            raise ParameterError(
                "ranges_not_answerable",
                "This release answers only the ranges of its workload, and one of these ranges is "
                "not among them. Publish with this range in the workload, or as 'tree'.",
            )
        return np.array(indices, dtype=np.int64)
