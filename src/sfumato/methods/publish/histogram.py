"""The histogram: the count of every cell of the declared columns, with independent noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.domain import CellsMethod, Domain
from sfumato.methods.publish.measurement import SingleNoise, least_noise, noise_error, noise_name
from sfumato.methods.publish.postprocess import caveat, public_total, with_missing
from sfumato.privacy.mechanisms.laplace import TruncatedGeometric
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy


TRUNCATED = "truncated-geometric"


def prepare(
    request: Request, *, total: object = None, noise: object = None, most: object = None
) -> Histogram | TruncatedHistogram:
    """Choose the noise of least variance that the price pays for; a given `total` is public.

    With the `noise` "truncated-geometric" every count lies from 0 to `most`, a public number.
    """
    noise_kind = options.choice(noise or "least", "noise", ("least", TRUNCATED))
    if noise_kind == TRUNCATED:
        return _prepare_truncated(request, total, most)
    if most is not None:
        raise ParameterError(
            "options_conflict",
            f"Only truncated noise keeps counts up to a public number. Give noise={TRUNCATED!r} "
            "beside most, or leave most out.",
        )
    return unbiased(request, total=total)


def unbiased(request: Request, *, total: object = None) -> Histogram:
    """Return the histogram with the noise of least variance that the price pays for."""
    public = public_total(request, total)
    return Histogram(Domain(request.axes), least_noise(request), request.postprocess, public)


def _prepare_truncated(request: Request, total: object, most: object) -> TruncatedHistogram:
    if request.postprocess or total is not None:
        raise ParameterError(
            "option_not_applicable",
            "Truncated counts are already whole numbers of at least 0, and biased: other "
            "post-processing would add to the bias. Leave it out, or leave noise out.",
        )
    if most is None:
        raise ParameterError(
            "parameter_missing",
            "Truncated noise needs the largest count that a cell can have, as a public number: "
            "give most=N. The number of rows of the table is private unless you publish it.",
            parameter="most",
        )
    high = options.whole(most, "most", least=1, most=1 << 53)
    epsilon = spendings(request.price)[0].pure_epsilon()
    noise = TruncatedGeometric(
        epsilon=epsilon, low=0, high=high, l1_sensitivity=request.sensitivity.l1
    )
    return TruncatedHistogram(Domain(request.axes), noise)


@dataclass(frozen=True)
class TruncatedHistogram(SingleNoise, CellsMethod):
    """Geometric noise on the count of every cell, clamped to the range from 0 to `most`.

    *Guarantee*: the price in full, as pure epsilon, for all cells together: truncation uses only
    noisy counts and public ends.
    *Sensitivity*: L1, of a histogram under the privacy unit.
    *Error*: of a cell never more than without truncation, for counts up to `most`. It is biased
    near the ends; ranges over many cells add the biases up, so no error is stated for them. For one
    count and every loss that grows with distance, no private mechanism serves a user with a prior
    better.
    *Edges*: a count above `most` is released as about `most`. Missing values have their own cells.
    *Reference*: Ghosh, Roughgarden & Sundararajan 2009, section 2.
    """

    table: ClassVar[str] = "histogram"
    domain: Domain
    noise: TruncatedGeometric

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The noise, and the largest count."""
        return {"noise": TRUNCATED, "most": self.noise.high}

    @property
    def error(self) -> Mapping[str, Any]:
        """Bounds for one cell whose count lies between the ends."""
        note = "bounds; counts near the ends are biased, and sums of many add their biases up"
        return {"cell": noise_error(self.noise), "note": note}

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Count with noise: one row for every cell."""
        interior, nulls = self.domain.split(counter)
        noisy = self.noise.steps(np.concatenate([interior.ravel(), nulls]), entropy)
        inner, outer = np.split(noisy, [interior.size])
        return {self.table: self.domain.table(inner, outer)}


@dataclass(frozen=True)
class Histogram(SingleNoise, CellsMethod):
    """Independent integer noise on the count of every cell, those of missing values included.

    *Guarantee*: the price in full, epsilon or rho, for all cells together; every declared cell is
    released, whether anyone is in it or not.
    *Sensitivity*: of a histogram under the privacy unit: a person of m rows moves it by m in L1
    (2 m if replaced).
    *Error*: the noise's variance in each cell, unbiased; a range of n cells has n times as much.
    *Edges*: missing values have their own cells, after the others; counts are clamped to 64 bits.
    *Reference*: Dwork, McSherry, Nissim & Smith 2006, Example 3; Ghosh, Roughgarden & Sundararajan
    2009.
    """

    table: ClassVar[str] = "histogram"
    domain: Domain
    noise: Noise
    steps: tuple[str, ...] = ()
    total: int | None = None

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The chosen noise, and the public total that counts are adjusted to."""
        chosen = {"noise": noise_name(self.noise)}
        return chosen if self.total is None else {**chosen, "total": self.total}

    @cached_property
    def cells(self) -> int:
        """The number of cells, those of missing values included."""
        return math.prod(axis.size for axis in self.domain.axes)

    @property
    def error(self) -> Mapping[str, Any]:
        """The error of one cell, and a bound on all cells together with probability 95 %."""
        # Cells are independent, so each may exceed the bound with this probability.
        tail_probability = -math.expm1(math.log(0.95) / self.cells)
        stated: dict[str, Any] = {
            "cell": noise_error(self.noise),
            "largest95": self.noise.bound(tail_probability),
        }
        return {**stated, "note": caveat(self.steps)} if self.steps else stated

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Count with noise: one row for every cell."""
        interior, nulls = self.domain.split(counter)
        noisy = self.noise.steps(np.concatenate([interior.ravel(), nulls]), entropy)
        if not self.steps:
            clipped = np.asarray(np.clip(noisy, -(2**63), 2**63 - 1), dtype=np.int64)
            return {
                "histogram": self.domain.table(clipped[: interior.size], clipped[interior.size :])
            }
        inner, outer = np.split(noisy.astype(np.float64), [interior.size])
        cell_variance = self.noise.variance
        processed = with_missing(
            inner.reshape(interior.shape),
            outer,
            self.steps,
            variances=(inner.size * cell_variance, cell_variance),
            total=self.total,
        )
        return {"histogram": self.domain.table(*processed)}

    def ranges_unevenness(self, _tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Zero: no range ends within a cell."""
        return np.zeros(len(boxes))

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
        """The variance of each estimate before post-processing: its cells times the noise's."""
        lengths = np.maximum(boxes[:, :, 1] - boxes[:, :, 0] + 1, 0)
        return np.asarray(lengths.prod(axis=1, dtype=np.float64) * self.noise.variance)
