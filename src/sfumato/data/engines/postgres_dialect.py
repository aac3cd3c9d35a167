"""Rendering queries in the dialect of PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.engines.base import render

if TYPE_CHECKING:
    from collections.abc import Sequence

DIALECT = "postgres"


def rendered(tree: exp.Expr) -> str:
    """The SQL of a tree in the dialect of PostgreSQL."""
    # DIV() returns numeric, so it needs a cast. Where both sides are certainly BIGINT, `/` divides
    # integers, many times as fast. BIT_COUNT takes only bit strings, not integers.
    tree = tree.copy()
    for division in reversed(list(tree.find_all(exp.IntDiv))):  # the innermost first
        sides = {"this": division.this, "expression": division.expression}
        if all(map(_is_long, sides.values())):
            division.replace(exp.Paren(this=exp.Div(**sides, typed=True, safe=False)))
        else:
            division.replace(exp.cast(division.copy(), "BIGINT"))
    for counted in list(tree.find_all(exp.BitwiseCount)):
        bits = exp.cast(counted.this, "BIT(64)", dialect=DIALECT)
        counted.replace(exp.Anonymous(this="BIT_COUNT", expressions=[bits]))
    return render(tree, DIALECT)


def _is_long(tree: exp.Expr) -> bool:
    """Whether a tree is certainly a BIGINT: a cast to it, or arithmetic of such trees."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    is_integer_division = isinstance(tree, exp.Div) and bool(tree.args.get("typed"))
    if is_integer_division or isinstance(tree, exp.Add | exp.Sub | exp.Mul):
        return _is_long(tree.this) and _is_long(tree.expression)
    return type(tree) is exp.Cast and tree.to.this is exp.DataType.Type.BIGINT


def once(query: exp.Select) -> exp.Select:
    """Add OFFSET 0, so that the planner does not inline the subquery and repeat its cells."""
    return query.offset(0)


def hashed(salt: str, values: Sequence[exp.Expr]) -> exp.Expr:
    """The hash of a text and values, as `Traits.hashed`."""
    # PostgreSQL sums the hashes of the columns of a row; a second hash spreads the result evenly.
    row = exp.Anonymous(this="ROW", expressions=[exp.cast(exp.convert(salt), "TEXT"), *values])
    added = exp.Anonymous(this="HASH_RECORD_EXTENDED", expressions=[row, exp.convert(0)])
    signed = exp.Anonymous(this="HASHINT8EXTENDED", expressions=[added, exp.convert(0)])
    return exp.Paren(this=exp.BitwiseAnd(this=signed, expression=exp.convert(2**63 - 1)))


def from_hex(digits: exp.Expr) -> exp.Expr:
    """The number that hexadecimal digits stand for."""
    bits = exp.cast(exp.DPipe(this=exp.convert("x"), expression=digits), "BIT(28)")
    return exp.cast(bits, "BIGINT")
