"""Unary encoding: a report has a bit for each value, set more often for the true one.

Symmetric (SUE): the true bit is kept with p = e^(epsilon/2) / (1 + e^(epsilon/2)), others are set
with 1 - p. Optimized (OUE): p = 1/2 and q = 1 / (e^epsilon + 1), which makes rare values' variance
least among such encodings.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.local.draws import bit_sums, coins, happens
from sfumato.methods.local.mechanism import Channel, SupportOracle, room_for
from sfumato.methods.local.reports import ReportLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.methods.local.draws import Coins
    from sfumato.privacy.noise.entropy import Entropy

_BITS = 40


class UnaryEncoding(SupportOracle):
    """What SUE and OUE share: a true bit set with chance p, each other with q."""

    def _prepare(self) -> None:
        self.p, self.q = self._chances()
        self.layout = ReportLayout((), self.size)

    @abstractmethod
    def _chances(self) -> tuple[Fraction, Fraction]:
        """The chances p and q."""

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly.

        Two values differ in two bits: p (1 - q) / ((1 - p) q).
        """
        return self.p * (1 - self.q) / ((1 - self.p) * self.q)

    def channel(self) -> Channel:
        """The matrix of chances, a column for each set of bits."""
        room_for(self.size, 1 << self.size)
        return bits_channel(
            [[self.p if at == x else self.q for at in range(self.size)] for x in range(self.size)]
        )

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        rows = self.layout.empty(len(codes))
        rows["bits"] = toss_bits(coins(self.q), len(codes), self.size, entropy)
        set_bits(rows["bits"], codes, happens(self.p, len(codes), entropy))
        return rows

    def _count(self, rows: NDArray[Any]) -> IntArray:
        return bit_sums(rows["bits"], self.size)

    def _count_groups(
        self,
        rows: NDArray[Any],  # noqa: ARG002  without codes there is one group
        times: IntArray,  # noqa: ARG002
        bits: IntArray | None,
    ) -> IntArray:
        assert bits is not None
        return np.asarray(bits.sum(axis=0))


class SUE(UnaryEncoding):
    """Symmetric unary encoding: every bit is flipped with the same chance.

    *Guarantee*: epsilon-LDP: values differ in two bits, each with odds e^(epsilon/2).
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = e^(epsilon/2) / (e^(epsilon/2) - 1)^2, whatever the true share.
    *Edges*: k bits a report, each flipped on its own; no bit is ever certain.
    *Reference*: Erlingsson, Pihur & Korolova 2014 (basic RAPPOR, one round); Wang et al. 2017.
    """

    name = "sue"

    def _chances(self) -> tuple[Fraction, Fraction]:
        odds = self.level.share(2).rational(_BITS)
        return odds / (1 + odds), 1 / (1 + odds)


class OUE(UnaryEncoding):
    """Optimized unary encoding: the true bit is a fair coin's, others are seldom set.

    *Guarantee*: epsilon-LDP: p (1 - q) / ((1 - p) q) = e^epsilon for p = 1/2, q = 1 / (e^eps + 1).
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = 4 e^epsilon / (e^epsilon - 1)^2 + f.
    *Edges*: k bits a report; the true bit is set with 1/2 and cleared with 1/2.
    *Reference*: Wang, Blocki, Li & Jha 2017, section 4.3.
    """

    name = "oue"

    def _chances(self) -> tuple[Fraction, Fraction]:
        return Fraction(1, 2), 1 / (self.level.rational(_BITS) + 1)


def toss_bits(coin: Coins, count: int, width: int, entropy: Entropy) -> NDArray[np.uint8]:
    """Rows of packed bits, all tossed; those behind the last of a row are clear."""
    size = -(-width // 8)
    rows = coin.toss(count * size, entropy).reshape(count, size)
    if width % 8:
        rows[:, -1] &= (1 << width % 8) - 1
    return rows


def set_bits(rows: NDArray[np.uint8], places: IntArray, to: BoolArray) -> None:
    """Set one bit of each row to what is told."""
    at = np.arange(len(rows)), places >> 3
    mask = np.left_shift(1, places & 7).astype(np.uint8)
    rows[at] = np.where(to, rows[at] | mask, rows[at] & ~mask)


def bits_channel(chances: list[list[Fraction]]) -> Channel:
    """The channel of independent bits, whose chances each input has of its own."""
    width = len(chances[0])
    patterns = (np.arange(1 << width)[:, None] >> np.arange(width)) & 1
    common = lcm(*(chance.denominator for row in chances for chance in row))
    weights = np.ones((len(chances), 1 << width), dtype=object)
    for x, row in enumerate(chances):
        for at, chance in enumerate(row):
            yes = int(chance * common)
            weights[x] *= np.where(patterns[:, at] == 1, yes, common - yes).astype(object)
    return Channel(weights, common**width)
