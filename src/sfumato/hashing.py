"""A hash of values that every engine computes alike: md5 over their texts, built as SQL.

md5 is the one hash that DuckDB, PostgreSQL and Spark share. Nothing here relies on it being hard to
invert: what must stay secret is keyed, and never leaves the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Sequence

DIGITS = 7
"""How many hexadecimal digits become one integer: 28 bits, so that sums stay inside 64."""

_HEXADECIMAL = "0123456789abcdef"
_SEPARATOR, _MISSING = ":", "?"  # an ambiguous text makes two hashes equal, which users allow for


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
