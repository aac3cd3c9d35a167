"""The epsilon that one report claims, exactly: a rational number, or the logarithm of one.

A client draws by whole numbers, so the odds e^epsilon of a channel have to be rational. They are
rounded down, against us: what a report realises is never more than it claims and less by a part in
2^40 or so. The logarithm of a rational, ln 3 for a fair coin's answer, has rational odds of its
own and is met exactly. Decision `local-reports`.
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
"""The largest epsilon of a report: beyond it the odds of a lie are below one in 4e8."""

SMALLEST = Fraction(1, 10**6)
_LONGEST = 512  # bits of odds whose root is looked for

_LOGARITHM = re.compile(r"(?:log|ln)\s*\(?\s*([^()\s]+)\s*\)?", re.IGNORECASE)


@dataclass(frozen=True)
class LocalEpsilon:
    """An epsilon: `power` where it is rational, `odds` where e^epsilon is."""

    power: Fraction | None = None
    odds: Fraction | None = None

    def share(self, count: int) -> LocalEpsilon:
        """The epsilon of one of several parts that share it evenly."""
        if count == 1:
            return self
        if self.power is not None:
            return LocalEpsilon(power=self.power / count)
        root = _root(self._odds, count)
        # Without a rational root the epsilon of a part is that of a power just below it.
        return LocalEpsilon(odds=root) if root else LocalEpsilon(power=log_down(self._odds) / count)

    def rational(self, bits: int) -> Fraction:
        """Odds of at most e^epsilon with a denominator of so many bits, or exactly e^epsilon."""
        if self.odds is not None and self.odds.denominator.bit_length() <= bits:
            return self.odds
        scale = Fraction(1 << bits)
        return Fraction((self._down(bits + 64) * scale).__floor__()) / scale

    def _down(self, bits: int) -> Fraction:
        return exp_down(self.power, bits) if self.power is not None else self._odds

    @property
    def _odds(self) -> Fraction:
        assert self.odds is not None
        return self.odds

    def allows(self, ratio: Fraction) -> bool:
        """Whether a ratio of probabilities is at most e^epsilon: proven, not computed nearly."""
        return ratio <= self._down(512)

    @property
    def upper(self) -> Fraction:
        """It, or a rational just above it: what is charged for a report."""
        return self.power if self.power is not None else log_up(self._odds)

    @property
    def lower(self) -> Fraction:
        """It, or a rational just below it: what noise may be scaled by."""
        return self.power if self.power is not None else log_down(self._odds)

    def __float__(self) -> float:
        if self.power is not None:
            return float(self.power)
        # A quotient of long numbers may be no float, and its logarithm is.
        return math.log(self._odds.numerator) - math.log(self._odds.denominator)

    def __str__(self) -> str:
        """As it may be written again: 0.5, or log(3)."""
        if self.power is not None:
            return decimal_of(self.power)
        return f"log({decimal_of(self._odds)})"


def _root(odds: Fraction, count: int) -> Fraction | None:
    """The root of odds, where it is rational and short."""
    if max(odds.numerator, odds.denominator).bit_length() > _LONGEST:
        return None
    roots = [round(number ** (1 / count)) for number in (odds.numerator, odds.denominator)]
    exact_root = Fraction(*roots)
    return exact_root if exact_root**count == odds else None


def level(epsilon: Number | LocalEpsilon) -> LocalEpsilon:
    """Read the epsilon of a report: a number, `log(3)`, or the text of either."""
    epsilon_read = epsilon if isinstance(epsilon, LocalEpsilon) else _read(epsilon)
    # The first comparison is exact: float64 has no number for the largest texts of digits.
    too_large = epsilon_read.lower > 2 * LARGEST or float(epsilon_read) > LARGEST
    if not epsilon_read.upper >= SMALLEST or too_large:
        raise ParameterError(
            "parameter_out_of_range",
            f"epsilon must be between {float(SMALLEST):g} and {LARGEST} for a report, "
            f"not {float(min(epsilon_read.upper, Fraction(10**300))):g}. "
            "Most surveys take 0.5 to 4.",
        )
    return epsilon_read


def _read(epsilon: object) -> LocalEpsilon:
    spelled = _LOGARITHM.fullmatch(epsilon.strip()) if isinstance(epsilon, str) else None
    if spelled:
        return log(spelled[1])
    return LocalEpsilon(power=positive(epsilon, "epsilon"))


def log(odds: Number) -> LocalEpsilon:
    """The epsilon whose odds e^epsilon are this number, exactly: log(3) for an honest coin.

    A person who tosses a coin, answers truly on heads and by a second coin on tails, says the
    truth with probability 3/4 and its opposite with 1/4: epsilon is the logarithm of 3.
    """
    number = exact(odds, "odds")
    if number <= 1:
        raise ParameterError(
            "parameter_out_of_range",
            f"The odds of an epsilon must be above 1, as 3 in log(3), not {decimal_of(number)}.",
        )
    return LocalEpsilon(odds=number)
