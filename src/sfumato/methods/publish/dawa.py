"""DAWA: buckets of similar counts, found privately, and one noisy count for each bucket.

Where neighbouring cells have similar counts, one noisy count spread over them errs less than noise
on each. Which cells are similar is private, so a share of the price pays for the partition.

Decision `selections-in-publications`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.methods.publish.domain import CellsMethod, Domain
from sfumato.methods.publish.measurement import noise_error, noise_name, one_axis
from sfumato.methods.publish.postprocess import caveat, check, postprocess
from sfumato.privacy.accounting.events import Composed, PureEvent
from sfumato.privacy.estimation.trees import dyadic_line
from sfumato.privacy.mechanisms.base import add, widened
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy

# The share of the price that finds the buckets.
PARTITION_SHARE = Fraction(1, 4)


def prepare(request: Request) -> Dawa:
    """Share the price between the partition and the counts; choose the better noise."""
    domain = Domain((one_axis(request, "dawa"),))
    check(request.postprocess)
    candidates = [
        Dawa(
            domain,
            Geometric(
                epsilon=spending.pure_epsilon(PARTITION_SHARE),
                l1_sensitivity=2 * request.sensitivity.l1,
            ),
            spending.noise(request.sensitivity, 1 - PARTITION_SHARE),
            request.postprocess,
        )
        for spending in spendings(request.price)
    ]
    return min(
        candidates, key=lambda candidate: candidate.noise.variance + candidate.cost_noise.variance
    )


@dataclass(frozen=True)
class Dawa(CellsMethod):
    """A partition into dyadic blocks of least noisy cost, and noise on the count of each block.

    The cost of a block is the sum of the distances of its counts from their median, plus a penalty
    for the noise of its count, plus noise. The cheapest partition is found from the leaves up.

    *Guarantee*: the price in full: a quarter for the partition, the rest for the counts.
    *Sensitivity*: a row moves the cost of each block around it by at most 1. Let the partition P be
    cheapest, and let a person's rows come or go. P stays cheapest if each block of P with a rows of
    that person gets noise lower by 2 a: P then costs less by the number of those rows, and no
    other partition gets cheaper by more, as both cover the same cells. So noise of scale 2 s /
    epsilon, s the L1 sensitivity of a histogram, hides the person, whatever blocks are compared;
    only the partition is released. Ties go to the larger block, whatever the data.
    *Error*: the noise of a cell of a bucket of w cells has the counts' variance / w^2. Within a
    bucket all cells get the same count. That error depends on the data and on the random choice of
    buckets. No closed form is known, so none is stated for cells and ranges.
    *Edges*: each cell of missing values is counted by itself. Counts may be negative.
    *Reference*: Li, Hay, Miklau & Wang 2014, sections 3 and 4, on dyadic blocks, with medians and
    with independent counts in place of their second stage.
    """

    table: ClassVar[str] = "dawa"
    domain: Domain
    cost_noise: Geometric
    noise: Noise
    steps: tuple[str, ...] = ()

    @property
    def event(self) -> Event:
        """The privacy cost of the partition and of the counts; costs of blocks are not released."""
        return Composed((PureEvent(epsilon=self.cost_noise.epsilon), self.noise.event))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The share of the price for the partition, and the noise of the counts."""
        return {
            "partition_share": str(PARTITION_SHARE),
            "noise": noise_name(self.noise),
        }

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of one bucket's count, given the buckets; no more is known in advance."""
        note = (
            "noise of a bucket's count, given the buckets; which they are is random too, and cells "
            "of a bucket are taken as even, so the error of cells and ranges depends on the data"
        )
        return {
            "bucket": noise_error(self.noise),
            "note": f"{note}; {caveat(self.steps)}" if self.steps else note,
        }

    @property
    def penalty(self) -> int:
        """The cost of each bucket beyond its unevenness. It is public, so any value is private.

        Among many blocks the cheapest are those with low noise, which favours small ones. One
        standard deviation of the cost noise added to each bucket makes up for it.
        """
        return round(self.noise.stddev + self.cost_noise.stddev)

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Count with noise: one row for every cell."""
        interior, nulls = self.domain.split(counter)
        even = self.even(interior, entropy)
        figures = np.append(even, self.noise.steps(nulls, entropy).astype(np.float64))
        if self.steps:
            figures = postprocess(figures, self.steps, lines=[dyadic_line(len(figures))])
        inner, outer = np.split(figures, [len(even)])
        return {"dawa": self.domain.table(inner, outer)}

    def even(self, counts: IntArray, entropy: Entropy) -> FloatArray:
        """Noisy counts along the last axis; all cells of a bucket get the same count."""
        size = counts.shape[-1]
        cells = np.zeros(counts.shape)
        sums = np.append(np.zeros((*counts.shape[:-1], 1), np.int64), counts.cumsum(-1), -1)
        for level, chosen in enumerate(self.partition(counts, entropy)):
            edges = np.minimum(np.arange(chosen.shape[-1] + 1) << level, size)
            # Noise on blocks that were not chosen is drawn and never used.
            noisy = self.noise.steps(np.diff(sums[..., edges]), entropy).astype(np.float64)
            cell_values = np.where(chosen, noisy / np.diff(edges), 0.0)
            cells += np.repeat(cell_values, np.diff(edges), axis=-1)
        return cells

    def partition(self, counts: IntArray, entropy: Entropy) -> list[BoolArray]:
        """A mask for each level (blocks of 1, 2, 4, ... cells) of the blocks that are buckets."""
        levels = (counts.shape[-1] - 1).bit_length() + 1
        best: NDArray[Any] = self._costs(counts, 0, entropy)
        is_kept: list[BoolArray] = [np.ones(best.shape, dtype=bool)]
        for level in range(1, levels):
            cost = self._costs(counts, level, entropy)
            odd = best.shape[-1] % 2
            pairs = np.pad(best, [(0, 0)] * (best.ndim - 1) + [(0, odd)])
            halves = pairs[..., ::2] + pairs[..., 1::2]
            is_kept.append(cost <= halves)
            best = np.minimum(cost, halves)
        chosen = [is_kept[-1]]
        opened: BoolArray = ~is_kept[-1]
        for level_is_kept in reversed(is_kept[:-1]):
            opened = np.repeat(opened, 2, axis=-1)[..., : level_is_kept.shape[-1]]
            chosen.append(opened & level_is_kept)
            opened = opened & ~level_is_kept
        return chosen[::-1]

    def _costs(self, counts: IntArray, level: int, entropy: Entropy) -> NDArray[Any]:
        """Return the noisy cost of each block of a level; the last block may be short."""
        width, full_blocks = 1 << level, counts.shape[-1] >> level
        blocks = counts[..., : full_blocks * width].reshape(*counts.shape[:-1], full_blocks, width)
        uneven = _unevenness(blocks)
        short_block = counts[..., None, full_blocks * width :]
        if short_block.shape[-1]:
            uneven = np.append(uneven, _unevenness(short_block), axis=-1)
        # Noise of a tiny epsilon, and so the penalty, may pass 64 bits.
        costs = add(uneven, np.full_like(uneven, self.penalty, dtype=object))
        return widened(self.cost_noise.steps(costs, entropy), 1)


def _unevenness(blocks: IntArray) -> IntArray:
    """Return the sum of distances from the median along the last axis."""
    width = blocks.shape[-1]
    ordered = np.sort(blocks, axis=-1)
    upper, lower = ordered[..., (width + 1) // 2 :], ordered[..., : width // 2]
    return np.asarray(upper.sum(axis=-1) - lower.sum(axis=-1))
