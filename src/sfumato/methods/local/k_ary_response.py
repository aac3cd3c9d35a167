"""Randomized response over k values, and Warner's over two."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.methods.local.draws import below
from sfumato.methods.local.mechanism import Channel, SupportOracle, room_for, tallied
from sfumato.methods.local.reports import Code, ReportLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.privacy.noise.entropy import Entropy

_TOTAL_BITS, _MOST_BITS = 61, 48


def odds_of(level: LocalEpsilon, size: int) -> tuple[int, int]:
    """Whole weights (a, b) of the truth and of each lie: a / b <= e^epsilon, a + (k - 1) b small.

    Their total stays below 2^62, so that one word of 64 bits decides.
    """
    room = size + int(level.rational(8)) + 1
    odds = level.rational(min(_MOST_BITS, _TOTAL_BITS - room.bit_length()))
    return odds.numerator, odds.denominator


def respond(codes: IntArray, size: int, weights: tuple[int, int], entropy: Entropy) -> IntArray:
    """Say each code with weight a, and each of the size - 1 others with weight b."""
    truth, lie = weights
    drawn = below(truth + (size - 1) * lie, len(codes), entropy)
    lie_code = np.maximum(drawn - truth, 0) // lie
    lie_code += lie_code >= codes  # the lies are the codes but the true one
    return np.where(drawn < truth, codes, lie_code)


class KAry(SupportOracle):
    """Say the truth with chance e^epsilon / (e^epsilon + k - 1), else any other value.

    *Guarantee*: epsilon-LDP: a report has chance p under its own value and q under any other, and
    p / q <= e^epsilon.
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = q (1 - q) / (p - q)^2 + f (1 - p - q) / (p - q), f the true share.
    *Edges*: The lie is drawn from the k - 1 other values; drawn from all k it would be less often
    one than is claimed, and the estimate biased. k up to 2^26.
    *Reference*: Warner 1965; Kairouz, Oh & Viswanath 2014.
    """

    name = "k-ary"
    counted_once = True

    def _prepare(self) -> None:
        self.weights = odds_of(self.level, self.size)
        truth, lie = self.weights
        total = truth + (self.size - 1) * lie
        self.p, self.q = Fraction(truth, total), Fraction(lie, total)
        self.layout = ReportLayout((Code("report", self.size),))

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of chances: p on the diagonal, q elsewhere."""
        room_for(self.size, self.size)
        truth, lie = self.weights
        return Channel.of(
            [[truth if x == y else lie for y in range(self.size)] for x in range(self.size)]
        )

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        rows = self.layout.empty(len(codes))
        rows["report"] = respond(codes, self.size, self.weights, entropy)
        return rows

    def _count(self, rows: NDArray[Any]) -> IntArray:
        return tallied(rows["report"], self.size)

    def _count_groups(
        self,
        rows: NDArray[Any],
        times: IntArray,
        bits: IntArray | None,  # noqa: ARG002  reports have no bits
    ) -> IntArray:
        return tallied(rows["report"], self.size, times)


class Warner(KAry):
    """Say the truth with chance p = e^epsilon / (1 + e^epsilon), its opposite otherwise.

    *Guarantee*: epsilon-LDP, epsilon = log(p / (1 - p)); a fair coin's p = 3/4 is log(3).
    *Sensitivity*: None to establish: a person says yes or no.
    *Error*: n Var = e^epsilon / (e^epsilon - 1)^2, whatever the true share; p (1 - p) / (2p - 1)^2.
    *Edges*: Two values only. That people are a sample of others adds f (1 - f) / n, which is no
    matter of privacy and not in it.
    *Reference*: Warner 1965.
    """

    name = "warner"

    def _prepare(self) -> None:
        if self.size != 2:
            raise ParameterError(
                "round_invalid",
                f"warner asks a question of two answers, but domain has {self.size:,} values. "
                "Use 'k-ary' for more.",
            )
        super()._prepare()
