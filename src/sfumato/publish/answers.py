"""Noise on the queries themselves: the ranges of a workload are answered, and nothing else is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError
from sfumato.estimation.boxes import box_sums
from sfumato.publish.domain import Domain, range_columns
from sfumato.publish.measurement import (
    ColumnNorms,
    SingleNoise,
    least_noise,
    noise_error,
    noise_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.counting.frequencies import Counter
    from sfumato.noise.entropy import Entropy
    from sfumato.publish.measurement import Noise
    from sfumato.publish.request import Request

_MOST_BLOCKS = 1 << 22
"""Blocks between the ends of queries in which it is counted how many queries meet, at most."""


def prepare(request: Request, cuts: Sequence[NDArray[np.int64]]) -> WorkloadAnswers:
    """Choose the noise of least variance that the price pays for."""
    assert request.boxes is not None
    held = (request.boxes[:, :, 0] <= request.boxes[:, :, 1]).all(axis=1)
    queries = np.unique(request.boxes[held], axis=0)
    most = _most_together(queries, cuts)
    columns = ColumnNorms(l1=most, l2_squared=most, signed=False)
    return WorkloadAnswers(request, queries, columns, least_noise(request, columns))


def _most_together(queries: NDArray[np.int64], cuts: Sequence[NDArray[np.int64]]) -> int:
    """The most queries that hold one cell; where that takes too long, how many there are."""
    if math.prod(map(len, cuts)) > _MOST_BLOCKS:
        return len(queries)
    # Each query adds 1 at its corners with a sign, so that running sums count it within.
    found = np.zeros([len(one) for one in cuts], dtype=np.int64)
    ends = [
        (np.searchsorted(cut, queries[:, axis, 0]), np.searchsorted(cut, queries[:, axis, 1] + 1))
        for axis, cut in enumerate(cuts)
    ]
    for corner in np.ndindex(*(2,) * len(cuts)):
        places = tuple(end[side] for end, side in zip(ends, corner, strict=True))
        np.add.at(found, places, (-1) ** sum(corner))
    for axis in range(len(cuts)):
        np.cumsum(found, axis=axis, out=found)
    return int(found.max())


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
    queries: NDArray[np.int64]
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
        held = (self.request.boxes[:, :, 0] <= self.request.boxes[:, :, 1]).all(axis=1)
        return float(held.mean() * self.noise.variance)

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

    def measured(self, counter: Counter) -> NDArray[np.int64]:
        """The whole numbers that noise is put on: of the ranges, and of missing values."""
        cells, nulls = self.domain.split(counter)
        weight = self.columns.missing_weight(self.noise)
        return np.concatenate([box_sums(cells, self.queries), weight * nulls])

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One row for every range, and one for every cell of missing values if there are some."""
        noisy = self.noise.steps(self.measured(counter), entropy).astype(np.float64)
        weight = self.columns.missing_weight(self.noise)
        answers, missing = np.split(noisy, [len(self.queries)])
        columns = range_columns(self.request.axes, self.queries)
        tables = {"answers": pa.table({**columns, "count": pa.array(answers)})}
        if len(missing):
            values = [
                axis.decode(codes)
                for axis, codes in zip(self.request.axes, self.domain.missing_codes, strict=True)
            ]
            names = [*self.request.columns, "count"]
            tables["missing"] = pa.Table.from_arrays(
                [*values, pa.array(missing / weight)], names=names
            )
        return tables

    def ranges(
        self, tables: Mapping[str, pa.Table], boxes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The answers to ranges of the workload."""
        answers = np.append(np.asarray(tables["answers"].column("count"), dtype=np.float64), 0.0)
        return np.asarray(answers[self._places(boxes)])

    def ranges_unevenness(
        self, _tables: Mapping[str, pa.Table], boxes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Nothing: ranges are answered as they were asked."""
        return np.zeros(len(boxes))

    def ranges_variance(self, boxes: NDArray[np.int64]) -> NDArray[np.float64]:
        """The variance of the answers to ranges of the workload."""
        return np.where(self._places(boxes) < len(self.queries), self.noise.variance, 0.0)

    def _places(self, boxes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which answer is that to each range; one behind the last for ranges without a value."""
        known = {box.tobytes(): place for place, box in enumerate(self.queries)}
        found = [
            len(known) if (box[:, 0] > box[:, 1]).any() else known.get(box.tobytes(), -1)
            for box in np.ascontiguousarray(boxes)
        ]
        if -1 in found:
            raise ParameterError(
                "range_not_asked",
                "This release answers the ranges of its workload only, and one that is asked for "
                "is not among them. Ask for those, or publish with this range in the workload, or "
                "as 'tree'.",
            )
        return np.array(found, dtype=np.int64)
