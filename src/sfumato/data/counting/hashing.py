"""Hashes of values as SQL: md5, which every engine computes alike, or the engine's own.

md5 is the only hash that DuckDB, PostgreSQL and Spark share. No guarantee relies on it being hard
to invert: hashes that must be secret are keyed and never leave the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Native = Callable[[str, Sequence[exp.Expr]], exp.Expr]

DIGITS = 7
"""Hexadecimal digits of the md5 that become one integer: 28 bits, so that sums fit 64 bits."""

# The position of a digit in this text is its value.
_HEXADECIMAL = "0123456789abcdef"
# Texts with these signs can be ambiguous, so two lists of values can have one `digest`; its users
# break ties by the values themselves.
_SEPARATOR, _MISSING = ":", "?"
# An expression of more values is nested deeper than the engines parse.
_AT_ONCE = 100


@dataclass(frozen=True)
class Keyed:
    """A hash under a secret salt: an engine's own function where one is given, else md5.

    It decides which of a person's rows or groups are kept, so it may be fast instead of strong. The
    order is a function of the salt and of that person's own values, whatever the rows of others
    are. So the contribution bound holds for every function, even a constant one; a poor hash only
    adds bias. The salt is drawn anew for each query and never shown, so nobody can craft values
    that are preferred.
    """

    salt: str
    native: Native | None = None

    def order(self, names: Sequence[str]) -> exp.Expr:
        """Return the hash to sort by; the values themselves must break ties."""
        return self.of([exp.column(name) for name in names])

    def of(self, values: Sequence[exp.Expr]) -> exp.Expr:
        """Return the hash of any values."""
        return self.native(self.salt, values) if self.native else digest(self.salt, values)

    def number(self, names: Sequence[str]) -> exp.Expr:
        """Return the hash as a BIGINT that is not negative, in the same order."""
        return self.order(names) if self.native else integer(self.order(names))

    def top(self, names: Sequence[str], bits: int) -> exp.Expr:
        """Return the leading `bits` bits of `number`, which are in the same order."""
        lower = (63 if self.native else 4 * DIGITS) - bits
        return exp.BitwiseRightShift(this=self.number(names), expression=exp.convert(lower))


def digest(salt: str, values: Sequence[exp.Expr]) -> exp.Expr:
    """Return the md5, in hexadecimal, of a salt and some values as text."""
    text: exp.Expr = exp.convert(salt)
    for value in values:
        text_of_value = exp.Coalesce(
            this=exp.cast(value.copy(), "TEXT"), expressions=[exp.convert(_MISSING)]
        )
        separated = exp.DPipe(this=text, expression=exp.convert(_SEPARATOR))
        text = exp.DPipe(this=separated, expression=text_of_value)
    return exp.MD5(this=text)


def folded(
    hashed: Callable[[Sequence[exp.Expr]], exp.Expr], values: Sequence[exp.Expr]
) -> exp.Expr:
    """Return the hash of any number of values; of many, the hash of the hashes of blocks."""
    while len(values) > _AT_ONCE:
        starts = range(0, len(values), _AT_ONCE)
        values = [hashed(values[start : start + _AT_ONCE]) for start in starts]
    return hashed(values)


def sealed(key: str, values: Sequence[exp.Expr]) -> exp.Expr:
    """Return a hexadecimal text that nobody can predict without the key; equal for equal values.

    Each value is hashed as its length and its text, so different lists of values have different
    inputs: -0.0 differs from 0.0, and NaN equals NaN. Collisions of MD5 do not help an attacker,
    because neither the key nor a result is visible.
    """

    def hashed(values: Sequence[exp.Expr]) -> exp.Expr:
        text: exp.Expr = exp.convert(key)
        for value in values:
            written = exp.cast(value.copy(), "TEXT")
            length = exp.cast(exp.Length(this=written.copy()), "TEXT")
            headed = exp.DPipe(
                this=exp.DPipe(this=length, expression=exp.convert(_SEPARATOR)), expression=written
            )
            known = exp.Coalesce(this=headed, expressions=[exp.convert(_MISSING)])
            text = exp.DPipe(this=text, expression=known)
        return exp.MD5(this=text)

    return folded(hashed, values)


def integer(hexadecimal: exp.Expr) -> exp.Expr:
    """The integer of the first `DIGITS` hexadecimal digits, in arithmetic that all engines have."""
    value: exp.Expr = exp.convert(0)
    for position in range(1, DIGITS + 1):
        digit = exp.Substring(
            this=hexadecimal.copy(), start=exp.convert(position), length=exp.convert(1)
        )
        value_of_digit = exp.StrPosition(this=exp.convert(_HEXADECIMAL), substr=digit)
        value = exp.Paren(this=value) * exp.convert(16) + exp.Paren(this=value_of_digit - 1)
    return exp.cast(value, "BIGINT")
