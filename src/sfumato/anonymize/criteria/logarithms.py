"""The exact sign of a sum of logarithms, for the few cases that float64 cannot decide."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def sign(terms: Sequence[tuple[int, int]], constant: Fraction = Fraction(0)) -> int:
    """Sign of sum(weight * ln(number)) - constant: -1, 0 or 1.

    The sum of logarithms is itself the logarithm of a rational. That is 0 where every prime cancels
    and otherwise irrational, so that it never equals another rational constant, and enough digits
    decide.
    """
    if _cancels(terms):
        return (constant < 0) - (constant > 0)
    digits = 50
    while True:
        with localcontext(prec=digits):
            total = sum((weight * Decimal(number).ln() for weight, number in terms), Decimal(0))
            total -= Decimal(constant.numerator) / constant.denominator
            # Each product errs by at most one unit of the last digit of the largest partial sum.
            magnitude = sum((abs(weight) * Decimal(number).ln() for weight, number in terms), 1)
            error = (magnitude + abs(constant.numerator)) * (len(terms) + 2) / 10 ** (digits - 3)
            if abs(total) > error:
                return 1 if total > 0 else -1
        digits *= 2


def _cancels(terms: Sequence[tuple[int, int]]) -> bool:
    """Whether every prime's exponents cancel, so that the product is exactly 1."""
    exponents: Counter[int] = Counter()
    for weight, number in terms:
        for prime, exponent in factors(number).items():
            exponents[prime] += weight * exponent
    return not any(exponents.values())


@lru_cache(maxsize=1 << 14)
def factors(number: int) -> dict[int, int]:
    """The prime factors of a whole number with their exponents."""
    found: dict[int, int] = {}
    prime = 2
    while prime <= isqrt(number):
        while number % prime == 0:
            found[prime] = found.get(prime, 0) + 1
            number //= prime
        prime += 1 if prime == 2 else 2
    if number > 1:
        found[number] = found.get(number, 0) + 1
    return found
