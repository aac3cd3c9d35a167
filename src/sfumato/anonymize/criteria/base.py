"""What every criterion is, and the exact comparison of logarithms that some of them need.

Decision `criteria`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import TYPE_CHECKING, ClassVar, Protocol

from sfumato import arguments
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.classes import Classes, Original
    from sfumato.arrays import BoolArray


def sign(terms: Sequence[tuple[int, int]], constant: Fraction = Fraction(0)) -> int:
    """Return the sign of sum(weight * ln(number)) - constant: -1, 0 or 1.

    The sum is the logarithm of a rational number. It is 0 if all primes cancel, and irrational
    otherwise, so it never equals a nonzero rational constant. Enough digits therefore decide.
    """
    # Only where every prime cancels is the sum exactly 0, so the loop below ends.
    if _cancels(terms):
        return (constant < 0) - (constant > 0)
    # 50 digits decide all but near ties; each further round doubles them.
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
    """Return whether every prime's exponents cancel, so that the product is exactly 1."""
    exponents: Counter[int] = Counter()
    for weight, number in terms:
        for prime, exponent in factors(number).items():
            exponents[prime] += weight * exponent
    return not any(exponents.values())


@lru_cache(maxsize=1 << 14)
def factors(number: int) -> dict[int, int]:
    """Return the prime factors of a whole number with their exponents."""
    exponents: dict[int, int] = {}
    prime = 2
    while prime <= isqrt(number):
        while number % prime == 0:
            exponents[prime] = exponents.get(prime, 0) + 1
            number //= prime
        prime += 1 if prime == 2 else 2
    if number > 1:
        exponents[number] = exponents.get(number, 0) + 1
    return exponents


class Criterion(Protocol):
    """A condition that every released class must meet.

    *union-closed*: the union of two passing classes passes. *absorbing*: a passing class united
    with any rows still passes; only then do suppressed rows become fewer as classes grow.

    Where the unit is a person, the people of a class are counted instead of its rows, and of
    sensitive values each person once for each different value of theirs, in class and original
    alike. One person may stand in two classes: then only what is absorbing is union-closed.
    """

    union_closed: ClassVar[bool] = True
    absorbing: ClassVar[bool] = False
    leaves_open: ClassVar[str]
    """A text for lay readers about what it does not protect against."""

    @property
    def column(self) -> str | None:
        """The sensitive column that is looked at, if any."""
        return None

    @property
    def compares_population(self) -> bool:
        """Whether a population table is needed."""
        return False

    @property
    def consequence(self) -> Criterion | None:
        """An absorbing condition that every passing class also meets; None if there is none."""
        return self if self.absorbing else None

    @property
    def crowd(self) -> int:
        """The fewest people with which a class can pass, however many rows they have."""
        return 1

    @property
    def smallest(self) -> int:
        """The fewest rows with which a class can pass."""
        return self.crowd

    def worded(self, original: Original | None) -> str:
        """Return the criterion as a guarantee names it, with what it is compared with."""
        del original
        return str(self)

    @abstractmethod
    def promise(self, counted: str) -> str:
        """Return the criterion in plain words; `counted` is "rows" or "people"."""

    @abstractmethod
    def holds(self, classes: Classes) -> BoolArray:
        """Return for each class whether it passes."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the name of the criterion for reports."""


def whole_number(value: object, name: str) -> int:
    """Read a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError(
            "parameter_out_of_range",
            f"{name} must be a whole number of at least 1, not {arguments.shown(value)}.",
            parameter=name,
            given=arguments.shown(value),
        )
    return value
