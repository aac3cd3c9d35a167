"""The histogram: every cell of the declared columns counted, with independent noise on each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sfumato.publish import options
from sfumato.publish.domain import Domain, blank_cells
from sfumato.publish.measurement import spendings
from sfumato.publish.postprocess import caveat, check, with_missing

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.counting.frequencies import Counter
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import Event
    from sfumato.publish.measurement import Noise
    from sfumato.publish.request import Request

    Number = TypeVar("Number", np.float64, np.int64)


def prepare(request: Request, *, total: object = None) -> Histogram:
    """Choose the noise of least variance that the price pays for; `total` is public if given."""
    public = None if total is None else options.whole(total, "total", least=0, most=1 << 53)
    check(request.postprocess, total=public)
    noises = [spending.noise(request.sensitivity) for spending in spendings(request.price)]
    least = min(noises, key=lambda noise: noise.variance)
    return Histogram(Domain(request.axes), least, request.postprocess, public)


@dataclass(frozen=True)
class Histogram:
    """Independent integer noise on the count of every cell, those of missing values included.

    *Guarantee*: the price in full, epsilon or rho, for all cells together; every declared cell is
    released, whether anyone is in it or not.
    *Sensitivity*: of a histogram under the privacy unit: a person of m rows moves it by m in L1
    (2 m if replaced).
    *Error*: the noise's variance in each cell, unbiased; a range of n cells has n times as much.
    *Edges*: missing values have cells of their own, behind the others; counts are cut to 64 bits.
    *Reference*: Dwork, McSherry, Nissim & Smith 2006, Example 3; Ghosh, Roughgarden & Sundararajan
    2009.
    """

    domain: Domain
    noise: Noise
    steps: tuple[str, ...] = ()
    total: int | None = None

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Which noise was chosen, and the total that counts are brought to."""
        chosen = {"noise": type(self.noise).__name__.lower()}
        return chosen if self.total is None else {**chosen, "total": self.total}

    @cached_property
    def cells(self) -> int:
        """How many cells there are, those of missing values included."""
        return math.prod(axis.size for axis in self.domain.axes)

    @property
    def error(self) -> Mapping[str, Any]:
        """Of one cell, and the largest of all cells with 95 %."""
        # Cells are independent, so each may pass the bound with this chance.
        each = -math.expm1(math.log(0.95) / self.cells)
        stated: dict[str, Any] = {
            "cell": {"sd": self.noise.stddev, "bound95": self.noise.bound(0.05)},
            "largest95": self.noise.bound(each),
        }
        return {**stated, "note": caveat(self.steps)} if self.steps else stated

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        return {"histogram": blank_cells(self.domain.axes)}

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One row for every cell."""
        interior, nulls = self.domain.split(counter)
        noisy = self.noise.steps(np.concatenate([interior.ravel(), nulls]), entropy)
        if not self.steps:
            kept = np.asarray(np.clip(noisy, -(2**63), 2**63 - 1), dtype=np.int64)
            return {"histogram": self.domain.table(kept[: interior.size], kept[interior.size :])}
        inner, outer = np.split(noisy.astype(np.float64), [interior.size])
        each = self.noise.variance
        done = with_missing(
            inner.reshape(interior.shape),
            outer,
            self.steps,
            variances=(inner.size * each, each),
            total=self.total,
        )
        return {"histogram": self.domain.table(*done)}

    def ranges(
        self, tables: Mapping[str, pa.Table], boxes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Estimate the rows in each box by adding up its cells."""
        return box_sums(self.domain.interior(tables["histogram"]), boxes)

    def ranges_unevenness(
        self, _tables: Mapping[str, pa.Table], boxes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Nothing: no range ends within a cell."""
        return np.zeros(len(boxes))

    def ranges_variance(self, boxes: NDArray[np.int64]) -> NDArray[np.float64]:
        """The variance of each estimate before post-processing: cells times the noise's."""
        lengths = np.maximum(boxes[:, :, 1] - boxes[:, :, 0] + 1, 0)
        return np.asarray(lengths.prod(axis=1, dtype=np.float64) * self.noise.variance)


def box_sums(interior: NDArray[Number], boxes: NDArray[np.int64]) -> NDArray[Number]:
    """Add up a dense array over boxes of inclusive codes; a box that ends before it begins is 0.

    By running sums along every axis, of which each box needs those at its corners.
    """
    sums = np.pad(interior, [(1, 0)] * interior.ndim)
    for axis in range(interior.ndim):
        np.cumsum(sums, axis=axis, out=sums)
    # The sum up to a code, included, is one place further on.
    before, last = boxes[:, :, 0], np.maximum(boxes[:, :, 1] + 1, boxes[:, :, 0])
    found = np.zeros(len(boxes), dtype=sums.dtype)
    for corner in product((False, True), repeat=interior.ndim):
        places = np.where(corner, last, before)
        sign = (-1) ** (interior.ndim - sum(corner))
        found += sign * sums[tuple(places.T)]
    return found
