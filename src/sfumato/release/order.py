"""The order in which rows are released: it must tell nothing that the rows do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def total_order(names: Sequence[str], reals: Collection[str] = ()) -> list[exp.Ordered]:
    """Order by every released column, NULL last on every engine.

    Zeros of either sign are equal but do not look alike: without their sign, such rows would lie
    as they do in the original.
    """
    keys: list[exp.Expr] = [exp.column(name, quoted=True) for name in names]
    keys += [_sign_of_zero(exp.column(name, quoted=True)) for name in names if name in reals]
    return [exp.Ordered(this=key, nulls_first=False) for key in keys]


def _sign_of_zero(value: exp.Expr) -> exp.Expr:
    """1 for a zero that is written with a minus, else 2."""
    minus = exp.Like(this=exp.cast(value, "TEXT"), expression=exp.Literal.string("-%"))
    zero = value.copy().eq(exp.convert(0))
    return exp.case().when(exp.and_(zero, minus), exp.convert(1)).else_(exp.convert(2))
