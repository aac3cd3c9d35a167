"""Running counts: the number of rows up to each date, time or number.

Each running count uses only measurements up to its own point, so the same figures could have been
published day by day.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.domain import Domain, blank_cells
from sfumato.methods.publish.measurement import (
    ColumnNorms,
    SingleNoise,
    noise_name,
    one_axis,
    without_postprocess,
)
from sfumato.methods.stream.factorization import LONGEST_ROOT, DyadicTree, SquareRoot
from sfumato.privacy.mechanisms.base import widened
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy


def prepare(request: Request, *, method: object = None) -> Continual:
    """Choose a factor of the running sum and its noise by least error; `method` fixes the factor.

    The error is that of the request's ranges, or else of all running counts.
    """
    domain = Domain((one_axis(request, "continual"),))
    without_postprocess(request, "continual")
    points = domain.shape[0]
    factors: list[DyadicTree | SquareRoot] = [DyadicTree(points)]
    if points <= LONGEST_ROOT:
        factors.append(SquareRoot(points))
    if method is not None:
        name = options.choice(method, "method", (DyadicTree.name, SquareRoot.name))
        factors = [factor for factor in factors if factor.name == name]
    if not factors:
        raise ParameterError(
            "problem_too_large",
            f"The square root takes at most {LONGEST_ROOT:,} points, but column "
            f"{request.columns[0]!r} has {points:,}. Take method 'tree' or a coarser step.",
        )
    candidates = [
        Continual(domain, factor, spending.noise(column_norms(factor).sensitivity(request)))
        for factor in factors
        for spending in spendings(request.price)
    ]
    boxes = request.boxes

    def mean_variance(candidate: Continual) -> float:
        if boxes is None or not len(boxes):
            return float(candidate.running_variance.mean())
        return float(candidate.ranges_variance(boxes).mean())

    return min(candidates, key=mean_variance)


@dataclass(frozen=True)
class Continual(SingleNoise):
    """Noise on a factor of the running sum, and running counts computed from it.

    *Guarantee*: the price in full, epsilon or rho, for all running counts together.
    *Sensitivity*: the largest column of the measured factor, in L1 or L2, times that of a
    histogram under the privacy unit: for a tree over n points 1 + floor(log2 n) blocks, for the
    square root the sum of its rounded entries.
    *Error*: unbiased. A tree's running count at position i has one noise for each binary digit 1
    of i. A running count of the square root has the variance of about 1 + log(n) / pi noises, with
    the largest column of the factor included; for Laplace noise this column is not small. The
    variance is exact for each position and each range.
    *Edges*: missing values are counted apart, after the last point, and are in no running count.
    Running counts may decrease.
    *Reference*: Dwork, Naor, Pitassi & Rothblum 2010; Chan, Shi & Song 2011; Fichtenberger,
    Henzinger & Upadhyay 2023, Theorem 1.
    """

    domain: Domain
    factor: DyadicTree | SquareRoot
    noise: Noise

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The chosen factor and noise."""
        return {"method": self.factor.name, "noise": noise_name(self.noise)}

    @cached_property
    def running_variance(self) -> FloatArray:
        """The variance of each running count."""
        stop = np.arange(1, self.factor.points + 1)
        return self.factor.blocks_between(np.zeros_like(stop), stop) * self.noise.variance

    @property
    def error(self) -> Mapping[str, Any]:
        """The sd of running counts, on average and at worst, and of missing values."""
        stated = {
            "running": {
                "sd": math.sqrt(self.running_variance.mean()),
                "largest_sd": math.sqrt(self.running_variance.max()),
            }
        }
        if len(self.domain.missing_codes[0]):
            stated["missing"] = {"sd": self.noise.stddev / self._missing_weight}
        return stated

    @property
    def _missing_weight(self) -> int:
        return column_norms(self.factor).missing_weight(self.noise)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released table without rows: its name and columns."""
        return {"continual": blank_cells(self.domain.axes, "running")}

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The running count at every point, then the count of missing values if any can occur."""
        interior, nulls = self.domain.split(counter)
        running = self.factor.running(interior, self.noise, entropy)
        weighted = widened(nulls, self._missing_weight) * self._missing_weight
        missing = self.noise.steps(weighted, entropy) / self._missing_weight
        table = self.domain.table(running, missing.astype(np.float64), name="running")
        return {"continual": table}

    def ranges(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Estimate the rows in each range as the difference of two running counts."""
        running = np.append(0.0, self.domain.interior(tables["continual"], "running"))
        low, stop = _ends(boxes)
        return np.asarray(running[stop] - running[low])

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
        """Return the exact variance of each estimate."""
        return self.factor.blocks_between(*_ends(boxes)) * self.noise.variance


def _ends(boxes: IntArray) -> tuple[IntArray, IntArray]:
    """The first position of each range and the one after its last; equal for an empty range."""
    low = boxes[:, 0, 0]
    return low, np.maximum(boxes[:, 0, 1] + 1, low)


def column_norms(factor: DyadicTree | SquareRoot) -> ColumnNorms:
    """Return the norms of the largest column of a factor: what one row can change."""
    norms = factor.norms()
    return ColumnNorms(l1=norms.l1, l2_squared=norms.l2_squared, signed=False)
