"""Hashes of values, built as SQL: one that every engine computes alike, or an engine's own.

md5 is the one hash that DuckDB, PostgreSQL and Spark share. Nothing here relies on it being hard to
invert: what must stay secret is keyed, and never leaves the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Native = Callable[[str, Sequence[exp.Expr]], exp.Expr]

DIGITS = 7
"""How many hexadecimal digits become one integer: 28 bits, so that sums stay inside 64."""

_HEXADECIMAL = "0123456789abcdef"
_SEPARATOR, _MISSING = ":", "?"  # an ambiguous text makes two hashes equal, which users allow for
_AT_ONCE = 100  # more values in one text nest deeper than engines parse


@dataclass(frozen=True)
class Keyed:
    """A hash under a secret salt: an engine's own function where one is given, else md5.

    It decides which of a person's rows or groups are kept, so it may be quick instead of strong.
    Whatever order it gives is a function of the salt and of that person's own values: nobody else's
    rows can change it, so the bound on what one person moves holds for every such function, a
    constant one included. A poor hash could only favour some values over others, which is bias.
    The salt is drawn anew for each question and never shown, so nobody can craft favoured values.
    """

    salt: str
    native: Native | None = None

    def order(self, names: Sequence[str]) -> exp.Expr:
        """What to sort by; the values themselves must break ties."""
        return self.of([exp.column(name) for name in names])

    def of(self, values: Sequence[exp.Expr]) -> exp.Expr:
        """The same for any values."""
        return self.native(self.salt, values) if self.native else digest(self.salt, values)

    def number(self, names: Sequence[str]) -> exp.Expr:
        """A BIGINT that is not negative, in the same order."""
        return self.order(names) if self.native else integer(self.order(names))

    def top(self, names: Sequence[str], bits: int) -> exp.Expr:
        """The first bits of the number: what comes first in them comes first in the order."""
        lower = (63 if self.native else 4 * DIGITS) - bits
        return exp.BitwiseRightShift(this=self.number(names), expression=exp.convert(lower))


def digest(salt: str, values: Sequence[exp.Expr]) -> exp.Expr:
    """The md5, in hexadecimal, of a salt and some values as text."""
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
    """The hash of any number of values: of many, that of the hashes of parts of them."""
    while len(values) > _AT_ONCE:
        starts = range(0, len(values), _AT_ONCE)
        values = [hashed(values[start : start + _AT_ONCE]) for start in starts]
    return hashed(values)


def sealed(key: str, values: Sequence[exp.Expr]) -> exp.Expr:
    """A text in hexadecimal that nobody can foretell who lacks the key, the same for equal values.

    Values count by their text, each behind its length, so that no two lists are written alike: a
    zero with a sign is not one without, and NaN is itself. Without the key it is a random function
    of them, as far as anyone knows: that MD5 collides is no help where neither the key nor any
    result is seen.
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
    """The integer that the first `DIGITS` hexadecimal digits spell, in plain arithmetic."""
    value: exp.Expr = exp.convert(0)
    for position in range(1, DIGITS + 1):
        digit = exp.Substring(
            this=hexadecimal.copy(), start=exp.convert(position), length=exp.convert(1)
        )
        value_of_digit = exp.StrPosition(this=exp.convert(_HEXADECIMAL), substr=digit)
        value = exp.Paren(this=value) * exp.convert(16) + exp.Paren(this=value_of_digit - 1)
    return exp.cast(value, "BIGINT")
