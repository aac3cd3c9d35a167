"""The claimed epsilon of one report, exactly: a rational number, or the logarithm of one.

A client draws with integers, so the odds e^epsilon of a channel must be rational. They are rounded
down: a report never realises more than its claimed epsilon, and less by about one part in 2^40. The
logarithm of a rational number, such as ln 3 for a fair coin's answer, has rational odds and is
realised exactly. Decision `local-privacy`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.exact_numbers import decimal_of, exact, positive
from sfumato.privacy.accounting.elementary import exp_down, log_down, log_up

if TYPE_CHECKING:
    from sfumato.exact_numbers import Number

LARGEST = 20
"""The largest epsilon of a report: above it a lie is less likely than one in 4e8."""

SMALLEST = Fraction(1, 10**6)
# A rational root is searched only for odds of at most this many bits.
_MOST_ROOT_BITS = 512

_LOGARITHM = re.compile(r"(?:log|ln)\s*\(?\s*([^()\s]+)\s*\)?", re.IGNORECASE)


@dataclass(frozen=True)
class LocalEpsilon:
    """An epsilon: `power` if it is rational, `odds` if e^epsilon is. Exactly one of them is set."""

    power: Fraction | None = None
    odds: Fraction | None = None

    def share(self, count: int) -> LocalEpsilon:
        """The epsilon of each of `count` equal parts."""
        if count == 1:
            return self
        if self.power is not None:
            return LocalEpsilon(power=self.power / count)
        root = _root(self._odds, count)
        # Without a rational root a part gets a rational epsilon just below the exact one.
        return LocalEpsilon(odds=root) if root else LocalEpsilon(power=log_down(self._odds) / count)

    def rational(self, bits: int) -> Fraction:
        """Odds of at most e^epsilon, with a denominator of at most 2^bits."""
        if self.odds is not None and self.odds.denominator.bit_length() <= bits:
            return self.odds
        scale = Fraction(1 << bits)
        return Fraction((self._down(bits + 64) * scale).__floor__()) / scale

    def _down(self, bits: int) -> Fraction:
        """A lower bound on e^epsilon of this precision."""
        return exp_down(self.power, bits) if self.power is not None else self._odds

    @property
    def _odds(self) -> Fraction:
        assert self.odds is not None
        return self.odds

    def allows(self, ratio: Fraction) -> bool:
        """Whether a ratio of probabilities is at most e^epsilon, proven by rational arithmetic."""
        return ratio <= self._down(512)

    @property
    def upper(self) -> Fraction:
        """A rational number at or just above it: the cost of a report."""
        return self.power if self.power is not None else log_up(self._odds)

    @property
    def lower(self) -> Fraction:
        """A rational number at or just below it: what noise may be scaled by."""
        return self.power if self.power is not None else log_down(self._odds)

    def __float__(self) -> float:
        if self.power is not None:
            return float(self.power)
        # A quotient of long numbers may overflow a float; the difference of logarithms does not.
        return math.log(self._odds.numerator) - math.log(self._odds.denominator)

    def __str__(self) -> str:
        """The text that reads as the same epsilon: 0.5, or log(3)."""
        if self.power is not None:
            return decimal_of(self.power)
        return f"log({decimal_of(self._odds)})"


def _root(odds: Fraction, count: int) -> Fraction | None:
    """The root of odds if it is rational, else None."""
    if max(odds.numerator, odds.denominator).bit_length() > _MOST_ROOT_BITS:
        return None
    roots = [round(number ** (1 / count)) for number in (odds.numerator, odds.denominator)]
    exact_root = Fraction(*roots)
    return exact_root if exact_root**count == odds else None


def read_epsilon(epsilon: Number | LocalEpsilon) -> LocalEpsilon:
    """Read the epsilon of a report: a number, `log(3)`, or the text of either."""
    checked = epsilon if isinstance(epsilon, LocalEpsilon) else _parse(epsilon)
    # The first comparison is exact: long digits overflow float64.
    too_large = checked.lower > 2 * LARGEST or float(checked) > LARGEST
    if not checked.upper >= SMALLEST or too_large:
        raise ParameterError(
            "parameter_out_of_range",
            f"epsilon must be between {float(SMALLEST):g} and {LARGEST} for a report, "
            f"not {float(min(checked.upper, Fraction(10**300))):g}. "
            "Most surveys take 0.5 to 4.",
            parameter="epsilon",
            given=float(min(checked.upper, Fraction(10**300))),
        )
    return checked


def _parse(epsilon: object) -> LocalEpsilon:
    spelled = _LOGARITHM.fullmatch(epsilon.strip()) if isinstance(epsilon, str) else None
    if spelled:
        return log(spelled[1])
    return LocalEpsilon(power=positive(epsilon, "epsilon"))


def log(odds: Number) -> LocalEpsilon:
    """The epsilon with exactly these odds e^epsilon.

    `log(3)` is the epsilon of answering with two fair coins: truthfully on heads of the first, by
    the second coin on tails. The truth is then reported with probability 3/4, its opposite with
    1/4.
    """
    number = exact(odds, "odds")
    if number <= 1:
        raise ParameterError(
            "parameter_out_of_range",
            f"The odds of an epsilon must be above 1, as 3 in log(3), not {decimal_of(number)}.",
            parameter="epsilon",
            given=decimal_of(number),
        )
    return LocalEpsilon(odds=number)
