"""Hadamard response: one index a report, estimates for all values by one fast transform."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.methods.local.draws import below, happens
from sfumato.methods.local.k_ary_response import odds_of
from sfumato.methods.local.mechanism import Channel, Oracle, people_of, room_for, tallied
from sfumato.methods.local.reports import Code, ReportLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.privacy.noise.entropy import Entropy


class HadamardResponse(Oracle):
    """Say an index from the half of a Hadamard row that is the value's, more often than another.

    Values are dealt out to `blocks` blocks, each with a Hadamard matrix of its own; row 0, which
    tells nothing, is nobody's. One block is for epsilon up to 1, more of them for larger ones.

    *Guarantee*: epsilon-LDP: an index has weight e^epsilon in the value's half row and 1 elsewhere;
    half rows are of one size.
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = ((e^eps + 1) / (e^eps - 1))^2 - f for one block; for B blocks
    (e^eps - 1 + 2B) (F (e^eps + 1) + 2 (1 - F)) / (e^eps - 1)^2 - f, F the share of the block.
    *Edges*: The number of indices of a block is the least power of 2 above its number of values.
    *Reference*: Acharya, Sun & Zhang 2019.
    """

    name = "hadamard"
    counted_once = True

    def __init__(self, domain: object, *, epsilon: Number | LocalEpsilon, blocks: int = 1) -> None:
        self.blocks = arguments.whole(blocks, "blocks")
        super().__init__(domain, epsilon=epsilon)

    def _prepare(self) -> None:
        if not (1 <= self.blocks <= self.size and self.blocks.bit_count() == 1):
            raise ParameterError(
                "parameter_out_of_range",
                f"blocks must be a power of 2 up to the number of values, not {self.blocks}.",
            )
        self.each = 1 << (-(-self.size // self.blocks)).bit_length()
        self.weights = odds_of(self.level, 2 * self.blocks)
        hit, miss = self.weights
        self.p = Fraction(hit, hit + (2 * self.blocks - 1) * miss)
        self.layout = ReportLayout((Code("report", self.blocks * self.each),))

    def options(self) -> dict[str, Any]:
        """What else was settled, by name."""
        return {"blocks": self.blocks}

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of chances, a column for each index."""
        outputs = self.blocks * self.each
        room_for(self.size, outputs)
        hit, miss = self.weights
        blocks, rows = self._positions(np.arange(self.size))
        index = np.arange(outputs)
        own = index // self.each == blocks[:, None]
        own &= np.bitwise_count(index % self.each & rows[:, None]) % 2 == 0
        return Channel.of(np.where(own, hit, miss).tolist())

    def _positions(self, codes: IntArray) -> tuple[IntArray, IntArray]:
        """The block and the row of each value; values are dealt out, neighbours to other blocks."""
        return codes % self.blocks, 1 + codes // self.blocks

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        count = len(codes)
        block, row = self._positions(codes)
        hit = happens(self.p, count, entropy)
        # A miss falls on the other half of the block, or on either half of another block.
        half = np.where(hit, -1, below(2 * self.blocks - 1, count, entropy))
        # An index of the block, turned over to the wanted half by flipping one bit of the row.
        index = below(self.each, count, entropy)
        odd = (np.bitwise_count(index & row) % 2).astype(np.bool_)
        index ^= np.where(odd == (half % 2 == 1), row & -row, 0)
        step = (half + 1) // 2
        rows = self.layout.empty(count)
        rows["report"] = (block + step) % self.blocks * self.each + index
        return rows

    def _count(self, rows: NDArray[Any]) -> IntArray:
        return tallied(rows["report"], self.blocks * self.each)

    def _count_groups(
        self,
        rows: NDArray[Any],
        times: IntArray,
        bits: IntArray | None,  # noqa: ARG002  reports have no bits
    ) -> IntArray:
        return tallied(rows["report"], self.blocks * self.each, times)

    def _shares(self, sketch: ReportSketch) -> FloatArray:
        spectrum = walsh_hadamard(sketch.tally.reshape(self.blocks, self.each))
        block, row = self._positions(np.arange(self.size))
        return np.asarray(spectrum[block, row] * (float(self._unit) / sketch.n))

    @property
    def _unit(self) -> Fraction:
        """What one report in a value's half row, against its other half, counts for."""
        hit, miss = self.weights
        return Fraction(hit + (2 * self.blocks - 1) * miss, hit - miss)

    def variance(self, n: int, share: float = 0.0, block_share: float | None = None) -> float:
        """The variance of one share's estimate from n reports, where the true share is this.

        With several blocks it depends on the share of people whose values are in the same block,
        which is taken for an even one unless `block_share` says it.
        """
        people, odds, own = people_of(n), self.ratio, Fraction(share)
        if block_share is None:
            within = own + (1 - own) / self.blocks if self.blocks > 1 else Fraction(1)
        else:
            within = Fraction(block_share)
        variance_each = (odds - 1 + 2 * self.blocks) / (odds - 1) ** 2
        return float((variance_each * (within * (odds + 1) + 2 * (1 - within)) - own) / people)

    def _variances(self, sketch: ReportSketch, shares: FloatArray) -> FloatArray:
        block, _ = self._positions(np.arange(self.size))
        known = np.clip(shares, 0.0, 1.0)
        together = np.bincount(block, shares, minlength=self.blocks)
        within = np.clip(together[block], known, 1.0) if self.blocks > 1 else np.ones(self.size)
        n = sketch.n
        corners = [
            self.variance(n, 0.0, 0.0),
            self.variance(n, 0.0, 1.0),
            self.variance(n, 1.0, 0.0),
        ]
        return corners[0] + within * (corners[1] - corners[0]) + known * (corners[2] - corners[0])


def walsh_hadamard(values: NDArray[Any]) -> NDArray[Any]:
    """The Walsh-Hadamard transform along the last axis, whose length is a power of 2."""
    size = values.shape[-1]
    result = values.copy()
    step = 1
    while step < size:
        pairs = result.reshape(*values.shape[:-1], size // (2 * step), 2, step)
        result = np.stack(
            [pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], axis=-2
        ).reshape(values.shape)
        step *= 2
    return result
