"""Subset selection: a report is a set of values, which has the true one in it more often."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.local.draws import below, bit_sums, coins, happens
from sfumato.methods.local.k_ary_response import odds_of
from sfumato.methods.local.mechanism import Channel, SupportOracle, room_for
from sfumato.methods.local.reports import ReportLayout
from sfumato.methods.local.unary import set_bits, toss_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy


class SubsetSelection(SupportOracle):
    """Say a set of w = max(1, round(k / (e^epsilon + 1))) values, each with weight by the true one.

    *Guarantee*: epsilon-LDP: a set has weight e^epsilon where it holds the true value and 1 where
    not; for every value equally many sets do.
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = q (1 - q) / (p - q)^2 + f (1 - p - q) / (p - q), p and q the chances that the
    true value and that another one is in the set: the least of all for rare values.
    *Edges*: k bits a report, w of them set; a report with another number of bits is rejected.
    *Reference*: Wang et al. 2016; Ye & Barg 2018.
    """

    name = "subset"
    grouped = False

    def _prepare(self) -> None:
        k = self.size
        self.chosen = max(1, round(k / (self.level.rational(32) + 1)))
        self.weights = odds_of(self.level, k)
        hit, miss = self.weights
        w = self.chosen
        self.p = Fraction(hit * w, hit * w + miss * (k - w))
        self.q = (self.p * (w - 1) + (1 - self.p) * w) / (k - 1)
        self.layout = ReportLayout((), k)

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of chances, a column for each set."""
        room_for(self.size, comb(self.size, self.chosen))
        hit, miss = self.weights
        sets = [set(chosen) for chosen in combinations(range(self.size), self.chosen)]
        return Channel.of(
            [[hit if x in subset else miss for subset in sets] for x in range(self.size)]
        )

    def _sent(self, rows: NDArray[Any]) -> BoolArray:
        filled = np.bitwise_count(rows["bits"]).sum(axis=1, dtype=np.int64)
        return np.asarray(self.layout.valid(rows) & (filled == self.chosen))

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        """Toss for every value, then add or remove values at random until there are w.

        Tosses are exchangeable, so that what they choose is, for its number, any set alike, and
        stays so when one of the others, each alike, is added or removed.
        """
        rows = self.layout.empty(len(codes))
        bits = toss_bits(coins(Fraction(self.chosen, self.size)), len(codes), self.size, entropy)
        set_bits(bits, codes, happens(self.p, len(codes), entropy))
        lacking = self.chosen - np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
        unfilled = np.flatnonzero(lacking)
        while len(unfilled):
            code = below(self.size, len(unfilled), entropy)
            filled = bits[unfilled, code >> 3] >> (code & 7).astype(np.uint8) & 1
            adding = lacking[unfilled] > 0
            fits = (filled == 0) == adding
            fits &= code != codes[unfilled]
            at, where, add = unfilled[fits], code[fits], adding[fits]
            bits[at, where >> 3] ^= np.left_shift(1, where & 7).astype(np.uint8)
            lacking[at] -= np.where(add, 1, -1)
            unfilled = unfilled[lacking[unfilled] != 0]
        rows["bits"] = bits
        return rows

    def _count(self, rows: NDArray[Any]) -> IntArray:
        return bit_sums(rows["bits"], self.size)
