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
from sfumato.methods.publish.domain import Domain, range_columns
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
from sfumato.methods.publish.tree_search import TreeSearch
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.methods.publish.request import Request

_DIRECT_NAME = "noise on the queries"
# Single values are given up for blocks only where that takes a tenth off the error.
_BLOCKS_GAIN = 0.9


def prepare(request: Request, *, total: object = None) -> StrategyMethod | WorkloadAnswers:
    """Take the best of all strategies whose error is known exactly before anything is spent.

    Counts of blocks of every fan-out, of all columns in step or each at its own scale, with shares
    optimised for the workload (all ranges where there is none): cells, trees, quadtrees, marginals
    and strips are among them; wavelets; the same over blocks that no query divides; for few queries
    weighted sums of the regions that they make; and noise on the queries themselves.
    """
    public = public_total(request, total)
    shape = checked(request)
    search = TreeSearch(request.boxes, spendings(request.price), request.sensitivity)
    plans_by_name = {"tree": StrategyMethod(request, blocks_of(search.of_cells(shape)), {})}
    nestings = tuple(halves(points) for points in shape)
    for budget in ("uniform", "optimised"):
        plans = planned(request, nestings, budget, None)
        plans_by_name[f"wavelet, {budget}"] = min(
            plans, key=lambda candidate: candidate.workload_mse
        )
    cuts = _cuts(request, shape)
    plans_by_name |= _for_workload(request, search, cuts)
    name = min(plans_by_name, key=lambda name: _handicapped(plans_by_name[name]))
    errors = {name: plan.workload_mse for name, plan in plans_by_name.items()}
    # Answers alone cannot be brought to anything, and tell of no other range: they must be better.
    direct = noise_on_queries(request, cuts) if cuts and not request.postprocess else None
    if direct is not None:
        errors[_DIRECT_NAME] = direct.workload_mse
        name = _DIRECT_NAME if direct.workload_mse < errors[name] else name
    # To six digits: the last ones may depend on the machine, and these are a release's parameters.
    considered = {candidate: float(f"{error:.6g}") for candidate, error in errors.items()}
    chosen = {"chosen": name, "considered": considered}
    if direct is not None and name == _DIRECT_NAME:
        return replace(direct, chosen=chosen)
    return StrategyMethod(request, plans_by_name[name].strategy, chosen, public)


def _handicapped(plan: StrategyMethod) -> float:
    return plan.workload_mse / (_BLOCKS_GAIN if plan.strategy.coarse else 1)


def _for_workload(
    request: Request, search: TreeSearch, cuts: Sequence[IntArray]
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
    nonempty = request.boxes[(request.boxes[:, :, 0] <= request.boxes[:, :, 1]).all(axis=1)]
    plans = [StrategyMethod(request, cut, {}) for cut in regions(request, cuts, nonempty)]
    if plans:
        plans_by_name["regions"] = min(plans, key=lambda cut: cut.workload_mse)
    return plans_by_name


def _cuts(request: Request, shape: Sequence[int]) -> list[IntArray]:
    """Where in each column some range begins or ends: what lies between is never divided."""
    if request.boxes is None:
        return []
    nonempty = request.boxes[(request.boxes[:, :, 0] <= request.boxes[:, :, 1]).all(axis=1)]
    return [
        np.unique(np.concatenate([[0, points], nonempty[:, axis, 0], nonempty[:, axis, 1] + 1]))
        for axis, points in enumerate(shape)
    ]


# Blocks between the ends of queries in which it is counted how many queries meet, at most.
_MAX_BLOCKS = 1 << 22


def noise_on_queries(request: Request, cuts: Sequence[IntArray]) -> WorkloadAnswers:
    """Choose the noise of least variance that the price pays for."""
    assert request.boxes is not None
    is_nonempty = (request.boxes[:, :, 0] <= request.boxes[:, :, 1]).all(axis=1)
    queries = np.unique(request.boxes[is_nonempty], axis=0)
    most = _most_together(queries, cuts)
    columns = ColumnNorms(l1=most, l2_squared=most, signed=False)
    return WorkloadAnswers(request, queries, columns, least_noise(request, columns))


def _most_together(queries: IntArray, cuts: Sequence[IntArray]) -> int:
    """The most queries that hold one cell; where that takes too long, how many there are."""
    if math.prod(map(len, cuts)) > _MAX_BLOCKS:
        return len(queries)
    # Each query adds 1 at its corners with a sign, so that running sums count it within.
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
    """The count of each different range of a workload with independent noise.

    *Guarantee*: the price in full, epsilon or rho, for all ranges together.
    *Sensitivity*: a row is in no more than `columns.l1` of the ranges, the most that hold one cell,
    and moves each by 1: so much in L1, and in L2 squared. A row of missing values is in none of
    them and in one cell of its own.
    *Error*: unbiased, the noise's variance for every range of the workload.
    *Edges*: a range that holds no value is 0; one that was not in the workload is refused.
    *Reference*: Dwork, McSherry, Nissim & Smith 2006, Proposition 1.
    """

    request: Request
    queries: IntArray
    """The different ranges that hold a value."""
    columns: ColumnNorms
    noise: Noise
    chosen: Mapping[str, Any] | None = None
    """What was chosen beside the noise, in JSON form."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How many ranges are answered, of which so many meet."""
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
        is_nonempty = (self.request.boxes[:, :, 0] <= self.request.boxes[:, :, 1]).all(axis=1)
        return float(is_nonempty.mean() * self.noise.variance)

    @property
    def error(self) -> Mapping[str, Any]:
        """The deviation of every answer, of the workload, and of missing values."""
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
        """The tables that will be released, without a row."""
        figures = np.zeros(len(self.queries)), np.zeros(len(self.domain.missing_codes[0]))
        return {name: table.slice(0, 0) for name, table in self._tables(*figures).items()}

    def measured(self, counter: Counter) -> IntArray:
        """The whole numbers that noise is put on: of the ranges, and of missing values."""
        cells, nulls = self.domain.split(counter)
        weight = self.columns.missing_weight(self.noise)
        return np.concatenate([box_sums(cells, self.queries), weight * nulls])

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One row for every range, and one for every cell of missing values if there are some."""
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
        """The answers to ranges of the workload."""
        answers = np.append(np.asarray(tables["answers"].column("count"), dtype=np.float64), 0.0)
        return np.asarray(answers[self._answer_indices(boxes)])

    def ranges_unevenness(self, _tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Nothing: ranges are answered as they were asked."""
        return np.zeros(len(boxes))

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
        """The variance of the answers to ranges of the workload."""
        return np.where(self._answer_indices(boxes) < len(self.queries), self.noise.variance, 0.0)

    def _answer_indices(self, boxes: IntArray) -> IntArray:
        """Which answer is that to each range; one behind the last for ranges without a value."""
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
                "This release answers the ranges of its workload only, and one that is asked for "
                "is not among them. Ask for those, or publish with this range in the workload, or "
                "as 'tree'.",
            )
        return np.array(indices, dtype=np.int64)
