"""Which ranges hold more rows than a threshold, by the sparse vector: only hits are paid for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.schema.unit import Neighbours, count_sensitivity
from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.domain import Domain, range_columns
from sfumato.methods.publish.measurement import SingleNoise, without_postprocess
from sfumato.privacy.estimation.boxes import box_sums
from sfumato.privacy.mechanisms.sparse_vector import STOPPED, SparseVector
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import IntArray
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.noise.entropy import Entropy

# The most ranges, which are judged one by one.
MAX_RANGES = 1 << 16


def prepare(request: Request, *, threshold: object = None, at_most: object = None) -> Above:
    """Read the threshold and the number of hits, ranges above it, that are paid for (default 1)."""
    without_postprocess(request, "above")
    boxes = request.boxes
    if boxes is None or not 1 <= len(boxes) <= MAX_RANGES:
        raise ParameterError(
            "workload_invalid",
            f"Name the ranges to watch as a workload of 1 to {MAX_RANGES:,} of them, in the order "
            "in which they are judged.",
        )
    if threshold is None:
        raise ParameterError(
            "parameter_missing",
            "Say above how many rows a range is a hit: give threshold=N.",
            parameter="threshold",
        )
    least_rows = options.whole(threshold, "threshold", least=0, most=1 << 53)
    hits = 1 if at_most is None else options.whole(at_most, "at_most", least=1, most=len(boxes))
    vector = SparseVector(
        epsilon=spendings(request.price)[0].pure_epsilon(),
        cutoff=hits,
        sensitivity=count_sensitivity(request.unit).l1,
        monotone=request.unit.relation is Neighbours.ADD_REMOVE,
    )
    return Above(Domain(request.axes), boxes, vector, least_rows)


@dataclass(frozen=True, eq=False)
class Above(SingleNoise):
    """Judge each range in order: whether it holds at least about as many rows as a threshold.

    *Guarantee*: the price in full, as pure epsilon, for all ranges together: only the first
    `at_most` hits cost, and no range after the last of them is judged.
    *Sensitivity*: of one count: m for a person of m rows. Where people are added or removed all
    counts move the same way, which halves the noise of each.
    *Error*: with probability 95 % every range further from the threshold than `error` states is
    judged right.
    *Edges*: a range without values has no rows. Missing values are in no range. The order of the
    ranges matters: those after the last hit are not judged, and null.
    *Reference*: Dwork, Naor, Reingold, Rothblum & Vadhan 2009; Lyu, Su & Li 2017, Algorithm 7.
    """

    domain: Domain
    boxes: IntArray
    noise: SparseVector
    threshold: int

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The threshold, and the number of hits that are paid for."""
        return {"threshold": self.threshold, "at_most": self.noise.cutoff}

    @property
    def error(self) -> Mapping[str, Any]:
        """The distance from the threshold beyond which all verdicts are right with 95 %."""
        bound = self.noise.bound(0.05, queries=len(self.boxes))
        return {
            "verdicts": {"bound95": bound},
            "note": "in rows from the threshold, within which a verdict may be wrong",
        }

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released table without rows: its name and columns."""
        return {"above": self._table(self.boxes[:0], np.zeros(0, dtype=np.int64))}

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One row for every range, in order: its ends, and whether it is above."""
        interior, _ = self.domain.split(counter)
        verdicts = self.judge(box_sums(interior, self.boxes)[None], entropy)[0]
        return {"above": self._table(self.boxes, verdicts)}

    def judge(self, sums: IntArray, entropy: Entropy) -> IntArray:
        """Return the verdicts on the counts of all ranges, (runs, ranges)."""
        return self.noise.sample(sums, entropy, threshold=self.threshold).verdicts

    def _table(self, boxes: IntArray, verdicts: IntArray) -> pa.Table:
        judged = pa.array(verdicts > 0, mask=verdicts == STOPPED)
        return pa.table({**range_columns(self.domain.axes, boxes), "above": judged})
