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
        part = exp.Coalesce(
            this=exp.cast(value.copy(), "TEXT"), expressions=[exp.convert(_MISSING)]
        )
        separated = exp.DPipe(this=text, expression=exp.convert(_SEPARATOR))
        text = exp.DPipe(this=separated, expression=part)
    return exp.MD5(this=text)


def integer(hexadecimal: exp.Expr, first: int = 1) -> exp.Expr:
    """The integer that `DIGITS` hexadecimal digits spell, without an engine's own conversion."""
    value: exp.Expr = exp.convert(0)
    for place in range(first, first + DIGITS):
        digit = exp.Substring(
            this=hexadecimal.copy(), start=exp.convert(place), length=exp.convert(1)
        )
        position = exp.StrPosition(this=exp.convert(_HEXADECIMAL), substr=digit)
        value = exp.Paren(this=value) * exp.convert(16) + exp.Paren(this=position - 1)
    return exp.cast(value, "BIGINT")
